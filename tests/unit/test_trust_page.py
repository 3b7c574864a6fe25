"""Every row of the threat table of `docs/trust.md` names tests that are there, and no attack is left out."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "trust.md"
ATTACKS = ROOT / "tests" / "attacks"
LINK = re.compile(r"\[[^\]]+\]\(\.\./tests/attacks/(\w+\.py)(?:#(\w+))?\)")


def rows() -> list[str]:
    """The rows of the tables below the heading of the threats, without those of their heads."""
    threats = PAGE.read_text(encoding="utf-8").partition("## Every threat and its test")[2]
    return [
        line
        for line in threats.splitlines()
        if line.startswith("|") and not line.startswith(("| threat", "| ---"))
    ]


def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name for node in functions if node.name.startswith("test_")}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip())
def test_a_threat_has_a_test_that_tries_it(row: str) -> None:
    links = LINK.findall(row)
    assert links, "expected a link to a test"
    assert len(links) == row.count("]("), "expected links to tests alone"
    for name, function in links:
        assert function in functions_of(ATTACKS / name), f"expected the test {function} in {name}"


def test_every_attack_is_a_threat_of_the_table() -> None:
    linked = {name for row in rows() for name, _ in LINK.findall(row)}
    assert linked == {path.name for path in ATTACKS.glob("test_*.py")}


def test_the_page_says_what_is_not_protected_and_how_to_prevent_it() -> None:
    page = PAGE.read_text(encoding="utf-8")
    section = page.partition("## What is not protected")[2].partition("\n## ")[0]
    for words in ("can read an unencrypted private key", "rye keys passphrase", "another user"):
        assert words in " ".join(section.split())
