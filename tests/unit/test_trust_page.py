"""Each row of the threat table of `docs/trust.md` names tests that exist, and some mutation turns one red."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from scripts.mutate import load

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "trust.md"
ATTACKS = ROOT / "tests" / "attacks"
LINK = re.compile(r"\[[^\]]+\]\(\.\./tests/attacks/((?:skills/|isolation/)?\w+\.py)(?:#(\w+))?\)")
RED = {test for mutation in load() for test in mutation.red}
"""Every test that is known to fail without some guard."""


def rows() -> list[str]:
    """The rows of the tables below the heading of the threats, without those of their heads."""
    threats = PAGE.read_text(encoding="utf-8").partition("## Every threat and its test")[2]
    return [
        line
        for line in threats.splitlines()
        if line.startswith("|") and not line.startswith(("| threat", "| ---"))
    ]


def turns_red(name: str, function: str) -> bool:
    """Whether some mutation turns this attack red, or one of its file if it names none."""
    path = f"tests/attacks/{name}"
    return f"{path}::{function}" in RED if function else any(test.startswith(f"{path}::") for test in RED)


@cache
def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name for node in functions if node.name.startswith("test_")}


def test_a_threat_has_a_test_that_tries_it() -> None:
    assert len(rows()) > 300
    assert [problem for row in rows() for problem in wrong_with(row)] == []


def wrong_with(row: str) -> Iterator[str]:
    links = LINK.findall(row)
    if not links or len(links) != row.count("]("):
        yield f"expected links to tests, and to nothing else: {row}"
    for name, function in links:
        if function not in functions_of(ATTACKS / name):
            yield f"expected the test {function} in {name}, found none"


@pytest.mark.parametrize(
    "links", ["", "[it](https://example.org)", "[it](../tests/attacks/test_full_disk.py#test_nothing_at_all)"]
)
def test_a_row_without_a_test_is_noticed(links: str) -> None:
    assert list(wrong_with(f"| a threat | a guard | {links} |"))


def test_a_threat_has_a_guard_whose_removal_is_noticed() -> None:
    """See `tests/attacks/mutations.toml`: a test that cannot fail guards nothing."""
    unguarded = [row for row in rows() if not any(turns_red(*link) for link in LINK.findall(row))]
    assert unguarded == []


def test_every_attack_is_a_threat_of_the_table() -> None:
    linked = {name for row in rows() for name, _ in LINK.findall(row)}
    linked = {name for name in linked if not name.startswith("isolation/")}  # of these, a row may name some
    there = (*ATTACKS.glob("test_*.py"), *ATTACKS.glob("skills/test_*.py"))
    assert linked == {path.relative_to(ATTACKS).as_posix() for path in there}


def test_the_page_says_what_is_not_protected_and_how_to_prevent_it() -> None:
    page = PAGE.read_text(encoding="utf-8")
    section = page.partition("## What is not protected")[2].partition("\n## ")[0]
    for words in ("can read an unencrypted private key", "rye keys passphrase", "another user"):
        assert words in " ".join(section.split())
