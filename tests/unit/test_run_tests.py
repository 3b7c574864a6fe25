"""How `make test` treats what fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.run_tests import FEW, run_pytest

FAILS_FIRST = """
def test_it():
    from pathlib import Path
    seen = Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError
"""
ALWAYS = "def test_it():\n    raise AssertionError\n"


def run(directory: Path, content: str, capfd: pytest.CaptureFixture[str], number: int = 1) -> tuple[int, str]:
    for index in range(number):
        (directory / f"test_{index}.py").write_text(content)
    code = run_pytest(["-p", "no:cov"], os.environ, directory)
    return code, capfd.readouterr().out


@pytest.mark.thorough
def test_what_passes_alone_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, said = run(tmp_path, FAILS_FIRST, capfd)
    assert (code, said.count("1 failed"), said.count("1 passed")) == (0, 1, 1)
    assert said.rstrip().endswith("::test_it")


@pytest.mark.thorough
def test_what_fails_again_fails_the_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, said = run(tmp_path, ALWAYS, capfd)
    assert (code, said.count("1 failed"), "deserves a look" in said) == (1, 2, False)


def test_many_failures_are_no_accident(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, said = run(tmp_path, FAILS_FIRST, capfd, number=FEW + 1)
    assert (code, f"{FEW + 1} failed" in said, "Once more" in said) == (1, True, False)
