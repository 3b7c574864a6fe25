"""Attack: what stands in the place of kept output, or of the log, leads elsewhere or waits for ever."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.runs.ids import first_id_at, new_run_id
from rye_mcp.runs.log import RunLog, RunRecord
from rye_mcp.runs.outputs import RunOutputs

SECRET = "a private key"
RUN = new_run_id()
OLD = first_id_at(datetime.now(UTC) - timedelta(days=30))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with the output of one run, and a secret beside it."""
    state = tmp_path / "state"
    outputs = RunOutputs(state)
    (outputs.directory(RUN) / "stdout").write_text("output")
    outputs.finish(RUN)
    outputs.close()
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/stdout").write_text(SECRET)
    return state


def a_link_for_the_stream(state: Path) -> None:
    stream = state / "outputs" / RUN / "stdout"
    stream.unlink()
    stream.symlink_to(state.parent / "secret")


def a_link_for_the_run(state: Path) -> None:
    run = state / "outputs" / RUN
    (run / "stdout").unlink()
    run.rmdir()
    run.symlink_to(state.parent / "elsewhere")


def a_link_for_all_runs(state: Path) -> None:
    (state / "outputs").rename(state / "moved")
    (state / "outputs").symlink_to(state / "moved")


def a_pipe(state: Path) -> None:
    stream = state / "outputs" / RUN / "stdout"
    stream.unlink()
    os.mkfifo(stream)


def a_directory(state: Path) -> None:
    stream = state / "outputs" / RUN / "stdout"
    stream.unlink()
    stream.mkdir()


PLANTED = [a_link_for_the_stream, a_link_for_the_run, a_link_for_all_runs, a_pipe, a_directory]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("pattern", [None, "key"])
def test_nothing_but_a_file_of_the_run_is_read(
    state: Path, plant: Callable[[Path], None], pattern: str | None
) -> None:
    plant(state)
    with pytest.raises(RyeError) as refused:
        RunOutputs(state).read(RUN, pattern=pattern)
    assert refused.value.code == "unsafe_path"
    assert RunOutputs(state).kept(RUN) == {}


def test_to_sweep_removes_links_and_not_what_they_lead_to(state: Path) -> None:
    elsewhere = state.parent / "elsewhere"
    old = state / "outputs" / OLD
    old.mkdir(0o700)
    (old / "stdout").symlink_to(state.parent / "secret")
    (state / "outputs" / (OLD[:-1] + "z")).symlink_to(elsewhere)
    RunOutputs(state).sweep()
    assert not old.exists()
    assert (state.parent / "secret").read_text() == SECRET
    assert (elsewhere / "stdout").read_text() == SECRET


def test_no_output_is_written_through_a_link(state: Path) -> None:
    a_link_for_all_runs(state)
    with pytest.raises(RyeError) as refused:
        RunOutputs(state).directory(new_run_id())
    assert refused.value.code == "unsafe_path"


def test_no_output_is_written_where_others_may_look(state: Path) -> None:
    for place in (state, state / "outputs"):
        place.chmod(0o755)
        with pytest.raises(RyeError) as refused:
            RunOutputs(state).directory(new_run_id())
        assert refused.value.code == "unsafe_permissions"
        place.chmod(0o700)


def row() -> RunRecord:
    return RunRecord(run_id=new_run_id(), item_id="demo/hello", kind="exited", caller="agent")


def test_the_log_is_not_written_through_a_link(state: Path, tmp_path: Path) -> None:
    bookmarks = tmp_path / "bookmarks.sqlite3"
    sqlite3.connect(bookmarks).close()
    bookmarks.chmod(0o600)
    (state / "runs.sqlite3").symlink_to(bookmarks)
    before = bookmarks.read_bytes()
    with RunLog(state) as log:
        [notice] = log.append(row())
        with pytest.raises(RyeError) as refused:
            log.list()
    assert (notice.code, refused.value.code) == ("run_not_logged", "unsafe_path")
    assert bookmarks.read_bytes() == before


def test_a_pipe_in_the_place_of_the_log_is_not_waited_for(state: Path) -> None:
    os.mkfifo(state / "runs.sqlite3", 0o600)
    with RunLog(state) as log:
        [notice] = log.append(row())
    assert notice.code == "run_not_logged"


@pytest.mark.parametrize(("place", "mode"), [("", 0o755), ("runs.sqlite3", 0o644), ("runs.sqlite3", 0o660)])
def test_the_log_is_not_written_where_others_may_look(state: Path, place: str, mode: int) -> None:
    with RunLog(state) as log:
        assert log.append(row()) == ()
    (state / place).chmod(mode)
    with RunLog(state) as log:
        [notice] = log.append(row())
        with pytest.raises(RyeError) as refused:
            log.list()
    assert (notice.code, refused.value.code) == ("run_not_logged", "unsafe_permissions")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_all_files_of_the_log_are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with RunLog(tmp_path / "state") as log:
            log.append(row())
            modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()}
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}
    assert "runs.sqlite3-wal" in modes
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
