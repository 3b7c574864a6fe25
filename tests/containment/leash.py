"""What a test holds of a tool that tries to get away: proof that it is there, and proof that it is gone.

Every process of `misbehave.c` shares one lock. Who can take it knows that none of them is left, however many
there were, whatever their parents, groups and sessions. A thread waits for it in the kernel, so the time at
which the last one went is exact. Nobody outlives the leash itself: a survivor that a test has found is ended.
"""

import fcntl
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

HANDSHAKE_S = 20.0
"""How long a tool may take to get where it wants to be, on a machine that has other things to do."""

CUT_S = 20.0

FIFOS = ("ready", "stop", "leave")


class Leash:
    """A directory with the lock and the FIFOs of one tool; see `misbehave.c`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "lock").touch()
        for name in FIFOS:
            os.mkfifo(directory / name)
        # Both ends, so that neither side has to wait for the other; closing `stop` is the end for everybody.
        self._ready, self._stop, self._leave = (os.open(directory / name, os.O_RDWR) for name in FIFOS)
        self._lock = os.open(directory / "lock", os.O_RDWR)
        self._gone_at = 0.0
        self._gone = Event()
        self._waiter: Thread | None = None
        self._handles: list[int] = []

    def command(self, misbehave: Path, way: str) -> list[str]:
        """What to run."""
        return [str(misbehave), way, str(self.directory)]

    def let_tool_leave(self) -> None:
        """Let the tool itself exit, and leave its children behind."""
        os.write(self._leave, b"x")

    def wait_until_away(self, *, numbered: bool = True) -> int:
        """Wait until a process of the tool says that it is where it wants to be; its number.

        A number from within a cell means somebody else here: then it is not `numbered`.
        """
        if not select.select([self._ready], [], [], HANDSHAKE_S)[0]:
            raise AssertionError("the tool never got away")
        pid = int(os.read(self._ready, 4096).split()[0])
        if numbered:
            with suppress(ProcessLookupError):  # of a chain of generations, this one may be over already
                self._handles.append(os.pidfd_open(pid))
        self._waiter = Thread(target=self._wait_for_lock, daemon=True)
        self._waiter.start()
        return pid

    def gone_at(self, deadline: float) -> float | None:
        """When the last process went (monotonic clock), or None if there is one at the deadline."""
        gone = self._gone.wait(max(0.0, deadline - time.monotonic()))
        return self._gone_at if gone else None

    @property
    def is_held(self) -> bool:
        """Some process of the tool is there."""
        return not self._gone.is_set()

    def cut(self) -> None:
        """End whoever is left."""
        os.close(self._stop)
        for handle in self._handles:
            with suppress(ProcessLookupError):  # whoever is stopped does not see the end of the leash
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        if self._waiter is not None:
            self._waiter.join(CUT_S)
            assert self._gone.is_set(), "a survivor could not be ended"
        for descriptor in (self._ready, self._leave, self._lock):
            os.close(descriptor)

    def _wait_for_lock(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._gone_at = time.monotonic()
        self._gone.set()


@contextmanager
def leash() -> Iterator[Leash]:
    """A leash that is cut at the end."""
    with TemporaryDirectory(prefix="leash-") as directory:
        held = Leash(Path(directory))
        try:
            yield held
        finally:
            held.cut()
