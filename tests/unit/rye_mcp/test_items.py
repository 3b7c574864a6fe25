"""Item ids, extensions, comments and spaces: what an item is, before anything is read."""

import re
from contextlib import suppress
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp import items
from rye_mcp.errors import RyeError
from rye_mcp.items import (
    DEPENDENCY_MANIFEST_NAME,
    EXTENSIONS,
    ItemFile,
    ItemPlace,
    ItemType,
    Space,
    SpaceName,
    check_item_id,
    comment_style,
    is_item_id,
    parse_relative_path,
    relative_path,
)

FIRST = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
SEGMENTS = st.builds(str.__add__, st.sampled_from(FIRST), st.text(alphabet=FIRST + ".-", max_size=63)).filter(
    lambda segment: segment != "__pycache__"
)
IDS = st.lists(SEGMENTS, min_size=1, max_size=8).map("/".join)
PLACES = st.sampled_from([(kind, extension) for kind in ItemType for extension in EXTENSIONS[kind]])

GOOD_IDS = [
    "hello",
    "demo/hello",
    "rye/core/primitives/subprocess",
    "0/_/a.b-c",
    "a" * 64,
    "a..b",
    "trailing.",
    "1/2/3/4/5/6/7/8",
    "not__pycache__",
    "__pycache__2",
]
BAD_IDS = [
    "",
    ".",
    "..",
    "/",
    "a/",
    "/a",
    "a//b",
    "a/../b",
    "../a",
    "./a",
    ".hidden",
    "-option",
    "a b",
    "a\n",
    "a\x00",
    "a\\b",
    "C:/a",
    "~/a",
    "a:b",
    "*",
    "é",
    "a/ⅷ",
    "\uff0e\uff0e/a",
    "a" * 65,
    "1/2/3/4/5/6/7/8/9",
    "__pycache__",
    "demo/__pycache__/hello",
    "\ud800",
    "a" * 1_000_000,
]


@pytest.mark.parametrize("item_id", GOOD_IDS)
def test_an_item_id_is_given_back_as_it_is(item_id: str) -> None:
    assert check_item_id(item_id) == item_id
    assert is_item_id(item_id)


@pytest.mark.parametrize("item_id", [*BAD_IDS, None, 7, b"a", ["a"]], ids=lambda value: repr(value)[:30])
def test_what_is_no_item_id_is_refused_in_a_short_message(item_id: object) -> None:
    assert not is_item_id(item_id)
    with pytest.raises(RyeError) as caught:
        check_item_id(item_id)
    assert caught.value.code == "invalid_id"
    assert len(caught.value.message) < 250


@given(IDS, PLACES)
def test_ids_and_paths_are_two_forms_of_one_thing(item_id: str, place: tuple[ItemType, str]) -> None:
    item_type, extension = place
    last = item_id.rpartition("/")[2]
    if (not extension and "." in last) or last + extension == DEPENDENCY_MANIFEST_NAME:
        with pytest.raises(RyeError):
            relative_path(item_type, item_id, extension)
        return
    assert parse_relative_path(relative_path(item_type, item_id, extension)) == (
        item_type,
        item_id,
        extension,
    )


@given(st.one_of(st.text(), st.from_regex(r"(tools|directives|knowledge)/[a-z./_]+", fullmatch=True)))
def test_whatever_is_taken_as_a_path_of_an_item_is_the_path_of_that_item(path: str) -> None:
    with suppress(RyeError):
        assert relative_path(*parse_relative_path(path)) == path


@pytest.mark.parametrize(
    "path",
    [
        "hello.py",
        "tools",
        "tools/",
        "tools/.py",
        "tools/hello.txt",
        "tools/hello.md",
        "tools/hello.PY",
        "tools/../tools/hello.py",
        "tools/demo/../hello.py",
        "directives/hello.py",
        "directives/hello",
        "keys/person/private_key.pem",
        "Tools/hello.py",
        "tools/__pycache__/hello.py",
        "tools/demo/.hidden.py",
        "tools/demo/deps.manifest.yaml",
    ],
)
def test_a_path_where_no_item_can_be_is_refused(path: str) -> None:
    with pytest.raises(RyeError) as caught:
        parse_relative_path(path)
    assert caught.value.code == "invalid_id"


def test_an_extension_that_the_type_does_not_have_is_refused() -> None:
    with pytest.raises(RyeError) as caught:
        relative_path(ItemType.DIRECTIVE, "demo/hello", ".py")
    assert caught.value.code == "invalid_id"
    assert ".md" in caught.value.message


def test_every_extension_of_an_item_has_comments() -> None:
    for extensions in EXTENSIONS.values():
        for extension in extensions:
            assert comment_style(extension) is not None
            assert re.fullmatch(r"(\.[a-z]+)*", extension)


@pytest.mark.parametrize(
    ("extension", "line"),
    [
        ("", b"# text"),
        (".py", b"# text"),
        (".toml", b"# text"),
        (".mjs", b"// text"),
        (".go", b"// text"),
        (".lua", b"-- text"),
        (".sql", b"-- text"),
        (".md", b"<!-- text -->"),
        (".html", b"<!-- text -->"),
    ],
)
def test_each_language_has_its_comments(extension: str, line: bytes) -> None:
    style = comment_style(extension)
    assert style is not None
    assert style.opening + b"text" + style.closing == line


def test_a_file_that_holds_no_comment_has_no_style() -> None:
    assert comment_style(".json") is None


def test_the_project_comes_before_the_user_and_the_user_before_the_system() -> None:
    assert [space.precedence for space in SpaceName] == [3, 2, 1]
    assert Space(SpaceName.USER, Path("/home/leo/.ai")).precedence == 2


def test_the_tables_cannot_be_changed() -> None:
    for table in (items.COMMENT_STYLES, items.EXTENSIONS):
        with pytest.raises(TypeError):
            table[".exe"] = ()  # type: ignore[index]


def test_a_place_knows_its_path() -> None:
    space = Space(SpaceName.PROJECT, Path("/work/.ai"))
    assert ItemPlace(space, ItemType.TOOL, "demo/hello", ".py").path == Path("/work/.ai/tools/demo/hello.py")


def test_an_item_that_was_read_cannot_be_changed_and_does_not_show_its_bytes() -> None:
    space = Space(SpaceName.PROJECT, Path("/work/.ai"))
    file = ItemFile(
        space, ItemType.TOOL, "demo/hello", ".py", Path("/work/.ai/tools/demo/hello.py"), b"secret"
    )
    with pytest.raises(FrozenInstanceError):
        file.content = b""  # type: ignore[misc]
    assert "secret" not in repr(file)
