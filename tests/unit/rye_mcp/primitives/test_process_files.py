"""The log of a long-lived process: offsets that never change their meaning, and a limit for the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rye_mcp.primitives._process_files import LogPiece, LogWriter, read_log, size_of_log, whole_characters


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[LogWriter]:
    made = LogWriter(tmp_path, segment_bytes=10)
    yield made
    made.close()


def test_a_log_of_nothing_is_empty(tmp_path: Path) -> None:
    assert size_of_log(tmp_path) == 0
    assert read_log(tmp_path, 5, 10) == LogPiece(0, b"", 0)


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [
        (0, 100, (10, b"klmnopqrstuvwxyz")),
        (12, 5, (12, b"mnopq")),
        (-4, 100, (22, b"wxyz")),
        (-4, 2, (22, b"wx")),
        (-1000, 100, (10, b"klmnopqrstuvwxyz")),
        (26, 10, (26, b"")),
        (1000, 10, (26, b"")),
        (3, 4, (10, b"klmn")),
    ],
)
def test_the_newest_bytes_are_read_by_the_offset_that_they_always_had(
    tmp_path: Path, writer: LogWriter, offset: int, length: int, expected: tuple[int, bytes]
) -> None:
    for letter in b"abcdefghijklmnopqrstuvwxyz":
        writer.write(bytes([letter]))
    assert read_log(tmp_path, offset, length) == LogPiece(*expected, 26)


def test_a_file_that_cannot_be_begun_is_tried_again_and_no_other_one_is_written_to(
    tmp_path: Path, writer: LogWriter
) -> None:
    writer.write(b"0123456789")
    in_the_way = tmp_path / "log.00000000000000000010"
    in_the_way.mkdir()
    others: list[int] = []
    try:
        for _ in range(2):
            with pytest.raises(FileExistsError):
                writer.write(b"lost")
            others.append(os.open(tmp_path / f"other{len(others)}", os.O_WRONLY | os.O_CREAT))
    finally:
        for other in others:
            os.close(other)
    assert [path.read_bytes() for path in tmp_path.glob("other*")] == [b"", b""]
    in_the_way.rmdir()
    writer.write(b"abc")
    assert read_log(tmp_path, 0, 100) == LogPiece(0, b"0123456789abc", 13)


TEXT = "aé€😀b"
CONTENT = TEXT.encode()


@pytest.mark.parametrize("length", [4, 5, 6, 7, 100])
def test_reading_on_gives_every_character_whole(tmp_path: Path, length: int) -> None:
    writer = LogWriter(tmp_path, segment_bytes=3)
    pieces, offset = "", 0
    for byte in CONTENT:
        writer.write(bytes([byte]))
        piece = whole_characters(read_log(tmp_path, offset, length), offset, is_over=False)
        pieces, offset = pieces + piece.data.decode(), piece.offset + len(piece.data)
    writer.close()
    assert pieces == TEXT


@pytest.mark.parametrize(
    ("offset", "length", "is_over", "expected"),
    [
        (-2, 10, False, (10, b"b")),  # begins within a character that nobody asked for
        (-5, 10, False, (6, "😀b".encode())),
        (2, 1, False, (2, b"\xa9")),  # that was asked for
        (3, 4, False, (3, "€".encode())),
        (3, 2, False, (3, b"\xe2\x82")),  # never nothing, where there is something
        (0, 9, True, (0, CONTENT[:6])),
        (0, 11, True, (0, CONTENT)),
    ],
)
def test_a_piece_begins_and_ends_between_characters(
    tmp_path: Path, offset: int, length: int, is_over: bool, expected: tuple[int, bytes]
) -> None:
    writer = LogWriter(tmp_path)
    writer.write(CONTENT)
    writer.close()
    piece = whole_characters(read_log(tmp_path, offset, length), offset, is_over=is_over)
    assert (piece.offset, piece.data) == expected


@pytest.mark.parametrize(("is_over", "expected"), [(False, b"a"), (True, b"a\xf0\x9f")])
def test_half_a_character_waits_for_the_rest_as_long_as_there_may_be_one(
    tmp_path: Path, is_over: bool, expected: bytes
) -> None:
    writer = LogWriter(tmp_path)
    writer.write(b"a\xf0\x9f")
    writer.close()
    assert whole_characters(read_log(tmp_path, 0, 10), 0, is_over=is_over).data == expected
    assert whole_characters(LogPiece(0, b"\x80" * 9, 9), -9, is_over=False).data == b"\x80" * 9


def test_no_more_than_two_files_are_kept_whatever_is_written_at_once(
    tmp_path: Path, writer: LogWriter
) -> None:
    writer.write(b"x" * 1005)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"log.{990:020}", f"log.{1000:020}"]
    assert read_log(tmp_path, 0, 100) == LogPiece(990, b"x" * 15, 1005)
