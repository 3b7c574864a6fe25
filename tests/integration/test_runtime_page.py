"""docs/runtimes.md has a short example of every runtime; `test_documents_run.py` signs and runs them."""

from __future__ import annotations

from pathlib import Path

from rye_mcp.items import SpaceName
from rye_mcp.spaces import Spaces
from tests.page_examples import examples_of

PAGE = Path(__file__).parents[2] / "docs/runtimes.md"

LINES_AT_MOST = 14
"""How long an example may be, its description of itself included."""

EXAMPLES = {example.title: example for example in examples_of(PAGE)}


def test_every_section_with_files_calls_them() -> None:
    assert all(example.calls for example in EXAMPLES.values())


def test_every_runtime_of_a_language_has_an_example() -> None:
    """Those that speak to other MCP servers have a page of their own."""
    items = Spaces.locate().list(SpaceName.SYSTEM).items
    runtimes = {item.item_id.rpartition("/")[2] for item in items if item.item_id.endswith("_runtime")}
    of_languages = {name for name in runtimes if not name.startswith("mcp_")}
    assert of_languages == EXAMPLES.keys() - {"A runtime of your own"}


def test_an_example_is_short() -> None:
    lengths = {path: text.count("\n") for each in EXAMPLES.values() for path, text in each.files.items()}
    assert max(lengths.values()) <= LINES_AT_MOST, lengths
