"""`rye dev --learn`: what a tool needs is seen, and proposed as the block to write."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lilux.primitives.errors import ConfigurationError
from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive
from rye_mcp.executor.learning import Learner, surroundings
from tests.people import Answer, Person
from tests.users import ADA, as_user, two_users

HEAD = '"""A tool."""\n\n__version__ = "1.0.0"\n__executor_id__ = "rye/core/runtimes/python_runtime"\n'

UNREACHABLE = "others cannot reach this environment"

PURE = """CONFIG_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
EXAMPLES = [{"parameters": {"a": 40}}, {"parameters": {"a": 1}}]


def main(a=1):
    return {"sum": a + 2}
"""

READER = """import os
import urllib.request
from pathlib import Path

CONFIG_SCHEMA = {"type": "object", "properties": {"url": {"type": "string"}}}


def main(url):
    text = Path("notes.txt").read_text()
    for name in (".aws/credentials", ".ssh/id_ed25519"):
        path = Path.home() / name
        if path.exists():
            path.read_text()
    if os.path.exists(".env"):
        Path(".env").read_text()
    return {"length": len(text), "said": urllib.request.urlopen(url, timeout=5).read().decode()}
"""

GIT = """import subprocess

EXAMPLES = [{"parameters": {}}]


def main():
    with open("made.txt", "w") as out:
        out.write("new")
    subprocess.run(["git", "add", "made.txt"], check=True)
    subprocess.run(["git", "commit", "-qm", "Add made.txt"], check=True)
    return subprocess.run(["git", "log", "--oneline"], check=True, capture_output=True, text=True).stdout
"""


@pytest.fixture
def leo(tmp_path: Path) -> Person:
    leo = Person("leo", tmp_path / "leo")
    project = leo.place / "project"
    project.mkdir(parents=True)
    leo.begin(project)
    return leo


@pytest.fixture
def project(leo: Person) -> Path:
    return leo.place / "project"


def write(project: Path, name: str, text: str) -> Path:
    path = project / f".ai/tools/demo/{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def learned(leo: Person, project: Path, *arguments: str, code: int = 0) -> Any:
    shown: Answer = leo.types([], "dev", "--learn", "--json", *arguments, cwd=project, code=code)
    return json.loads(shown.out[shown.out.index("{") :])


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a web server of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.mark.thorough
def test_a_pure_function_needs_nothing(leo: Person, project: Path) -> None:
    source = write(project, "add.py", HEAD + PURE)
    before = source.read_bytes()
    found = learned(leo, project, "demo/add")
    assert (found["permissions"], found["failed"], found["notes"]) == ({}, [], [])
    assert found["block"] == "PERMISSIONS = {}"
    assert found["declared"] is None
    assert source.read_bytes() == before
    text = leo.types([], "dev", "--learn", "demo/add", cwd=project).out
    assert "PERMISSIONS = {}" in text
    assert "demo/add may only compute" in text
    assert "it declares nothing now" in text


@pytest.mark.thorough
def test_a_reader_of_the_project_that_asks_one_host_and_hidden_places_that_it_touches(
    leo: Person, project: Path, port: int
) -> None:
    write(project, "fetch.py", HEAD + READER)
    (project / "notes.txt").write_text("hello")
    (project / ".env").write_text("SECRET=1")
    home = Path(leo.environment["HOME"])
    for name in (".aws/credentials", ".ssh/id_ed25519"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text("secret")
    where = f"api.example.test:{port}:127.0.0.1"
    found = learned(
        leo, project, "--resolve", where, "demo/fetch", "--url", f"http://api.example.test:{port}/"
    )
    assert found["failed"] == []
    if any("addresses only" in note or "their addresses" in note for note in found["notes"]):
        pytest.skip("this machine makes no cells")
    assert found["permissions"] == {"project": "read", "net": [f"api.example.test:{port}"]}
    for name in ("~/.aws/credentials", "~/.ssh/id_ed25519", ".env"):
        assert any(name in note and "not proposed" in note for note in found["notes"]), found["notes"]


def test_a_port_that_nobody_named_is_found_out(leo: Person, project: Path) -> None:
    """The first run learns the port, the second one that nobody is there; it is proposed."""
    write(project, "fetch.py", HEAD + READER)
    (project / "notes.txt").write_text("hello")
    found = learned(
        leo,
        project,
        "--resolve",
        "api.example.test:443:127.0.0.1",
        "demo/fetch",
        "--url",
        "http://api.example.test:4567/",
    )
    assert found["permissions"] == {"project": "read", "net": ["api.example.test:4567"]}
    assert len(found["failed"]) == 1


def test_a_user_of_git(leo: Person, project: Path) -> None:
    write(project, "commit.py", HEAD + GIT)

    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=project, env=leo.environment, check=True)

    git("init", "-q")
    for name, value in (("user.name", "Leo"), ("user.email", "leo@example.org")):
        git("config", name, value)
    found = learned(leo, project, "demo/commit")
    assert found["failed"] == []
    assert found["permissions"] == {"project": "write", "uses": ["git"]}


def test_the_difference_to_what_is_declared_is_told(leo: Person, project: Path) -> None:
    declared = HEAD + 'PERMISSIONS = {"project": "write", "env": ["TOKEN"]}\n' + PURE
    write(project, "add.py", declared)
    found = learned(leo, project, "demo/add")
    assert found["permissions"] == {"env": ["TOKEN"]}
    assert found["missing"] == []
    assert found["unused"] == ["may read and write this project"]


@two_users
def test_an_ordinary_user_learns_too() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="learn-") as made:
        place = Path(made)
        (place / "notes.txt").write_text("hello")
        place.chmod(0o777)
        found = as_user(ADA, partial(_learned_by_hand, place))
    if found == UNREACHABLE:
        pytest.skip(UNREACHABLE)
    assert found == [ADA, "hello", {"project": "write"}, []]


def _learned_by_hand(place: Path) -> Any:
    """What a forked process of another user learns: it cannot start `rye` where only root may look."""

    async def learned() -> list[Any]:
        primitive = SubprocessPrimitive()
        learner = Learner(surroundings(place, [], {"HOME": "/nonexistent"}), await primitive.probe())
        spec = ProcessSpec(
            command="/bin/sh",
            args=["-c", "cat notes.txt; echo new > made.txt"],
            cwd=place,
            env={"PATH": "/usr/bin:/bin"},
        )
        result = await primitive.run(learner.prepared(spec))
        learner.saw(result, str)
        proposal = learner.proposal
        return [os.getuid(), result.stdout, proposal.permissions.canonical(), list(proposal.notes)]

    try:
        return asyncio.run(learned())
    except (ConfigurationError, OSError):
        return UNREACHABLE


def test_without_a_terminal_nothing_is_learned(leo: Person, project: Path) -> None:
    write(project, "add.py", HEAD + PURE)
    refused = leo.rye("dev", "--learn", "demo/add", cwd=project, code=1)
    assert "person" in refused.err
