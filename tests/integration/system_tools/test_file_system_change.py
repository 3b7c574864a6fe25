"""`rye/file-system/` write, edit, move and delete: whole or not at all, and nothing lost on the way."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.file_system_world import TOOLS, Desk, at_desk, names_below


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    async with at_desk(tmp_path, monkeypatch) as found:
        yield found


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def replacing(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"old_text": old, "new_text": new} for old, new in pairs]


# --- write ---


async def test_a_file_is_written_with_its_directories_and_replaced_with_its_mode(desk: Desk) -> None:
    content = "é {x} ${HOME}\r\n"
    first = await desk.ask("write", path="a/b/new.sh", content=content)
    assert first == {
        "path": "a/b/new.sh",
        "created": True,
        "size": len(content.encode()),
        "sha256": sha256(content.encode()),
        "made_directories": ["a", "a/b"],
    }
    path = desk.project / "a/b/new.sh"
    assert path.read_bytes() == content.encode()
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()
    path.chmod(0o751)
    second = await desk.ask("write", path="a/b/new.sh", content="AAEC/w==", encoding="base64")
    assert (second["created"], second["previous_sha256"]) == (False, first["sha256"])
    assert path.read_bytes() == b"\x00\x01\x02\xff"
    assert path.stat().st_mode & 0o777 == 0o751
    assert names_below(desk.project) == ["a", "a/b", "a/b/new.sh"]


@pytest.mark.thorough
async def test_what_is_not_written_leaves_nothing_behind(desk: Desk) -> None:
    path = desk.write("old.txt", "old")
    (desk.project / "read-only").write_text("kept")
    (desk.project / "read-only").chmod(0o444)
    os.mkfifo(desk.project / "fifo")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"path": "old.txt", "content": "new", "create_only": True}, "expected nothing at old.txt"),
        ({"path": "old.txt", "content": "new", "expected_hash": sha256(b"other")}, "found it changed"),
        ({"path": "none.txt", "content": "new", "expected_hash": sha256(b"other")}, "found nothing"),
        ({"path": "read-only", "content": "new"}, "may only be read"),
        ({"path": "fifo", "content": "new"}, "found a FIFO"),
        ({"path": ".", "content": "new"}, "the project itself"),
        ({"path": ".ai", "content": "new"}, "found a directory"),
        ({"path": "a/b", "content": "!", "encoding": "base64"}, "expected base64"),
        ({"path": "a/b/" + "n" * 300, "content": "new"}, "too long"),
        ({"path": "a/b/.git/c", "content": "new"}, "git's own"),
        ({"path": "old.txt/new", "content": "new"}, "expected a directory on the way"),
    ]
    for parameters, problem in cases:
        assert problem in await desk.refusal("write", **parameters), parameters
    assert path.read_text() == "old"
    assert names_below(desk.project) == ["fifo", "old.txt", "read-only"]


@pytest.mark.thorough
async def test_of_many_writers_one_creates_the_file(desk: Desk) -> None:
    results = await asyncio.gather(
        *(desk.run("write", path="new/one", content=str(number), create_only=True) for number in range(6))
    )
    [winner] = [number for number, result in enumerate(results) if result.success]
    assert (desk.project / "new/one").read_text() == str(winner)
    assert names_below(desk.project) == ["new", "new/one"]


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    """The limit of a file's size stands in for the disk: writing fails in the middle, in the same way."""
    (tmp_path / "a.txt").write_text("old")
    runner = TOOLS.parent / "core/runtimes/lib/python/call_function.py"
    parameters = {"path": "a.txt", "content": "x" * (1 << 20), "encoding": "utf-8", "create_only": False}
    found = subprocess.run(
        [
            "bash",
            "-c",
            'ulimit -f 64; exec "$@"',
            "-",
            sys.executable,
            runner,
            "execute",
            TOOLS / "write.py",
            tmp_path,
        ],
        input=json.dumps(parameters),
        env={**os.environ, "PYTHONPATH": str(TOOLS / "lib"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(found.stdout)["error"] == "expected that the system allows it, found: File too large"
    assert (tmp_path / "a.txt").read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]  # noqa: PTH208


# --- edit ---


async def test_edits_are_made_together_and_shown_as_a_diff(desk: Desk) -> None:
    path = desk.write("src/a.py", "".join(f"line {number}\n" for number in range(1, 21)))
    before = sha256(path.read_bytes())
    path.chmod(0o640)
    found = await desk.ask(
        "edit",
        path="src/a.py",
        edits=replacing(("line 18\n", ""), ("line 3\n", "three\n3\n")),
        expected_hash=before,
    )
    assert found["diff"] == (
        "--- a/src/a.py\n+++ b/src/a.py\n"
        "@@ -1,6 +1,7 @@\n line 1\n line 2\n-line 3\n+three\n+3\n line 4\n line 5\n line 6\n"
        "@@ -15,6 +16,5 @@\n line 15\n line 16\n line 17\n-line 18\n line 19\n line 20\n"
    )
    assert (found["replacements"], found["previous_sha256"]) == (2, before)
    assert found["sha256"] == sha256(path.read_bytes())
    assert path.stat().st_mode & 0o777 == 0o640
    again = await desk.ask("edit", path="src/a.py", edits=replacing(("three", "III")), dry_run=True)
    assert (again["changed"], path.read_text().count("III")) == (False, 0)


@pytest.mark.thorough
async def test_every_diff_is_one_that_patch_understands(desk: Desk) -> None:
    cases = [
        ("a\nb\nc", [("c", "d")]),
        ("a\nb\nc", [("\nc", "")]),
        ("a\nb\nc\n", [("\nb\n", " b ")]),
        ("a\n" * 3 + "b\n" + "c\n" * 9, [("b\n", ""), ("a\na\na\n", "x")]),
        ("one two three\n", [("one", "1"), ("three", "3\n4")]),
    ]
    for number, (old, pairs) in enumerate(cases):
        path = desk.write(f"{number}.txt", old)
        found = await desk.ask("edit", path=path.name, edits=replacing(*pairs))
        copy = desk.outside / path.name
        copy.write_text(old)
        patched(copy, found["diff"])
        assert copy.read_text() == path.read_text() != old


@pytest.mark.thorough
async def test_line_endings_marks_and_bytes_stay_as_they_are(desk: Desk) -> None:
    path = desk.write("dos.txt", b"\xef\xbb\xbfone\r\ntwo\r\nthree\xff\r\n")
    await desk.ask("edit", path="dos.txt", edits=replacing(("one\ntwo", "1\n2\n2b"), ("three", "a\nb")))
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2b\r\na\r\nb\xff\r\n"
    mixed = desk.write("mixed.txt", b"a\nb\r\nc\n")
    await desk.ask("edit", path="mixed.txt", edits=replacing(("b\n", "x\ny\n"), ("c", "c\nd")))
    assert mixed.read_bytes() == b"a\nx\r\ny\r\nc\nd\n"


@pytest.mark.thorough
async def test_edits_that_cannot_all_be_made_change_nothing(desk: Desk) -> None:
    content = "one two\n  three\none two\naaa\n"
    path = desk.write("a.txt", content)
    desk.write("binary", b"one\0two")
    desk.write("big", "x" * (16 << 20) + "y")
    cases: list[tuple[str, list[dict[str, Any]], str]] = [
        (
            "a.txt",
            replacing(("three", "3"), ("one", "1")),
            "edit 2: expected its old_text once in a.txt, found it in lines 1, 3",
        ),
        ("a.txt", replacing(("aa", "b")), "found it in lines 4, 4"),
        (
            "a.txt",
            replacing(("three", "3"), ("four", "4")),
            "edit 2: expected its old_text in a.txt, found it nowhere",
        ),
        ("a.txt", replacing(("  three\none", "x"), ("three", "y")), "found that 1 and 2 do in line 2"),
        ("a.txt", replacing(("three", "x"), ("three", "x")), "found that 1 and 2 do in line 2"),
        ("a.txt", replacing(("three", "three")), "every new_text is what is there"),
        ("binary", replacing(("one", "1")), "expected text"),
        ("big", replacing(("y", "z")), "expected at most 16777216 bytes"),
        ("none", replacing(("y", "z")), "found nothing"),
    ]
    for name, edits, problem in cases:
        assert problem in await desk.refusal("edit", path=name, edits=edits), edits
    result = await desk.run("edit", path="a.txt", edits=replacing(("three\n  one", "x")))
    assert "its first line stands in line 2" in result.data["hint"]
    for wrong in ([], replacing(("", "x"))):
        assert (await desk.run("edit", path="a.txt", edits=wrong)).code == "invalid_parameters"
    assert path.read_text() == content
    assert names_below(desk.project) == ["a.txt", "big", "binary"]
    everywhere = [{"old_text": "one", "new_text": "1", "replace_all": True}, *replacing(("aaa", "a"))]
    assert (await desk.ask("edit", path="a.txt", edits=everywhere))["replacements"] == 3
    assert path.read_text() == "1 two\n  three\n1 two\na\n"


async def test_a_file_that_changed_since_it_was_read_is_refused(desk: Desk) -> None:
    path = desk.write("a.txt", "one\n")
    read = await desk.ask("read", path="a.txt")
    path.write_text("one\nmore\n")
    problem = await desk.refusal(
        "edit", path="a.txt", edits=replacing(("one", "1")), expected_hash=read["sha256"]
    )
    assert "expected a.txt as it was read" in problem
    assert path.read_text() == "one\nmore\n"


@pytest.mark.thorough
async def test_a_locked_file_is_refused_whichever_lock_it_is(desk: Desk) -> None:
    one, other = desk.write("flock.txt", "one\n"), desk.write("posix.txt", "one\n")
    with one.open("r+") as flocked, other.open("r+") as locked:
        fcntl.flock(flocked, fcntl.LOCK_EX)
        fcntl.lockf(locked, fcntl.LOCK_EX)
        problems = await asyncio.gather(
            desk.refusal("edit", path="flock.txt", edits=replacing(("one", "1"))),
            desk.refusal("write", path="posix.txt", content="1"),
        )
    assert all("a file that nobody has locked" in problem for problem in problems)
    assert one.read_text() == other.read_text() == "one\n"


@pytest.mark.thorough
async def test_edits_at_once_all_count(desk: Desk) -> None:
    path = desk.write("a.txt", "".join(f"<{number}>\n" for number in range(6)))
    await asyncio.gather(
        *(
            desk.ask("edit", path="a.txt", edits=replacing((f"<{number}>", f"[{number}]")))
            for number in range(6)
        )
    )
    assert path.read_text() == "".join(f"[{number}]\n" for number in range(6))


# --- move and delete ---


@pytest.mark.thorough
async def test_nothing_that_is_there_is_replaced_by_moving(desk: Desk) -> None:
    desk.write("a.txt", "a").chmod(0o700)
    desk.write("b.txt", "b")
    desk.write("full/c.txt", "c")
    desk.write("other/d.txt", "d")
    (desk.project / "linked").hardlink_to(desk.project / "b.txt")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"source": "a.txt", "target": "b.txt"}, "expected nothing at b.txt"),
        ({"source": "a.txt", "target": "full"}, "expected nothing at full"),
        ({"source": "full", "target": "other"}, "expected nothing at other"),
        ({"source": "full", "target": "full/below/it"}, "expected a target outside full"),
        ({"source": "full", "target": "b.txt", "overwrite": True}, "expected a file to replace a file"),
        ({"source": "a.txt", "target": "full", "overwrite": True}, "expected a file to replace a file"),
        ({"source": "linked", "target": "b.txt", "overwrite": True}, "found the same one"),
        ({"source": "none", "target": "new/none"}, "found nothing"),
    ]
    before = names_below(desk.project)
    for parameters, problem in cases:
        assert problem in await desk.refusal("move", **parameters), parameters
    assert names_below(desk.project) == before
    moved = await desk.ask("move", source="a.txt", target="b.txt", overwrite=True)
    assert moved["replaced"] is True
    await desk.ask("move", source="full", target="new/place")
    assert (desk.project / "b.txt").read_text() == "a"
    assert (desk.project / "b.txt").stat().st_mode & 0o777 == 0o700
    assert names_below(desk.project) == [
        "b.txt", "linked", "new", "new/place", "new/place/c.txt", "other", "other/d.txt"
    ]  # fmt: skip


CARRY = """
import os, sys
sys.path.insert(0, sys.argv[1])
from carrying import carry

here = os.open(sys.argv[2], os.O_RDONLY)
for source, target in (("a", "b"), ("a", "directory"), ("directory", "b"), ("directory", "other")):
    try:
        carry(here, source, here, target)
    except FileExistsError:
        continue
    raise SystemExit(f"{source} took the place of {target}")
"""


def test_a_name_that_somebody_takes_at_the_last_moment_stays_theirs(tmp_path: Path) -> None:
    """Carrying itself looks at nothing first: it takes a name that is free, or none."""
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    (tmp_path / "directory").mkdir()
    (tmp_path / "other").mkdir()
    subprocess.run([sys.executable, "-B", "-c", CARRY, str(TOOLS / "lib"), str(tmp_path)], check=True)
    assert [(tmp_path / name).read_text() for name in "ab"] == ["a", "b"]
    assert names_below(tmp_path) == ["a", "b", "directory", "other"]


async def test_what_is_deleted_can_be_brought_back_with_the_command_that_it_says(desk: Desk) -> None:
    odd = "it's\nodd.txt"
    desk.write(odd, "kept")
    desk.write("full/a/b.txt", "b").chmod(0o600)
    (desk.project / "full/link").symlink_to("nowhere")
    os.mkfifo(desk.project / "full/fifo")
    assert "found one with 3 entries" in await desk.refusal("delete", path="full")
    before = names_below(desk.project)
    deleted = [await desk.ask("delete", path=odd), await desk.ask("delete", path="full", recursive=True)]
    assert [each["type"] for each in deleted] == ["file", "directory"]
    assert names_below(desk.project) == []
    trash = desk.state / "rye/trash"
    assert all(Path(each["trash"]).is_relative_to(trash) for each in deleted)
    assert trash.stat().st_mode & 0o777 == 0o700
    for each in deleted:
        assert shlex.split(each["restore"])[0] == "mv"
        obeyed(each["restore"])
    assert names_below(desk.project) == before
    assert (desk.project / "full/a/b.txt").stat().st_mode & 0o777 == 0o600


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["file", "directory", "link"])
async def test_what_has_come_in_place_of_something_deleted_stays_when_that_is_brought_back(
    desk: Desk, name: str
) -> None:
    def make(text: str) -> None:
        desk.write("directory/file" if name == "directory" else "file", text)

    if name == "link":
        (desk.project / "file").symlink_to("nowhere")
        name = "file"
    else:
        make("old")
    deleted = await desk.ask("delete", path=name, recursive=True)
    make("new")
    before = names_below(desk.project)
    with pytest.raises(subprocess.CalledProcessError):
        obeyed(deleted["restore"])
    assert names_below(desk.project) == before
    assert (desk.project / before[-1]).read_text() == "new"
    assert name in names_below(Path(deleted["trash"]).parent)


@pytest.mark.thorough
async def test_the_trash_forgets_what_is_old_and_is_nobody_elses(desk: Desk) -> None:
    for name in ("a", "b", "c"):
        desk.write(name, name)
    await desk.ask("delete", path="a")
    trash = desk.state / "rye/trash"
    old = trash / "20200101T000000Z-00000000"
    old.mkdir()
    (old / "old.txt").write_text("old")
    (trash / "20200101T-mine").mkdir()
    await desk.ask("delete", path="b")
    assert not old.exists()
    assert len(list(trash.iterdir())) == 3
    trash.chmod(0o755)
    assert "only yours" in await desk.refusal("delete", path="c")
    assert names_below(desk.project) == ["c"]


@pytest.mark.thorough
async def test_between_file_systems_all_is_copied_before_anything_goes(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = other_file_system(desk.project)
    with tempfile.TemporaryDirectory(dir=shared) as elsewhere:
        async with at_desk(desk.project.parent, monkeypatch, state=Path(elsewhere)) as other:
            desk.write("full/a/b.txt", "b").chmod(0o640)
            (desk.project / "full/link").symlink_to("../../outside")
            found = await other.ask("delete", path="full", recursive=True)
            kept = Path(found["trash"])
            assert kept.is_relative_to(elsewhere)
            assert (kept / "a/b.txt").read_text() == "b"
            assert (kept / "a/b.txt").stat().st_mode & 0o777 == 0o640
            assert os.readlink(kept / "link") == "../../outside"  # noqa: PTH115
            assert names_below(desk.project) == []
            desk.write("odd/a.txt", "a")
            with listening_at(desk.project / "odd/socket"):
                assert "found a socket" in await other.refusal("delete", path="odd", recursive=True)
            assert names_below(desk.project) == ["odd", "odd/a.txt", "odd/socket"]
            assert len(list((Path(elsewhere) / "rye/trash").iterdir())) == 1


@contextmanager
def listening_at(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        yield


def patched(path: Path, diff: str) -> None:
    subprocess.run(["patch", "-s", "-u", path], input=diff.encode(), check=True)


def obeyed(command: str) -> None:
    subprocess.run(command, shell=True, check=True)  # noqa: S602 - what an answer says


def other_file_system(project: Path) -> Path:
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == project.stat().st_dev:
        pytest.skip("there is no other file system to write to")
    return shared


def umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found
