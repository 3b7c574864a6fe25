"""Wishes in plain text: what a sentence counts, what is near in meaning, what comes before what, and why."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.catalog import Catalog, SearchQuery
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType, SpaceName
from rye_mcp.language import meaning as meanings
from rye_mcp.language.meaning import Signs, WordTable, packed, sign_bits, similarity
from rye_mcp.language.words import Stemmer, words_of
from rye_mcp.queries import read_query
from rye_mcp.verbs.search import Reasons
from tests.catalog_twin import hit
from tests.catalog_world import Shelf, tool


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf.in_directory(tmp_path)


def found(shelf: Shelf, wish: str, **options: Any) -> list[str]:
    return shelf.ids(wish, **options)


# --- what is indexed ---


def test_what_a_whole_schema_says_is_found_and_the_title_that_a_program_gave_it_is_not(shelf: Shelf) -> None:
    schema = {"type": "object", "title": "EncodeArguments", "description": "For podcasts", "properties": {}}
    shelf.put("encode", tool("encode", "Encodes", CONFIG_SCHEMA=schema))
    assert found(shelf, "parameters:podcasts") == ["encode"]
    assert found(shelf, "arguments") == []


def test_a_tool_is_found_by_what_its_examples_are_for(shelf: Shelf) -> None:
    examples = [{"description": "Which tracks are too loud?", "parameters": {}}]
    shelf.put("measure", tool("measure", "Measures", EXAMPLES=examples))
    assert found(shelf, "loud tracks") == ["measure"]
    assert found(shelf, "examples:loud") == ["measure"]
    assert found(shelf, "description:loud") == []


def test_the_title_of_the_annotations_is_that_of_an_item_without_one(shelf: Shelf) -> None:
    shelf.put("kill", tool("kill", "Ends what was begun", ANNOTATIONS={"title": "Stop a process"}))
    assert found(shelf, "title:process") == ["kill"]


@pytest.mark.parametrize("wish", ["what does notes.md say", "delete src/main.c", "open D:/reports/June.PDF"])
def test_a_wish_that_names_a_file_is_about_a_file(shelf: Shelf, wish: str) -> None:
    shelf.put("read", tool("read", "Shows lines of a file"))
    page = shelf.search(wish)
    assert ([hit.item_id for hit in page.hits], page.total) == (["read"], 1)


@pytest.mark.parametrize(
    "wish",
    ["notes.md", "mail me@example.de", "open example.com", "ask https://example.org/notes.md", "e.g. U.S"],
)
def test_an_address_an_abbreviation_or_a_lone_name_asks_for_no_other_word(shelf: Shelf, wish: str) -> None:
    shelf.put("greet", tool("greet", "file"))
    assert not shelf.search(wish).total


@pytest.mark.parametrize("examples", ["loud", [3, {"description": 4}, None], {"description": "loud"}])
def test_examples_of_another_shape_say_nothing(shelf: Shelf, examples: Any) -> None:
    shelf.put("measure", tool("measure", "Measures", EXAMPLES=examples))
    assert found(shelf, "examples:loud") == []


# --- plain text ---


def test_a_quoted_word_changes_nothing_in_a_sentence(shelf: Shelf) -> None:
    shelf.put("convert", tool("convert", "Convert a video to a sound file"))
    shelf.put("the", tool("the", "What can you do for the best"))
    plain, quoted, whole = (
        shelf.search(wish).hits
        for wish in (
            "what can you do to convert my video for me",
            'what can you do to "convert" my video for me',
            '"what can you do to convert my video for me"',
        )
    )
    assert plain == quoted == whole
    assert plain[0].item_id == "convert"


def test_sentences_of_one_wish_find_a_tool_each(shelf: Shelf) -> None:
    shelf.put("weather", tool("forecast", "Rain forecast"))
    shelf.put("invoice", tool("invoice", "Mail an invoice"))
    for number in range(8):
        shelf.put(f"report{number}", tool(f"t{number}", "city customer team date branch budget quarter"))
    wish = (
        "Get the rain forecast. The city has a customer, whose team asks by which date the branch "
        "closes its budget of the quarter. Mail an invoice!"
    )
    hits = {hit.item_id: hit for hit in shelf.search(wish).hits}
    # Its words are in many documents, so that alone by the whole wish it would be worth half as much.
    assert hits["report0"].score > 0.65
    assert (hits["weather"].sentence, hits["report0"].sentence, hits["invoice"].sentence) == (0, 1, 2)


def test_what_nobody_can_call_comes_a_little_later(shelf: Shelf) -> None:
    shelf.put("a", tool("greet", "Greets people", __tool_type__="runtime"))
    shelf.put("b", tool("greet", "Greets people"))
    assert found(shelf, "greet people") == ["b", "a"]


# --- the word table ---


@pytest.fixture(scope="module")
def table() -> WordTable:
    return WordTable.load(Stemmer())


def test_the_table_is_the_one_that_this_version_names() -> None:
    content = meanings.FILE.read_bytes()
    assert hashlib.sha256(content).hexdigest() == WordTable.identity
    assert len(content) <= 4_100_000


def test_the_table_takes_little_memory(tmp_path: Path) -> None:
    path, stemmer = tmp_path / "words.table", Stemmer()
    path.write_bytes(meanings.FILE.read_bytes())  # which nobody has read before
    tracemalloc.start()
    try:
        table = WordTable.load(stemmer, path)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(table.rows) < taken <= 16 << 20


GOLDEN = [
    ("convert a video to a sound file", "9d4957cf4ae37f82"),
    ("Remember what somebody told me, please.", "0da195f4ea9f355d"),
    ("convert", "a02f60862b5b9a5e"),
    ("zzzzqqqq 你好", ""),
]


@pytest.mark.parametrize(("text", "digest"), GOLDEN)
def test_a_text_has_the_same_vector_on_every_machine(table: WordTable, text: str, digest: str) -> None:
    vector = table.of_text(text, words_of(text))
    assert (hashlib.sha256(vector).hexdigest()[:16] if vector else "") == digest


def item(**fields: str) -> Mapping[str, str]:
    return dict.fromkeys(meanings.WEIGHTS, "") | fields


def test_an_item_has_the_same_vector_on_every_machine(table: WordTable) -> None:
    said = {"name": "convert to mp3", "title": "", "description": "converts videos", "tags": "sound"}
    said |= {
        "category": "",
        "parameters": "path of the video",
        "examples": "turn this into sound",
        "body": "",
    }
    [vector] = table.of_items([said])
    assert hashlib.sha256(vector).hexdigest()[:16] == "123266a39f6329d5"


def test_a_vector_is_the_sum_of_rows_however_many_there_are(table: WordTable) -> None:
    words = list(table.numbers)[:100]
    many = item(name=" ".join(words[:100]), description=" ".join(list(table.numbers)[100:200]))
    summed = [0] * meanings.DIMENSIONS
    for at in range(200):
        row = table.rows[at * meanings.DIMENSIONS : (at + 1) * meanings.DIMENSIONS]
        for place, each in enumerate(row):
            summed[place] += (2 if at < 100 else 1) * (each - 128)
    [vector] = table.of_items([many])
    assert vector == meanings.of_length(summed)


def test_the_name_counts_twice_and_what_comes_again_or_late_not_at_all(table: WordTable) -> None:
    one, again, late, named = table.of_items(
        [
            item(description="video sound"),
            item(description="video sound sound sound", body="sound"),
            item(description=" ".join(["video", "sound", *["qqzz"] * 98, "invoice"])),
            item(name="sound", description="video sound"),
        ]
    )
    assert one == again == late
    sound = table.of_word("sound")
    assert similarity(named, sound) > similarity(one, sound)


def test_the_server_of_a_bridged_tool_which_is_its_category_says_what_it_is_about(table: WordTable) -> None:
    said = {"name": "add observations", "description": "adds observations to existing entities"}
    bare, bridged = table.of_items([item(**said), item(**said, category="mcp memory")])
    assert similarity(bridged, table.of_word("remember")) > similarity(bare, table.of_word("remember"))


def test_a_word_that_is_not_in_the_table_has_the_vector_of_its_stem(table: WordTable) -> None:
    word = next(each for each in table.numbers if len(each) > 5 and f"{each}ings" not in table.numbers)
    stemmer = Stemmer()
    assert stemmer.stems([f"{word}ings"])[f"{word}ings"] == stemmer.stems([word])[word]
    assert similarity(table.of_word(f"{word}ings"), table.of_word(word)) > 0.3
    assert table.of_word("zzzzqqqqings") == b""


def test_sign_bits_are_those_of_negative_components() -> None:
    assert sign_bits(bytes([0x80, 0, 0x7F, 0xFF])) == bytes([0b1001])
    assert sign_bits(b"\xff" * 384) == b"\xff" * 16


@given(
    rows=st.lists(st.binary(min_size=16, max_size=16), max_size=30),
    bits=st.binary(min_size=16, max_size=16),
    part=st.tuples(st.integers(0, 30), st.integers(0, 30)),
)
def test_those_that_share_most_bits_come_first(rows: list[bytes], bits: bytes, part: tuple[int, int]) -> None:
    start, end = sorted(min(each, len(rows)) for each in part)

    def distance(at: int) -> int:
        return (int.from_bytes(rows[at], "big") ^ int.from_bytes(bits, "big")).bit_count()

    expected = sorted(range(start, end), key=lambda at: (distance(at), at))
    assert list(Signs(rows).nearest(bits, start, end)) == expected


KNOWN = {"film": (100, 0), "movie": (100, 1), "soup": (0, 100)}


class Fixed:
    """Knows what two words mean."""

    identity = "fixed"

    def _of(self, words: Sequence[str]) -> bytes:
        known = [KNOWN[word] for word in words if word in KNOWN]
        return (
            bytes(sum(pair[at] for pair in known) & 0x7F for at in (0, 1) for _ in range(4)) if known else b""
        )

    def of_items(self, items: Sequence[Mapping[str, str]]) -> list[bytes]:
        return [self._of(f"{item['name']} {item['description']} {item['body']}".split()) for item in items]

    def of_text(self, text: str, words: Sequence[str]) -> bytes:
        return self._of(words)


def fixed(_: Stemmer) -> Fixed:
    return Fixed()


def hits_of(shelf: Shelf, wish: str, meaning: Callable[[Stemmer], Any]) -> list[str]:
    read = read_query(wish)
    with Catalog.open(shelf.ground.spaces, None, meaning=meaning) as catalog:
        catalog.refresh()
        return [hit.item_id for hit in catalog.search(SearchQuery(read.tree, read.wish)).hits]


def missing(stemmer: Stemmer) -> WordTable:
    return WordTable.load(stemmer, Path("/nonexistent/words.table"))


def test_candidates_are_ordered_by_meaning_too(shelf: Shelf) -> None:
    shelf.put("a", tool("", "make a soup tonight"))
    shelf.put("b", tool("", "make a movie tonight"))
    assert hits_of(shelf, "film tonight make", missing) == ["a", "b"]
    assert hits_of(shelf, "film tonight make", fixed) == ["b", "a"]
    assert hits_of(shelf, "film AND tonight OR make", fixed) == ["a", "b"]


def test_what_is_near_in_meaning_is_found_too_and_is_not_counted(shelf: Shelf) -> None:
    shelf.put("a", tool("", "tonight"))
    shelf.put("b", tool("", "movie"))
    shelf.put("c", tool("", "soup"))
    read = read_query("film tonight")
    with Catalog.open(shelf.ground.spaces, None, meaning=fixed) as catalog:
        catalog.refresh()
        page = catalog.search(SearchQuery(read.tree, read.wish))
        narrow = catalog.search(SearchQuery(read.tree, read.wish, id_patterns=("a",)))
        late = catalog.search(SearchQuery(read.tree, read.wish, offset=1))
    assert {(hit.item_id, hit.is_near) for hit in page.hits} == {("a", False), ("b", True)}
    assert page.total == 1
    assert [hit.item_id for hit in narrow.hits] == ["a"]
    assert late.hits == page.hits[1:]
    assert 0 < page.hits[1].score <= page.hits[0].score == 1.0
    assert hits_of(shelf, "film", fixed) == []  # a single word is looked up
    assert hits_of(shelf, "is there a film", fixed) == ["b"]  # and a sentence is not


def test_a_file_that_is_found_by_its_meaning_is_forgotten_with_it(shelf: Shelf) -> None:
    shelf.put("a", tool("", "tonight"))
    path = shelf.put("b", tool("", "movie"))
    read = read_query("film tonight")
    with Catalog.open(shelf.ground.spaces, None, meaning=fixed) as catalog:
        for expected in ({"a", "b"}, {"a"}):
            catalog.refresh()
            assert {hit.item_id for hit in catalog.search(SearchQuery(read.tree, read.wish)).hits} == expected
            path.unlink(missing_ok=True)


def test_words_that_say_little_of_a_wish_count_little_beside_what_it_means(shelf: Shelf) -> None:
    shelf.put("a", tool("tonight", "dinner tonight"))
    shelf.put("b", tool("", "a movie"))
    assert hits_of(shelf, "film tonight zebra quartz piano violin garden", fixed) == ["b", "a"]
    assert hits_of(shelf, "film tonight zebra quartz piano violin garden", missing) == ["a"]
    assert hits_of(shelf, "film dinner tonight", fixed) == ["a", "b"]
    # One sentence that is answered well is enough.
    assert hits_of(shelf, "Dinner tonight. Film zebra quartz piano violin garden.", fixed) == ["a", "b"]


# --- a table that cannot be used ---


def damaged(tmp_path: Path) -> Path:
    path = tmp_path / "damaged"
    content = bytearray(meanings.FILE.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    return path


def other(tmp_path: Path) -> Path:
    path = tmp_path / "other"
    path.write_bytes(packed(["one"], ["one"], bytes(meanings.DIMENSIONS))[0])
    return path


@pytest.mark.parametrize("make", [damaged, other, lambda tmp_path: tmp_path / "missing"])
def test_without_its_table_words_are_found_with_a_notice(
    shelf: Shelf, tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path)
    shelf.put("convert", tool("convert", "Converts a video"))
    read = read_query("convert my video")
    with Catalog.open(
        shelf.ground.spaces, shelf.cache, meaning=lambda stemmer: WordTable.load(stemmer, path)
    ) as catalog:
        catalog.refresh()
        assert [hit.item_id for hit in catalog.search(SearchQuery(read.tree, read.wish)).hits] == ["convert"]
        assert any("word table" in notice for notice in catalog.notices)


def test_an_index_that_another_table_has_made_is_made_again(shelf: Shelf) -> None:
    shelf.put("a", tool("", "movie tonight"))
    read = read_query("film tonight")
    looked: list[int] = []
    for meaning, anew in ((missing, True), (missing, False), (fixed, True), (fixed, False)):
        with Catalog.open(shelf.ground.spaces, shelf.cache, meaning=meaning) as catalog:
            looked.clear()
            catalog.refresh()
            catalog.refresh(lambda _, total: looked.append(total))
            vectors = catalog._indexes[0].ask(
                lambda engine: engine.database.execute("SELECT count(*) FROM vectors").fetchone()[0]
            )
            assert vectors == (meaning is fixed), anew
            assert catalog.search(SearchQuery(read.tree, read.wish)).total == 1


# --- what comes before what ---


def test_of_two_that_are_nearly_as_good_that_of_the_project_is_first(shelf: Shelf) -> None:
    shelf.put("z/own", tool("resize", "Resize a picture"))
    shelf.put("a/theirs", tool("resize", "Resize a picture"), space="system")
    assert found(shelf, "resize picture") == ["z/own", "a/theirs"]
    shelf.put("z/own", tool("other", "Keeps a picture"))
    assert found(shelf, "resize picture")[0] == "a/theirs"


def test_nothing_destructive_is_before_something_harmless_for_a_wish_to_look(shelf: Shelf) -> None:
    shelf.put("delete", tool("delete files", "Big files of a folder", ANNOTATIONS={"destructiveHint": True}))
    shelf.put("biggest", tool("biggest", "Sizes in a folder"))
    assert found(shelf, "find big files in a folder") == ["biggest", "delete"]
    assert found(shelf, "delete big files in a folder") == ["delete", "biggest"]
    assert found(shelf, "find and remove big files in a folder") == ["delete", "biggest"]
    assert found(shelf, "big AND files OR folder")[0] == "delete"
    scores = [hit.score for hit in shelf.search("find big files in a folder").hits]
    assert scores == sorted(scores, reverse=True)


def test_a_stuffed_item_is_not_before_what_is_meant(shelf: Shelf) -> None:
    shelf.put("convert", tool("convert", "Convert a video to sound"))
    shelf.put("again", tool("x", "Convert", body="convert " * 1000))
    popular = "file video sound picture page text web list find get make send data name time user list code"
    shelf.put("popular", tool("x", popular, body=f"{popular} convert " * 60))
    shelf.put("empty", tool("", ""))
    for number in range(10):
        shelf.put(f"other{number}", tool(f"other{number}", "Says something about a page"))
    for wish in ("convert a video to sound", "convert video"):
        assert found(shelf, wish)[0] == "convert"


def test_saying_a_word_a_thousand_times_gains_no_more_than_saying_it_often(shelf: Shelf) -> None:
    for name, times in (("a", 1000), ("b", 8)):
        filler = " ".join(f"w{number}" for number in range(1000 - times))
        shelf.put(name, tool("x", body=f"{'convert ' * times} {filler}"))
    thousand, eight = shelf.search("convert").hits
    assert thousand.score == pytest.approx(eight.score, abs=0.02)


# --- why ---


def test_an_item_tells_why_it_was_found_by_its_bytes_as_they_are(shelf: Shelf) -> None:
    shelf.put("send", tool("send_invoice", "Send an invoice to customers by mail"))
    shelf.put("other", tool("other", "Weather forecasts"))
    read = read_query("Tell me the weather forecast of today. Then post letter invoices to my clients!")
    query = SearchQuery(read.tree, read.wish)
    with Catalog.open(shelf.ground.spaces, None) as catalog, Reasons(query) as reasons:
        catalog.refresh()
        hits = {hit.item_id: hit for hit in catalog.search(query).hits}
        file = shelf.ground.spaces.find("send", ItemType.TOOL).item
        why = reasons.of(hits["send"], file)
        lying = reasons.of(replace(hits["send"], sentence=7), file)
    assert why.words == ("invoices",)
    assert why.sentence == "Then post letter invoices to my clients"
    assert ("letter", "mail") in why.near
    assert lying.sentence is None
    assert why.as_dict()["near"][0].keys() == {"asked", "item"}


def test_a_query_with_operators_is_explained_by_its_words_alone(shelf: Shelf) -> None:
    shelf.put("send", tool("send_invoice", "Send an invoice to customers by mail"))
    query = SearchQuery(read_query("invo* AND clients").tree)
    with Reasons(query) as reasons:
        why = reasons.of(hit("send"), shelf.ground.spaces.find("send", ItemType.TOOL).item)
    assert (why.words, why.sentence, why.near) == (("invo*",), None, ())


# --- what nobody expects ---


ODD = [
    pytest.param("show one three. " * 500, ["one"], True, id="8,000 characters in 500 sentences"),
    pytest.param("ну и что это такое? ещё раз.", [], False, id="a language of which the table has no word"),
    pytest.param("1 2 3. 4 5 6 7. 88", ["one"], False, id="numbers only"),
    pytest.param("x" * 9000, [], True, id="one word without an end"),
    pytest.param("\u4f60\u597d " * 300, [], True, id="characters that are words"),
    pytest.param("what is it to you, and why?", [], False, id="words that say nothing"),
]


@pytest.mark.parametrize(("wish", "expected", "is_cut"), ODD)
def test_an_odd_wish_is_answered(shelf: Shelf, wish: str, expected: list[str], is_cut: bool) -> None:
    shelf.put("one", tool("one", "two three 4"))
    page = shelf.search(wish)
    assert [hit.item_id for hit in page.hits if not hit.is_near] == expected
    assert page.total == len(expected)
    assert all(0 <= hit.score <= 1 for hit in page.hits)
    assert (read_query(wish).notice is not None) is is_cut


@pytest.mark.parametrize("wish", ['""" \'\' "" \u201c\u201e', "?", "..."])
def test_a_wish_of_punctuation_alone_is_refused(shelf: Shelf, wish: str) -> None:
    with pytest.raises(RyeError, match="found only punctuation") as caught:
        shelf.search(wish)
    assert caught.value.code == "invalid_query"


@pytest.mark.parametrize("wish", ["convert a video. Then upload it to a site! And tell me", "convert video"])
def test_pages_of_a_wish_are_one_list_with_the_same_scores(shelf: Shelf, wish: str) -> None:
    for number in range(90):
        what = ("Convert a video", "Upload it to a site", "Tells time")[number % 3]
        shelf.put(f"t{number:02}", tool(f"t{number}", what + " again" * (number % 7)))
    whole = shelf.search(wish, limit=100).hits
    assert [
        hit for offset in range(0, 100, 7) for hit in shelf.search(wish, offset=offset, limit=7).hits
    ] == [*whole]
    assert {hit.space for hit in whole} == {SpaceName.PROJECT}
