"""Output that was too long for the answer: kept for some days, read a piece at a time.

The rules are in `docs/architecture/execution.md`.

    outputs = RunOutputs(state)
    outputs.read(run_id, "stdout", pattern="^ERROR").text
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lilux import _files as whole_files
from lilux import _trees
from rye_mcp.errors import RyeError, printable
from rye_mcp.files import OTHERS, refusal
from rye_mcp.runs._pieces import MAX_LENGTH, SEARCH_LIMIT_S, OutputPiece, piece_of
from rye_mcp.runs.ids import (
    STREAMS,
    StreamName,
    check_run_id,
    check_stream,
    handle_of,
    is_run_id,
    new_run_id,
    time_of,
)

if TYPE_CHECKING:
    from lilux.primitives.subprocess import Spool

__all__ = [
    "DEFAULT_LENGTH",
    "MAX_AGE",
    "MAX_LENGTH",
    "MAX_RUN_BYTES",
    "MAX_TOTAL_BYTES",
    "SEARCH_LIMIT_S",
    "OutputPiece",
    "RunOutputs",
    "not_kept",
]

MAX_RUN_BYTES: Final = 64 << 20
"""How much is kept of one run, of all its streams."""

MAX_TOTAL_BYTES: Final = 512 << 20
"""How much is kept of all runs."""

MAX_AGE: Final = timedelta(days=7)
"""How long it is kept."""

DEFAULT_LENGTH: Final = 64 << 10
"""How many bytes are read when nobody says how many."""

MAX_SPARE_AGE: Final = timedelta(days=1)
"""How old a spare directory may be that a run is given: nobody sweeps a younger one."""

MAX_SPARES: Final = 64
"""How many spare directories a process keeps."""

_HIDDEN: Final = "."
_DIRECTORY_NAME: Final = "outputs"
_MODE: Final = 0o700


class RunOutputs:
    """The kept output of one user's runs."""

    def __init__(
        self, state: Path, *, total_bytes: int = MAX_TOTAL_BYTES, max_age: timedelta = MAX_AGE
    ) -> None:
        self._root = state / _DIRECTORY_NAME
        self._total_bytes = total_bytes
        self._max_age = max_age
        self._is_ready = False
        self._spares: list[str] = []
        self._taken: dict[str, str] = {}
        self._sweeping: threading.Thread | None = None

    def directory(self, run_id: str) -> Path:
        """An empty directory for a run that is about to begin; whoever takes it calls `finish` in the end."""
        check_run_id(run_id)
        name = self._spare() or self._new_spare()
        self._taken[run_id] = name
        return self._root / name

    def spool(self, run_id: str) -> Spool:
        """A directory for a run, as the supervisor is told of it."""
        from lilux.primitives.subprocess import Spool

        return Spool(dir=str(self.directory(run_id)), max_bytes=MAX_RUN_BYTES // len(STREAMS))

    def finish(self, run_id: str) -> None:
        """Keep what a run has written under its id, and see to it that it does not become too much."""
        name = self._taken.pop(check_run_id(run_id), None)
        if name is None:
            return
        path = f"{self._root}/{name}"
        with suppress(OSError):  # it was removed meanwhile: there is nothing to keep
            if os.listdir(path):  # noqa: PTH208 - in every run
                os.rename(path, f"{self._root}/{run_id}")  # noqa: PTH104
                self._sweep_beside()
            elif len(self._spares) < MAX_SPARES:
                self._spares.append(name)
            else:
                os.rmdir(path)  # noqa: PTH106

    def read(
        self,
        run_id: str,
        stream: str = "stdout",
        *,
        offset: int = 0,
        length: int = DEFAULT_LENGTH,
        pattern: str | None = None,
    ) -> OutputPiece:
        """A piece of what a run has written; RyeError `output_not_found` when nothing was kept."""
        check_run_id(run_id)
        name = check_stream(stream)
        with self.opened(run_id, name) as descriptor:
            handle = handle_of(run_id, name)
            return piece_of(descriptor, handle, offset=offset, length=length, pattern=pattern)

    def kept(self, run_id: str) -> dict[StreamName, int]:
        """How many bytes of which streams of a run are kept."""
        check_run_id(run_id)
        sizes: dict[StreamName, int] = {}
        for stream in STREAMS:
            with suppress(RyeError), self.opened(run_id, stream) as descriptor:
                sizes[stream] = os.fstat(descriptor).st_size
        return sizes

    def sweep(self) -> None:
        """Remove what is too old, then the oldest until the rest is small enough."""
        with (
            suppress(OSError, _trees.UnsafeError),
            _trees.Tree(self._root, forbidden=OTHERS).opened() as root,
        ):
            oldest, room = datetime.now(UTC) - self._max_age, self._total_bytes
            settled = datetime.now(UTC) - MAX_SPARE_AGE
            for run_id, name, size in sorted(_kept_in(root), reverse=True):
                room -= size
                begun = time_of(run_id)
                is_in_use = name != run_id and begun > settled
                if begun < oldest or (room < 0 and not is_in_use):
                    _remove(root, name)

    def close(self) -> None:
        """Wait for what is under way, and remove the spare directories."""
        if self._sweeping is not None:
            self._sweeping.join()
        while self._spares:
            with suppress(OSError):
                (self._root / self._spares.pop()).rmdir()

    def _spare(self) -> str | None:
        """The name of an empty directory that is there already."""
        while self._spares:
            name = self._spares.pop()
            path = f"{self._root}/{name}"
            if datetime.now(UTC) - time_of(name.removeprefix(_HIDDEN)) > MAX_SPARE_AGE:
                with suppress(OSError):
                    os.rmdir(path)  # noqa: PTH106
            elif os.path.isdir(path):  # noqa: PTH112 - never raises
                return name
        return None

    def _new_spare(self) -> str:
        name = _HIDDEN + new_run_id()
        path = self._root / name
        try:
            if not self._is_ready:
                self._prepare()
            path.mkdir(_MODE)
        except _trees.UnsafeError as exc:
            raise refusal(exc, path) from exc
        except OSError as exc:
            self._is_ready = False
            what = f"expected to make {printable(path)}, found: {exc.strerror}"
            raise RyeError("write_failed", what, where=printable(path)) from exc
        return name

    def _sweep_beside(self) -> None:
        """Sweep in a thread of its own: nobody has to wait for that."""
        if self._sweeping is None or not self._sweeping.is_alive():
            self._sweeping = threading.Thread(target=self.sweep, name="rye-outputs", daemon=True)
            self._sweeping.start()

    def _prepare(self) -> None:
        whole_files.make_directory(self._root.parent, mode=_MODE)
        whole_files.make_directory(self._root, mode=_MODE)
        for path in (self._root.parent, self._root):
            with _trees.Tree(path, forbidden=OTHERS).opened():
                pass
        self._is_ready = True
        self._sweep_beside()

    @contextmanager
    def opened(self, run_id: str, stream: StreamName) -> Iterator[int]:
        """The file of a stream, reached through no link; RyeError `output_not_found` when it was not kept."""
        name = self._taken.get(run_id, run_id)
        path = self._root / name / stream
        try:
            descriptor = _trees.Tree(self._root).open_file(f"{name}/{stream}")
        except FileNotFoundError as exc:
            raise not_kept(run_id, stream) from exc
        except (OSError, _trees.UnsafeError) as exc:
            raise refusal(exc, path) from exc
        with _trees.opened(descriptor):
            yield descriptor


def _opened_in(root: int, name: str) -> AbstractContextManager[int]:
    return _trees.opened(os.open(name, _trees.DIRECTORY, dir_fd=root))


def _kept_in(root: int) -> Iterator[tuple[str, str, int]]:
    """The directories of runs, spare ones too: the id that tells the time, the name, the bytes in it."""
    with os.scandir(root) as entries:
        names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    for name in names:
        run_id = name.removeprefix(_HIDDEN)
        if is_run_id(run_id):
            with (
                suppress(OSError),
                _opened_in(root, name) as directory,
                os.scandir(directory) as files,
            ):
                yield run_id, name, sum(each.stat(follow_symlinks=False).st_size for each in files)


def _remove(root: int, name: str) -> None:
    """Remove the directory of a run; what is in it is unlinked, and never followed."""
    with suppress(OSError):
        with (
            _opened_in(root, name) as directory,
            os.scandir(directory) as files,
        ):
            for each in [each.name for each in files]:
                os.unlink(each, dir_fd=directory)
        os.rmdir(name, dir_fd=root)


def not_kept(run_id: str, stream: str) -> RyeError:
    """The refusal for a stream that was not kept, and for one that the caller may not see."""
    what = (
        f"expected {stream} of the run {run_id}, found none: only what was cut is kept, and only for "
        f"{MAX_AGE.days} days"
    )
    return RyeError("output_not_found", what, run_id=run_id, stream=stream)
