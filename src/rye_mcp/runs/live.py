"""Runs in progress: the last output of each, as it comes, and the process that looks after it.

A run that has been going on for `YOUNG_S` has a file in `live` of the state directory, until a moment after
its end. The process that looks after runs writes these files in a thread of its own: no run waits for them.
Other processes of this user read them, and compare what they say of a process with what the kernel says.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from lilux import _files as whole_files
from lilux import _trees
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS
from rye_mcp.runs.hosts import Host, is_gone, this_process
from rye_mcp.runs.ids import check_run_id, is_run_id

__all__ = ["MAX_LIVE_BYTES", "YOUNG_S", "LiveHead", "LiveOutput", "LiveRun", "LiveRuns", "LiveView"]

YOUNG_S: Final = 0.2
"""A shorter run is not shown to followers."""

MAX_LIVE_BYTES: Final = 256 << 10
"""How much of a run's output is kept while it runs: the last of it."""

KILL_GRACE_S: Final = 2.0
"""How long a run may take to end by itself after SIGTERM."""

_INTERVAL_S: Final = 0.05
_LINGER_S: Final = 1.0
_DIRECTORY: Final = "live"
_HEAD_BYTES: Final = 512
_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


class LiveHead(msgspec.Struct, frozen=True):
    """The beginning of the file: the process of the run, and the process that looks after it.

    `base` is how many bytes of the output came before those that are kept.
    """

    owner: str
    pid: int | None
    began: str
    boot: str
    base: int

    @property
    def process(self) -> Host | None:
        """The process of the run; None where it has none of its own."""
        return None if self.pid is None else Host(self.pid, self.began, self.boot)


@dataclass(frozen=True, slots=True)
class LiveOutput:
    """A piece of the output, of all streams. `skipped` bytes before it are gone; go on at `offset`."""

    data: bytes
    offset: int
    skipped: int = 0


class LiveRun:
    """A run as the process sees it that looks after it. Everything is quick, and may be called in a loop."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.begun = time.monotonic()
        self.ended: float | None = None
        self.pid: int | None = None
        self.is_on_disk = False
        """Whether it has a file, or is about to get one."""
        self.is_refused = False
        self.base = 0
        self.kept = bytearray()
        self._has_news = True
        self._lock = threading.Lock()

    def on_started(self, pid: int) -> None:
        """The program has started."""
        self.pid = pid
        self._has_news = True

    def on_output(self, data: bytes) -> None:
        """It has written something."""
        with self._lock:
            self.kept += data
            if len(self.kept) > MAX_LIVE_BYTES:
                gone = len(self.kept) - MAX_LIVE_BYTES // 2
                del self.kept[:gone]
                self.base += gone
            self._has_news = True

    def news(self) -> tuple[LiveHead, bytes] | None:
        """Return the new content of the file; None while it is up to date."""
        with self._lock:
            if not self._has_news:
                return None
            self._has_news = False
            host = None if self.pid is None else Host.of(self.pid)
            pid, began, boot = (None, "", "") if host is None else (host.pid, host.began, host.boot)
            return LiveHead(this_process(), pid, began, boot, self.base), bytes(self.kept)


class LiveRuns:
    """The runs that this process looks after."""

    def __init__(self, state: Path) -> None:
        self._root = state / _DIRECTORY
        self._runs: dict[str, LiveRun] = {}
        self._wanted = threading.Condition()
        self._thread: threading.Thread | None = None
        self._has_begun = False
        self._rests = False
        """Whether the thread waits to be woken. After a run it looks again by itself for a while."""

    def begin(self, run_id: str) -> LiveRun:
        """A run that has begun; the caller has to call `end`."""
        run = LiveRun(check_run_id(run_id))
        with self._wanted:
            self._runs[run_id] = run
            self._has_begun = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_all, name="rye-live", daemon=True)
                self._thread.start()
            elif self._rests:
                self._wanted.notify()
        return run

    def end(self, run: LiveRun) -> None:
        """A run is over. What it wrote last stays there for a moment, if it was there at all."""
        run.ended = time.monotonic()
        with self._wanted:
            if not run.is_on_disk:
                self._runs.pop(run.run_id, None)

    def close(self) -> None:
        """Stop, and remove the files: what a run has written is kept nowhere else, and not for longer."""
        with self._wanted:
            thread, self._thread = self._thread, None
            self._wanted.notify()
        if thread is not None:
            thread.join()
        while self._runs:
            self._forget(self._runs.popitem()[1])

    def _write_all(self) -> None:
        self._sweep()
        while True:
            with self._wanted:
                if self._is_wanted():  # `close` may have notified while this thread was writing
                    self._wait()
                if not self._is_wanted():
                    return
                runs = list(self._runs.values())
            for run in runs:
                self._look_after(run)

    def _wait(self) -> None:
        """Wait for the next look; if no run has begun since the last one, until one does."""
        self._rests = not self._runs and not self._has_begun
        self._has_begun = False
        self._wanted.wait(None if self._rests else _INTERVAL_S)
        self._rests = False

    def _is_wanted(self) -> bool:
        """Whether the calling thread is still the one that writes."""
        return self._thread is threading.current_thread()

    def _look_after(self, run: LiveRun) -> None:
        now = time.monotonic()
        if run.ended is not None and now - run.ended > _LINGER_S:
            with self._wanted:
                self._runs.pop(run.run_id, None)
            self._forget(run)
        elif (run.is_on_disk or now - run.begun > YOUNG_S) and not run.is_refused:
            self._write(run)

    def _write(self, run: LiveRun) -> None:
        news = run.news()
        if news is None:
            return
        with self._wanted:
            if run.run_id not in self._runs:
                return  # it has just ended, and nobody would remove the file
            run.is_on_disk = True  # from here on, `end` leaves the run to this thread
        head, output = news
        data = msgspec.json.encode(head).ljust(_HEAD_BYTES - 1) + b"\n" + output
        try:
            whole_files.make_directory(self._root.parent, mode=_MODE)
            whole_files.make_directory(self._root, mode=_MODE)
            whole_files.write_whole(self._root / run.run_id, data, mode=_FILE_MODE, durable=False)
        except (OSError, _trees.UnsafeError):
            run.is_refused = True  # a full disk, say: the run goes on, and nobody can look on

    def _forget(self, run: LiveRun) -> None:
        if run.is_on_disk:
            with suppress(OSError):
                (self._root / run.run_id).unlink()

    def _sweep(self) -> None:
        """Remove what processes have left behind that were killed, or have ended with their runs."""
        view = LiveView(self._root.parent)
        for run_id in view.ids():
            if view.head(run_id) is None:
                with suppress(OSError):
                    (self._root / run_id).unlink()


class LiveView:
    """The runs of this user that are going on, in every server and command."""

    def __init__(self, state: Path) -> None:
        self._root = state / _DIRECTORY
        self._tree = _trees.Tree(self._root, forbidden=OTHERS)

    def ids(self) -> tuple[str, ...]:
        """The runs that can be looked at, the oldest first."""
        try:
            with self._tree.opened() as directory:
                return tuple(sorted(filter(is_run_id, os.listdir(directory))))  # noqa: PTH208 - a descriptor
        except (OSError, _trees.UnsafeError):
            return ()

    def head(self, run_id: str) -> LiveHead | None:
        """Return the state of a run; None if it is unknown, or if its process is gone."""
        found = self._read(run_id)
        return None if found is None or is_gone(found[0].owner) else found[0]

    def output(self, run_id: str, offset: int = 0) -> LiveOutput:
        """Return the output of a run from a byte on, as far as it is still kept."""
        try:
            descriptor = self._tree.open_file(check_run_id(run_id))
        except (OSError, _trees.UnsafeError):
            return LiveOutput(b"", offset)
        # Whoever looks often reads no more than what is new.
        with _trees.opened(descriptor):
            head = _head_in(os.pread(descriptor, _HEAD_BYTES, 0))
            if head is None:
                return LiveOutput(b"", offset)
            start = max(offset, head.base)
            data = os.pread(descriptor, MAX_LIVE_BYTES, _HEAD_BYTES + start - head.base)
        return LiveOutput(data, start + len(data), start - offset)

    def processes(self, run_id: str) -> tuple[int, int]:
        """How many processes a run has now, and how many KiB of memory these hold."""
        head = self.head(run_id)
        process = None if head is None else head.process
        if process is None or Host.of(process.pid) != process:
            return 0, 0
        pids = list(_tree_of(process.pid))
        return len(pids), sum(map(_resident_kb, pids))

    def kill(self, run_id: str, *, grace_s: float = KILL_GRACE_S) -> str:
        """End a run: SIGTERM, then SIGKILL; which of the two did it. RyeError `run_not_live` for any other.

        The signal goes to the very process that was started. Its supervisor sees it end, and ends everything
        else that it had started.
        """
        head = self.head(check_run_id(run_id))
        process = None if head is None else head.process
        if process is None:
            what = f"expected a run with a process that is going on, found none for {run_id}"
            raise RyeError("run_not_live", what, run_id=run_id)
        with process.handle() as handle:
            if handle is None:
                what = f"expected the process {process.pid} of the run {run_id}, found that it has ended"
                raise RyeError("run_not_live", what, run_id=run_id)
            signal.pidfd_send_signal(handle, signal.SIGTERM)
            if _has_ended(handle, grace_s):
                return "SIGTERM"
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            return "SIGKILL"

    def _read(self, run_id: str) -> tuple[LiveHead, bytes] | None:
        try:
            data = self._tree.read(check_run_id(run_id), limit=_HEAD_BYTES + MAX_LIVE_BYTES)
            if data is None:
                return None
            head = _head_in(data[:_HEAD_BYTES])
            return None if head is None else (head, data[_HEAD_BYTES:])
        except (OSError, _trees.UnsafeError):
            return None


def _head_in(data: bytes) -> LiveHead | None:
    try:
        return msgspec.json.decode(data, type=LiveHead)
    except msgspec.DecodeError:
        return None


def _has_ended(handle: int, within_s: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(within_s * 1000))


def _tree_of(pid: int) -> Iterator[int]:
    """A process and all that it has started, as far as that has not been passed on to another parent."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _tree_of(int(child))


def _resident_kb(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024
    except (OSError, IndexError, ValueError):
        return 0
