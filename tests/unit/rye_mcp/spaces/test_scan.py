"""A cheap look at a space: what may be an item, with a stamp that changes with it."""

import os
from pathlib import Path

import pytest

from rye_mcp.items import ItemType, SpaceName
from rye_mcp.spaces import Stamp, is_settled
from tests.space_helpers import Ground


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground.in_directory(tmp_path)


def scanned(ground: Ground, *parts: str) -> dict[str, Stamp]:
    return dict(ground.spaces.scan(SpaceName.PROJECT, ItemType.TOOL, parts))


def test_every_item_that_is_listed_is_seen_at_its_path(ground: Ground) -> None:
    paths = {f"tools/{name}" for name in ("one.py", "demo/two.yaml", "demo/deep/three.sh", "plain")}
    for path in paths:
        ground.write("project", path, b"#!/bin/sh\n")
    assert scanned(ground).keys() == paths
    listed = ground.spaces.list(SpaceName.PROJECT).items
    assert {str(place.path.relative_to(place.space.root)) for place in listed} == paths


@pytest.mark.parametrize(
    "path",
    [
        "tools/secret.txt",
        "tools/.hidden.py",
        "tools/.git/hooks/update.py",
        "tools/__pycache__/hello.py",
        "tools/my dir/hello.py",
        "tools/demo/deps.manifest.yaml",
        "tools/h\u00e9llo.py",
        "tools/no text \udcff.py",
        "tools/1/2/3/4/5/6/7/8/nine.py",
        "directives/hello.md",
    ],
)
def test_what_can_be_no_tool_is_not_seen(ground: Ground, path: str) -> None:
    ground.write("project", path)
    assert scanned(ground) == {}


def test_links_and_pipes_are_not_seen_nor_followed(ground: Ground) -> None:
    tools = ground.write("project", "tools/real.py").parent
    (tools / "link.py").symlink_to(ground.canary)
    (tools / "elsewhere").symlink_to(ground.root)
    os.mkfifo(tools / "pipe.py")
    assert scanned(ground).keys() == {"tools/real.py"}


def test_a_space_that_is_not_there_has_nothing_in_it(ground: Ground) -> None:
    ground.space("project").rmdir()
    assert scanned(ground) == {}


def test_one_directory_can_be_looked_at_alone(ground: Ground) -> None:
    for path in ("tools/one.py", "tools/demo/two.py", "tools/demo/deep/three.py"):
        ground.write("project", path)
    assert scanned(ground, "demo").keys() == {"tools/demo/two.py", "tools/demo/deep/three.py"}


def test_directories_are_announced_before_they_are_looked_at(ground: Ground) -> None:
    ground.write("project", "tools/demo/deep/three.py")
    seen: list[tuple[str, ...]] = []

    def entering(parts: tuple[str, ...]) -> None:
        seen.append(parts)
        if parts == ("tools", "demo"):
            ground.write("project", "tools/demo/late.py")

    found = ground.spaces.scan(SpaceName.PROJECT, ItemType.TOOL, entering=entering)
    assert seen == [("tools",), ("tools", "demo"), ("tools", "demo", "deep")]
    assert "tools/demo/late.py" in found


def test_a_stamp_changes_with_the_bytes_whatever_time_the_file_pretends_to_have(ground: Ground) -> None:
    path = ground.write("project", "tools/one.py", b"one\n")
    before, status = scanned(ground), path.stat()
    path.write_bytes(b"two\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    while path.stat().st_ctime_ns == status.st_ctime_ns:  # within one tick of the clock
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert scanned(ground) != before


NOW = 1_800_000_000 * 10**9


@pytest.mark.parametrize(
    ("latest", "settled"),
    [
        (NOW - 5 * 10**9, True),
        (NOW - 10**9, False),  # may be a clock that counts in seconds
        (NOW - 10**9 + 1, True),
        (NOW - 10**6 + 1, False),
        (NOW + 10**9, False),
    ],
)
def test_what_changed_a_moment_ago_may_change_unseen(latest: int, settled: bool) -> None:
    assert is_settled((0, latest, 1, 1), NOW) is settled
    assert is_settled((latest, 0, 1, 1), NOW) is settled
