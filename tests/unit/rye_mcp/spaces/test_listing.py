"""Walking a space: what is an item, what is not, and what only looks like one."""

import os
import random
from pathlib import Path

import pytest

from rye_mcp.items import ItemType, SpaceName
from rye_mcp.spaces import Listing
from tests.space_helpers import Ground


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground.in_directory(tmp_path)


def listed(ground: Ground, item_type: ItemType = ItemType.TOOL) -> Listing:
    return ground.spaces.list(SpaceName.PROJECT, item_type)


def ids(listing: Listing) -> list[str]:
    return [place.item_id for place in listing.items]


def test_items_are_listed_by_id_whatever_the_order_on_the_disk(ground: Ground) -> None:
    names = [f"d{i % 7}/t{i:03}" for i in range(100)]
    for name in random.sample(names, len(names)):
        ground.write("project", f"tools/{name}.py")
    assert ids(listed(ground)) == sorted(names)


@pytest.mark.parametrize(
    "path",
    [
        "tools/secret.txt",
        "tools/README.md",
        "tools/data.json",
        "tools/hello.PY",
        "tools/hello.py.bak",
        "tools/hello.py~",
        "tools/.hidden.py",
        "tools/.git/hooks/update.py",
        "tools/demo/__pycache__/hello.cpython-311.pyc",
        "tools/demo/__pycache__/hello.py",
        "tools/Makefile",
        "tools/demo/deps.manifest.yaml",
        "hello.py",
        "keys/person/private.py",
        "tools/1/2/3/4/5/6/7/8/nine.py",
        "tools/my dir/hello.py",
    ],
)
def test_what_is_no_item_is_passed_over_without_a_word(ground: Ground, path: str) -> None:
    ground.write("project", path, b"not an item\n")
    assert listed(ground) == Listing((), ())


def test_the_deepest_item_is_listed(ground: Ground) -> None:
    ground.write("project", "tools/1/2/3/4/5/6/7/eight.py")
    assert ids(listed(ground)) == ["1/2/3/4/5/6/7/eight"]


def test_files_without_extension_are_items_when_they_begin_with_a_shebang(ground: Ground) -> None:
    ground.write("project", "tools/yes", b"#!/bin/sh\n")
    ground.write("project", "tools/no", b"#")
    ground.write("project", "tools/empty", b"")
    assert ids(listed(ground)) == ["yes"]


def test_directives_and_knowledge_are_markdown(ground: Ground) -> None:
    for directory in ("directives", "knowledge"):
        ground.write("project", f"{directory}/demo/{directory}.md")
        ground.write("project", f"{directory}/demo/tool.py")
    assert ids(listed(ground, ItemType.DIRECTIVE)) == ["demo/directives"]
    assert ids(listed(ground, ItemType.KNOWLEDGE)) == ["demo/knowledge"]


def test_a_file_whose_name_is_no_id_is_reported(ground: Ground) -> None:
    ground.write("project", "tools/my tool.py")
    (error,) = listed(ground).refused
    assert error.code == "invalid_id"
    assert "my tool" in error.message


def test_a_name_that_is_no_text_is_reported_as_text(ground: Ground) -> None:
    directory = os.fsencode(ground.space("project") / "tools")
    Path(os.fsdecode(directory)).mkdir()
    Path(os.fsdecode(directory + b"/\xff.py")).write_bytes(b"")
    (error,) = listed(ground).refused
    assert error.code == "invalid_id"
    str(error.as_dict()).encode("utf-8")


def test_two_files_for_one_id_are_reported_once_and_not_listed(ground: Ground) -> None:
    ground.write("project", "tools/demo/hello.py")
    ground.write("project", "tools/demo/hello.sh")
    ground.write("project", "tools/demo/other.sh")
    listing = listed(ground)
    assert ids(listing) == ["demo/other"]
    assert [error.code for error in listing.refused] == ["ambiguous_item"]


def test_the_same_answer_comes_twice(ground: Ground) -> None:
    for name in ("a.py", "A.py", "b.sh", "b.py", "c c.py", "d.py"):
        ground.write("project", f"tools/{name}")
    first, second = listed(ground), listed(ground)
    assert first.items == second.items
    assert [error.message for error in first.refused] == [error.message for error in second.refused]
