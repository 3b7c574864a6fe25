"""Output that was kept is read in pieces, searched, and swept; by real runs and real files."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive
from rye_mcp.errors import RyeError
from rye_mcp.runs._pieces import MAX_LINE_BYTES, find_lines, read_piece
from rye_mcp.runs.ids import first_id_at, new_run_id
from rye_mcp.runs.outputs import MAX_LENGTH, MAX_SPARES, RunOutputs

pytestmark = pytest.mark.both_loops


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[RunOutputs]:
    outputs = RunOutputs(tmp_path / "state")
    yield outputs
    outputs.close()


def kept(outputs: RunOutputs, content: bytes, *, run_id: str | None = None) -> str:
    run_id = run_id or new_run_id()
    outputs.directory(run_id).joinpath("stdout").write_bytes(content)
    outputs.finish(run_id)
    return run_id


def old_id(age: timedelta) -> str:
    """The id of a run that began so long ago."""
    return first_id_at(datetime.now(UTC) - age)[:10] + new_run_id()[10:]


def descriptor_of(content: bytes) -> int:
    descriptor = os.memfd_create("output")
    os.write(descriptor, content)
    return descriptor


# --- a run ----------------------------------------------------------------------


async def test_what_a_run_prints_beyond_the_limit_is_read_whole(tmp_path: Path) -> None:
    outputs, run_id = RunOutputs(tmp_path / "state"), new_run_id()
    script = "import sys; [print(n) for n in range(10000)]; print('x' * 10, file=sys.stderr)"
    spec = ProcessSpec(
        command="python3",
        args=["-c", script],
        search_path=os.environ["PATH"],
        max_output=1024,
        spool=outputs.spool(run_id),
    )
    result = await SubprocessPrimitive().run(spec)
    outputs.finish(run_id)
    assert result.truncated
    piece = outputs.read(run_id, length=MAX_LENGTH)
    assert piece.text == "".join(f"{n}\n" for n in range(10000))
    assert (piece.next_offset, piece.total) == (None, len(piece.text))
    assert outputs.read(run_id, pattern="^99.9$").text.split() == [f"99{n}9" for n in range(10)]
    with pytest.raises(RyeError) as refused:
        outputs.read(run_id, "stderr")
    assert refused.value.code == "output_not_found"
    outputs.close()


def names_in(outputs: RunOutputs) -> list[str]:
    return sorted(path.name for path in outputs._root.iterdir())


def test_the_directory_of_a_run_that_kept_nothing_is_used_again(outputs: RunOutputs) -> None:
    first, second = new_run_id(), new_run_id()
    directory = outputs.directory(first)
    assert directory.stat().st_mode & 0o777 == 0o700
    outputs.finish(first)
    outputs.finish(first)
    assert outputs.directory(second) == directory
    assert outputs.kept(first) == outputs.kept(second) == {}
    outputs.finish(second)
    outputs.close()
    assert names_in(outputs) == []


def test_runs_at_the_same_time_have_a_directory_each(outputs: RunOutputs) -> None:
    runs = [new_run_id() for _ in range(100)]
    directories = [outputs.directory(run_id) for run_id in runs]
    assert len({*directories}) == 100
    for run_id in runs:
        outputs.finish(run_id)
    assert len(names_in(outputs)) == MAX_SPARES


def test_what_a_run_writes_can_be_read_while_it_goes_on(outputs: RunOutputs) -> None:
    run_id = new_run_id()
    (outputs.directory(run_id) / "stdout").write_text("first")
    assert (outputs.read(run_id).text, outputs.kept(run_id)) == ("first", {"stdout": 5})
    outputs.finish(run_id)
    assert (outputs.read(run_id).text, outputs.kept(run_id)) == ("first", {"stdout": 5})
    assert names_in(outputs) == [run_id]


def test_the_next_run_sees_nothing_of_the_one_before(outputs: RunOutputs) -> None:
    kept(outputs, b"of the run before")
    run_id = new_run_id()
    assert list(outputs.directory(run_id).iterdir()) == []
    with pytest.raises(RyeError):
        outputs.read(run_id)


def test_a_spare_directory_that_was_removed_is_not_given_out(outputs: RunOutputs) -> None:
    first = new_run_id()
    directory = outputs.directory(first)
    outputs.finish(first)
    directory.rmdir()
    assert outputs.directory(new_run_id()).is_dir()


def test_a_spare_directory_that_others_may_soon_sweep_is_not_given_out(outputs: RunOutputs) -> None:
    first = new_run_id()
    directory = outputs.directory(first)
    outputs.finish(first)
    aged = directory.rename(directory.with_name("." + old_id(timedelta(days=1, minutes=1))))
    outputs._spares[:] = [aged.name]
    assert outputs.directory(new_run_id()) != aged
    assert not aged.exists()


def test_a_directory_that_was_removed_during_its_run_is_no_failure(outputs: RunOutputs) -> None:
    run_id = new_run_id()
    outputs.directory(run_id).rmdir()
    outputs.finish(run_id)
    assert names_in(outputs) == []


# --- pieces ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "length", "text", "next_offset"),
    [
        (0, 5, "hello", 5),
        (5, 100, " wörld", None),
        (-4, 100, "rld", None),  # from the end, which is in the middle of a character
        (100, 10, "", None),
        (0, 8, "hello w", 7),
        (8, 100, "rld", None),
        (0, 0, "hell", 4),
        (-100, 4, "hell", 4),
        (0, 12, "hello wörld", None),
    ],
)
def test_a_piece_begins_and_ends_between_characters(
    outputs: RunOutputs, offset: int, length: int, text: str, next_offset: int | None
) -> None:
    run_id = kept(outputs, "hello wörld".encode())
    piece = outputs.read(run_id, offset=offset, length=length)
    assert (piece.text, piece.next_offset, piece.total) == (text, next_offset, 12)
    assert piece.as_dict()["encoding"] == "utf-8"


texts = st.text(st.characters(codec="utf-8")).map(str.encode)


@given(texts | st.binary() | st.lists(texts | st.binary()).map(b"".join), st.integers(1, 9))
def test_pieces_one_after_the_other_are_the_whole(content: bytes, length: int) -> None:
    descriptor = descriptor_of(content)
    try:
        offset: int | None = 0
        read = ""
        while offset is not None:
            piece = read_piece(descriptor, offset, length)
            assert piece.offset == offset
            assert piece.next_offset is None or piece.next_offset > offset
            read += piece.text
            offset = piece.next_offset
    finally:
        os.close(descriptor)
    # How many U+FFFD stand for what is no UTF-8 depends on where it is cut.
    assert read.replace("\ufffd", "") == content.decode(errors="replace").replace("\ufffd", "")


@pytest.mark.thorough
@given(st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8"))), st.integers(1, 40))
def test_searches_one_after_the_other_find_every_line(lines: list[str], length: int) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()
    descriptor = descriptor_of(content)
    try:
        offset: int | None = 0
        found: list[str] = []
        while offset is not None:
            piece = find_lines(descriptor, "a|^$", offset, length)
            for place, line in zip(piece.matches or (), piece.text.split("\n"), strict=False):
                assert content[place:].startswith(line.encode())
                found.append(line)
            offset = piece.next_offset
    finally:
        os.close(descriptor)
    assert found == [
        line.removesuffix("\r") for line in lines if "a" in line or line.removesuffix("\r") == ""
    ]


def test_bytes_that_are_no_text_stay_in_their_place(outputs: RunOutputs) -> None:
    piece = outputs.read(kept(outputs, b"a\xff\x80b"))
    assert (piece.text, piece.as_dict()["encoding"]) == ("a\ufffd\ufffdb", "lossy")


# --- searching ------------------------------------------------------------------


def test_a_search_goes_on_where_it_stopped(outputs: RunOutputs) -> None:
    run_id = kept(outputs, b"".join(b"line %d\n" % n for n in range(100)))
    first = outputs.read(run_id, pattern="5", length=20)
    assert first.text == "line 5\nline 15\n"
    assert first.next_offset is not None
    second = outputs.read(run_id, pattern="5", length=20, offset=first.next_offset)
    assert second.text == "line 25\nline 35\n"
    assert second.as_dict()["matches"] == [190, 270]


def test_a_line_without_an_end_is_looked_at_in_parts(outputs: RunOutputs) -> None:
    run_id = kept(outputs, ("x" + "ü" * 200_000 + "needle" + "ü" * 200_000).encode())
    piece = outputs.read(run_id, pattern="needle")
    [offset] = piece.as_dict()["matches"]
    assert "needle" in piece.text
    assert len(piece.text.encode()) <= MAX_LINE_BYTES + 1
    assert outputs.read(run_id, offset=offset, length=10).text in piece.text
    assert piece.as_dict()["encoding"] == "utf-8"


def test_a_line_may_end_as_on_windows(outputs: RunOutputs) -> None:
    assert outputs.read(kept(outputs, b"a\r\nb\r\na\r"), pattern="a$").text == "a\na\n"


@pytest.mark.thorough
def test_a_pattern_that_takes_for_ever_is_refused_in_time(outputs: RunOutputs) -> None:
    run_id = kept(outputs, b"a" * 60_000 + b"\n")
    started = time.process_time()  # as the limit counts it: others on the machine take no part of it
    with pytest.raises(RyeError, match="can be tried on a line") as refused:
        outputs.read(run_id, pattern="(a+)+b")
    assert refused.value.code == "invalid_query"
    assert time.process_time() - started < 10


def test_what_a_search_has_found_when_its_time_is_up_is_not_lost() -> None:
    descriptor = descriptor_of(b"ab\n" + b"a" * 60_000 + b"\nab\n")
    try:
        piece = find_lines(descriptor, "(a+)+b", 0, 1000, limit_s=0.2)
    finally:
        os.close(descriptor)
    assert (piece.text, piece.next_offset) == ("ab\n", 3)


@pytest.mark.parametrize("pattern", ["(", "a++", "(?R)", "x" * 10_000])
def test_what_is_no_pattern_is_refused(outputs: RunOutputs, pattern: str) -> None:
    with pytest.raises(RyeError) as refused:
        outputs.read(kept(outputs, b"text"), pattern=pattern)
    assert refused.value.code == "invalid_query"


# --- sweeping -------------------------------------------------------------------


def test_what_is_too_old_goes(outputs: RunOutputs) -> None:
    old = kept(outputs, b"old", run_id=old_id(timedelta(days=7, minutes=1)))
    young = kept(outputs, b"young", run_id=old_id(timedelta(days=6, hours=23)))
    outputs.sweep()
    assert outputs.read(young).text == "young"
    with pytest.raises(RyeError) as refused:
        outputs.read(old)
    assert refused.value.code == "output_not_found"


def test_the_oldest_go_when_all_of_them_are_too_large(tmp_path: Path) -> None:
    outputs = RunOutputs(tmp_path, total_bytes=2500)
    tmp_path.chmod(0o700)
    runs = [kept(outputs, b"x" * 1000, run_id=old_id(timedelta(minutes=age))) for age in (3, 2, 1, 0)]
    outputs.close()
    outputs.sweep()
    left = sorted(path.name for path in (tmp_path / "outputs").iterdir())
    assert left == runs[2:]


def test_the_end_of_a_run_that_kept_something_sweeps(outputs: RunOutputs) -> None:
    kept(outputs, b"x")
    outputs.close()
    old = kept(outputs, b"old", run_id=old_id(timedelta(days=8)))
    outputs.close()
    assert old not in names_in(outputs)


@pytest.mark.parametrize(
    ("age", "total", "is_there"), [(8, 100, False), (2, 100, True), (2, 0, False), (0, 0, True)]
)
def test_what_a_crash_has_left_goes_as_it_ages(tmp_path: Path, age: int, total: int, is_there: bool) -> None:
    """What is younger than a day may be what another process is writing to."""
    outputs = RunOutputs(tmp_path / "state", total_bytes=total)
    left = outputs.directory(new_run_id())
    outputs.close()  # the first run of a process sweeps, in a thread of its own
    left = left.rename(left.with_name("." + old_id(timedelta(days=age))))
    (left / "stdout").write_text("something")
    outputs.sweep()
    assert left.exists() == is_there


def test_the_first_run_of_a_process_sweeps(tmp_path: Path) -> None:
    before = RunOutputs(tmp_path / "state")
    old = kept(before, b"old", run_id=old_id(timedelta(days=8)))
    before.close()
    after = RunOutputs(tmp_path / "state")
    after.directory(new_run_id())
    after.close()
    assert not (tmp_path / "state/outputs" / old).exists()


def test_what_is_no_directory_of_a_run_is_left_alone(outputs: RunOutputs, tmp_path: Path) -> None:
    kept(outputs, b"x")
    mine = tmp_path / "state/outputs" / secrets.token_hex(4)
    mine.mkdir()
    os.utime(mine, (0, 0))
    outputs.sweep()
    assert mine.exists()
