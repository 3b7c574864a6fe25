"""The engine finds what a naive evaluation of the tree finds, in catalogues that nobody thought of."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rye_mcp.catalog import Catalog, SearchQuery
from rye_mcp.catalog._document import documents_of
from rye_mcp.items import SpaceName
from rye_mcp.queries import FIELDS, And, Everything, Near, Node, Not, Or, Phrase, Prefix, Term
from tests.catalog_world import Naive, Shelf, tool

WORDS = [
    "convert",
    "converting",
    "conversion",
    "video",
    "videos",
    "mp3",
    "readFile",
    "read",
    "file",
    "x1",
    "été",
]
word = st.sampled_from(WORDS)
text = st.lists(word, min_size=1, max_size=6).map(" ".join)
field = st.none() | st.sampled_from(FIELDS)

leaf: st.SearchStrategy[Node] = st.one_of(
    st.builds(Term, word | st.sampled_from(["read_file", "!?", "absent", "ReadFile"]), field),
    st.builds(Prefix, st.sampled_from(["conv", "converti", "vid", "m", "read_fi", "absent", "-"]), field),
    st.builds(Phrase, st.lists(word, min_size=1, max_size=3).map(tuple), field),
    st.builds(
        Near,
        st.lists(st.sampled_from([each for each in WORDS if each != "readFile"]), min_size=2, max_size=3).map(
            tuple
        ),
        st.integers(0, 3),
        field,
    ),
    st.just(Everything()),
)


def combined(parts: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return st.builds(And, several) | st.builds(Or, several) | st.builds(Not, parts)


without = st.builds(lambda one, other: And((one, Not(other))), leaf, leaf)
tree = st.recursive(leaf | without, combined, max_leaves=6)
item = st.fixed_dictionaries(
    {"name": text, "description": text, "body": text, "tags": st.lists(word, max_size=2), "category": text}
)


def shelf_with(root: str, items: list[dict[str, str]]) -> Shelf:
    shelf = Shelf.in_directory(Path(root))
    for number, each in enumerate(items):
        said = tool(
            each["name"].replace(" ", "_"),
            each["description"],
            body=each["body"],
            __tags__=each["tags"],
            __category__=each["category"],
        )
        shelf.put(f"d{number % 2}/t{number}", said)
    return shelf


def naive(shelf: Shelf) -> dict[str, Naive]:
    spaces = shelf.ground.spaces
    documents = {
        place.item_id: documents_of([spaces.read(place)])[0] for place in spaces.list(SpaceName.PROJECT).items
    }
    return {
        item_id: Naive(dict(zip(FIELDS, (each.split() for each in found.texts), strict=True)))
        for item_id, found in documents.items()
        if found is not None
    }


# Each example makes and indexes real files; what takes long is the disk.
@settings(max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.data_too_large])
@given(
    items=st.lists(item, min_size=5, max_size=10),
    trees=st.lists(tree, min_size=20, max_size=30),
    fields=st.none() | st.lists(st.sampled_from(FIELDS), min_size=1, unique=True).map(tuple),
)
def test_what_matches_is_what_a_naive_evaluation_says(
    items: list[dict[str, str]], trees: list[Node], fields: tuple[str, ...] | None
) -> None:
    with tempfile.TemporaryDirectory() as root:
        shelf = shelf_with(root, items)
        documents = naive(shelf)
        with Catalog.open(shelf.ground.spaces, None) as catalog:
            catalog.refresh()
            for each in trees:
                asked = And((each, Everything()))  # no sentence, which would be taken apart first
                page = catalog.search(SearchQuery(asked, fields=fields, limit=100))
                expected = {
                    item_id for item_id, found in documents.items() if found.matches(each, fields or FIELDS)
                }
                assert {hit.item_id for hit in page.hits} == expected, each
                assert page.total == len(expected), each
                assert all(0 <= hit.score <= 1 for hit in page.hits)


@settings(max_examples=settings().max_examples // 10, suppress_health_check=[HealthCheck.data_too_large])
@given(
    items=st.lists(item, max_size=12), sentences=st.lists(st.lists(word, min_size=1, max_size=5), max_size=10)
)
def test_a_sentence_finds_whatever_has_one_of_its_words(
    items: list[dict[str, str]], sentences: list[list[str]]
) -> None:
    with tempfile.TemporaryDirectory() as root:
        shelf = shelf_with(root, items)
        documents = naive(shelf)
        with Catalog.open(shelf.ground.spaces, None) as catalog:
            catalog.refresh()
            for words in sentences:
                either: Node = Or(tuple(Term(each) for each in words)) if len(words) > 1 else Term(words[0])
                page = catalog.search(SearchQuery(either, limit=100))
                expected = {item_id for item_id, found in documents.items() if found.matches(either)}
                assert {hit.item_id for hit in page.hits} == expected
