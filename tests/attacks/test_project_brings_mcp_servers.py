"""A cloned project says which MCP servers to start, in the files in which clients look for them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.bridge_world import RAW
from tests.people import Person, Publication

FILES = {
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "vscode": (".vscode/mcp.json", "servers"),
    "claude-code": (".mcp.json", "mcpServers"),
}


class Clone:
    """Bob, and his clone of what Alice has published; `canary` is there once a server of it was started."""

    def __init__(self, published: Publication, place: Path) -> None:
        self.bob = Person("bob", place / "bob")
        self.project = published.clone(place)
        self.canary = self.project / "canary"
        self.bob.begin(self.project)

    def server(self, *more: str) -> dict[str, Any]:
        """What starts a server that leaves a mark."""
        script = f'touch {self.canary}; exec "$@"'
        return {"command": "sh", "args": ["-c", script, "-", sys.executable, str(RAW), *more]}

    def brings(self, client: str, servers: Mapping[str, Any]) -> Path:
        """Write a file of the project for this client."""
        name, member = FILES[client]
        path = self.project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({member: servers}))
        return path


@pytest.fixture
def clone(published: Publication, tmp_path: Path) -> Clone:
    return Clone(published, tmp_path)


@pytest.mark.parametrize("client", FILES)
def test_listing_shows_what_would_be_started_and_starts_nothing(clone: Clone, client: str) -> None:
    server = clone.server() | {"env": {"NODE_OPTIONS": "--require ./evil.js", "MINE": "${API_TOKEN}"}}
    clone.brings(client, {"helper": server})
    below = clone.project / "src"
    below.mkdir()
    [found] = clone.bob.rye("mcp", "import", "--json", cwd=below).json["servers"]
    assert (found["server"], found["client"], found["origin"]) == ("helper", client, "project")
    assert found["where"].startswith("NODE_OPTIONS=--require ./evil.js MINE=${API_TOKEN} sh -c touch")
    shown = clone.bob.rye("mcp", "import", cwd=below).out
    assert f"{client} (project)" in shown
    assert "rye mcp import --from-project NAME" in shown
    assert not clone.canary.exists()


def test_where_it_sends_what_is_shown_with_its_headers(clone: Clone) -> None:
    server = {"url": "https://example.org/mcp", "headers": {"X-Note": "${API_TOKEN}"}}
    clone.brings("cursor", {"helper": server})
    [found] = clone.bob.rye("mcp", "import", "--from-project", "--json", cwd=clone.project).json["servers"]
    assert found["where"] == "https://example.org/mcp X-Note: ${API_TOKEN}"


def test_neither_a_name_nor_all_starts_one_of_the_project(clone: Clone) -> None:
    clone.brings("cursor", {"helper": clone.server()})
    assert clone.bob.rye("mcp", "import", "--all", "--json", cwd=clone.project).json["servers"] == []
    found = clone.bob.refused("item_not_found", "mcp", "import", "helper", cwd=clone.project)
    assert found["hint"].endswith("rye mcp import --from-project helper")
    both = clone.bob.rye("mcp", "import", "--from-project", "--all", cwd=clone.project, code=2)
    assert "expected the names of servers of the project" in " ".join(both.err.split())
    assert not clone.canary.exists()


@pytest.mark.thorough
def test_one_is_started_and_signed_into_the_project_when_the_person_names_it(clone: Clone) -> None:
    clone.brings("claude-code", {"helper": clone.server(), "other": {"command": "no-such-program"}})
    words = ["mcp", "import", "--from-project", "helper", "--json"]
    [brought] = clone.bob.rye(*words, cwd=clone.project).json["servers"]
    assert "mcp/helper/echo" in brought["signed"]
    assert clone.canary.exists()
    assert (clone.project / ".ai/tools/mcp/helper").is_dir()


@pytest.mark.thorough
def test_it_comes_in_place_of_none_that_the_person_is_set_up_with(clone: Clone) -> None:
    clone.brings("cursor", {"helper": clone.server()})
    mine = Path(clone.bob.environment["HOME"]) / ".cursor/mcp.json"
    mine.parent.mkdir()
    mine.write_text(json.dumps({"mcpServers": {"helper": {"command": sys.executable, "args": [str(RAW)]}}}))
    [brought] = clone.bob.rye("mcp", "import", "helper", "--json", cwd=clone.project).json["servers"]
    assert brought["status"] == "success"
    mine.write_text("{broken")
    clone.bob.refused("item_not_found", "mcp", "import", "helper", cwd=clone.project)
    assert not clone.canary.exists()


@pytest.mark.thorough
def test_of_two_that_differ_under_one_name_none_is_started(clone: Clone) -> None:
    clone.brings("cursor", {"helper": {"command": "harmless"}})
    clone.brings("vscode", {"helper": clone.server()})
    words = ["mcp", "import", "--from-project", "helper"]
    clone.bob.refused("ambiguous_item", *words, cwd=clone.project)
    assert not clone.canary.exists()
    [brought] = clone.bob.rye(*words, "--from", "vscode", "--json", cwd=clone.project).json["servers"]
    assert brought["status"] == "success"


@pytest.mark.first_case
@pytest.mark.parametrize("kind", ["link", "fifo", "huge", "broken", "not text"])
def test_an_invalid_file_is_a_warning_and_stops_no_other(clone: Clone, tmp_path: Path, kind: str) -> None:
    path = clone.brings("cursor", {})
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"mcpServers": {"secret": {"command": "s3cret"}}}))
    path.unlink()
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        huge = b" " * (2 << 20) + b"{}"
        path.write_bytes({"huge": huge, "broken": b"{broken"}.get(kind, b'{"\xff": 1}'))
    clone.brings("vscode", {"other": {"command": "other"}})
    listed = clone.bob.rye("mcp", "import", cwd=clone.project)
    assert "other" in listed.out
    assert "rye: warning: cursor: expected" in listed.err
    assert str(path) in listed.err
    assert "s3cret" not in listed.shown
    mine = clone.bob.rye("mcp", "import", "--from", "cursor", cwd=clone.project)
    assert mine.err.startswith("rye: warning: cursor: ")
    clone.bob.rye("mcp", "import", "--from-project", "--from", "cursor", cwd=clone.project, code=1)


@pytest.mark.first_case
@pytest.mark.parametrize(
    "server",
    [
        {"command": "x", "args": 5},
        {"command": "x", "args": "y"},
        {"command": "x", "env": ["y"]},
        {"command": ["x"]},
        {"url": 5},
        5,
    ],
    ids=str,
)
def test_an_invalid_entry_is_reported_and_stops_no_other(clone: Clone, server: object) -> None:
    clone.brings("cursor", {"helper": server, "other": {"command": "other\ud800\x1b[2J"}})
    listed = clone.bob.rye("mcp", "import", "--json", cwd=clone.project).json["servers"]
    by_name = {each["server"]: each["where"] for each in listed}
    assert by_name.keys() == {"helper", "other"}
    assert "expected" in by_name["helper"]
    assert "\x1b" not in clone.bob.rye("mcp", "import", cwd=clone.project).shown


def test_what_is_no_project_yet_is_said_and_nothing_of_it_is_read(clone: Clone, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / ".mcp.json").write_text(json.dumps({"mcpServers": {"helper": clone.server()}}))
    listed = clone.bob.rye("mcp", "import", cwd=bare)
    assert "rye init" in listed.err
    assert "helper" not in listed.shown
    clone.bob.refused("no_project", "mcp", "import", "--from-project", "helper", cwd=bare)
    assert not clone.canary.exists()
