"""Searching: what comes first, what a page is, what narrows a search, what stays as fresh as the files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.catalog import Catalog, Hit, SearchQuery
from rye_mcp.items import ItemPlace, ItemType, SpaceName
from rye_mcp.queries import parse
from tests.catalog_world import Shelf, tool

WRITTEN_AT_ONCE = 2_000
"""How many changes an index writes at once."""


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf.in_directory(tmp_path)


@pytest.fixture
def media(shelf: Shelf) -> Shelf:
    shelf.put(
        "media/convertToMP3", tool("convertToMP3", "Convert a video file to MP3", __category__="media/audio")
    )
    shelf.put("media/upload", tool("uploadVideo", "Upload a video to a site", __tags__=["web", "video"]))
    shelf.put("text/summarize", tool("summarize", "Summarises long articles", body="uses a transducer"))
    shelf.put("text/translate", tool("translate_text", "Translates text between languages"))
    return shelf


def test_a_sentence_finds_the_tool_that_it_is_about(media: Shelf) -> None:
    assert media.ids("turn this video into an mp3 file")[0] == "media/convertToMP3"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("converting", ["media/convertToMP3"]),
        ("convertToMP3", ["media/convertToMP3"]),
        ("transducer", ["text/summarize"]),
        ("translate_text", ["text/translate", "text/summarize"]),
        ("video AND upload", ["media/upload"]),
        ("video NOT upload", ["media/convertToMP3"]),
        ('"long articles"', ["text/summarize"]),
        ("langu*", ["text/translate"]),
        ("name:video", ["media/upload"]),
        ("id:media AND mp3", ["media/convertToMP3"]),
        ("tags:web", ["media/upload"]),
        ("NEAR(upload site, 4)", ["media/upload"]),
        ("NEAR(upload site, 3)", []),
        ("the", []),
        ("absent", []),
        ("absent OR NOT video", ["text/summarize", "text/translate"]),  # nothing to compare them by
        ("subprocess", []),  # what an item says about how it runs is not what it is about
    ],
)
def test_what_is_written_is_found_where_it_stands(media: Shelf, query: str, found: list[str]) -> None:
    assert media.ids(query) == found


def test_a_word_is_found_with_and_without_its_sign(media: Shelf) -> None:
    media.put("shop/label", tool("label", "Prints Marvel™ labels in \u2102"))
    for query in ("marvel", "Marvel™", '"Marvel™ labels"', "marv*", "labels", "\u2102"):
        assert media.ids(query) == ["shop/label"]


def test_everything_is_in_the_order_of_ids(media: Shelf) -> None:
    page = media.search("*")
    assert [hit.item_id for hit in page.hits] == sorted(hit.item_id for hit in page.hits)
    assert page.total == 4
    assert {hit.score for hit in page.hits} == {1.0}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"filters": {"category": "media/audio"}}, ["media/convertToMP3"]),
        ({"filters": {"category": "MEDIA/AUDIO"}}, ["media/convertToMP3"]),
        ({"filters": {"tags": "video"}}, ["media/upload"]),
        ({"filters": {"tags": "vide"}}, []),
        ({"filters": {"tags": ("video", "other")}}, ["media/upload"]),
        ({"filters": {"version": "2.0.0"}}, []),
        ({"filters": {"colour": "red"}}, []),
        ({"id_patterns": ("text/*",)}, ["text/summarize", "text/translate"]),
        ({"id_patterns": ("text/s*", "*upload")}, ["media/upload", "text/summarize"]),
        ({"id_patterns": ("t?xt/translate",)}, ["text/translate"]),
        ({"id_patterns": ("[mt]*",)}, []),
        ({"item_types": (ItemType.DIRECTIVE,)}, []),
        ({"spaces": (SpaceName.USER,)}, []),
    ],
)
def test_a_search_is_narrowed(media: Shelf, options: dict[str, Any], found: list[str]) -> None:
    page = media.search("*", **options)
    assert [hit.item_id for hit in page.hits] == found
    assert page.total == len(found)
    words = media.search("convert upload articles text", **options)
    assert sorted(hit.item_id for hit in words.hits) == found


def test_fields_narrow_where_words_are_looked_for(media: Shelf) -> None:
    assert media.ids("video", fields=("name",)) == ["media/upload"]
    assert media.ids("video AND site", fields=("name",)) == []


def test_types_of_items_are_told_apart(shelf: Shelf) -> None:
    shelf.put("greet", tool("greet", "Greets somebody"))
    text = b"---\nname: greet\ntitle: A greeting\ndescription: Greets somebody.\n---\nSay hello.\n"
    shelf.ground.write("project", "directives/greet.md", text)
    shelf.ground.write("project", "knowledge/hello.md", b"How to greet.\n")
    skill = b"---\nname: meet\ndescription: Greets somebody.\n---\nSay hello.\n"
    shelf.ground.write("project", "skills/meet/SKILL.md", skill)
    kinds = {hit.item_type for hit in shelf.search("greet", item_types=tuple(ItemType)).hits}
    assert kinds == set(ItemType)
    directive = shelf.search("title:greeting", item_types=(ItemType.DIRECTIVE,)).hits
    assert [hit.item_id for hit in directive] == ["greet"]
    assert shelf.search("version OR description", item_types=(ItemType.DIRECTIVE,)).total == 0


def test_parameters_are_found_by_their_names_and_descriptions(shelf: Shelf) -> None:
    schema = {
        "type": "object",
        "properties": {
            "outputFormat": {"type": "string", "description": "a codec"},
            "options": {"type": "object", "properties": {"bit_rate": {"type": "integer"}}},
        },
    }
    shelf.put("encode", tool("encode", "Encodes", CONFIG_SCHEMA=schema))
    for query in ("parameters:format", "parameters:outputFormat", "parameters:codec", "parameters:bit"):
        assert shelf.ids(query) == ["encode"], query
    assert shelf.ids("body:codec") == []


def test_libraries_are_nothing_to_search_for(shelf: Shelf) -> None:
    shelf.put("helpers", b'__version__ = "1.0.0"\n\n\ndef helper():\n    """Converts."""\n')
    assert shelf.ids("converts") == []


def test_an_item_that_says_something_wrong_is_found_by_its_id_and_its_body(shelf: Shelf) -> None:
    shelf.put("broken_thing", b'__version__ = 1\n__executor_id__ = "x"\n\n\ndef main():\n    sprocket()\n')
    assert shelf.ids("broken") == shelf.ids("sprocket") == ["broken_thing"]


def many(shelf: Shelf, count: int) -> None:
    for number in range(count):
        shelf.put(f"many/t{number:03}", tool(f"t{number:03}", "convert " * (number % 5) + "files with care"))


@pytest.mark.first_case
@pytest.mark.parametrize("query", ["convert files", "files", "*", "files NOT t007", "t0*"])
@pytest.mark.parametrize("sort_by", ["score", "name", "date"])
def test_pages_put_together_are_one_list_with_the_same_scores(shelf: Shelf, query: str, sort_by: Any) -> None:
    many(shelf, 250)  # more than are compared as a whole
    with shelf.open() as catalog:
        catalog.refresh()

        def page(offset: int, limit: int) -> Sequence[Hit]:
            return catalog.search(SearchQuery(parse(query), offset=offset, limit=limit, sort_by=sort_by)).hits

        whole = page(0, 300)
        assert [hit for offset in range(0, 300, 40) for hit in page(offset, 40)] == list(whole)
        assert len({hit.item_id for hit in whole}) == len(whole) > 90
        if sort_by == "score":
            assert [hit.score for hit in whole] == sorted((hit.score for hit in whole), reverse=True)


def test_names_in_any_letters_are_on_one_page_each(shelf: Shelf) -> None:
    names = ["Äb", "äa", "Zoo", "apple", "Éclair", "éa", "ßx", "İs", "ss"]
    for number, name in enumerate(names):
        shelf.put(f"t{number}", tool(name, "does"), space=("project", "user")[number % 2])
    pages = [shelf.ids("*", sort_by="name", offset=offset, limit=1) for offset in range(len(names))]
    assert [hit for page in pages for hit in page] == shelf.ids("*", sort_by="name", limit=100)
    assert shelf.ids("*", sort_by="name", limit=2) == ["t3", "t8"]


def test_the_order_does_not_depend_on_when_items_were_indexed(tmp_path: Path) -> None:
    found: list[list[tuple[str, float]]] = []
    for order in (range(230), reversed(range(230))):
        shelf = Shelf.in_directory(tmp_path / str(len(found)))
        with shelf.open() as catalog:
            for number in order:
                shelf.put(f"same/t{number:03}", tool("same", "does the same thing"))
                if number % 50 == 0:
                    catalog.refresh()
            catalog.refresh()
            page = catalog.search(SearchQuery(parse("same thing"), limit=230))
            found.append([(hit.item_id, hit.score) for hit in page.hits])
    assert found[0] == found[1]
    assert len(found[0]) == 230


def test_spaces_are_weighed_by_one_measure_and_what_is_shadowed_is_found_too(shelf: Shelf) -> None:
    shelf.put("convert", tool("convert", "Converts"), space="user")
    shelf.put("convert", tool("convert", "Converts"))
    for number in range(20):
        shelf.put(f"other{number}", tool(f"other{number}", "does something else"), space="user")
    hits = shelf.search("convert").hits
    assert [(hit.item_id, hit.space) for hit in hits] == [
        ("convert", SpaceName.PROJECT),
        ("convert", SpaceName.USER),
    ]
    assert hits[0].score == 1.0
    assert 0.95 < hits[1].score < 1.0  # only the space makes a difference


@pytest.mark.parametrize(
    ("word", "distance", "found"),
    [
        ("convrt", 1, True),
        ("covnert", 1, True),
        ("konvert", 1, True),
        ("convertt", 1, True),
        ("konvrt", 1, False),
        ("konvrt", 2, True),
        ("knvrt", 2, False),
        ("summarise", 2, True),
        ("mp4", 1, True),
        ("zz", 2, False),
    ],
)
def test_a_misspelt_word_is_found_as_far_as_it_was_asked_for(
    media: Shelf, word: str, distance: Any, found: bool
) -> None:
    assert media.ids(word) == [] or word == "summarise"
    assert bool(media.ids(word, fuzzy=distance)) is found


def test_what_was_perhaps_meant_is_said_when_nothing_is_found(media: Shelf) -> None:
    page = media.search("convrt")
    assert page.hits == ()
    assert page.did_you_mean == ("convert",)
    assert media.search("video").did_you_mean == ()
    assert media.search("qqqqqqq").did_you_mean == ()


# --- as fresh as the files ---


def test_a_change_is_found_and_what_was_there_before_is_not(shelf: Shelf) -> None:
    with shelf.open() as catalog:

        def ids(query: str) -> list[str]:
            catalog.refresh()
            return [hit.item_id for hit in catalog.search(SearchQuery(parse(query))).hits]

        path = shelf.put("one", tool("one", "first words"))
        assert ids("first") == ["one"]
        path.write_bytes(tool("one", "other words"))
        assert ids("first") == []
        assert ids("other") == ["one"]
        path.rename(path.with_name("two.py"))
        assert ids("other") == ["two"]
        path.with_name("two.py").unlink()
        assert ids("other") == []


def test_a_change_within_one_tick_of_the_clock_is_found(shelf: Shelf) -> None:
    with shelf.open() as catalog:
        path = shelf.put("one", tool("one", "alpha"))
        for word in ("gamma", "delta", "theta", "kappa", "sigma", "omega"):
            catalog.refresh()
            with path.open("r+b") as file:
                file.write(tool("one", word))
            os.utime(path, ns=(0, 10**18))
            catalog.refresh()
            assert catalog.search(SearchQuery(parse(word))).total == 1, word


def test_a_file_whose_time_cannot_tell_is_looked_at_every_time(shelf: Shelf) -> None:
    settled, path = shelf.put("settled", tool("settled")), shelf.put("one", tool("one", "alpha"))
    os.utime(path, ns=(2 * 10**18, 2 * 10**18))  # in the future, as by a clock that was wrong
    with shelf.open() as catalog:
        catalog.refresh()
        wait_until_settled(catalog, but_for=1)
        looked: list[int] = []
        catalog.refresh(lambda _, total: looked.append(total))
        assert looked == [1]
        assert settled.exists()


def test_a_word_that_no_item_has_any_more_is_not_suggested(shelf: Shelf) -> None:
    path = shelf.put("one", tool("one", "zeppelin"))
    with shelf.open() as catalog:
        catalog.refresh()
        assert catalog.search(SearchQuery(parse("zepelin"))).did_you_mean == ("zeppelin",)
        path.write_bytes(tool("one", "airship"))
        catalog.refresh()
        assert catalog.search(SearchQuery(parse("zepelin"))).did_you_mean == ()


def test_one_changed_file_updates_one_row(shelf: Shelf) -> None:
    many(shelf, 30)
    done: list[int] = []
    with shelf.open() as catalog:
        catalog.refresh(lambda number, _: done.append(number))
        assert sum(done) >= 30
        for path in shelf.ground.space("project").rglob("*.py"):
            os.utime(path, ns=(10**18 + 1, 10**18 + 1))
        wait_until_settled(catalog)
        done.clear()
        shelf.put("many/t007", tool("t007", "something new"))
        catalog.refresh(lambda number, _: done.append(number))
        assert done == [1]


def test_what_somebody_else_has_indexed_is_not_looked_at_again(shelf: Shelf) -> None:
    paths = [shelf.put(f"t{number}", tool(f"t{number}", "shared")) for number in range(3)]
    looked: list[int] = []
    with shelf.open() as one, shelf.open() as other:
        for catalog in (one, other):
            catalog.refresh()
            wait_until_settled(catalog)
        paths[0].write_bytes(tool("t0", "novelty shared"))
        paths[1].unlink()
        one.refresh()
        wait_until_settled(one)
        other.refresh(lambda _, total: looked.append(total))
        assert looked == []
        assert [hit.item_id for hit in other.search(SearchQuery(parse("novelty"))).hits] == ["t0"]
        assert other.search(SearchQuery(parse("shared"))).total == 2


def test_what_somebody_else_indexes_meanwhile_is_counted_once(shelf: Shelf) -> None:
    many(shelf, 150)
    with shelf.open() as one, shelf.open() as other, shelf.open_anew() as anew:
        one.refresh(lambda done, total: other.refresh() if done < total else None)
        anew.refresh()
        queries = [SearchQuery(parse(text)) for text in ("*", "t001", "common", "t9*")]
        assert [one.search(query) for query in queries] == [anew.search(query) for query in queries]
        require_texts_as_indexed(one)


@pytest.mark.thorough
def test_what_is_more_than_is_written_at_once_is_counted_as_one(shelf: Shelf) -> None:
    many(shelf, WRITTEN_AT_ONCE + 5)
    with shelf.open() as catalog, shelf.open_anew() as anew:
        catalog.refresh()
        assert catalog.search(SearchQuery(parse("*"))).total == WRITTEN_AT_ONCE + 5
        require_texts_as_indexed(catalog)
        gone = sorted(shelf.ground.space("project").rglob("*.py"))[3:]
        for path in gone:
            path.unlink()
        for each in (catalog, anew):
            each.refresh()
        queries = [SearchQuery(parse(text)) for text in ("*", "t001", "common", "t9*")]
        assert [catalog.search(query) for query in queries] == [anew.search(query) for query in queries]
        assert catalog.search(queries[0]).total == 3
        require_texts_as_indexed(catalog)


def require_texts_as_indexed(catalog: Catalog) -> None:
    """SQLite compares its full-text table with the texts, and raises when one has more or less."""
    check = "INSERT INTO words(words, rank) VALUES ('integrity-check', 1)"
    for index in catalog._indexes:
        index.ask(lambda engine: engine.database.execute(check))


def wait_until_settled(catalog: Catalog, *, but_for: int = 0) -> None:
    """Until no more than these files have to be looked at once more."""
    looked = [but_for + 1]
    while max(looked, default=0) > but_for:
        looked.clear()
        catalog.refresh(lambda _, total: looked.append(total))


def test_a_caller_that_knows_of_a_change_can_say_so(shelf: Shelf) -> None:
    with shelf.open() as catalog:
        catalog.refresh()
        path = shelf.put("demo/one", tool("one", "words"))
        shelf.put("demo/unsaid", tool("unsaid", "words"))
        place = ItemPlace(shelf.ground.as_space(SpaceName.PROJECT), ItemType.TOOL, "demo/one", ".py")
        catalog.note_changed(place)
        assert [hit.item_id for hit in catalog.search(SearchQuery(parse("words"))).hits] == ["demo/one"]
        path.unlink()
        catalog.note_changed(place)
        assert catalog.search(SearchQuery(parse("words"))).total == 0


def test_a_file_whose_name_is_no_text_keeps_nobody_from_finding_others(shelf: Shelf) -> None:
    directory = shelf.put("demo/hello", tool("hello", "greet")).parent
    (directory / "no text \udcff.py").write_bytes(tool("other", "greet"))
    assert shelf.ids("greet") == ["demo/hello"]


def test_a_space_that_vanishes_has_nothing_in_it(media: Shelf) -> None:
    with media.open() as catalog:
        catalog.refresh()
        media.ground.space("project").rename(media.ground.root / "elsewhere")
        catalog.refresh()
        assert catalog.search(SearchQuery(parse("*"))).total == 0


# --- seams ---


@dataclass(frozen=True)
class Disturbing:
    """Knows what words mean, and takes its time, in which somebody else writes to the index."""

    shelf: Shelf
    identity = "disturbing"

    def of_items(self, items: Sequence[Mapping[str, str]]) -> list[bytes]:
        return [b"" for _ in items]

    def of_text(self, text: str, words: Sequence[str]) -> bytes:
        self.shelf.put("media/later", tool("later", "Comes while others are searching for a video"))
        with Catalog.open(self.shelf.ground.spaces, self.shelf.cache, meaning=lambda _: self) as other:
            other.refresh()
            assert other.search(SearchQuery(parse("comes"))).total == 1
        return b""


def test_a_search_sees_one_state_of_the_index_whatever_is_written_meanwhile(media: Shelf) -> None:
    disturbing = Disturbing(media)
    with Catalog.open(media.ground.spaces, media.cache, meaning=lambda _: disturbing) as catalog:
        catalog.refresh()
        page = catalog.search(SearchQuery(parse("video"), wish="video"))
    assert len(page.hits) == page.total == 2
    assert media.search("video").total == 3
