"""Which items a pattern means."""

from __future__ import annotations

import fnmatch
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.items import MAX_ID_SEGMENTS, ItemType, SpaceName
from rye_mcp.verbs._selection import MAX_PATTERN, is_pattern, matches, select
from tests.trust_world import World, refused
from tests.verb_world import person, put, tool


@pytest.mark.parametrize(
    ("pattern", "item_id", "expected"),
    [
        ("demo/*", "demo/hello", True),
        ("demo/*", "demo/deep/er", True),
        ("demo/*", "demo", False),
        ("demo/*", "demon/hello", False),
        ("*", "anything/at/all", True),
        ("*/hello", "demo/hello", True),
        ("*/hello", "hello", False),
        ("demo/h?llo", "demo/hello", True),
        ("demo/h?llo", "demo/hllo", False),
        ("de*lo", "demo/hello", True),
        ("de*l", "demo/hello", False),
        ("demo/hello", "demo/hello", True),
        ("demo/hello", "demo/hellos", False),
        ("a*b*c", "aXbXbXc", True),
        ("**", "x", True),
        ("?", "", False),
    ],
)
def test_what_matches(pattern: str, item_id: str, expected: bool) -> None:
    assert matches(pattern, item_id) is expected


@given(st.text("ab/*?", max_size=12), st.text("ab/", max_size=12))
def test_it_matches_what_a_shell_pattern_without_brackets_does(pattern: str, item_id: str) -> None:
    assert matches(pattern, item_id) is fnmatch.fnmatchcase(item_id, pattern)


def test_no_pattern_takes_long() -> None:
    pattern = ("a*" * MAX_PATTERN)[: MAX_PATTERN - 1] + "b"
    started = time.process_time()
    for _ in range(100):
        assert not matches(pattern, "a" * 64 * MAX_ID_SEGMENTS)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(("text", "expected"), [("demo/*", True), ("h?", True), ("demo/hello", False)])
def test_an_id_is_no_pattern(text: str, expected: bool) -> None:
    assert is_pattern(text) is expected


def test_what_only_looks_like_an_item_is_selected_as_its_error(world: World) -> None:
    put(world, tool())
    (world.project / ".ai/tools/demo/link.py").symlink_to("hello.py")
    (world.project / ".ai/tools/other").mkdir()
    (world.project / ".ai/tools/other/link.py").symlink_to("../demo/hello.py")
    spaces = person(world).spaces
    found = select(spaces, "demo/*", names=[SpaceName.PROJECT], types=[ItemType.TOOL])
    assert [place.item_id for place in found.places] == ["demo/hello"]
    assert [(each.item_id, each.error.code) for each in found.refused] == [("demo/link", "unsafe_path")]


def test_what_is_no_item_is_not_selected(world: World) -> None:
    put(world, tool())
    for name in ("secret.txt", ".hidden.py", "__pycache__/hello.py", "plain"):
        path = world.project / ".ai/tools/demo" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("nothing to see", encoding="utf-8")
    found = select(person(world).spaces, "*", names=[SpaceName.PROJECT], types=list(ItemType))
    assert [place.item_id for place in found.places] == ["demo/hello"]
    assert not found.refused


@pytest.mark.parametrize(
    "pattern", ["../*", "/etc/*", "demo//*", "demo/.*", "de mo*", "demo/*\n", "[a]*", "~*"]
)
def test_what_no_id_could_match_is_refused(world: World, pattern: str) -> None:
    spaces = person(world).spaces
    refused("invalid_id", lambda: select(spaces, pattern, names=[SpaceName.PROJECT], types=[ItemType.TOOL]))
