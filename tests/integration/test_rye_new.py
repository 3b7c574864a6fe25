"""`rye new`, as a real process: what it writes runs at once, in every language, and nothing is in its way."""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from rye_mcp.verbs.new import LANGUAGES
from tests.people import Person

PROGRAMS = {"python-uv": "uv", "node": "node", "ruby": "ruby", "perl": "perl"}
GREETING = {"greeting": "Hello, Grace!"}
SAID = dict.fromkeys(("bash", "python-flags"), "Hello, Grace!\n")


class Repositories(BaseHTTPRequestHandler):
    """Answers as GitHub does: with what was asked for."""

    def do_GET(self) -> None:
        body = json.dumps({"full_name": self.path.removeprefix("/repos/"), "description": None}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Repositories) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def leo(tmp_path_factory: pytest.TempPathFactory) -> Person:
    leo = Person("leo", tmp_path_factory.mktemp("new") / "leo")
    project = leo.place / "project"
    project.mkdir(parents=True)
    leo.begin(project)
    settings = leo.user_space / "config/rye.yaml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(
        "isolation: {lift: [each/http]}\n"
    )  # GitHub is on loopback here, which net cannot name
    return leo


@pytest.fixture(scope="module")
def project(leo: Person) -> Path:
    return leo.place / "project"


@pytest.mark.first_case
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_tool_runs_at_once_and_passes_its_examples(
    leo: Person, project: Path, service: str, language: str
) -> None:
    if shutil.which(PROGRAMS.get(language, "bash"), path=leo.environment["PATH"]) is None:
        pytest.skip(f"{PROGRAMS[language]} is not installed")
    item_id = f"each/{language}"
    made = leo.rye("new", item_id, "--lang", language, cwd=project)
    signs, runs = (shlex.split(line) for line in made.out.splitlines()[-2:])
    assert signs == ["rye", "sign", item_id]
    assert leo.rye(*signs[1:], cwd=project).err == ""
    runs = ["Grace" if word == "Ada" else word for word in runs]
    answer = leo.rye(runs[1], "--json", *runs[2:], cwd=project, GITHUB_API=service).json
    expected = {"full_name": "python/cpython", "description": None} if language == "http" else GREETING
    assert answer["data"] == SAID.get(language, expected)
    tested = leo.rye("test", item_id, "--json", cwd=project, GITHUB_API=service).json
    assert (tested["passed"], tested["failed"]) == (2, 0)


def test_a_new_http_tool_reaches_only_what_it_names(leo: Person, project: Path, service: str) -> None:
    leo.rye("new", "alone/http", "--lang", "http", "--sign", cwd=project)
    words = ("run", "--json", "alone/http", "--owner", "python", "--repo", "cpython")
    refused = leo.rye(*words, cwd=project, GITHUB_API=service, code=1).json
    assert refused["code"] == "denied_by_policy"
    assert refused["hint"] == "a person writes permissions: {net: any} and signs it: rye sign alone/http"
    file = project / ".ai/tools/alone/http.yaml"
    file.write_text(file.read_text().replace("net: [api.github.com]", "net: any"))
    leo.rye("sign", "alone/http", cwd=project)
    answer = leo.rye(*words, cwd=project, GITHUB_API=service).json
    assert answer["data"] == {"full_name": "python/cpython", "description": None}


@pytest.mark.parametrize("language", ["python-uv", "node", "ruby", "perl", "bash"])
def test_where_the_program_of_a_language_is_missing_it_is_written_and_says_what_to_install(
    leo: Person, project: Path, language: str, tmp_path: Path
) -> None:
    program = PROGRAMS.get(language, language)
    words = ["new", f"missing/{language}", "--lang", language, "--json"]
    made = leo.rye(*words, cwd=project, PATH=str(tmp_path)).json
    [warning] = made["warnings"]
    assert warning["code"] == "program_missing"
    assert f"expected {program} on the PATH" in warning["message"]
    assert ": install " in warning["message"]
    assert Path(made["path"]).is_file()
    (tmp_path / program).write_text("#!/bin/sh\n")
    (tmp_path / program).chmod(0o755)
    there = ["new", f"there/{language}", "--lang", language, "--json"]
    assert leo.rye(*there, cwd=project, PATH=str(tmp_path)).json["warnings"] == []


def test_the_missing_program_is_a_warning_for_people_too(leo: Person, project: Path, tmp_path: Path) -> None:
    made = leo.rye("new", "missing/uv", "--lang", "python-uv", cwd=project, PATH=str(tmp_path))
    assert made.err == (
        "rye: warning: program_missing: expected uv on the PATH to run it, found none: "
        "install uv (https://docs.astral.sh/uv/, or: pipx install uv)\n"
    )


@pytest.mark.thorough
def test_the_schemas_of_a_new_tool_say_what_it_takes_and_gives(leo: Person, project: Path) -> None:
    for language in LANGUAGES:
        leo.rye("new", f"shown/{language}", "--lang", language, "--sign", cwd=project)
        found = leo.rye("show", f"shown/{language}", "--json", cwd=project).json["metadata"]
        assert found["config_schema"]["additionalProperties"] is False
        assert all(each["description"] for each in found["config_schema"]["properties"].values())
        assert found["output_schema"]
        assert found["description"]


def test_signed_at_once_it_says_how_to_run_and_test_it(leo: Person, project: Path) -> None:
    done = leo.rye("new", "demo/quick", "--sign", cwd=project)
    assert done.out.splitlines()[-2:] == ["  rye run demo/quick --name Ada", "  rye test demo/quick"]
    leo.rye("verify", "demo/quick", cwd=project)


@pytest.mark.parametrize(
    ("item_type", "said"),
    [
        ("directive", "Greet Ada in English, in one friendly sentence.\n"),
        ("knowledge", "Everybody here is greeted by their first name.\n"),
    ],
)
def test_a_text_can_be_used_at_once(leo: Person, project: Path, item_type: str, said: str) -> None:
    answer = leo.rye("new", "demo/text", "--type", item_type, "--json", cwd=project).json
    assert Path(answer["path"]).read_text().startswith("---\nname: text\n")
    printed = [leo.rye(*shlex.split(command)[1:], cwd=project).out for command in answer["next"]]
    assert printed[-1] == said


def test_an_item_of_the_user_is_made_without_a_project(leo: Person) -> None:
    with tempfile.TemporaryDirectory() as elsewhere:
        place = Path(elsewhere)
        answer = leo.rye("new", "mine/tool", "--space", "user", "--json", cwd=place).json
        assert answer["path"] == str(leo.user_space / "tools/mine/tool.py")
        assert answer["next"][0] == "rye sign mine/tool --space user"
        for command in answer["next"]:
            leo.rye(*shlex.split(command)[1:], cwd=place)
        found = leo.refused("no_project", "new", "demo/tool", cwd=place)
        assert found["hint"] == "rye init"
        assert list(place.iterdir()) == []


REFUSED = {
    "what is there": (("demo/there",), "item_exists"),
    "another extension": (("demo/there", "--lang", "bash"), "ambiguous_item"),
    "another case": (("demo/THERE",), "ambiguous_item"),
    "no id": (("../outside",), "invalid_id"),
    "an absolute path": (("/etc/passwd",), "invalid_id"),
    "a sealed space": (("demo/new", "--space", "system"), "out_of_scope"),
    "an unknown language": (("demo/new", "--lang", "cobol"), "unknown_argument"),
    "a language for a text": (("demo/new", "--lang", "bash", "--type", "knowledge"), "unknown_argument"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_nothing_is_replaced_or_made_ambiguous(leo: Person, project: Path, case: str) -> None:
    there = project / ".ai/tools/demo/there.py"
    there.parent.mkdir(exist_ok=True)
    there.write_text("mine\n")
    arguments, code = REFUSED[case]
    before = sorted(project.rglob("*"))
    leo.refused(code, "new", *arguments, cwd=project)
    assert sorted(project.rglob("*")) == before
    assert there.read_text() == "mine\n"


def test_no_link_is_followed(leo: Person, project: Path, tmp_path: Path) -> None:
    (project / ".ai/tools/link").symlink_to(tmp_path)
    try:
        leo.refused("unsafe_path", "new", "link/tool", cwd=project)
        assert list(tmp_path.iterdir()) == []
    finally:
        (project / ".ai/tools/link").unlink()


def test_hiding_an_item_of_the_system_is_said(leo: Person, project: Path) -> None:
    done = leo.rye("new", "rye/bash/bash", cwd=project)
    assert (
        "rye: warning: hides: rye/bash/bash: from now on it is found instead of that of the system"
        in done.err
    )


def test_without_a_key_no_item_is_written_that_should_be_signed(tmp_path: Path) -> None:
    nobody = Person("nobody", tmp_path / "nobody")
    project = tmp_path / "project"
    (project / ".ai").mkdir(parents=True)
    nobody.refused("no_key", "new", "demo/tool", "--sign", cwd=project)
    assert list((project / ".ai").iterdir()) == []
