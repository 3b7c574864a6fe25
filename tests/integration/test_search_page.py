"""`docs/search.md` keeps its word: each of its queries finds what the page says, or is refused as it says.

The items are those of the page's first table. In a table of queries, `…` at the end of a row stands for
others that come behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rye_mcp.catalog import Catalog
from rye_mcp.errors import RyeError
from rye_mcp.queries import (
    FIELDS,
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_NEAR_WORDS,
    MAX_PREFIXES,
    MAX_WORDS,
)
from rye_mcp.verbs.search import SearchRequest, search
from tests.trust_world import World
from tests.verb_world import agent, put, tool

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "search.md").read_text(encoding="utf-8")
CODE = re.compile(r"`([^`]*)`")


def rows(heading: str) -> list[list[str]]:
    """The cells of every table with this heading."""
    found: list[list[str]] = []
    for table in PAGE.split(f"| {heading} |\n")[1:]:
        lines = table.split("\n\n")[0].splitlines()
        found += [[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines[1:]]
    return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The tools of the page."""
    world = World(tmp_path_factory.mktemp("page"))
    for item, description, tags in rows("tool | description | tags"):
        content = tool().replace(
            b'"""Says hello."""\n',
            f"__tool_description__ = {description!r}\n__tags__ = {CODE.findall(tags)}\n".encode(),
        )
        put(world, content, item.strip("`"), signed=True)
    return world


@pytest.fixture(scope="module")
def catalog(world: World) -> Iterator[Catalog]:
    with Catalog.open(agent(world).spaces, world.root / "cache") as catalog:
        catalog.refresh()
        yield catalog


@pytest.mark.parametrize(("query", "promised"), rows("query | finds"), ids=str)
def test_a_query_finds_what_the_page_says(world: World, catalog: Catalog, query: str, promised: str) -> None:
    expected = CODE.findall(promised)
    result = search(SearchRequest(CODE.findall(query)[0], limit=100), agent(world), catalog)
    found = [shown.item_id for shown in result.results if not shown.item_id.startswith("rye/")]
    if promised.endswith("…"):
        assert found[: len(expected)] == expected
    else:
        assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(("query", "said"), rows("query | says"), ids=str)
def test_a_query_is_refused_as_the_page_says(world: World, catalog: Catalog, query: str, said: str) -> None:
    with pytest.raises(RyeError) as caught:
        search(SearchRequest(CODE.findall(query)[0]), agent(world), catalog)
    assert (caught.value.code, caught.value.message) == ("invalid_query", CODE.findall(said)[0])


def test_the_page_names_the_fields_and_the_limits() -> None:
    fields = PAGE.partition("## Fields")[2].partition("\n\n|")[0]
    assert set(FIELDS) <= set(CODE.findall(fields))
    for limit in (
        f"{MAX_CHARACTERS:,} characters",
        f"{MAX_WORDS} words",
        f"{MAX_PREFIXES} of them",
        f"{MAX_NEAR_WORDS} of them in one",
        f"{MAX_DEPTH} deep",
    ):
        assert limit in PAGE


def test_the_page_has_tables() -> None:
    assert len(rows("query | finds")) > 15
    assert len(rows("query | says")) > 3
