"""Reading what stands beside an item: the same care, and no listing without an end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rye_mcp.spaces import source_tree
from rye_mcp.spaces.source_tree import SourceTree
from tests.space_helpers import refused


def put(root: Path, *names: str, content: bytes = b"x") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def test_a_file_is_read_whole_with_its_permission_to_be_executed(tmp_path: Path) -> None:
    put(tmp_path, "a/b/plain", "a/b/program", content=b"y" * 3000)
    (tmp_path / "a/b/program").chmod(0o755)
    with SourceTree(tmp_path) as tree:
        plain, program = tree.read("a/b/plain", limit=3000), tree.read("a/b/program", limit=3000)
        assert plain is not None
        assert program is not None
        assert (plain.content, plain.executable) == (b"y" * 3000, False)
        assert (program.content, program.executable) == (b"y" * 3000, True)


def test_a_missing_file_is_none_wherever_its_path_ends(tmp_path: Path) -> None:
    put(tmp_path, "a/b")
    with SourceTree(tmp_path) as tree:
        for relative in ("c", "a/c", "a/b/c", "c/d"):
            assert tree.read(relative, limit=1) is None
            assert not tree.holds(relative)


def test_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "a", content=b"12")
    with SourceTree(tmp_path) as tree, refused("too_large"):
        tree.read("a", limit=1)


@pytest.mark.parametrize("linked", ["a", "a/b", "a/b/c.py"])
def test_a_link_at_any_component_is_refused(tmp_path: Path, linked: str) -> None:
    put(tmp_path / "elsewhere", "a/b/c.py", content=b"a secret")
    root = tmp_path / "root"
    (root / linked).parent.mkdir(parents=True)
    (root / linked).symlink_to(tmp_path / "elsewhere" / linked)
    with SourceTree(root) as tree, refused("unsafe_path"):
        tree.read("a/b/c.py", limit=100)


def test_only_a_regular_file_is_held(tmp_path: Path) -> None:
    put(tmp_path, "file")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with SourceTree(tmp_path) as tree:
        held = [name for name in ("file", "link", "directory", "fifo") if tree.holds(name)]
    assert held == ["file"]


def test_a_listing_tells_everything_but_what_is_hidden_or_left_out(tmp_path: Path) -> None:
    put(tmp_path, "t/b.py", "t/a/x.py", "t/.hidden", "t/.git/y.py", "t/__pycache__/z.pyc", "t/tests/w.py")
    (tmp_path / "t/link.py").symlink_to("b.py")
    (tmp_path / "t/linked").symlink_to("a")
    with SourceTree(tmp_path) as tree:
        found = [(name.relative, name.is_regular) for name in tree.list("t", without={"tests"})]
        flat = [name.relative for name in tree.list("t", recursive=False)]
        assert tree.list("nothing") == []
    assert found == [("t/a/x.py", True), ("t/b.py", True), ("t/link.py", False), ("t/linked", False)]
    assert flat == ["t/b.py", "t/link.py", "t/linked"]


def test_a_listing_is_as_deep_as_its_limit(tmp_path: Path) -> None:
    put(tmp_path, "d/" * source_tree.MAX_DEPTH + "file")
    with SourceTree(tmp_path) as tree:
        assert len(tree.list("")) == 1
        put(tmp_path, "d/" * (source_tree.MAX_DEPTH + 1) + "file")
        with refused("too_large"):
            tree.list("")


def test_a_listing_is_as_long_as_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_tree, "MAX_LISTED_NAMES", 10)
    put(tmp_path, *(f"d/{number}" for number in range(10)))
    with SourceTree(tmp_path) as tree:
        assert len(tree.list("d")) == 10
        put(tmp_path, "d/more")
        with refused("too_large"):
            tree.list("d")


def test_nothing_stays_open(tmp_path: Path) -> None:
    put(tmp_path, "a/b/c", "d/e")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with SourceTree(tmp_path) as tree:
        tree.read("a/b/c", limit=9)
        tree.read("d/e", limit=9)
        tree.list("")
        tree.holds("f/g")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
