"""The log of runs: what is written is there, for every process, whatever becomes of the one that wrote it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.runs.hosts import Host, is_gone, this_process
from rye_mcp.runs.ids import first_id_at, new_run_id
from rye_mcp.runs.log import RunFilter, RunLog, RunRecord

ASSETS = Path(__file__).parents[3] / "assets"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def log(state: Path) -> Iterator[RunLog]:
    with RunLog(state) as log:
        yield log


def run(**more: Any) -> RunRecord:
    return RunRecord(
        **{"run_id": new_run_id(), "item_id": "demo/hello", "kind": "exited", "caller": "agent"} | more
    )


WHOLE = run(
    item_type="tool",
    project="/home/leo/caf\udce9",
    chain=(("demo/hello", "a" * 64), ("rye/core/primitives/subprocess", "b" * 64)),
    signer="leo (0123456789abcdef)",
    kind="signaled",
    return_code=-9,
    signal=9,
    code="tool_failed",
    duration_ms=12.3456,
    user_ms=1.5,
    system_ms=0.5,
    max_rss_kb=10240,
    parameters=("name", "größe"),
    client="inspector",
    sealed=True,
    parent="01m7r64xnv25r13hyhb9ccmrbf",
    digests=(("stdout", "c" * 64), ("stderr", "d" * 64)),
    stderr_end="it broke\n",
)


# --- rows -----------------------------------------------------------------------


def test_a_row_comes_back_as_it_was_written(log: RunLog) -> None:
    assert log.append(WHOLE) == ()
    found = log.get(WHOLE.run_id)
    different = {
        each.name for each in fields(found) if getattr(found, each.name) != getattr(WHOLE, each.name)
    }
    assert different == {"project", "duration_ms"}
    assert (found.project, found.duration_ms) == ("/home/leo/caf\\xe9", 12.346)
    assert abs(found.begun - datetime.now(UTC)) < timedelta(hours=2)


def test_there_is_no_room_for_values_environments_and_output(log: RunLog) -> None:
    """Whoever adds a column decides about this list too."""
    assert {each.name for each in fields(RunRecord)} == {
        *("run_id", "item_id", "item_type", "project", "chain", "signer", "kind", "return_code", "signal"),
        *("code", "duration_ms", "user_ms", "system_ms", "max_rss_kb", "parameters", "caller", "client"),
        *("sealed", "parent", "digests", "stderr_end", "process", "enforced", "runtime", "node"),
    }


def test_long_names_make_no_large_row(log: RunLog) -> None:
    log.append(run(parameters=("x" * 100_000,) * 1000, client="c" * 100_000))
    [found] = log.list()
    assert len(found.parameters) == 100
    assert {len(name) for name in (*found.parameters, found.client or "")} == {200}


def test_half_a_character_is_logged_as_an_escape(log: RunLog) -> None:
    assert log.append(run(item_id="demo/\udcff\ud800", stderr_end="\udcff")) == ()
    [found] = log.list()
    assert found.item_id == "demo/\\udcff\\ud800"
    assert found.stderr_end == "?"


def test_the_same_run_is_not_written_twice(log: RunLog) -> None:
    record = run()
    assert log.append(record) == ()
    [notice] = log.append(record)
    assert notice.code == "run_not_logged"
    assert log.list() == (record,)


def test_the_end_of_a_run_replaces_its_beginning(log: RunLog) -> None:
    begun, other = run(kind="running", process=this_process()), run()
    log.append(begun)
    assert log.get(begun.run_id).status == "running"
    log.append(other)
    ended = replace(begun, kind="exited", code="tool_failed", process=None)
    assert log.append(ended) == ()
    assert log.list() == (ended, other)
    [notice] = log.append(replace(ended, code=None))
    assert notice.code == "run_not_logged"


def test_an_end_is_logged_though_its_beginning_was_not(log: RunLog) -> None:
    log.append(record := run())
    assert log.list() == (record,)


def test_a_run_whose_process_is_gone_is_lost(log: RunLog) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        host = Host.of(process.pid)
        assert host is not None
        known = this_process().split()
        name = " ".join((str(host.pid), host.began, host.boot, known[3]))
        log.append(record := run(kind="running", process=name))
        assert log.get(record.run_id).status == "running"
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        found = log.get(record.run_id)  # nobody has waited for it yet, and it has ended all the same
        assert (found.status, found.kind, found.code) == ("error", "lost", "lost")
    assert log.get(record.run_id).code == "lost"


def test_a_process_of_another_namespace_is_not_taken_for_gone() -> None:
    pid, began, boot, _ = this_process().split()
    assert is_gone(f"{pid} 1 {boot} {Path('/proc/self/ns/pid').readlink()}")
    assert not is_gone(f"{pid} 1 {boot} pid:[1]")
    assert is_gone(f"{pid} {began} another-boot pid:[1]")
    assert is_gone("")


@pytest.mark.parametrize(
    ("status", "found"),
    [("running", "r"), ("success", "s"), ("error", "lf"), ("lost", "l"), ("timeout", "f")],
)
def test_what_runs_and_what_is_lost_can_be_asked_for(log: RunLog, status: str, found: str) -> None:
    log.append(run(client="f", code="timeout"))
    log.append(run(client="s"))
    log.append(run(client="r", kind="running", process=this_process()))
    log.append(run(client="l", kind="running", process="1 1 another-boot pid:[1]"))
    assert "".join(record.client or "" for record in log.list(RunFilter(status=status))) == found


def test_refused_calls_do_not_push_runs_out(state: Path) -> None:
    """There are more of them than runs that are kept: a run is not counted by the refusals after it."""
    with RunLog(state, kept_rows=20, kept_refusals=10) as log:
        log.append(kept := run())
        for _ in range(600):
            log.append(run(kind="refused", code="unsigned"))
    with RunLog(state) as log:
        found = log.list(RunFilter(limit=1000))
    assert found[-1] == kept
    assert 11 <= len(found) <= 11 + 110


@pytest.mark.parametrize("item_id", ["x" * 3_000_000, "a/" * 200_000, "\x1b]" * 1000, "\ud800" * 1000])
def test_of_what_is_no_id_little_is_kept(log: RunLog, item_id: str) -> None:
    log.append(record := run(kind="refused", code="invalid_id", item_id=item_id))
    kept = log.get(record.run_id).item_id
    assert len(kept) <= 1200
    assert log.path.with_name(f"{log.path.name}-wal").stat().st_size < 200_000


def test_an_id_is_kept_whole(log: RunLog) -> None:
    longest = "/".join(["a" * 64] * 8)
    log.append(record := run(item_id=longest))
    assert log.get(record.run_id).item_id == longest


def test_only_the_end_of_standard_error_is_kept(log: RunLog) -> None:
    log.append(record := run(stderr_end="ä" * 5000 + "the end"))
    end = log.get(record.run_id).stderr_end
    assert end is not None
    assert end.endswith("the end")
    assert 4090 < len(end.encode()) <= 4096


# --- files of older versions ----------------------------------------------------


def test_a_log_of_the_first_version_opens_with_its_rows(state: Path) -> None:
    """The file was written by the last version that had no other."""
    state.mkdir(mode=0o700)
    path = state / "runs.sqlite3"
    path.write_bytes((ASSETS / "runs-1.sqlite3").read_bytes())
    path.chmod(0o600)
    with RunLog(state) as log:
        failed, worked = log.list()
        assert (failed.item_id, failed.code) == ("demo/fail", "tool_failed")
        assert (worked.parameters, worked.client) == (("name", "größe"), "inspector")
        assert worked.duration_ms == 12.3
        assert worked.chain[0] == ("demo/hello", "a" * 64)
        assert (worked.parent, worked.digests, worked.stderr_end) == (None, (), None)
        log.append(added := run(digests=(("stdout", "c" * 64),)))
        assert log.list()[0] == added
        assert log.notices == ()
    assert not (state / "runs.damaged.sqlite3").exists()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (7,)


def test_a_file_that_knows_nothing_of_enforcement_is_brought_up_to_date(state: Path) -> None:
    """The file was written by the last version without that column."""
    state.mkdir(mode=0o700)
    path = state / "runs.sqlite3"
    path.write_bytes((ASSETS / "runs-2.sqlite3").read_bytes())
    path.chmod(0o600)
    with RunLog(state) as log:
        failed, worked = log.list()
        assert (failed.item_id, failed.code, failed.stderr_end) == ("demo/fail", "tool_failed", "no")
        assert (worked.client, worked.digests) == ("inspector", (("stdout", "c" * 64),))
        assert worked.enforced is failed.enforced is None
        log.append(
            added := run(enforced={"level": "cell", "project": "write", "net": ["api.github.com:443"]})
        )
        assert log.list()[0] == added
        assert log.notices == ()


@pytest.mark.parametrize("version", [3, 4])
def test_a_file_that_knows_nothing_of_warm_runs_is_brought_up_to_date(state: Path, version: int) -> None:
    """The files were written by versions without that column."""
    state.mkdir(mode=0o700)
    path = state / "runs.sqlite3"
    path.write_bytes((ASSETS / f"runs-{version}.sqlite3").read_bytes())
    path.chmod(0o600)
    with RunLog(state) as log:
        failed, worked = log.list()
        assert (failed.item_id, failed.code, failed.stderr_end) == ("demo/fail", "tool_failed", "no")
        assert (worked.client, worked.enforced) == (
            "inspector",
            {"level": "cell", "project": "none", "net": "none"},
        )
        assert worked.runtime is failed.runtime is None
        assert "runtime" not in worked.as_dict()
        for text, data in (
            ("warm", {"runtime": "warm"}),
            ("cold packages", {"runtime": "cold", "why_cold": "packages"}),
        ):
            log.append(added := run(runtime=text))
            assert log.list()[0] == added
            assert data.items() <= added.as_dict().items()
        assert log.notices == ()


def test_a_file_without_an_index_for_filters_gets_one(state: Path) -> None:
    """The file was written by the last version without it."""
    state.mkdir(mode=0o700)
    path = state / "runs.sqlite3"
    path.write_bytes((ASSETS / "runs-6.sqlite3").read_bytes())
    path.chmod(0o600)
    with RunLog(state) as log:
        [moved] = log.list(RunFilter(item="demo/elsewhere".__eq__))
        assert (moved.node, moved.runtime) == ("attic", "warm")
        [failed] = log.list(RunFilter(status="error"))
        assert (failed.item_id, failed.stderr_end) == ("demo/fail", "no")
        assert len(log.list(RunFilter(client="inspector"))) == 2
        assert log.notices == ()
    assert not (state / "runs.damaged.sqlite3").exists()


def read_bytes() -> int:
    """How much this thread has read of files."""
    facts = Path("/proc/thread-self/io").read_text().split()
    return int(facts[facts.index("rchar:") + 1])


@pytest.mark.parametrize(
    "wanted",
    [
        RunFilter(item="demo/none".__eq__),
        RunFilter(client="nobody"),
        RunFilter(project="/nowhere"),
        RunFilter(status="error"),
        RunFilter(status="timeout"),
        RunFilter(status="running"),
        RunFilter(since=datetime(9000, 1, 1, tzinfo=UTC)),
        RunFilter(until=datetime(2000, 1, 1, tzinfo=UTC)),
        RunFilter(item="demo/none".__eq__, status="ended"),
    ],
    ids=["item", "client", "project", "error", "code", "running", "since", "until", "item and state"],
)
def test_a_filter_that_finds_nothing_reads_no_rows(long_log: Path, wanted: RunFilter) -> None:
    """The size of the file is that of its rows; their index is a small part of it."""
    with RunLog(long_log) as log:
        before = read_bytes()
        assert log.list(wanted) == ()
        assert read_bytes() - before < log.path.stat().st_size / 5


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which each row fills a page of the file."""
    state = tmp_path_factory.mktemp("long") / "state"
    with RunLog(state) as log:
        for _ in range(1000):
            log.append(run(stderr_end="x" * 3000))
        with closing(sqlite3.connect(log.path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return state


def test_many_processes_bring_a_file_up_to_date_at_once(state: Path) -> None:
    state.mkdir(mode=0o700)
    path = state / "runs.sqlite3"
    path.write_bytes((ASSETS / "runs-1.sqlite3").read_bytes())
    path.chmod(0o600)
    logs = [RunLog(state) for _ in range(8)]
    threads = [threading.Thread(target=log.append, args=(run(),)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {log.notices for log in logs} == {()}
    assert len(logs[0].list()) == 2 + len(logs)
    for log in logs:
        log.close()


def test_a_run_that_nobody_has_seen_is_not_found(log: RunLog) -> None:
    for record in (run(), run()):
        with pytest.raises(RyeError) as refused:
            log.get(record.run_id)
        assert refused.value.code == "run_not_found"
        log.append(run())


def test_reading_makes_no_file(log: RunLog, state: Path) -> None:
    assert log.list() == ()
    assert not state.exists()


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (RunFilter(), "cba"),
        (RunFilter(limit=2), "cb"),
        (RunFilter(limit=0), ""),
        (RunFilter(limit=-1), ""),
        (RunFilter(status="success"), "a"),
        (RunFilter(status="error"), "cb"),
        (RunFilter(status="timeout"), "c"),
        (RunFilter(status="' OR 1=1 --"), ""),
        (RunFilter(project="/p"), "ba"),
        (RunFilter(project="/p", status="error"), "b"),
        (RunFilter(item=lambda item_id: item_id.startswith("x/")), "c"),
        (RunFilter(since=datetime(2026, 1, 2, tzinfo=UTC)), "cb"),
        (RunFilter(until=datetime(2026, 1, 2, tzinfo=UTC)), "a"),
        (RunFilter(since=datetime(1, 1, 1, tzinfo=UTC), until=datetime(9999, 1, 1, tzinfo=UTC)), "cba"),
    ],
)
def test_rows_are_found_by_what_is_known_of_them(log: RunLog, wanted: RunFilter, found: str) -> None:
    for name, day, more in [
        ("a", 1, {"project": "/p"}),
        ("b", 2, {"project": "/p", "code": "tool_failed"}),
        ("c", 3, {"item_id": "x/y", "code": "timeout"}),
    ]:
        run_id = first_id_at(datetime(2026, 1, day, tzinfo=UTC))
        log.append(run(run_id=run_id, client=name, **more))
    assert "".join(record.client or "" for record in log.list(wanted)) == found


# --- processes ------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from rye_mcp.runs.hosts import Host, is_gone, this_process
from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.log import RunLog, RunRecord

log, out = RunLog(Path(sys.argv[1])), sys.stdout
while True:
    run_id = new_run_id()
    notices = log.append(RunRecord(run_id=run_id, item_id="demo/hello", kind="exited", caller="agent"))
    out.write(f"{run_id} {[notice.code for notice in notices]}\\n")
    out.flush()
"""


@contextmanager
def writer(state: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WRITER, str(state)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process


def written_by(process: subprocess.Popen[str], rows: int) -> list[str]:
    """What a writer says to have written: so many rows, then all until it is killed in the middle of one."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(rows)]
    process.kill()
    lines += process.stdout.read().splitlines(keepends=True)
    assert process.wait() == -signal.SIGKILL
    whole = [line.split() for line in lines if line.endswith("\n")]
    assert {notices for _, notices in whole} == {"[]"}
    return [run_id for run_id, _ in whole]


def test_a_killed_writer_loses_the_row_that_it_was_writing_and_no_other(state: Path, rounds: int) -> None:
    chance = Random(1)  # noqa: S311 - the same moments each time
    for _ in range(rounds):
        with writer(state) as process:
            written = written_by(process, chance.randrange(1, 300))
        with RunLog(state) as log:
            # One row may have been written whole without a word of it.
            newest = [record.run_id for record in log.list(RunFilter(limit=len(written) + 1))]
            assert set(written) <= set(newest)
            assert log.notices == ()


def test_several_processes_write_at_once(state: Path) -> None:
    with writer(state) as one, writer(state) as two, writer(state) as three:
        written = [run_id for process in (one, two, three) for run_id in written_by(process, 100)]
    with RunLog(state) as log:
        for run_id in written:
            log.get(run_id)


def test_several_threads_write_at_once(log: RunLog) -> None:
    threads = [threading.Thread(target=lambda: [log.append(run()) for _ in range(100)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(log.list(RunFilter(limit=1000))) == 400


def test_new_rows_of_other_processes_are_followed(log: RunLog, state: Path) -> None:
    """The reader waits between two looks; this test writes, in another process, while it does."""
    log.append(run(client="first"))
    other = RunLog(state)
    pauses = 0

    def pause() -> None:
        nonlocal pauses
        pauses += 1
        other.append(run(client=str(pauses)))

    followed = log.follow(pause=pause)
    assert [next(followed).client for _ in range(4)] == ["first", "1", "2", "3"]
    other.close()


def test_a_follower_sees_what_it_asked_for_and_the_last_rows_first(log: RunLog) -> None:
    for name in "abc":
        log.append(run(client=name))
    more = iter([run(client="no", code="timeout"), run(client="d")])
    followed = log.follow(RunFilter(status="success", limit=2), pause=lambda: log.append(next(more)))
    assert [next(followed).client for _ in range(3)] == ["b", "c", "d"]


def test_a_follower_sees_all_of_several_new_rows(log: RunLog) -> None:
    def pause() -> None:
        for name in "ab":
            log.append(run(client=name))

    log.append(run(client="first"))
    followed = log.follow(RunFilter(limit=1), pause=pause)
    assert [next(followed).client for _ in range(3)] == ["first", "a", "b"]


def test_a_row_that_changes_neither_size_nor_time_of_the_files_is_seen(log: RunLog, state: Path) -> None:
    """Clocks of file systems are coarse, and a write-ahead log that was emptied keeps its size."""
    other = RunLog(state)
    for _ in range(20):
        other.append(run())
    with closing(sqlite3.connect(log.path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
    new = run(client="new")

    def stamps() -> list[tuple[int, int, int]]:
        found = [Path(f"{log.path}{suffix}").stat() for suffix in ("", "-wal")]
        return [(each.st_ino, each.st_size, each.st_mtime_ns) for each in found]

    def pause() -> None:
        before = stamps()
        other.append(new)
        for suffix, (_, _, time_ns) in zip(("", "-wal"), before, strict=True):
            os.utime(f"{log.path}{suffix}", ns=(time_ns, time_ns))
        assert stamps() == before

    followed = log.follow(RunFilter(limit=1), pause=pause)
    next(followed)
    assert next(followed) == new
    other.close()


def test_a_log_that_nobody_writes_to_is_not_read_again(
    log: RunLog, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the times of its files are looked at, once they are old enough to tell."""
    log.append(run())
    now, connect = time.time_ns, sqlite3.connect
    asked: list[str] = []

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(time, "time_ns", lambda: now() + 10**18)
    monkeypatch.setattr(sqlite3, "connect", traced)
    pauses = iter(range(20))
    with RunLog(state) as follower, pytest.raises(RuntimeError):  # as a generator calls StopIteration
        list(follower.follow(pause=lambda: next(pauses)))
    assert 0 < sum("max(seq)" in each for each in asked) <= 2


def test_a_follower_sees_a_log_that_was_begun_again(log: RunLog, state: Path) -> None:
    for _ in range(5):
        log.append(run())

    def begin_anew() -> None:
        for path in state.iterdir():
            path.unlink()
        with RunLog(state) as other:
            other.append(run(client="new"))

    followed = log.follow(pause=begin_anew)
    assert [next(followed).client for _ in range(6)][-1] == "new"


# --- what can be wrong with the file --------------------------------------------


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)


def torn(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = Random(1).randbytes(len(content) - 4096)  # noqa: S311 - any bytes
    path.write_bytes(content)


def of_somebody_else(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    path.chmod(0o600)


def with_other_columns(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE runs ADD COLUMN more TEXT")
    connection.close()


DAMAGES = [garbage, torn, of_somebody_else, with_other_columns]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("asked", ["append", "list"])
def test_a_damaged_file_is_set_aside_and_a_new_one_begins(state: Path, damage: Any, asked: str) -> None:
    with RunLog(state) as log:
        for _ in range(100):
            log.append(run())
    damage(log.path)
    damaged = log.path.read_bytes()
    with RunLog(state) as log:
        record = run()
        if asked == "append":
            [notice] = log.append(record)
        else:
            assert log.list() == ()
            [notice] = log.notices
            log.append(record)
        assert notice.code == "run_log_damaged"
        assert log.list() == (record,)
        assert (state / "runs.damaged.sqlite3").read_bytes() == damaged


def test_a_file_that_is_damaged_while_it_is_open_is_set_aside(log: RunLog) -> None:
    for _ in range(100):
        log.append(run())
    with sqlite3.connect(log.path) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()
    garbage(log.path)
    record = run()
    codes = [notice.code for notice in (*log.append(run()), *log.append(run()), *log.append(record))]
    assert "run_log_damaged" in codes
    assert record in log.list()


def test_two_finders_of_the_same_damage_lose_no_row(state: Path) -> None:
    state.mkdir(0o700)
    (state / "runs.sqlite3").write_bytes(b"this is no database" * 1000)
    (state / "runs.sqlite3").chmod(0o600)
    barrier = threading.Barrier(8)
    notices: list[str] = []

    def write() -> None:
        with RunLog(state) as log:
            barrier.wait()
            notices.extend(notice.code for notice in log.append(run()))

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with RunLog(state) as log:
        assert len(log.list()) == 8
    assert notices.count("run_log_damaged") == 1


def test_a_late_finder_of_damage_leaves_the_new_file_alone(log: RunLog, state: Path) -> None:
    log.append(run())
    for path in state.iterdir():
        path.unlink()
    record = run()
    with RunLog(state) as other:
        other.append(record)
    log._database._set_aside(sqlite3.DatabaseError("found in the file that is gone"))
    assert log.list() == (record,)
    assert log.notices == ()


def test_a_file_of_a_newer_version_is_left_alone(log: RunLog) -> None:
    log.append(run())
    log.close()
    with sqlite3.connect(log.path) as connection:
        [(version,)] = connection.execute("PRAGMA user_version")
        connection.execute(f"PRAGMA user_version={version + 1}")
    connection.close()
    before = log.path.read_bytes()
    [notice] = log.append(run())
    assert notice.code == "run_not_logged"
    assert "pip install --upgrade" in notice.message
    with pytest.raises(RyeError) as refused:
        log.list()
    assert refused.value.code == "read_failed"
    assert log.path.read_bytes() == before


def test_a_writer_with_the_old_file_open_goes_on_in_the_new_one(log: RunLog, state: Path) -> None:
    log.append(run())
    for path in state.iterdir():
        path.unlink()
    record = run()
    assert log.append(record) == ()
    with RunLog(state) as other:
        assert other.list() == (record,)


def test_a_full_disk_is_a_notice_and_what_was_there_still_stands(log: RunLog, state: Path) -> None:
    records = [run() for _ in range(3)]
    for record in records:
        log.append(record)
    log.close()
    script = (
        "import resource, signal, sys\nfrom pathlib import Path\n"
        "from rye_mcp.runs.ids import new_run_id\nfrom rye_mcp.runs.log import RunLog, RunRecord\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (28000, 28000))\n"
        "log = RunLog(Path(sys.argv[1]))\n"
        "for _ in range(5):\n"
        "    row = RunRecord(run_id=new_run_id(), item_id='demo/hello', kind='exited', caller='agent')\n"
        "    print([notice.code for notice in log.append(row)])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(state)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "['run_not_logged']" in done.stdout
    with RunLog(state) as again:
        assert set(records) <= set(again.list())
        assert again.notices == ()


def test_the_oldest_rows_are_forgotten(state: Path) -> None:
    with RunLog(state, kept_rows=10) as log:
        for number in range(600):
            log.append(run(client=str(number)))
    with RunLog(state, kept_rows=10) as log:
        kept: Sequence[RunRecord] = log.list(RunFilter(limit=1000))
        assert 10 <= len(kept) <= 110
        assert kept[0].client == "599"


ONE_ROW = """
import sys
from pathlib import Path
from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.log import RunLog, RunRecord

with RunLog(Path(sys.argv[1])) as log:
    log.append(RunRecord(run_id=new_run_id(), item_id="demo/other", kind="exited", caller="agent"))
"""


def test_a_log_that_stays_open_sees_what_others_write_after_one_beside_it_was_closed(
    log: RunLog, state: Path
) -> None:
    """Closing a file in a process drops its locks on it, and with them the write-ahead log of the others."""
    log.append(run())
    with RunLog(state) as beside:
        assert beside.count() == 1
    for rows in (2, 3):
        subprocess.run([sys.executable, "-c", ONE_ROW, str(state)], check=True)
        assert log.count() == rows


def test_pages_go_on_where_the_page_before_ended_whatever_is_logged_meanwhile(log: RunLog) -> None:
    for number in range(5):
        log.append(run(item_id=f"demo/n{number}"))
    first = log.page(RunFilter(limit=2))
    log.append(run(item_id="demo/late"))
    second = log.page(RunFilter(limit=2), before=first.before)
    third = log.page(RunFilter(limit=2), before=second.before)
    ids = [record.item_id for page in (first, second, third) for record in page.runs]
    assert ids == [f"demo/n{number}" for number in (4, 3, 2, 1, 0)]
    assert third.before is None


def test_runs_are_chosen_by_the_client_they_came_with(log: RunLog) -> None:
    log.append(run(item_id="demo/by_client", client="claude-code"))
    log.append(run(item_id="demo/by_agent"))
    log.append(run(item_id="demo/by_person", caller="person"))
    chosen = {
        name: [record.item_id for record in log.list(RunFilter(client=name))]
        for name in ("claude-code", "agent", "person", "nobody")
    }
    assert chosen == {
        "claude-code": ["demo/by_client"],
        "agent": ["demo/by_agent"],
        "person": ["demo/by_person"],
        "nobody": [],
    }


def test_what_is_over_leaves_out_what_is_running(log: RunLog) -> None:
    log.append(run(item_id="demo/running", kind="running", process=this_process()))
    log.append(run(item_id="demo/lost", kind="running", process="1 1 x y"))
    log.append(run(item_id="demo/over"))
    assert {each.item_id for each in log.list(RunFilter(status="ended"))} == {"demo/lost", "demo/over"}


def test_the_calls_of_a_run_are_found_at_every_depth(log: RunLog) -> None:
    root = run(item_id="demo/root", duration_ms=10_000.0)
    inner = run(item_id="demo/inner", parent=root.run_id)
    below = run(item_id="demo/below", parent=inner.run_id)
    other = run(item_id="demo/other", parent=new_run_id())
    for each in (below, other, inner, root, run(item_id="demo/beside")):
        log.append(each)
    assert {each.item_id for each in log.within(root)} == {"demo/inner", "demo/below"}
    assert [each.item_id for each in log.within(inner)] == ["demo/below"]
    assert log.within(below) == ()
