"""The tables of ways in, `docs/adr/0005…`, name code that is there, and tests that fail without it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from scripts.mutate import load

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PAGE = ROOT / "docs/adr/0005-ways-in-by-their-causes.md"
NAME = re.compile(r"`([^`]+)`")
WHERE_CODE_IS = (
    ROOT,
    ROOT / "src",
    ROOT / "src/rye_mcp",
    ROOT / ".ai/tools/rye",
    ROOT / "crates/lilux-proc/src",
)
RED = {test.partition("::") for mutation in load() for test in mutation.red}
"""File and function of every test that is known to fail without some guard."""


def rows() -> list[tuple[str, str, str]]:
    """Place, code and tests of each row; a row without tests of its own has those of the row above it."""
    found: list[tuple[str, str, str]] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("|") and not line.startswith(("| place", "| ---")):
            place, closed_by, test = (cell.strip() for cell in line.strip("|").split("|"))
            before = found[-1][2] if found and test.startswith("the same") else ""
            found.append((place, closed_by, f"{before} {test}"))
    return found


@cache
def functions() -> dict[str, frozenset[str]]:
    """Every test function, and the files that it is in."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            found.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    return {name: frozenset(files) for name, files in found.items()}


def file_of(name: str) -> Path:
    """A file of tests, by its path below `tests/attacks` or below `tests`."""
    attack = TESTS / "attacks" / name
    return attack if attack.is_file() else TESTS / name


def is_code(name: str) -> bool:
    """Whether a path leads to a module or a directory, also with the name of a part of it at its end."""
    paths = [name, name.rpartition(".")[0] or name]
    places = [place / each for place in WHERE_CODE_IS for each in paths]
    return any(each.exists() or each.with_name(f"{each.name}.py").is_file() for each in places)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_what_closes_a_way_in_is_there_and_tested(row: tuple[str, str, str]) -> None:
    _, closed_by, tested = row
    for name in NAME.findall(closed_by):
        assert "/" not in name or is_code(name), f"expected code, found {name}"
    tests = NAME.findall(tested)
    assert tests, "expected a test"
    reds = []
    for name in tests:
        if name.endswith(".py"):
            assert file_of(name).is_file(), name
            reds += [file == file_of(name).relative_to(ROOT).as_posix() for file, _, _ in RED]
        elif name.startswith("test_"):
            assert name in functions(), name
            reds += [(file, "::", name) in RED for file in functions()[name]]
    assert any(reds), f"expected a mutation that turns one of {tests} red"
