"""The log of a long-lived process: offsets that never change their meaning, and a limit for the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rye_mcp.primitives._process_log import LogPiece, LogWriter, read_log, size_of_log


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


def test_no_more_than_two_files_are_kept_whatever_is_written_at_once(
    tmp_path: Path, writer: LogWriter
) -> None:
    writer.write(b"x" * 1005)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"log.{990:020}", f"log.{1000:020}"]
    assert read_log(tmp_path, 0, 100) == LogPiece(990, b"x" * 15, 1005)


def test_what_was_printed_too_fast_is_told(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.write(b"one")
    writer.write(b"two", skipped=7)
    writer.close()
    said = "one\n[… 7 bytes were printed too fast to be kept …]\ntwo".encode()
    assert read_log(tmp_path, 0, 1000).data == said
