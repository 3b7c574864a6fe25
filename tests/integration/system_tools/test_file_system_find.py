"""`rye/file-system/` ls, glob and grep: what is found, in which order, and the same without ripgrep."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.file_system_world import Desk, at_desk, only_python

WITH = pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
WAYS = ["python", pytest.param("ripgrep", marks=WITH)]


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    async with at_desk(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture(params=WAYS)
async def searcher(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Desk]:
    """A desk with ripgrep, and one without."""
    if request.param == "python":
        only_python(tmp_path, monkeypatch)
    async with at_desk(tmp_path, monkeypatch) as found:
        yield found


# --- ls and glob ---


async def test_a_listing_tells_types_and_sizes_in_the_order_that_was_asked_for(desk: Desk) -> None:
    for name, content, when in (("b", "12345", 2), ("a/deep", "1", 1), (".c", "123", 3)):
        path = desk.write(name, content)
        os.utime(path, (when * 10**9, when * 10**9))
    os.utime(desk.project / "a", (4e9, 4e9))
    os.utime(desk.project / ".ai", (0, 0))
    (desk.project / "b").chmod(0o755)
    found = await desk.ask("ls")
    assert [each["name"] for each in found["entries"]] == [".ai", ".c", "a", "b"]
    assert found["entries"][3] == {
        "name": "b",
        "type": "file",
        "size": 5,
        "modified": "2033-05-18T03:33:20Z",
        "executable": True,
    }
    newest = await desk.ask("ls", sort="time", hidden=False)
    assert [each["name"] for each in newest["entries"]] == ["a", "b"]
    largest = await desk.ask("ls", sort="size", limit=2, path="a/..")
    assert (largest["total"], largest["truncated"]) == (4, True)
    deep = await desk.ask("ls", depth=2, hidden=False)
    assert [each["name"] for each in deep["entries"]] == ["a", "a/deep", "b"]
    assert "expected a directory, found a file" in await desk.refusal("ls", path="b")


@pytest.mark.thorough
async def test_paths_are_found_by_patterns(desk: Desk) -> None:
    names = [
        "a.py",
        "src/b.py",
        "src/x/c.py",
        "src/x/d.ts",
        "src/[e].py",
        "build/f.py",
        ".hidden/g.py",
        "line\nbreak.py",
    ]
    for name in names:
        desk.write(name)
    desk.write(".gitignore", "build/\n")
    cases: dict[str, list[str]] = {
        "**/*.py": ["a.py", "line\nbreak.py", "src/[e].py", "src/b.py", "src/x/c.py"],
        "*.py": ["a.py", "line\nbreak.py"],
        "src/*": ["src/[e].py", "src/b.py"],
        "src/**": ["src/[e].py", "src/b.py", "src/x/c.py", "src/x/d.ts"],
        "src/**/*.{py,ts}": ["src/[e].py", "src/b.py", "src/x/c.py", "src/x/d.ts"],
        "src/[[]?].py": ["src/[e].py"],
        "**/[!a-c].*": ["src/x/d.ts"],
        "build/*": [],
    }
    for pattern, expected in cases.items():
        assert (await desk.ask("glob", pattern=pattern))["paths"] == expected, pattern
    everything = await desk.ask("glob", pattern="**/*.py", hidden=True, gitignore=False, limit=3)
    assert everything["paths"] == [".hidden/g.py", "a.py", "build/f.py"]
    assert (everything["total"], everything["truncated"]) == (7, True)
    below = await desk.ask("glob", pattern="*", path="src", type="directory")
    assert below["paths"] == ["src/x"]
    for when, name in enumerate(names):
        os.utime(desk.project / name, (when, when))
    newest = await desk.ask("glob", pattern="**/*.py", sort="time", limit=2)
    assert newest["paths"] == ["line\nbreak.py", "src/[e].py"]


@pytest.mark.first_case
@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "src/../a.py", "src/", "src//a.py", "src/./a.py"])
async def test_a_pattern_that_no_path_can_have_is_refused_and_not_answered_with_nothing(
    desk: Desk, pattern: str
) -> None:
    desk.write("src/a.py")
    assert "expected names below path" in await desk.refusal("glob", pattern=pattern)
    assert (await desk.ask("glob", pattern="./src/*"))["paths"] == ["src/a.py"]


@pytest.mark.thorough
async def test_a_pattern_that_explodes_is_answered_at_once_or_refused(desk: Desk) -> None:
    desk.write("a" * 200)
    desk.write("/".join(["b"] * 60))
    result = await desk.run("glob", pattern="*a" * 100 + "*b")
    assert (result.data["paths"], result.duration_ms < 5000) == ([], True)
    deep = await desk.run("glob", pattern="**/b/" * 30 + "c")
    assert (deep.data["paths"], deep.duration_ms < 5000) == ([], True)
    assert "at most 200 alternatives" in await desk.refusal("glob", pattern="{a,b}{a,b}{a,b}{a,b}" * 3)
    for pattern in ("[a", "{a,b", "a\\"):
        assert "expected a" in await desk.refusal("glob", pattern=pattern)
    assert "expected globs" in await desk.refusal("grep", pattern="a", globs=["*.py", "[a"])


# --- grep ---


@pytest.mark.first_case
async def test_lines_are_found_with_what_is_around_them(searcher: Desk) -> None:
    searcher.write("b.txt", "one\ntwo\r\nthree\nfour two\nfive")
    searcher.write("a/c.txt", "two")
    searcher.write("empty", "")
    found = await searcher.ask("grep", pattern="^two$|fi.e|two\\b", context=1)
    assert found == {
        "matches": [
            {"path": "a/c.txt", "line": 1, "text": "two", "before": [], "after": []},
            {"path": "b.txt", "line": 2, "text": "two", "before": ["one"], "after": ["three"]},
            {"path": "b.txt", "line": 4, "text": "four two", "before": ["three"], "after": ["five"]},
            {"path": "b.txt", "line": 5, "text": "five", "before": ["four two"], "after": []},
        ]
    }
    assert await searcher.ask("grep", pattern="two", output="count") == {
        "counts": [{"path": "a/c.txt", "lines": 1}, {"path": "b.txt", "lines": 2}]
    }
    assert await searcher.ask("grep", pattern="two", output="files", limit=1) == {
        "files": ["a/c.txt"],
        "truncated": True,
    }
    assert await searcher.ask("grep", pattern="T.O", path="b.txt", ignore_case=True, limit=1) == {
        "matches": [{"path": "b.txt", "line": 2, "text": "two"}],
        "truncated": True,
    }
    assert await searcher.ask("grep", pattern="t.o", literal=True) == {"matches": []}


@pytest.mark.thorough
async def test_what_is_searched_is_the_same_either_way(searcher: Desk) -> None:
    """Rules of `.gitignore`, of hidden names and of globs, and files that are no text."""
    for name in [

        "a.py", "a.log", "keep.log", "build/b.py", "src/build/c.py", "src/d.py", "src/gen/e.py",
        "src/gen/keep.py", ".hidden/f.py", "back/.taken.py", "src/x/y/g.tmp", "node/h.py",
        "node/deep/i.py", "odd {n}.py", "l\nm.py", ".git/config.py", "sub/.gitkeep",
    ]:  # fmt: skip
        searcher.write(name, "wanted\n")
    searcher.write(
        ".gitignore", "*.log\n!keep.log\n/build/\nsrc/gen/*\n!src/gen/keep.py\n**/y/*.tmp\nnode/\n"
    )
    searcher.write("src/.gitignore", "# nothing\n\n!nothing\n")
    searcher.write("back/.gitignore", "!.taken.py\n")
    searcher.write(".ignore", "a.py\n")
    searcher.write("wide.txt", "wanted wanted\n".encode("utf-16"))
    searcher.write("late.bin", b"wanted\n" + b"x\n" * 200_000 + b"\0")
    (searcher.project / os.fsdecode(b"\xff.txt")).write_bytes(b"wanted \xff\n")
    plain = [

        "a.py", "keep.log", "l\nm.py", "odd {n}.py", "src/build/c.py", "src/d.py", "src/gen/keep.py",
        "wide.txt", "\\xff.txt",
    ]  # fmt: skip
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, plain),
        ({"path": "src"}, ["src/build/c.py", "src/d.py", "src/gen/keep.py"]),
        ({"path": "src/gen"}, ["src/gen/keep.py"]),
        ({"path": "node"}, ["node/deep/i.py", "node/h.py"]),
        ({"globs": ["*.py"]}, [name for name in plain if name.endswith(".py")]),
        ({"globs": ["*.py", "!src", "!odd*"]}, ["a.py", "l\nm.py"]),
        ({"globs": ["src/**/*.py"]}, ["src/build/c.py", "src/d.py", "src/gen/keep.py"]),
        ({"globs": ["*.{log,txt}"]}, ["keep.log", "wide.txt", "\\xff.txt"]),
        ({"path": "src", "globs": ["/d.py", "!gen/"]}, ["src/d.py"]),
        ({"hidden": True, "globs": [".*", "!.gitignore", "!.ignore"]}, ["back/.taken.py", "sub/.gitkeep"]),
        ({"hidden": True, "globs": ["**/f.py"]}, [".hidden/f.py"]),
        ({"gitignore": False, "globs": ["*.tmp", "*.log"]}, ["a.log", "keep.log", "src/x/y/g.tmp"]),
        ({"gitignore": False, "globs": ["node/**"]}, ["node/deep/i.py", "node/h.py"]),
    ]
    for parameters, expected in cases:
        found = await searcher.ask("grep", pattern="wanted", output="files", **parameters)
        assert found == {"files": expected}, parameters


@pytest.mark.thorough
async def test_an_invalid_or_endless_pattern_is_refused(searcher: Desk) -> None:
    searcher.write("a.txt", "a" * 40 + "b\n")
    for pattern, problem in {
        "(": "expected a regular expression of Python",
        "[[:alpha:]]": "expected a regular expression of Python",
        "a\\nb": "within one line",
        "(?L)a": "expected",
        "a{1000}{1000}{1000}{1000}": "expected",
        "(" * 3000 + ")" * 1000: "expected",
    }.items():
        assert problem in await searcher.refusal("grep", pattern=pattern), pattern
    for pattern in ("(?=a)(a+)+$", "((a+)+)+(?<=c)$"):
        result = await searcher.run("grep", pattern=pattern, timeout=0.5)
        assert (result.success, "takes longer" in result.data["error"]) == (False, True), result.data
        assert result.duration_ms < 8000


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("pattern", "where"),
    [("a*b", {}), ("a*b", {"path": "a.txt"}), ("[ab]" * 900 + "[cd]", {"path": "a.txt"})],
    ids=["in all files", "in one", "of a long expression"],
)
async def test_a_search_that_takes_for_ever_in_one_long_line_is_ended_in_time(
    searcher: Desk, pattern: str, where: dict[str, str]
) -> None:
    searcher.write("a.txt", "a" * (4 << 20) + "\nab\n")
    result = await searcher.run("grep", pattern=pattern, timeout=0.5, **where)
    assert (result.success, "takes longer" in result.data["error"]) == (False, True), result.data
    assert result.duration_ms < 8000


@pytest.mark.thorough
async def test_long_lines_change_nothing_of_what_is_found(searcher: Desk) -> None:
    searcher.write("a.txt", f"ab {'z' * 380}\n" * 400)  # more than half of what is answered at most
    searcher.write("b.txt", "c" * 40_000 + "ab\n")
    found = await searcher.ask("grep", pattern="ab+", limit=5000)
    assert [match["path"] for match in found["matches"]] == ["a.txt"] * 400 + ["b.txt"]
    assert await searcher.ask("grep", pattern="ab+", output="count") == {
        "counts": [{"path": "a.txt", "lines": 400}, {"path": "b.txt", "lines": 1}]
    }


@pytest.mark.thorough
async def test_nothing_is_found_in_what_is_too_large_to_be_text(searcher: Desk) -> None:
    searcher.write("small.txt", "wanted\n")
    searcher.write("large.txt", "wanted\n" + "x\n" * (33 << 20))
    with searcher.write("huge", "wanted\n").open("r+b") as file:
        file.truncate(1 << 40)
    found = await searcher.ask("grep", pattern="wanted", output="files", timeout=20)
    assert found == {"files": ["small.txt"]}
    searcher.write("binary", b"wanted\n\0")
    for named in ("large.txt", "huge", "binary"):
        assert "expected text of at most" in await searcher.refusal("grep", pattern="wanted", path=named)
    assert await searcher.ask("grep", pattern="nowhere", path="small.txt") == {"matches": []}


@pytest.mark.first_case
async def test_long_lines_and_long_answers_are_cut(searcher: Desk) -> None:
    searcher.write("long.txt", "x" * 100_000 + "wanted" + "y" * 100_000 + "\n")
    searcher.write("many.txt", f"wanted {'z' * 380}\n" * 3000)
    [match] = (await searcher.ask("grep", pattern="wanted", globs=["long.txt"]))["matches"]
    assert match["text"] == f"…{'x' * 100}wanted{'y' * 294}…"
    found = await searcher.ask("grep", pattern="wanted", globs=["many.txt"], limit=5000)
    assert found["truncated"] is True
    assert sum(len(each["text"]) for each in found["matches"]) <= 256 * 1024
