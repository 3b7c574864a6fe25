"""The list of files that travel with a call, and their blobs: what a server could make up is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.workspace import MAX_FILES, MAX_TREE_BYTES, ProjectTree, TreeFile
from rye_mcp.nodes.trees import Arriving, Blobs, Listed, list_of, pieces_of, read_list, split, write_tree

FILES = (TreeFile("a b/ü.txt", b"one", executable=False), TreeFile("run", b"two", executable=True))


def row(relative: Any = "a", size: Any = 1, digest: Any = "0" * 64, executable: Any = False) -> list[Any]:
    return [relative, size, digest, executable]


def listed(content: bytes, relative: str = "a") -> Listed:
    return Listed(relative, len(content), hashlib.sha256(content).hexdigest(), executable=False)


def test_files_arrive_as_they_were_sent(tmp_path: Path) -> None:
    found = read_list(list_of(ProjectTree(FILES)))
    data = b"".join(pieces_of(FILES, b"[0,1]"))
    write_tree(tmp_path, found, split(data, found))
    assert (tmp_path / "a b/ü.txt").read_bytes() == b"one"
    assert [(tmp_path / each.relative).stat().st_mode & 0o777 for each in FILES] == [0o600, 0o700]


@pytest.mark.parametrize(
    "rows",
    [
        [row("../a")],
        [row("/etc/passwd")],
        [row("a/../../b")],
        [row("a/./b")],
        [row("a//b")],
        [row("")],
        [row("a\0b")],
        [row("a" * 256)],
        [row("a/" * 2100 + "b")],
        [row("a/" * 200 + "b")],
        [row(".git/config")],
        [row("sub/.GIT/hooks/x")],
        [row("a"), row("a")],
        [row("a"), row("b"), row("a/c")],
        [row(size=-1)],
        [row(size=MAX_TREE_BYTES + 1)],
        [row("a", MAX_TREE_BYTES), row("b", 1)],
        [row("a", -5), row("b", MAX_TREE_BYTES + 5)],
        [row(digest="0" * 63)],
        [row(size="1")],
        [row(executable=1)],
        [row()[:3]],
        [row(f"f{number}", 0) for number in range(MAX_FILES + 1)],
        {"a": 1},
    ],
)
def test_a_list_that_no_server_would_make_is_refused(rows: Any) -> None:
    with pytest.raises(RyeError) as caught:
        read_list(json.dumps(rows).encode())
    assert caught.value.code == "node_refused"


@pytest.mark.parametrize("data", [b"", b"\xff", b"[" * 100_000, b'[["\\ud800",0,"",false]]'])
def test_bytes_that_are_no_list_are_refused(data: bytes) -> None:
    with pytest.raises(RyeError) as caught:
        read_list(data)
    assert caught.value.code == "node_refused"


@pytest.mark.parametrize(
    "wanted", [b"[2]", b"[-1]", b"[0,0]", b"[0,    ".ljust(99) + b"1]", b'["0"]', b"{}", b"x", b"[1e9]"]
)
def test_a_worker_gets_no_more_than_what_is_listed(wanted: bytes) -> None:
    with pytest.raises(RyeError) as caught:
        list(pieces_of(FILES, wanted))
    assert caught.value.code == "lost"


def test_many_small_files_travel_together_and_a_large_one_in_pieces() -> None:
    contents = [b"%05d" % number for number in range(1000)] + [bytes(600_000), b"last"]
    files = [TreeFile(str(number), content, False) for number, content in enumerate(contents)]
    pieces = list(pieces_of(files, json.dumps(list(range(len(files)))).encode()))
    assert b"".join(pieces) == b"".join(contents)
    assert [len(each) for each in pieces] == [1 << 18, 1 << 18, 605_004 - (1 << 19)]


def test_other_bytes_than_those_that_were_listed_are_refused() -> None:
    with pytest.raises(RyeError) as caught:
        split(b"other", [listed(b"bytes")])
    assert caught.value.code == "content_changed"


def test_more_bytes_than_were_asked_for_end_the_call() -> None:
    arriving = Arriving()
    arriving.expect(3)
    arriving.hear_blobs(b"123")
    for hear, data in ((arriving.hear_blobs, b"4"), (arriving.hear_list, b"x" * (17 << 20))):
        with pytest.raises(RyeError) as caught:
            hear(data)
        assert caught.value.code == "lost"


@pytest.mark.anyio
async def test_nobody_waits_for_files_without_bytes() -> None:
    arriving = Arriving()
    arriving.expect(0)
    with anyio.fail_after(30):
        assert await arriving.filled() == b""


def test_a_blob_is_kept_until_it_was_not_used_for_longest(tmp_path: Path) -> None:
    blobs, files = Blobs(tmp_path / "blobs", limit=6), [listed(each) for each in (b"aaa", b"bbb", b"ccc")]
    for each, content in zip(files[:2], (b"aaa", b"bbb"), strict=True):
        blobs.keep({each.digest: content})
    assert set(blobs.known(files[:1])) == {files[0].digest}  # so it is b that goes
    blobs.keep({files[2].digest: b"ccc"})
    assert set(blobs.known(files)) == {files[0].digest, files[2].digest}
    assert {each.name for each in (tmp_path / "blobs").iterdir()} == {files[0].digest, files[2].digest}


@pytest.mark.parametrize("change", [lambda path: path.write_bytes(b"xxx"), lambda path: path.unlink()])
def test_a_blob_that_a_tool_has_changed_is_not_used(tmp_path: Path, change: Any) -> None:
    blobs, file = Blobs(tmp_path / "blobs"), listed(b"aaa")
    blobs.keep({file.digest: b"aaa"})
    change(tmp_path / "blobs" / file.digest)
    assert blobs.known([file]) == {}
    blobs.keep({file.digest: b"aaa"})
    assert blobs.known([file]) == {file.digest: b"aaa"}


@pytest.mark.parametrize("in_the_way", ["blobs", f"blobs/{hashlib.sha256(b'aaa').hexdigest()}/x"])
def test_no_call_depends_on_what_can_be_kept(tmp_path: Path, in_the_way: str) -> None:
    blobs, files = Blobs(tmp_path / "blobs"), [listed(b"aaa"), listed(b"bbb")]
    path = tmp_path / in_the_way
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("made by a tool")
    blobs.keep({each.digest: content for each, content in zip(files, (b"aaa", b"bbb"), strict=True)})
    assert blobs.known(files) == {}


def test_a_blob_in_whose_place_a_tool_has_put_a_directory_is_not_used(tmp_path: Path) -> None:
    blobs, file = Blobs(tmp_path / "blobs"), listed(b"aaa")
    blobs.keep({file.digest: b"aaa"})
    (tmp_path / "blobs" / file.digest).unlink()
    (tmp_path / "blobs" / file.digest).mkdir()
    assert blobs.known([file]) == {}


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("in the way")
    with pytest.raises(RyeError) as caught:
        write_tree(tmp_path, [listed(b"x", "a/b")], {listed(b"x").digest: b"x"})
    assert caught.value.code == "write_failed"
