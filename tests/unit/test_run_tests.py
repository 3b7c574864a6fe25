"""How `make test` treats what fails."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts.run_tests import FEW, run_pytest

ALONE = "passed only when alone"


def failing(times: int) -> str:
    """A module whose test fails so often, and passes then."""
    return f"""
def test_it():
    from pathlib import Path
    seen = Path(__file__).with_suffix(".seen")
    with seen.open("a") as file:
        file.write("x")
    assert seen.stat().st_size > {times}
"""


def run(
    directory: Path, contents: Sequence[str], capfd: pytest.CaptureFixture[str], *, is_busy: bool = False
) -> tuple[int, list[str], str]:
    for index, content in enumerate(contents):
        (directory / f"test_{index}.py").write_text(content)
    code, notes = run_pytest(["-p", "no:cov"], os.environ, directory, is_busy=lambda: is_busy)
    return code, notes, capfd.readouterr().out


@pytest.mark.thorough
def test_what_passes_alone_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, notes, said = run(tmp_path, [failing(1)], capfd)
    assert (code, said.count("1 failed"), said.count("1 passed")) == (0, 1, 1)
    assert notes == [f"{ALONE} (1 of 2): test_0.py::test_it"]


@pytest.mark.thorough
def test_what_fails_again_fails_the_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, notes, said = run(tmp_path, [failing(2)], capfd)
    assert (code, said.count("1 failed"), notes) == (1, 2, [])


@pytest.mark.thorough
def test_a_busy_machine_gets_a_second_try_of_what_still_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, notes, _ = run(tmp_path, [failing(2), failing(1), failing(0)], capfd, is_busy=True)
    assert code == 0
    assert notes == [f"{ALONE} (1 of 2): test_1.py::test_it", f"{ALONE} (2 of 2): test_0.py::test_it"]


@pytest.mark.thorough
def test_what_always_fails_fails_the_run_of_a_busy_machine(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, notes, said = run(tmp_path, [failing(9), failing(1)], capfd, is_busy=True)
    assert (code, notes) == (1, [f"{ALONE} (1 of 2): test_1.py::test_it"])
    assert said.count("Again, one at a time") == 2


def test_many_failures_are_no_accident(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, notes, said = run(tmp_path, [failing(1)] * (FEW + 1), capfd, is_busy=True)
    assert (code, f"{FEW + 1} failed" in said, "Again" in said, notes) == (1, True, False, [])
