"""Attack: a query that speaks to the engine below, takes for ever, or breaks searching for who comes next."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rye_mcp.catalog import Catalog
from rye_mcp.errors import RyeError
from rye_mcp.queries import MAX_DEPTH, MAX_PREFIXES
from rye_mcp.verbs.search import SearchRequest, SearchResult, search
from tests.trust_world import World
from tests.verb_world import agent, put, tool

LIMIT_S = 0.5
"""Five times what is promised: these tests run beside others."""


def nested(level: str) -> str:
    """Something that stands in itself, as deep as it may."""
    query = "hello"
    for number in range(MAX_DEPTH):
        query = level.format(n=number, inner=query)
    return query


HOSTILE = [
    "'; DROP TABLE items; --",
    '" OR 1=1 --',
    "x' UNION SELECT * FROM sqlite_master --",
    "name MATCH 'x' OR rank MATCH 'bm25(10)'",
    "{name body}: hello",
    "- name : hello",
    "^hello + world",
    "name:^hello",
    '"hello" * "world"',
    "NEAR/5",
    "NEAR(hello says, 99999999999999999999)",
    "NEAR(" * 1000,
    "hello\x00world",
    "\x00" * 1000,
    "\ud800\udfff",
    "\x1b[2J\x07\u202e\u200b",
    "*" * 10_000,
    "a* " * 10_000,
    "a* " * 2000,
    "hello " * 1300,
    " ".join(f"w{number}" for number in range(1400)),
    '"' * 8001,
    "(" * 8000,
    ")" * 8000,
    "(" * 4000 + "a AND b" + ")" * 4000,
    "NOT " * 2000 + "a",
    "a AND " * 1300,
    " OR ".join(f"NOT w{number}" for number in range(250)),
    " AND ".join(f"w{number}*" for number in range(MAX_PREFIXES)),
    " ".join(f"{letter}*" for letter in "hsdt"[:MAX_PREFIXES]),
    f"NEAR({'hello ' * 400}, 1000)",
    "-".join("ab" * 2000),
    "\ufdfa" * 8000,
    "AND",
    "OR OR OR",
    "x" * 100_000,
    "\U0001f600" * 8000,
    "é" * 8000 + "*",
    "İıſßﬁ" * 1600,
    nested("a{n} OR b{n} AND NOT ({inner})"),
    nested("a{n} OR NOT ({inner})"),
    nested("* OR a{n} AND NOT ({inner})"),
    nested("name:(a{n} OR NOT {inner})"),
    nested("(NOT ({inner}))"),
]
"""Some of them make sense as plain words; none may do more than that."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world that no test here can change."""
    world = World(tmp_path_factory.mktemp("world"))
    for number in range(50):
        put(world, tool(), f"demo/t{number}", signed=True)
    (world.project / ".ai/secret.md").write_text("canary")
    return world


@pytest.fixture(scope="module")
def catalog(world: World) -> Iterator[Catalog]:
    with Catalog.open(agent(world).spaces, world.root / "cache") as catalog:
        catalog.refresh()
        yield catalog


def ask(world: World, catalog: Catalog, query: str, **options: Any) -> SearchResult | str:
    """What comes of it: a result, or the code of the refusal."""
    try:
        return search(SearchRequest(query, **options), agent(world), catalog)
    except RyeError as error:
        return error.code


def indexes(world: World) -> dict[str, int]:
    """Which files the indexes are."""
    return {path.name: path.stat().st_ino for path in (world.root / "cache").glob("*.sqlite")}


@pytest.mark.first_case
@pytest.mark.parametrize("query", HOSTILE, ids=lambda query: ascii(query[:20]))
def test_a_query_is_words_or_is_refused_in_little_time(world: World, catalog: Catalog, query: str) -> None:
    ask(world, catalog, "hello")
    files = indexes(world)
    for fuzzy in (False, {"max_distance": 2}):
        started = time.process_time()
        answer = ask(world, catalog, query, fuzzy=fuzzy)
        assert time.process_time() - started < LIMIT_S
        assert isinstance(answer, SearchResult) or answer == "invalid_query"
    assert indexes(world) == files, "the index was taken to be damaged"
    afterwards = ask(world, catalog, "hello", scope="tool.demo.*")
    assert isinstance(afterwards, SearchResult)
    assert afterwards.total == 50


@given(
    st.text()
    | st.lists(st.sampled_from([*"'\"();*:-^{}+,\\%", "AND", "OR", "NOT", "NEAR(", "name:"])).map(" ".join)
)
@settings(max_examples=2 * settings().max_examples)
def test_whatever_is_searched_for_is_an_answer_or_a_refusal(
    world: World, catalog: Catalog, query: str
) -> None:
    answer = ask(world, catalog, query)
    assert isinstance(answer, SearchResult) or answer == "invalid_query"


@pytest.mark.parametrize("value", ["' OR 1=1 --", "%", "_", "*", "\x00", '"', "a" * 4096])
def test_a_filter_is_a_value_and_nothing_else(world: World, catalog: Catalog, value: str) -> None:
    answer = ask(world, catalog, "hello", filters={"category": value})
    assert isinstance(answer, SearchResult)
    assert answer.results == ()


@pytest.mark.parametrize("value", ["\ud800", "a" * 4097, ["\udfff"], 1, None, [["a"]]], ids=ascii)
def test_a_filter_that_is_no_text_is_refused(world: World, catalog: Catalog, value: Any) -> None:
    assert ask(world, catalog, "hello", filters={"category": value}) == "invalid_query"


def test_nothing_but_items_can_be_asked_for(world: World, catalog: Catalog) -> None:
    for scope in ("tool.../*", "knowledge.*", "tool.*"):
        with suppress(RyeError):
            result = search(SearchRequest("canary", scope=scope, detail=True), agent(world), catalog)
            assert "canary" not in str(result.as_dict()["results"])
