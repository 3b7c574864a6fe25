"""From an id to a file: precedence, shadowing, what an item may see, bare names, and being sure which one."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.errors import RyeError
from rye_mcp.items import EXTENSIONS, ItemPlace, ItemType, SpaceName
from rye_mcp.spaces import Spaces
from tests.space_helpers import Ground, refused


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground.in_directory(tmp_path)


def test_an_item_is_found_with_its_bytes_and_where_they_come_from(ground: Ground) -> None:
    path = ground.write("project", "tools/demo/hello.py", b"print()\n")
    item = ground.spaces.find("demo/hello").item
    assert (item.space.name, item.item_type, item.item_id) == (SpaceName.PROJECT, ItemType.TOOL, "demo/hello")
    assert (item.extension, item.path, item.content) == (".py", path, b"print()\n")


def test_the_project_wins_over_the_user_and_the_user_over_the_system(ground: Ground) -> None:
    paths = [ground.write(space, "tools/demo/hello.py") for space in ("project", "user", "system")]
    found = ground.spaces.find("demo/hello")
    assert [found.item.path, *(place.path for place in found.shadowed)] == paths
    paths[0].unlink()
    found = ground.spaces.find("demo/hello")
    assert [found.item.path, *(place.path for place in found.shadowed)] == paths[1:]
    paths[1].unlink()
    assert ground.spaces.find("demo/hello").shadowed == ()


def test_what_is_shadowed_may_have_another_extension_and_be_ambiguous_itself(ground: Ground) -> None:
    ground.write("project", "tools/demo/hello.py")
    below = [ground.write("user", f"tools/demo/hello{extension}") for extension in (".yaml", ".sh")]
    assert [place.path for place in ground.spaces.find("demo/hello").shadowed] == below


@pytest.mark.parametrize(
    ("seen_from", "sees"),
    [
        (None, ["project", "user", "system"]),
        (SpaceName.PROJECT, ["project", "user", "system"]),
        (SpaceName.USER, ["user", "system"]),
        (SpaceName.SYSTEM, ["system"]),
    ],
)
def test_an_item_sees_its_own_space_and_those_below_it(
    ground: Ground, seen_from: SpaceName | None, sees: list[str]
) -> None:
    for space in ("project", "user", "system"):
        ground.write(space, "tools/demo/hello.py")
        ground.write(space, f"tools/only/{space}.py")
    found = ground.spaces.find("demo/hello", seen_from=seen_from)
    assert [str(found.item.space.name), *(str(place.space.name) for place in found.shadowed)] == sees
    for space in {"project", "user", "system"} - set(sees):
        with refused("item_not_found"):
            ground.spaces.find(f"only/{space}", seen_from=seen_from)
        with refused("item_not_found"):
            ground.spaces.find_executor(space, seen_from=seen_from)


def test_one_space_can_be_asked_for(ground: Ground) -> None:
    for space in ("project", "user", "system"):
        ground.write(space, "tools/demo/hello.py", space.encode())
    for name in SpaceName:
        found = ground.spaces.find("demo/hello", only=name)
        assert found.item.content == str(name).encode()
        assert found.shadowed == ()


def test_an_item_that_is_nowhere_is_an_error_that_names_where_it_was_looked_for(ground: Ground) -> None:
    with refused("item_not_found") as caught:
        ground.spaces.find("demo/hello")
    for name in SpaceName:
        assert str(ground.space(name) / "tools") in caught.value.message


def test_types_have_their_own_directories(ground: Ground) -> None:
    ground.write("project", "directives/demo/hello.md", b"directive")
    ground.write("project", "knowledge/demo/hello.md", b"knowledge")
    ground.write("project", "tools/demo/hello.md", b"no tool")
    assert ground.spaces.find("demo/hello", ItemType.DIRECTIVE).item.content == b"directive"
    assert ground.spaces.find("demo/hello", ItemType.KNOWLEDGE).item.content == b"knowledge"
    with refused("item_not_found"):
        ground.spaces.find("demo/hello")


@pytest.mark.parametrize("extension", EXTENSIONS[ItemType.TOOL])
def test_every_extension_of_a_tool_is_found(ground: Ground, extension: str) -> None:
    ground.write("project", f"tools/demo/hello{extension}", b"#!/bin/sh\n")
    assert ground.spaces.find("demo/hello").item.extension == extension


def test_one_id_for_two_files_is_an_error_that_names_both(ground: Ground) -> None:
    paths = [ground.write("project", f"tools/demo/hello{extension}") for extension in (".sh", ".py")]
    with refused("ambiguous_item") as caught:
        ground.spaces.find("demo/hello")
    assert all(str(path) in caught.value.message for path in paths)
    assert set(caught.value.details["candidates"]) == {str(path) for path in paths}


def test_a_file_without_extension_is_an_item_when_it_begins_with_a_shebang(ground: Ground) -> None:
    ground.write("project", "tools/demo/yes", b"#!/bin/sh\n")
    ground.write("project", "tools/demo/no", b"# !/bin/sh\n")
    ground.write("project", "tools/demo/v1.2", b"#!/bin/sh\n")
    assert ground.spaces.find("demo/yes").item.extension == ""
    for item_id in ("demo/no", "demo/v1.2"):
        with refused("item_not_found"):
            ground.spaces.find(item_id)
    ground.write("project", "tools/demo/yes.py")
    with refused("ambiguous_item"):
        ground.spaces.find("demo/yes")


def test_a_file_without_extension_that_is_no_item_is_in_nobodys_way(ground: Ground) -> None:
    ground.write("project", "tools/demo/hello", b"just notes\n")
    ground.write("project", "tools/demo/hello.py")
    (ground.space("project") / "tools/demo/other").mkdir()
    ground.write("project", "tools/demo/other.py")
    assert ground.spaces.find("demo/hello").item.extension == ".py"
    assert ground.spaces.find("demo/other").item.extension == ".py"


def test_what_lists_the_files_of_a_tool_is_no_item(ground: Ground) -> None:
    ground.write("project", "tools/demo/deps.manifest.yaml")
    with refused("item_not_found"):
        ground.spaces.find("demo/deps.manifest")
    path = ground.write("project", "tools/demo/deps.manifest.py")
    assert ground.spaces.find("demo/deps.manifest").item.path == path


def test_a_file_where_a_directory_would_be_is_no_item(ground: Ground) -> None:
    ground.write("project", "tools/demo", b"a file\n")
    with refused("item_not_found"):
        ground.spaces.find("demo/hello")


# --- bare names --------------------------------------------------------------------------------------------


def test_an_executor_is_found_by_its_whole_id_before_it_is_by_its_name(ground: Ground) -> None:
    ground.write("project", "tools/deep/inside/git.py", b"by name")
    whole = ground.write("system", "tools/git.py", b"by id")
    assert ground.spaces.find_executor("git").item.path == whole
    whole.unlink()
    assert ground.spaces.find_executor("git").item.content == b"by name"
    assert ground.spaces.find_executor("deep/inside/git").item.content == b"by name"
    with refused("item_not_found"):
        ground.spaces.find_executor("inside/git")


def test_a_bare_name_is_looked_for_by_precedence_and_reports_what_it_shadows(ground: Ground) -> None:
    low = ground.write("user", "tools/tools/git.yaml")
    high = ground.write("project", "tools/mine/git.py")
    found = ground.spaces.find_executor("git")
    assert (found.item.path, found.item.item_id) == (high, "mine/git")
    assert [place.path for place in found.shadowed] == [low]


@pytest.mark.parametrize("space", ["project", "user", "system"])
def test_a_bare_name_of_several_files_in_one_space_is_an_error_that_names_them(
    ground: Ground, space: str
) -> None:
    paths = [ground.write(space, f"tools/{place}/git.py") for place in ("one", "two")]
    with refused("ambiguous_item") as caught:
        ground.spaces.find_executor("git")
    assert all(str(path) in caught.value.message for path in paths)


def test_names_are_not_looked_for_when_an_item_is_asked_for_by_id(ground: Ground) -> None:
    ground.write("project", "tools/deep/git.py")
    with refused("item_not_found"):
        ground.spaces.find("git")


def test_the_system_space_of_the_package_is_found_through_its_link() -> None:
    found = Spaces.locate().find_executor("subprocess")
    assert found.item.item_id == "rye/core/primitives/subprocess"
    assert found.item.space.name is SpaceName.SYSTEM
    assert ".ai" in found.item.path.parts
    assert not found.item.space.root.is_symlink()


# --- reading what was listed -------------------------------------------------------------------------------


def test_what_was_listed_is_read_as_it_is_now(ground: Ground) -> None:
    path = ground.write("project", "tools/demo/hello.py", b"before")
    (place,) = ground.spaces.list(SpaceName.PROJECT).items
    path.write_bytes(b"after")
    assert ground.spaces.read(place).content == b"after"
    path.unlink()
    with refused("item_not_found"):
        ground.spaces.read(place)


def test_a_place_that_no_item_can_have_is_not_read(ground: Ground) -> None:
    space = ground.as_space(SpaceName.PROJECT)
    with refused("invalid_id", ground):
        ground.spaces.read(ItemPlace(space, ItemType.TOOL, "../../../canary", ".py"))


@given(
    st.lists(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True), min_size=1, max_size=8),
    st.sampled_from(EXTENSIONS[ItemType.TOOL]),
)
def test_what_is_written_where_an_id_says_is_found_by_that_id(
    tmp_path_factory: pytest.TempPathFactory, segments: list[str], extension: str
) -> None:
    if (
        "__pycache__" in segments
        or (not extension and "." in segments[-1])
        or segments[-1] == "deps.manifest"
    ):
        return
    ground = Ground.in_directory(tmp_path_factory.mktemp("ground"))
    item_id = "/".join(segments)
    path = ground.write("project", f"tools/{item_id}{extension}", b"#!/bin/sh\n")
    found = ground.spaces.find(item_id)
    assert (found.item.path, found.item.item_id, found.item.extension) == (path, item_id, extension)
    assert [place.path for place in ground.spaces.list(SpaceName.PROJECT).items] == [path]


def test_a_search_without_a_project_says_so(ground: Ground) -> None:
    nowhere = Spaces.locate(None, user=ground.root / "user", system=ground.root / "system/.ai")
    for spaces, says_so in ((nowhere, True), (ground.spaces, False)):
        with refused("item_not_found") as caught:
            spaces.find("demo/none")
        assert ("no project here" in str(caught.value.hint)) == says_so


def test_an_id_is_checked_before_anything_is_looked_at(ground: Ground) -> None:
    with pytest.raises(RyeError) as caught:
        ground.spaces.find("../canary")
    assert caught.value.code == "invalid_id"


SEGMENT = st.sampled_from(["a", "A", "b", "x.y", "__pycache__", ".hidden"])
ENDING = st.sampled_from(["", ".py", ".sh", ".txt", ".PY"])
KIND = st.sampled_from(["file", "shebang", "link", "fifo", "directory"])
ENTRY = st.tuples(st.lists(SEGMENT, min_size=1, max_size=3), ENDING, KIND)


def put(path: Path, kind: str) -> None:
    """Put something of a kind at a path, unless something is there, or in its way."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "link":
            path.symlink_to("/dev/null")
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "directory":
            path.mkdir()
        else:
            with path.open("xb") as file:
                file.write(b"#!/bin/sh\n" if kind == "shebang" else b"text\n")


@given(st.lists(ENTRY, max_size=8))
def test_what_is_listed_is_what_is_found(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[list[str], str, str]]
) -> None:
    """Walking and probing are two ways to one answer, whatever stands in a space."""
    ground = Ground.in_directory(tmp_path_factory.mktemp("ground"))
    for segments, ending, kind in entries:
        put(ground.space("project") / "tools" / ("/".join(segments) + ending), kind)
    listed = {place.item_id: place.path for place in ground.spaces.list(SpaceName.PROJECT).items}
    asked = {"/".join(segments) for segments, _, _ in entries}
    found = {}
    for item_id in asked | listed.keys():
        with suppress(RyeError):
            found[item_id] = ground.spaces.find(item_id).item.path
    assert found == listed
