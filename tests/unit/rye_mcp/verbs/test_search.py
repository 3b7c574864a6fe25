"""Searching: what comes back of each hit, what is withheld or dropped, and which requests make no sense."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from rye_mcp.catalog import Catalog
from rye_mcp.items import ItemFile, ItemType, SpaceName
from rye_mcp.trust.verify import VerifiedItem
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.search import Finder, SearchRequest, SearchResult, search
from tests.catalog_twin import Prepared, Shelf, hit
from tests.trust_world import World, refused
from tests.verb_world import DIRECTIVE, RUNTIME, agent, put, tool

PROJECT, USER, SYSTEM = SpaceName.PROJECT, SpaceName.USER, SpaceName.SYSTEM
LIBRARY = b'"""Says hello to whoever imports it."""\n\n__version__ = "1.0.0"\n'

Search = Callable[..., SearchResult]


@pytest.fixture(params=["catalog", "twin"])
def look(world: World, request: pytest.FixtureRequest) -> Search:
    """Searches this world, as it is by then: with the catalog, and without an index."""

    def looking(query: str = "", **options: Any) -> SearchResult:
        context = agent(world)
        asked = SearchRequest(query, **options)
        if request.param == "twin":
            return search(asked, context, Shelf(context.spaces))
        with Catalog.open(context.spaces, world.root / "cache") as catalog:
            catalog.refresh()
            return search(asked, context, catalog)

    return looking


def found(world: World, finder: Finder, query: str = "", **options: Any) -> SearchResult:
    """A search with something that finds what it was told to."""
    return search(SearchRequest(query, **options), agent(world), finder)


def about(description: str, **more: str) -> bytes:
    """A tool that says this about itself."""
    said = "".join(f"__{name}__ = {value!r}\n" for name, value in more.items())
    return tool().replace(b'"""Says hello."""\n', f"__tool_description__ = {description!r}\n{said}".encode())


def ids(result: SearchResult) -> list[str]:
    return [shown.item_id for shown in result.results]


def test_what_comes_back_is_short(world: World, look: Search) -> None:
    put(world, about("Says hello."), signed=True)
    answer = look("hello").as_dict()
    [shown] = answer["results"]
    assert 0 < shown.pop("score") <= 1
    fingerprint = world.key().public.fingerprint
    assert shown == {
        "id": "demo/hello",
        "type": "tool",
        "space": "project",
        "description": "Says hello.",
        "signer": {"kind": "person", "owner": "leo", "fingerprint": fingerprint},
        "runnable": True,
    }
    assert {name: answer[name] for name in ("total", "offset", "limit", "query")} == {
        "total": 1,
        "offset": 0,
        "limit": 10,
        "query": "hello",
    }
    assert json.loads(json.dumps(answer)) == answer


def test_a_sentence_finds_what_has_one_of_its_words(world: World, look: Search) -> None:
    put(world, about("Convert a video to sound."), "demo/to_mp3", signed=True)
    put(world, about("Rename files."), "demo/rename", signed=True)
    assert ids(look("turn this video into an mp3 file, please!"))[0] == "demo/to_mp3"
    assert ids(look("mp3 AND rename")) == []


def test_detail_adds_the_schema_and_the_beginning_of_the_content(world: World, look: Search) -> None:
    schema = 'CONFIG_SCHEMA = {"type": "object", "properties": {"who": {"type": "string"}}}\n'
    content = tool().replace(b"\n\n\n", b"\n" + schema.encode() + b"\n\n", 1)
    put(world, content, signed=True)
    [shown] = look("hello", detail=True).as_dict()["results"]
    assert shown["detail"]["schema"]["properties"] == {"who": {"type": "string"}}
    assert shown["detail"]["executor_id"] == "rye/core/primitives/subprocess"
    assert shown["detail"]["preview"].startswith('"""Says hello."""')
    assert "rye:signed" not in shown["detail"]["preview"]


def test_a_schema_that_is_long_is_left_out_and_said_to_be(world: World, look: Search) -> None:
    schema = f'CONFIG_SCHEMA = {{"type": "object", "description": {"x" * 20_000!r}}}\n'
    put(world, tool().replace(b"\n\n\n", b"\n" + schema.encode() + b"\n\n", 1), signed=True)
    [shown] = look("hello", detail=True).as_dict()["results"]
    assert "schema" not in shown["detail"]
    assert shown["detail"]["left_out"] == ["schema"]


def test_other_types_are_searched_by_their_scope(world: World, look: Search) -> None:
    put(world, DIRECTIVE, "greet", ".md", item_type=ItemType.DIRECTIVE, signed=True)
    assert ids(look("greet", space=PROJECT)) == []
    [shown] = look("greet", scope="directive", detail=True).as_dict()["results"]
    assert (shown["type"], shown["runnable"]) == ("directive", True)
    assert shown["detail"]["preview"] == "Say hello."


@pytest.mark.thorough
@pytest.mark.each_once
@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("tool", {"demo/a", "demo/deep/b", "other/a", "other/v1.2/c"}),
        ("tool.demo.*", {"demo/a", "demo/deep/b"}),
        ("rye.search.tool.demo.*", {"demo/a", "demo/deep/b"}),
        ("tool.demo", {"demo/a", "demo/deep/b"}),
        ("tool.demo.a", {"demo/a"}),
        ("tool.*.a", {"demo/a", "other/a"}),
        ("tool.demo/deep/*", {"demo/deep/b"}),
        ("tool.other/v1.2/*", {"other/v1.2/c"}),
        ("tool.nothing.*", set()),
        ("knowledge", set()),
    ],
)
def test_a_scope_is_a_type_and_a_pattern_of_ids(
    world: World, look: Search, scope: str, expected: set[str]
) -> None:
    for item_id in ("demo/a", "demo/deep/b", "other/a", "other/v1.2/c"):
        put(world, tool(), item_id, signed=True)
    assert {item_id for item_id in ids(look(scope=scope)) if "rye/" not in item_id} == expected


def test_what_another_space_hides_is_marked_and_cannot_run(world: World, look: Search) -> None:
    put(world, about("The one that counts."), signed=True)
    put(world, about("The one behind it."), space=USER, signed=True)
    shown = {each.space: each.as_dict() for each in look("hello").results}
    assert (shown[PROJECT]["runnable"], shown[PROJECT]["shadows"]) == (True, ["user"])
    assert (shown[USER]["runnable"], shown[USER]["reason"]) == (False, "shadowed")
    assert "shadows" not in shown[USER]
    [alone] = look("hello", space=USER).results
    assert (alone.space, alone.reason) == (USER, "shadowed")


REASONS = [
    (tool(executor="nowhere"), "executor_not_found"),
    (tool(executor="demo/hello"), "executor_cycle"),
    (RUNTIME.replace(b"my_runtime", b"hello"), "not_runnable"),
]


@pytest.mark.parametrize(("content", "reason"), REASONS, ids=[reason for _, reason in REASONS])
def test_what_cannot_run_says_why(world: World, look: Search, content: bytes, reason: str) -> None:
    put(world, content, extension=".yaml" if content.startswith(b"name") else ".py", signed=True)
    [shown] = look("hello").results
    assert (shown.runnable, shown.reason) == (False, reason)
    assert shown.signer is not None


def test_a_runtime_and_a_tool_of_the_same_executor_are_told_apart(world: World, look: Search) -> None:
    put(world, RUNTIME, "demo/my_runtime", ".yaml", signed=True)
    put(world, tool(), signed=True)
    shown = {each.item_id: each.reason for each in look(scope="tool.demo").results}
    assert shown == {"demo/hello": None, "demo/my_runtime": "not_runnable"}


def test_what_rests_on_a_runtime_that_does_not_pass_cannot_run(world: World, look: Search) -> None:
    put(world, RUNTIME, "demo/my_runtime", ".yaml")
    put(world, tool(executor="demo/my_runtime"), signed=True)
    shown = {each.item_id: each for each in look(scope="tool.demo").results}
    assert shown["demo/hello"].reason == "unsigned"
    assert shown["demo/hello"].description == "Says hello."
    assert shown["demo/my_runtime"].signer is None


def test_a_library_is_no_tool(world: World, look: Search) -> None:
    put(world, LIBRARY, "demo/library", signed=True)
    put(world, tool(), signed=True)
    assert ids(look("hello")) == ["demo/hello"]


def test_what_became_a_library_is_dropped_and_not_counted(world: World) -> None:
    put(world, LIBRARY, signed=True)
    result = found(world, Prepared((hit("demo/hello"),), total=7))
    assert (result.results, result.total) == ((), 6)


def test_what_is_gone_is_dropped_and_not_counted(world: World) -> None:
    put(world, tool(), signed=True)
    result = found(world, Prepared((hit("demo/gone"), hit("demo/hello"))))
    assert (ids(result), result.total) == (["demo/hello"], 1)


def test_what_changed_is_shown_as_it_is_now(world: World) -> None:
    """The hit is of the Python file, which has meanwhile become a YAML one."""
    said = RUNTIME.replace(b"my_runtime", b"hello") + b"description: Runs things.\n"
    put(world, said, extension=".yaml", signed=True)
    [shown] = found(world, Prepared((hit("demo/hello"),))).results
    assert shown.description == "Runs things."


@pytest.mark.parametrize("score", [-1.0, 2.0, float("nan"), float("inf")])
def test_a_score_is_from_0_to_1_whatever_an_index_says(world: World, score: float) -> None:
    put(world, tool(), signed=True)
    page = Prepared((type(hit("demo/hello"))("demo/hello", ItemType.TOOL, PROJECT, ".py", score, ""),))
    [shown] = found(world, page).as_dict()["results"]
    assert 0 <= shown["score"] <= 1


def test_an_item_is_there_once_however_often_an_index_has_it(world: World) -> None:
    put(world, tool(), signed=True)
    assert ids(found(world, Prepared((hit("demo/hello"),) * 3))) == ["demo/hello"]


@pytest.mark.parametrize(
    ("description", "shown"),
    [
        ("Plain.", "Plain."),
        ("Two\nlines of\n  one paragraph.\n\nAnother one.", "Two lines of one paragraph."),
        ("a" * 300, "a" * 199 + "…"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("right\u202eleft", "right\\u202eleft"),
        ("hid\u200bden", "hid\\u200bden"),
    ],
)
def test_a_description_is_one_line_that_hides_nothing(world: World, description: str, shown: str) -> None:
    put(world, about("DESCRIPTION").replace(b"'DESCRIPTION'", ascii(description).encode()), signed=True)
    assert found(world, Prepared((hit("demo/hello"),))).results[0].description == shown


def test_pages_do_not_overlap_and_together_are_everything(world: World, look: Search) -> None:
    names = [f"demo/t{number}" for number in range(7)]
    for name in names:
        put(world, tool(), name, signed=True)
    pages = [look("hello", scope="tool.demo.*", limit=3, offset=offset) for offset in (0, 3, 6, 9)]
    assert sorted(item_id for page in pages for item_id in ids(page)) == names
    assert {page.total for page in pages} == {7}
    assert pages[3].results == ()


def test_only_suggestions_that_find_something_that_passes_are_made(world: World) -> None:
    put(world, tool(), signed=True)

    class Suggesting(Prepared):
        def search(self, query: Any, /) -> Any:
            answer = Prepared((hit("demo/hello"),)) if "hello" in repr(query.tree) else self
            return Prepared.search(answer, query)

    nothing = Suggesting((), ("hello", "obey", "(hello AND", ""))
    assert found(world, nothing, "helo").did_you_mean == ("hello",)
    assert "did_you_mean" not in found(world, Prepared(()), "helo").as_dict()


def test_a_word_that_only_an_unsigned_item_has_is_no_suggestion_however_near_it_is(
    world: World, look: Search
) -> None:
    put(world, tool(), signed=True)
    put(world, tool("hexlp()"), "demo/other")
    assert "hexlp" not in look("hexlo NOT *", fuzzy={"max_distance": 2}).did_you_mean


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"query": "AND"}, "expected a word"),
    ({"query": None}, "text as query"),
    ({"scope": "tools"}, "a scope such as tool"),
    ({"scope": "tool."}, "a scope such as tool"),
    ({"scope": ""}, "a scope such as tool"),
    ({"scope": ["tool"]}, "text as scope"),
    ({"limit": 0}, "a number from 1 to 100 as limit, found 0"),
    ({"limit": 101}, "a number from 1 to 100 as limit, found 101"),
    ({"limit": True}, "a number from 1 to 100 as limit, found True"),
    ({"limit": "10"}, "a number from 1 to 100 as limit, found '10'"),
    ({"offset": -1}, "a number from 0 to 100000 as offset"),
    ({"offset": 1.5}, "a number from 0 to 100000 as offset"),
    ({"sort_by": "size"}, "one of score, name, date as sort_by, found 'size'"),
    ({"fields": ["nmae"]}, "fields of name, title"),
    ({"fields": "name"}, "a list of some of name, title"),
    ({"fields": []}, "a list of some of name, title"),
    ({"filters": {"size": "1"}}, "filters by category, executor_id"),
    ({"filters": ["name"]}, "an object with values for some of category"),
    ({"filters": {"name": 1}}, "text as filter name"),
    ({"filters": {"tags": [["a"]]}}, "text as filter tags"),
    ({"filters": {"tags": ["a"] * 65}}, "at most 64 values"),
    ({"filters": {"tags": "a" * 4097}}, "at most 4096 characters"),
    ({"fuzzy": 1}, "true, false or"),
    ({"fuzzy": {"max_distance": 3}}, "true, false or"),
    ({"fuzzy": {"max_distance": True}}, "true, false or"),
    ({"fuzzy": {"max_distance": 1, "more": 1}}, "true, false or"),
    ({"fuzzy": {}}, "true, false or"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=str)
def test_a_request_that_makes_no_sense_is_refused(
    world: World, options: dict[str, Any], message: str
) -> None:
    error = refused("invalid_query", lambda: found(world, Prepared(()), **options))
    assert message in error.message
    assert error.hint


def test_a_scope_holds_only_what_an_id_holds(world: World) -> None:
    for scope in ("tool.../x", "tool./etc/*", "tool.demo;*", "tool.demo.*\n", "tool." + "a" * 520):
        refused("invalid_id", lambda: found(world, Prepared(()), scope=scope))  # noqa: B023


@pytest.mark.parametrize(
    ("fuzzy", "distance"), [(False, 0), (True, 1), ({"max_distance": 1}, 1), ({"max_distance": 2}, 2)]
)
def test_the_catalog_is_asked_what_was_asked_for(world: World, fuzzy: Any, distance: int) -> None:
    asked: list[Any] = []

    class Listening(Prepared):
        def search(self, query: Any, /) -> Any:
            asked.append(query)
            return Prepared.search(self, query)

    options = {"filters": {"tags": ["a", "b"], "category": "c"}, "fields": ["name", "name", "tags"]}
    found(world, Listening(()), "x", fuzzy=fuzzy, limit=5, offset=2, sort_by="date", **options)
    [query] = asked
    assert (query.fuzzy, query.sort_by) == (distance, "date")
    assert query.offset == 0, "what does not pass comes last, so that all before the page are looked at"
    assert query.limit >= 7
    assert query.fields == ("name", "tags")
    assert query.filters == {"tags": ("a", "b"), "category": "c"}
    assert query.spaces == (PROJECT, USER, SYSTEM)


def test_without_a_project_the_other_spaces_are_searched(world: World) -> None:
    put(world, tool(), space=USER, signed=True)
    context = agent(world)
    spaces = type(context.spaces)(None, context.spaces.user, context.spaces.system)
    context = type(context)(spaces, context.trust, context.keys)
    assert ids(search(SearchRequest("hello"), context, Shelf(spaces))) == ["demo/hello"]
    refused("no_project", lambda: search(SearchRequest(space=PROJECT), context, Shelf(spaces)))


def test_what_runs_many_tools_is_looked_at_once(world: World) -> None:
    hits = tuple(hit(f"demo/t{number}") for number in range(5))
    for each in hits:
        put(world, tool(), each.item_id, signed=True)
    verified: list[str] = []

    class Counting(Context):
        def verify(self, file: ItemFile) -> VerifiedItem:
            verified.append(file.item_id)
            return super().verify(file)

    context = agent(world)
    search(SearchRequest(), Counting(context.spaces, context.trust, context.keys), Prepared(hits))
    assert sorted(verified) == [*(each.item_id for each in hits), "rye/core/primitives/subprocess"]


def test_looking_at_ten_hits_takes_little(world: World) -> None:
    hits = tuple(hit(f"demo/t{number}") for number in range(10))
    for each in hits:
        put(world, tool(), each.item_id, signed=True)
    context = agent(world)
    times = []
    for _ in range(20):
        started = time.process_time()
        search(SearchRequest("hello"), context, Prepared(hits))
        times.append(time.process_time() - started)
    assert sorted(times)[0] < 0.02
