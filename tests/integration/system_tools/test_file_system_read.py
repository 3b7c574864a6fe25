"""`rye/file-system/read`: lines, bytes and pictures, what is cut, and what is never opened."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rye_mcp.mcp_server.answers import answer
from tests.file_system_world import Desk, at_desk

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    async with at_desk(tmp_path, monkeypatch) as found:
        yield found


async def test_lines_come_with_their_numbers_and_it_says_where_to_go_on(desk: Desk) -> None:
    content = "one\ntwo\r\nthrée\n\nfive"
    desk.write("a.txt", content)
    found = await desk.ask("read", path="a.txt")
    assert found == {
        "path": "a.txt",
        "size": len(content.encode()),
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
        "text": "     1\tone\n     2\ttwo\n     3\tthrée\n     4\t\n     5\tfive\n",
        "start_line": 1,
        "end_line": 5,
        "total_lines": 5,
        "next_line": None,
        "encoding": "utf-8",
        "line_endings": "mixed",
    }
    some = await desk.ask("read", path=str(desk.project / "a.txt"), start_line=2, max_lines=2, format="plain")
    assert (some["text"], some["end_line"], some["next_line"]) == ("two\r\nthrée\n", 3, 4)
    assert some["cut"] == ["lines from 4 on"]
    desk.write("x/y")
    last = await desk.ask("read", path="./x/../a.txt", start_line=-2, format="plain")
    assert (last["text"], last["start_line"], last["next_line"]) == ("\nfive", 4, None)
    assert "start_line 6 of 5" in await desk.refusal("read", path="a.txt", start_line=6)
    assert "found start_line 0" in await desk.refusal("read", path="a.txt", start_line=0)
    desk.write("empty")
    empty = await desk.ask("read", path="empty")
    assert (empty["text"], empty["end_line"], empty["total_lines"], empty["next_line"]) == ("", 0, 0, None)


@pytest.mark.thorough
async def test_no_more_is_answered_than_an_agent_needs(desk: Desk) -> None:
    desk.write("many", "x\n" * 5000)
    many = await desk.ask("read", path="many")
    assert (many["end_line"], many["next_line"], many["total_lines"]) == (2000, 2001, 5000)
    desk.write("wide", "".join(f"{number:099}\n" for number in range(2000)))
    wide = await desk.ask("read", path="wide", format="plain")
    assert len(wide["text"]) == wide["end_line"] * 100 <= 64 * 1024
    assert wide["next_line"] == wide["end_line"] + 1
    following = await desk.ask("read", path="wide", format="plain", start_line=wide["next_line"], max_lines=1)
    assert following["text"] == f"{wide['end_line']:099}\n"
    desk.write("long", "é" * 100_000 + "\nshort\n")
    long = await desk.ask("read", path="long")
    assert len(long["text"]) < 2100
    assert long["next_line"] == 2
    assert [text.partition(":")[0] for text in long["cut"]] == ["line 1", "line 1", "lines from 2 on"]
    assert (await desk.ask("read", path="long", start_line=2))["text"] == "     2\tshort\n"


@pytest.mark.thorough
async def test_a_file_of_any_size_is_read_without_being_held(desk: Desk) -> None:
    path = desk.write("huge", "first\n")
    with path.open("r+b") as file:
        file.truncate(3 << 30)
        file.seek(0)
        file.write(b"first\n" + b"filler\n" * 20_000 + b"wanted\n")
    result = await desk.run("read", path="huge", start_line=20_002, max_lines=1, format="plain")
    assert result.success, result.data
    assert (result.data["text"], result.data["total_lines"]) == ("wanted\n", None)
    assert (result.data["sha256"], result.data["next_line"]) == (None, 20_003)
    assert result.usage is not None
    assert result.usage.max_rss_kb < 100 * 1024
    assert "to count from its end" in await desk.refusal("read", path="huge", start_line=-1)
    end = await desk.ask("read", path="huge", format="base64", offset=(3 << 30) - 2, length=100)
    assert (end["base64"], end["next_offset"]) == (base64.b64encode(b"\0\0").decode(), None)


@pytest.mark.thorough
async def test_what_is_no_utf_8_is_read_all_the_same(desk: Desk) -> None:
    desk.write("latin", b"caf\xe9\n")
    desk.write("marked", b"\xef\xbb\xbfone\n")
    desk.write("wide", "one\ntwö\n".encode("utf-16"))
    latin = await desk.ask("read", path="latin", format="plain")
    assert latin["text"] == "caf\ufffd\n"
    assert latin["encoding"].startswith("not utf-8")
    marked = await desk.ask("read", path="marked", format="plain")
    assert (marked["text"], marked["encoding"]) == ("one\n", "utf-8 with a byte order mark")
    wide = await desk.ask("read", path="wide", format="plain")
    assert (wide["text"], wide["encoding"], wide["total_lines"]) == ("one\ntwö\n", "utf-16", 2)


async def test_bytes_come_as_base64_a_range_at_a_time(desk: Desk) -> None:
    content = bytes(range(256)) * 400
    desk.write("data", content)
    first = await desk.ask("read", path="data")
    assert base64.b64decode(first["base64"]) == content[:49152]
    rest = await desk.ask("read", path="data", offset=first["next_offset"], length=1 << 20)
    assert base64.b64decode(rest["base64"]) == content[49152:]
    assert rest["next_offset"] is None
    assert "expected an offset below" in await desk.refusal("read", path="data", offset=len(content))


@pytest.mark.thorough
async def test_a_picture_is_a_content_block_whatever_its_name(desk: Desk) -> None:
    desk.write("picture.txt", PNG)
    result = await desk.run("read", path="picture.txt")
    shown = answer(result.as_dict())
    [block] = shown.content
    assert (block.type, getattr(block, "mime_type", None)) == ("image", "image/png")
    assert base64.b64decode(getattr(block, "data", "")) == PNG
    assert result.data["structuredContent"]["path"] == "picture.txt"
    as_bytes = await desk.ask("read", path="picture.txt", format="base64")
    assert base64.b64decode(as_bytes["base64"]) == PNG
    desk.write("large.png", PNG + bytes(4 << 20))
    assert "a picture of at most" in await desk.refusal("read", path="large.png")


@pytest.mark.thorough
async def test_nothing_but_a_regular_file_is_opened(desk: Desk) -> None:
    os.mkfifo(desk.project / "fifo")
    (desk.project / "link").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(desk.project / "socket"))
    cases = {
        "fifo": "a FIFO",
        "link": "a FIFO",
        "socket": "a socket",
        ".": "a directory",
        ".ai": "a directory",
    }
    for path, found in cases.items():
        assert f"expected a file, found {found}" in await desk.refusal("read", path=path)
    assert "found nothing" in await desk.refusal("read", path="none/such")
    desk.write("a.txt")
    assert "found something else: a.txt" in await desk.refusal("read", path="a.txt/b")
    assert "File name too long" in await desk.refusal("read", path="n" * 300)
    assert "NUL" in await desk.refusal("read", path="a\0b")


@pytest.mark.thorough
async def test_names_may_be_anything_that_a_path_can_hold(desk: Desk) -> None:
    odd = "a\nb {params_json} ${HOME} \\ 'é'.txt"
    desk.write(odd, "content\n")
    assert (await desk.ask("read", path=odd, format="plain"))["path"] == odd
    (desk.project / os.fsdecode(b"\xff.txt")).write_text("bytes\n")
    listed = await desk.ask("ls", hidden=False)
    assert [each["name"] for each in listed["entries"]] == [odd, "\\xff.txt"]
