"""Signed items through a registry that others have written, and out of it with a client that others have."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.people import Person
from tests.verb_world import tool

REGISTRY = shutil.which("docker-registry")
ORAS = shutil.which("oras")

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(REGISTRY is None, reason="docker-registry is not installed"),
]

# bob, the-password
HTPASSWD = "bob:$2b$04$XaTtXc14EzJIz7td/sWP0O1UnYEmgzy9L94N4I1.y6m8zhLojVIRW\n"


@contextlib.contextmanager
def registry(place: Path, *, with_password: bool = False) -> Iterator[str]:
    """A registry of Debian on a port of its own, for the time of the block."""
    (place / "htpasswd").write_text(HTPASSWD)
    auth = f"auth: {{htpasswd: {{realm: here, path: {place}/htpasswd}}}}\n" if with_password else ""
    (place / "config.yml").write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {place}/storage}}}}\n"
        f'http: {{addr: "127.0.0.1:0"}}\n{auth}'
    )
    with subprocess.Popen(
        [str(REGISTRY), "serve", place / "config.yml"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={"OTEL_TRACES_EXPORTER": "none"},
    ) as process:
        assert process.stderr is not None
        try:
            listening = (re.search(rb"listening on (127\.0\.0\.1:\d+)", line) for line in process.stderr)
            yield next(filter(None, listening))[1].decode()
        finally:
            process.kill()


@pytest.fixture
def alice(tmp_path: Path) -> tuple[Person, Path]:
    person = Person("alice", tmp_path / "alice")
    project = person.begin(tmp_path / "tools")
    for name in ("hello", "bye"):
        path = project / f".ai/tools/demo/{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tool(f"return {name!r}", executor="python_runtime"))
        person.sign(f"demo/{name}", project)
    return person, project


def test_items_go_through_a_registry_and_come_out_signed(tmp_path: Path, alice: tuple[Person, Path]) -> None:
    author, project = alice
    bob = Person("bob", tmp_path / "bob")
    other = bob.begin(tmp_path / "bobs")
    with registry(tmp_path) as host:
        pushed = author.rye("push", f"{host}/team/tools:1", "demo/*", "--json", cwd=project).json
        assert author.rye("push", f"{host}/team/tools:1", "demo/*", cwd=project).code == 0
        pulled = bob.rye("pull", f"{host}/team/tools:1", "--json", cwd=other).json
        assert pulled["digest"] == pushed["digest"]
        (other / ".ai/tools/demo/bye.py").unlink()
        bob.rye("sync", cwd=other)
        bob.refused("artifact_not_found", "pull", f"{host}/team/tools:2", cwd=other)
        bob.refused("artifact_not_found", "pull", f"{host}/team/others:1", cwd=other)
    bob.rye("sync", "--frozen", cwd=other)
    bob.rye("trust", "review", "--accept", author.key_id(cwd=project), cwd=other)
    verified = bob.rye("verify", "demo/*", "--json", cwd=other).json
    assert (verified["verified"], verified["refused"]) == (2, 0)
    assert "hello" in bob.rye("run", "demo/hello", cwd=other).out


def test_a_registry_that_wants_a_password_gets_that_of_docker(
    tmp_path: Path, alice: tuple[Person, Path]
) -> None:
    author, project = alice
    with registry(tmp_path, with_password=True) as host:
        error = author.refused("registry_refused", "push", f"{host}/team/tools:1", "demo/*", cwd=project)
        assert error["hint"] == f"docker login {host}"
        docker = tmp_path / "docker"
        docker.mkdir()
        entry = {"auth": base64.b64encode(b"bob:the-password").decode()}
        (docker / "config.json").write_text(json.dumps({"auths": {host: entry}}))
        author.rye("push", f"{host}/team/tools:1", "demo/*", cwd=project, DOCKER_CONFIG=str(docker))
        author.refused("registry_refused", "pull", f"{host}/team/tools:1", cwd=project)
        author.rye("pull", f"{host}/team/tools:1", cwd=project, DOCKER_CONFIG=str(docker))


@pytest.mark.skipif(ORAS is None, reason="oras is not installed")
def test_oras_fetches_the_same_files_and_what_it_puts_there_is_pulled(
    tmp_path: Path, alice: tuple[Person, Path]
) -> None:
    author, project = alice
    (tmp_path / "fetched").mkdir()
    bob = Person("bob", tmp_path / "bob")
    other = bob.begin(tmp_path / "bobs")
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}

    def oras(*arguments: str) -> None:
        subprocess.run([str(ORAS), *arguments], cwd=tmp_path / "fetched", env=home, check=True, timeout=30)

    with registry(tmp_path) as host:
        pushed = author.rye("push", f"{host}/team/tools:1", "demo/*", "--json", cwd=project).json
        oras("pull", "--plain-http", f"{host}/team/tools:1")
        for path in pushed["files"]:
            assert (tmp_path / "fetched" / path).read_bytes() == (project / ".ai" / path).read_bytes()
        files = [f"{path}:application/vnd.rye-mcp.file.v1" for path in pushed["files"]]
        kind = "application/vnd.rye-mcp.items.v1"
        oras("push", "--plain-http", "--artifact-type", kind, f"{host}/team/copies:1", *files)
        bob.rye("pull", f"{host}/team/copies:1", cwd=other)
    for path in pushed["files"]:
        assert (other / ".ai" / path).read_bytes() == (project / ".ai" / path).read_bytes()
