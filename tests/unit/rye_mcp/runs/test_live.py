"""What is running now: others of this user see what a run writes, what it holds, and can end it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lilux import _files as files
from rye_mcp.errors import RyeError
from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.live import MAX_LIVE_BYTES, LiveRun, LiveRuns, LiveView


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def live(state: Path) -> Iterator[LiveRuns]:
    runs = LiveRuns(state)
    yield runs
    runs.close()


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    """Waits for its standard input, and has started another one that does so too."""
    script = "import subprocess, sys; print('ready', flush=True); subprocess.run(['cat'])"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def begun(live: LiveRuns, *, pid: int | None = None, old: bool = True) -> LiveRun:
    run = live.begin(new_run_id())
    if old:
        run.begun -= 10  # as if it had been going on for that long
    if pid is not None:
        run.on_started(pid)
    return run


def until(is_so: object, *, tries: int = 2000) -> None:
    """Wait for the thread that writes; it looks every 50 ms."""
    pause = threading.Event()
    for _ in range(tries):
        if callable(is_so) and is_so():
            return
        pause.wait(0.01)
    raise AssertionError("expected the thread to write, found that it did not")


def test_what_a_run_writes_is_seen_from_any_byte_on(state: Path, live: LiveRuns) -> None:
    view, run = LiveView(state), begun(live)
    run.on_output(b"one\n")
    until(lambda: view.output(run.run_id).data == b"one\n")
    assert view.ids() == (run.run_id,)
    run.on_output(b"two\n")
    until(lambda: view.output(run.run_id, 4).data == b"two\n")
    assert view.output(run.run_id, 8).data == b""
    assert view.output(run.run_id, 8).offset == 8


def test_the_last_of_a_long_output_is_kept_and_the_rest_is_counted(state: Path, live: LiveRuns) -> None:
    view, run = LiveView(state), begun(live)
    for number in range(64):
        run.on_output(b"%07d\n" % number * 4096)
    total = 64 * 8 * 4096
    until(lambda: view.output(run.run_id).offset == total)
    found = view.output(run.run_id)
    assert found.data.endswith(b"0000063\n")
    assert found.skipped + len(found.data) == total
    assert len(found.data) <= MAX_LIVE_BYTES
    assert (state / "live" / run.run_id).stat().st_size <= MAX_LIVE_BYTES + 512


def test_a_short_run_leaves_no_file(state: Path, live: LiveRuns) -> None:
    run = live.begin(new_run_id())
    run.on_output(b"quick")
    live.end(run)
    other = begun(live)
    until(lambda: LiveView(state).ids() == (other.run_id,))


def test_files_are_this_users_alone_and_gone_in_the_end(state: Path, live: LiveRuns) -> None:
    run = begun(live)
    path = state / "live" / run.run_id
    until(path.exists)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    live.end(run)
    live.close()
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("ends", ["before its file is written", "as its file appears"])
def test_a_run_that_ends_while_its_file_is_written_leaves_none(
    state: Path, live: LiveRuns, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """The writer itself ends the run there, so that no other thread has to hit the moment."""
    has_ended = threading.Event()

    def end(run: LiveRun) -> None:
        if run is ended:
            live.end(run)
            has_ended.set()

    def news(run: LiveRun, *, original: Callable[[LiveRun], Any] = LiveRun.news) -> Any:
        found = original(run)
        if ends == "before its file is written":
            end(run)
        return found

    def write_whole(
        path: Path, *args: Any, original: Callable[..., None] = files.write_whole, **how: Any
    ) -> None:
        original(path, *args, **how)
        if ends == "as its file appears" and path.name == ended.run_id:
            end(ended)

    monkeypatch.setattr(LiveRun, "news", news)
    monkeypatch.setattr(files, "write_whole", write_whole)
    ended = live.begin(new_run_id())
    ended.on_output(b"secret")
    ended.begun -= 10
    assert has_ended.wait(20)
    other = begun(live)
    until(lambda: other.run_id in LiveView(state).ids())  # the writer is through with the one that ended
    live.close()
    assert LiveView(state).ids() == ()


def test_what_a_killed_process_left_is_removed_by_the_next_one(state: Path, live: LiveRuns) -> None:
    script = (
        "import os, sys; from pathlib import Path\n"
        "from rye_mcp.runs.live import LiveRuns, LiveView\n"
        "from rye_mcp.runs.ids import new_run_id\n"
        "run = LiveRuns(Path(sys.argv[1])).begin(new_run_id()); run.begun -= 10; run.on_output(b'secret')\n"
        "view = LiveView(Path(sys.argv[1]))\n"
        "while not view.ids(): pass\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, state], check=False).returncode == -9
    [left] = LiveView(state).ids()
    assert LiveView(state).head(left) is None
    run = begun(live)
    until(lambda: LiveView(state).ids() == (run.run_id,))


def test_processes_and_memory_are_those_of_the_run(
    state: Path, live: LiveRuns, program: subprocess.Popen[bytes]
) -> None:
    view, run = LiveView(state), begun(live, pid=program.pid)
    until(lambda: view.processes(run.run_id)[0] == 2)
    assert view.processes(run.run_id)[1] > 1000
    assert view.processes(new_run_id()) == (0, 0)


def test_a_run_is_ended_by_its_process(state: Path, live: LiveRuns, program: subprocess.Popen[bytes]) -> None:
    view, run = LiveView(state), begun(live, pid=program.pid)
    until(lambda: view.head(run.run_id) is not None)
    assert view.kill(run.run_id) == "SIGTERM"
    assert program.wait() == -15


def test_what_does_not_listen_is_killed(state: Path, live: LiveRuns) -> None:
    script = (
        "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as stubborn:
        assert stubborn.stdout is not None
        assert stubborn.stdout.readline() == b"ready\n"
        view, run = LiveView(state), begun(live, pid=stubborn.pid)
        until(lambda: view.head(run.run_id) is not None)
        assert view.kill(run.run_id, grace_s=0.05) == "SIGKILL"
        assert stubborn.wait() == -9


def test_a_run_without_a_process_cannot_be_ended(state: Path, live: LiveRuns) -> None:
    run = begun(live)
    view = LiveView(state)
    until(lambda: view.head(run.run_id) is not None)
    for run_id in (run.run_id, new_run_id()):
        with pytest.raises(RyeError) as refused:
            view.kill(run_id)
        assert refused.value.code == "run_not_live"


def test_a_full_disk_ends_no_run(state: Path) -> None:
    state.mkdir()
    (state / "live").write_text("no directory")
    live = LiveRuns(state)
    run = begun(live)
    run.on_output(b"x")
    until(lambda: run.is_refused)
    live.end(run)
    live.close()
    assert LiveView(state).ids() == ()
    assert (state / "live").is_file()


def test_closing_ends_the_writer_also_while_it_has_just_begun(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    for _ in range(100):
        runs = LiveRuns(tmp_path)
        runs.end(runs.begin(new_run_id()))
        runs.close()
    assert not [each for each in set(threading.enumerate()) - before if each.name == "rye-live"]
