"""What a query costs has a bound, whatever it asks: what reaches SQLite is looked at, and not a clock."""

from __future__ import annotations

import random
import sqlite3
import sys
from collections.abc import Iterator
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest

from rye_mcp.catalog import Catalog, SearchQuery
from rye_mcp.errors import RyeError
from rye_mcp.language.slips import Vocabulary
from rye_mcp.queries import MAX_PREFIXES, parse
from tests.catalog_world import Shelf, tool

# What one search may cost: a change of these numbers is a decision, and no slip.
MAX_COMPARED = 60
MAX_FUZZY_WORDS = 16
MAX_PARTS = 64

ITEMS = 700
BEGINNINGS = "spctrmda"
COMMON = [f"{BEGINNINGS[number % 8]}{number:02}" for number in range(80)]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """Many items that share their words, and each of which has one of its own."""
    shelf, chance = Shelf.in_directory(tmp_path_factory.mktemp("cost")), random.Random(3)  # noqa: S311
    for number in range(ITEMS):
        words = ["converting", *chance.sample(COMMON, 30)]
        body = " ".join([*words, f"own{number}"])
        shelf.put(f"t{number:03}", tool(f"own{number}", " ".join(words[:10]), body=body))
    with shelf.open_anew() as catalog:
        catalog.refresh()
        yield catalog


def statements(catalog: Catalog, query: str, **options: Any) -> list[str]:
    """What SQLite is asked for one search."""
    asked: list[str] = []
    databases: list[sqlite3.Connection] = [
        index.ask(lambda engine: engine.database) for index in catalog._indexes
    ]
    for database in databases:
        database.set_trace_callback(asked.append)
    try:
        catalog.search(SearchQuery(parse(query), **options))
    finally:
        for database in databases:
            database.set_trace_callback(None)
    return asked


def weighed(catalog: Catalog, query: str, **options: Any) -> list[str]:
    """What documents are weighed by, of each question that weighs."""
    asked = [each for each in statements(catalog, query, **options) if "bm25" in each]
    return [each.partition(" MATCH ")[2].partition(" AND rowid BETWEEN ")[0] for each in asked]


HEAVY = [
    " ".join(f"{letter}*" for letter in BEGINNINGS[:MAX_PREFIXES]),
    " AND ".join(f"({letter}* OR x)" for letter in BEGINNINGS[:MAX_PREFIXES]),
    " ".join(f'"{one} {other}"' for one, other in pairwise(COMMON)),
    " ".join(f"NEAR({' '.join(COMMON[at : at + 2])}, {at})" for at in range(50)),
    " ".join(f"({one} AND {other})" for one, other in zip(COMMON, COMMON[2:], strict=False)),
    " ".join(COMMON * 3),
    " ".join(f"own{number}" for number in range(100)),
]


@pytest.mark.parametrize("query", HEAVY, ids=lambda query: query[:12])
@pytest.mark.parametrize("options", [{}, {"filters": {"version": "1.0.0"}}, {"fields": ("body",)}], ids=str)
def test_what_is_weighed_is_asked_in_few_parts(catalog: Catalog, query: str, options: dict[str, Any]) -> None:
    asked = weighed(catalog, query, **options)
    assert asked
    for each in asked:
        assert each.count('"') // 2 <= MAX_PARTS


def test_words_of_the_query_are_weighed_before_those_that_it_stands_for(catalog: Catalog) -> None:
    assert '"=p01"' in "".join(weighed(catalog, "own* t* p01"))


def test_words_of_one_stem_are_one_part(catalog: Catalog) -> None:
    asked = weighed(catalog, "convert converting converts", filters={"version": "1.0.0"})
    assert [each.count('"') // 2 for each in asked if each] == [1]


def test_a_late_page_compares_no_more_than_an_early_one(catalog: Catalog) -> None:
    for offset, sort_by in ((0, "score"), (300, "score"), (100_000, "score"), (300, "name")):
        options = {"offset": offset, "limit": 100, "sort_by": sort_by}
        asked = statements(catalog, COMMON[0] + " " + COMMON[1], **options)
        keys = [each.partition(" IN (")[2] for each in asked if "counted" in each and "FROM texts" in each]
        page = 100 if sort_by == "name" else 0
        assert 0 < sum(each.count(",") + 1 for each in keys) <= MAX_COMPARED + page


def test_what_is_not_compared_comes_last_and_is_worth_no_more(catalog: Catalog) -> None:
    query = parse(" ".join(COMMON[:9]))
    hits = catalog.search(SearchQuery(query, limit=ITEMS)).hits
    scores = [hit.score for hit in hits]
    assert len(hits) > MAX_COMPARED
    assert scores == sorted(scores, reverse=True)
    late = catalog.search(SearchQuery(query, offset=MAX_COMPARED - 5, limit=20)).hits
    assert late == hits[MAX_COMPARED - 5 :][:20]


def test_only_so_many_words_may_be_misspelt(catalog: Catalog) -> None:
    words = [COMMON[0], *(f"wo{number}rd" for number in range(MAX_FUZZY_WORDS - 1))]
    assert near_words(catalog, SearchQuery(parse(" ".join(words)), fuzzy=2)) == MAX_FUZZY_WORDS
    with pytest.raises(RyeError, match=f"at most {MAX_FUZZY_WORDS} words") as caught:
        catalog.search(SearchQuery(parse(" ".join([*words, "another"])), fuzzy=1))
    assert caught.value.code == "invalid_query"
    assert catalog.search(SearchQuery(parse(" ".join([*words, "another"])))).total


def test_only_so_many_words_are_tried_to_say_what_was_meant(catalog: Catalog) -> None:
    words = [f"wo{number}rd" for number in range(100)]
    assert near_words(catalog, SearchQuery(parse(" AND ".join(words)))) == MAX_FUZZY_WORDS


def near_words(catalog: Catalog, query: SearchQuery) -> int:
    """For how many words a search looks through a vocabulary; the other spaces have none."""
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is Vocabulary.near.__code__:
            calls.append(frame.f_locals["word"])

    sys.setprofile(note)
    try:
        catalog.search(query)
    finally:
        sys.setprofile(None)
    return len(calls)
