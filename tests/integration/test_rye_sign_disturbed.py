"""`rye sign` on a full disk, beside other signers, and killed: an item is whole, or as it was."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.file_helpers import names_in
from tests.people import SCRIPTS, Person
from tests.verb_world import tool

HELLO = ".ai/tools/demo/hello.py"
NO_ROOM = ("sh", "-c", 'ulimit -f 0; exec "$@"', "sh")


@pytest.fixture
def leo(tmp_path: Path) -> Person:
    person = Person("leo", tmp_path / "leo")
    project = person.place / "project"
    (project / ".ai/tools/demo").mkdir(parents=True)
    (project / HELLO).write_bytes(tool())
    person.rye("keys", "generate", cwd=project)
    return person


@pytest.fixture
def project(leo: Person) -> Path:
    return leo.place / "project"


@pytest.mark.parametrize("pattern", ["demo/hello", "demo/*"])
def test_a_full_disk_leaves_the_item_as_it_was(leo: Person, project: Path, pattern: str) -> None:
    """A limit on the size of files stands for a full disk; what a command says goes into a pipe."""
    answer = leo.rye("sign", pattern, cwd=project, code=1, before=NO_ROOM)
    assert "rye: write_failed: " in answer.err
    assert "df -h" in answer.err
    assert (project / HELLO).read_bytes() == tool()
    assert names_in((project / HELLO).parent) == ["hello.py"]
    leo.rye("sign", pattern, cwd=project)


@pytest.mark.thorough
def test_of_many_signers_at_once_one_stands_whole(leo: Person, project: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: leo.rye("sign", "demo/*", cwd=project).code, range(8)))
    assert done == [0] * 8
    leo.rye("verify", "demo/hello", cwd=project)
    assert names_in((project / HELLO).parent) == ["hello.py"]


@pytest.mark.thorough
def test_a_killed_signer_leaves_every_item_whole(leo: Person, project: Path) -> None:
    for number in range(200):
        (project / f".ai/tools/demo/t{number}.py").write_bytes(tool())
    process = subprocess.Popen(
        [SCRIPTS / "rye", "sign", "*", "--json"],
        cwd=project,
        env=leo.environment,
        stdout=subprocess.DEVNULL,
    )
    first = project / ".ai/tools/demo/t0.py"
    while first.read_bytes() == tool() and process.poll() is None:
        pass
    process.kill()
    process.wait()
    states = {
        item["integrity"]["state"]
        for item in leo.rye("verify", "demo/*", "--json", cwd=project, code=1).json["items"]
    }
    assert states == {"verified", "unsigned"}
