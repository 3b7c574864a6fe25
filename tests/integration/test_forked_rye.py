"""A forked `rye` does what the installed one does: tests that fork it are about what people use."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import forked_rye
from tests.people import SCRIPTS, Person

RYE = SCRIPTS / "rye"


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["--version"], b""),
        (["--help"], b""),
        ([], b""),
        (["nonsense"], b""),
        (["trust", "--help"], b""),
        (["list", "--nonsense"], b""),
        (["verify", "--json"], b""),
        (["show", "rye/core/primitives/subprocess"], b""),
        (["show", "demo/\udcff"], b""),
        (["keys", "show"], b""),
        (["trust", "add", "-"], b"no key \xff"),
        (["trust", "add", "-", "--json"], b""),
        (["sign", "*"], b""),
    ],
    ids=lambda each: " ".join(each).encode("ascii", "replace").decode() if isinstance(each, list) else "",
)
def test_it_ends_and_prints_as_the_script_does(tmp_path: Path, words: list[str], given: bytes) -> None:
    environment = Person("leo", tmp_path / "leo").environment
    (tmp_path / ".ai").mkdir()
    started = subprocess.run(
        [RYE, *words], cwd=tmp_path, env=environment, input=given, capture_output=True, check=False
    )
    forked = forked_rye.run(RYE, words, cwd=tmp_path, env=environment, given=given, timeout_s=30)
    assert forked == (started.returncode, started.stdout, started.stderr)


def test_calls_know_nothing_of_each_other(tmp_path: Path) -> None:
    def owner(number: int) -> str:
        person = Person(f"person{number}", tmp_path / str(number))
        (tmp_path / f"at{number}").mkdir()
        made = person.rye("init", "--json", cwd=tmp_path / f"at{number}").json
        assert made["project"]["path"] == str(tmp_path / f"at{number}")
        shown: str = made["user"]["owner"]
        return shown

    before = dict(os.environ), Path.cwd()
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(owner, range(8))) == [f"person{number}" for number in range(8)]
    assert (dict(os.environ), Path.cwd()) == before
