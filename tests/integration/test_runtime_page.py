"""Every example of docs/runtimes.md is written, signed by a person, run, and gives what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.items import SpaceName
from rye_mcp.spaces import Spaces
from tests.page_examples import examples_of, play

PAGE = Path(__file__).parents[2] / "docs/runtimes.md"

LINES_AT_MOST = 14
"""How long an example may be, its description of itself included."""

EXAMPLES = {example.title: example for example in examples_of(PAGE)}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop will do: what is looked at here happens in other processes."""
    return "asyncio"


@pytest.mark.parametrize("title", EXAMPLES)
async def test_an_example_gives_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, title: str
) -> None:
    assert EXAMPLES[title].calls
    await play(EXAMPLES[title], tmp_path, monkeypatch)


def test_every_runtime_of_the_system_has_an_example() -> None:
    items = Spaces.locate().list(SpaceName.SYSTEM).items
    runtimes = {item.item_id.rpartition("/")[2] for item in items if item.item_id.endswith("_runtime")}
    assert runtimes == EXAMPLES.keys() - {"A runtime of your own"}


def test_an_example_is_short() -> None:
    lengths = {path: text.count("\n") for each in EXAMPLES.values() for path, text in each.files.items()}
    assert max(lengths.values()) <= LINES_AT_MOST, lengths
