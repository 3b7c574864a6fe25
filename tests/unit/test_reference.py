"""What the documents say of the code is what the code says, and a stale page is noticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rye_mcp.metadata import metadata_schema
from scripts.reference.commands import every_command
from scripts.reference.pages import PARTS, ROOT, filled, pages, stale
from scripts.reference.tables import explained

PLACE = re.compile(r"<!-- generated: ([\w-]+) -->")


@pytest.mark.thorough
def test_no_page_is_stale() -> None:
    """To fix it: `make docs`."""
    assert [str(page.relative_to(ROOT)) for page in stale()] == []


def test_every_part_stands_in_a_page() -> None:
    used = {name for page in pages() for name in PLACE.findall(page.read_text(encoding="utf-8"))}
    assert used == PARTS.keys()


@pytest.mark.parametrize("page", list(pages()), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_place_is_closed(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(PLACE.findall(text)) == text.count("<!-- /generated -->")


def test_a_changed_table_is_written_again() -> None:
    page = ROOT / "docs/reference/error-codes.md"
    text = page.read_text(encoding="utf-8")
    changed = text.replace("| `unsigned` |", "| `unsinged` |")
    assert changed != text
    assert filled(changed) == text


def test_a_place_that_nothing_fills_is_an_error() -> None:
    with pytest.raises(KeyError):
        filled("<!-- generated: no-such-part -->\n<!-- /generated -->\n")


def test_what_nobody_explained_is_an_error_and_so_is_what_is_there_no_more() -> None:
    assert explained(["a"], {"a": "the first"}, what="letter") == [("a", "the first")]
    with pytest.raises(ValueError, match=r"missing=\['b'\], superfluous=\['c'\]"):
        explained(["a", "b"], {"a": "the first", "c": "the third"}, what="letter")


def test_every_command_and_option_stands_in_the_reference() -> None:
    page = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    commands = dict(every_command())
    assert {"trust", "trust add", "lock update"} <= commands.keys()
    for name, command in commands.items():
        _, found, behind = page.partition(f"# rye {name}\n")
        assert found, f"expected a section about rye {name}; to fix it: make docs"
        section = behind.partition("\n##")[0]
        options = {option for each in command.params for option in each.opts if option.startswith("--")}
        assert all(f"`{option}" in section for option in options - {"--json", "--project", "--help"}), name


@pytest.mark.parametrize("page", ["docs/reference/metadata.md", ".ai/knowledge/rye/core/metadata.md"])
def test_every_field_that_an_editor_completes_stands_in_the_table_of_fields(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert metadata_schema("tool")["properties"].keys() <= listed
