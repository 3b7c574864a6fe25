"""The private copy that runs: exactly the bytes that were verified, and nothing beside them.

with store.create(verified.carried) as snapshot:
    run(snapshot.tool_path)
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.files import LIBRARY_DIRECTORY, BundledFiles
from rye_mcp.executor.job.bytecode import Bytecode
from rye_mcp.executor.job.private_dirs import (
    Place,
    Station,
    TreeWriter,
    copy_file,
    made_directory,
    open_private,
    opened_private,
    places,
    remove_files,
    remove_tree,
    sweep,
    unwrite,
)
from rye_mcp.items import printable

__all__ = ["SCRATCH", "Room", "Snapshot", "SnapshotStore", "private_directory", "require_place"]

OUTPUT: Final = ".output"
"""The name of the directory in which a run can leave files."""

RESULTS: Final = ".results"
"""The name of the directory with the results that a run was given as files."""

COMMANDS: Final = ".commands"
"""The name of the directory with what a program finds first on its PATH."""

SCRATCH: Final = ".scratch"
"""The name of the directory that a run may write; nothing in a space has such a name."""

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FILE: Final = 0o400
_EXECUTABLE: Final = 0o500


@dataclass(frozen=True, slots=True)
class Room:
    """An empty private directory, for a call that is not known yet."""

    station: Station
    name: str

    @property
    def root(self) -> Path:
        """Where it is."""
        return Path(self.station.path, self.name)

    def remove(self) -> None:
        """Remove it, with everything in it."""
        remove_tree(self.name, self.station.descriptor)


class Snapshot:
    """A directory that stands for the root of a space, with what a call runs in it.

    `anchor_path` is None when there is no anchor, `runtime_lib` when the runtime has no library.
    """

    def __init__(self, station: Station, name: str, carried: BundledFiles) -> None:
        self._station = station
        self._results = False
        self._name = name
        self._carried = carried
        self._written = [file.relative for file in (*carried.files, *carried.library)]
        self.root = Path(station.path, name)
        self.tool_path = self.root / carried.tool.relative

    @property
    def tool_dir(self) -> Path:
        """The directory of the tool."""
        return self.tool_path.parent

    @property
    def tool_parent(self) -> Path:
        """The directory above that of the tool."""
        return self.tool_path.parent.parent

    @property
    def anchor_path(self) -> Path | None:
        """The root for modules: in the copy, unless the anchor is the whole project."""
        anchor = self._carried.anchor
        if anchor is None:
            return None
        return anchor.source if anchor.relative is None else self.root / anchor.relative

    @property
    def runtime_lib(self) -> Path | None:
        """The library of the runtime."""
        return self.root / LIBRARY_DIRECTORY if self._carried.library else None

    @property
    def output_dir(self) -> Path:
        """Where a run can leave files; made with the snapshot."""
        return self.root / OUTPUT

    def show(self, text: str) -> str:
        """A text with the paths of the sources in place of those in here."""
        own = str(self.root)
        if own not in text:
            return text
        if self._carried.library_source is not None:
            text = text.replace(f"{own}/{LIBRARY_DIRECTORY}", printable(self._carried.library_source))
        return text.replace(own, printable(self._carried.source))

    def add(self, bytecode: Bytecode) -> None:
        """Put bytecode beside its sources, before anything runs, if there is room for it."""
        with _all_or_nothing(self), opened_private(self._name, self._station.descriptor) as root:
            try:
                _write(root, ((relative, content, _FILE) for relative, content in bytecode.files.items()))
            except OSError as exc:
                if exc.errno not in _NO_ROOM:
                    raise
                unwrite(root, bytecode.files)
            else:
                self._written += bytecode.files

    def link(self, name: str, target: Path) -> None:
        """Put a link into it, before anything runs in here; RyeError `write_failed`."""
        self._written.append(name)
        with _all_or_nothing(self), opened_private(self._name, self._station.descriptor) as root:
            os.symlink(target, name, dir_fd=root)

    @property
    def commands_dir(self) -> Path:
        """Where the commands are that were added."""
        return self.root / COMMANDS

    def add_command(self, name: str, program: str) -> None:
        """Have a program found by this name in `commands_dir`, before anything runs in here."""
        with _all_or_nothing(self), opened_private(self._name, self._station.descriptor) as root:
            os.close(made_directory(COMMANDS, root))
            os.symlink(program, f"{COMMANDS}/{name}", dir_fd=root)
        self._written.append(f"{COMMANDS}/{name}")

    def make_scratch(self) -> Path:
        """A directory that what runs may write, where nothing can give it a private home."""
        with _all_or_nothing(self), opened_private(self._name, self._station.descriptor) as root:
            _make_scratch(root)
        return self.root / SCRATCH

    def add_result(self, source: int) -> Path:
        """A file that has all that an open file has, before anything runs in here."""
        name = os.urandom(8).hex()
        with _all_or_nothing(self), opened_private(self._name, self._station.descriptor) as root:
            if not self._results:
                os.close(made_directory(RESULTS, root))
            with opened_private(RESULTS, root) as directory:
                copy_file(source, name, directory, mode=_FILE)
        self._results = True
        self._written.append(f"{RESULTS}/{name}")
        return self.root / RESULTS / name

    @contextmanager
    def opened_output(self) -> Iterator[int]:
        """The open directory with the files that a run has left; OSError for what stands in its place."""
        with (
            opened_private(self._name, self._station.descriptor) as root,
            opened_private(OUTPUT, root) as directory,
        ):
            yield directory

    def remove(self) -> None:
        """Remove it, with everything that was done to it. To do so twice does no harm."""
        if not remove_files(self._name, self._station.descriptor, self._written, empty=(OUTPUT,)):
            remove_tree(self._name, self._station.descriptor)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class SnapshotStore:
    """Makes the snapshots of one process. It may be used by several threads.

    `directory` is where they are; it is made if it is missing.
    """

    def __init__(self, directory: Path | None = None, *, environment: Mapping[str, str] = os.environ) -> None:
        if directory is None:
            self._places = places(environment)
        else:
            self._places = (Place(os.path.realpath(directory.parent), directory.name),)
        self._stations: dict[Place, Station] = {}
        self._refused: set[Place] = set()
        self._lock = threading.Lock()

    def create(
        self,
        carried: BundledFiles,
        *,
        executable_tool: bool = False,
        bytecode: Bytecode | None = None,
        room: Room | None = None,
    ) -> Snapshot:
        """The private copy of everything that is carried, in the first place that has room for it.

        RyeError `write_failed` when none has. `executable_tool` is for a tool that is started itself. It is
        made in a `room` that was prepared, if there is one.
        """
        if room is not None:
            return _made(room.station, carried, executable_tool, room.name)
        refusals: list[RyeError] = []
        for place in sorted(self._places, key=self._refused.__contains__):  # nothing is looked at twice
            try:
                snapshot = _made(self._station(place, executable_tool), carried, executable_tool)
            except RyeError as exc:
                refusals.append(exc)
                continue
            if bytecode is not None:
                snapshot.add(bytecode)
            return snapshot
        raise _nowhere(refusals)

    def prepare(self, *, scratch: bool) -> Room:
        """An empty directory of this process, which no other one sweeps; RyeError as `create`.

        With `scratch` it has a directory in it that what runs may write.
        """
        refusals: list[RyeError] = []
        for place in sorted(self._places, key=self._refused.__contains__):
            try:
                return _prepared(self._station(place, executable=False), scratch=scratch)
            except RyeError as exc:
                refusals.append(exc)
        raise _nowhere(refusals)

    def sweep(self) -> int:
        """Remove what processes that crashed have left behind; how many of them there were."""
        return sum(sweep(place) for place in self._places)

    def close(self) -> None:
        """Remove everything of this store; it can be used again afterwards."""
        with self._lock:
            stations, self._stations = list(self._stations.values()), {}
        for station in stations:
            station.close()

    def _station(self, place: Place, executable: bool) -> Station:
        """The station of this process in a place; RyeError when there can be none, or none that will do."""
        with self._lock:
            station = self._stations.get(place)
            if station is None or not station.stands:
                self._refused.add(place)
                station = self._stations[place] = Station.open(place)
                self._refused.discard(place)
        if executable and not station.executable:
            shown = printable(place.path)
            what = f"expected a place where programs may be started, found one with noexec: {shown}"
            hint = "set XDG_RUNTIME_DIR to a directory of yours (0700) without noexec"
            raise RyeError("write_failed", what, where=shown, hint=hint)
        return station


@contextmanager
def private_directory(environment: Mapping[str, str]) -> Iterator[Path]:
    """An empty directory in the first place that will do, which is removed when the block ends."""
    refusals: list[RyeError] = []
    for place in places(environment):
        try:
            station = Station.open(place)
        except RyeError as exc:
            refusals.append(exc)
            continue
        try:
            yield Path(station.path)
        finally:
            station.close()
        return
    raise _nowhere(refusals)


def require_place(environment: Mapping[str, str]) -> str:
    """The first place that will do, as far as that can be told while nothing is made; RyeError for none."""
    refusals: list[RyeError] = []
    for place in places(environment):
        try:
            place.require()
        except RyeError as exc:
            refusals.append(exc)
        else:
            return place.path
    raise _nowhere(refusals)


def _nowhere(refusals: Sequence[RyeError]) -> RyeError:
    """The refusal of every place, as one."""
    what = "; ".join(each.message for each in refusals)
    return RyeError("write_failed", what, where=refusals[-1].where, hint=refusals[-1].hint)


def _prepared(station: Station, *, scratch: bool) -> Room:
    room = Room(station, os.urandom(8).hex())
    with _all_or_nothing(room):
        root = made_directory(room.name, station.descriptor)
        try:
            if scratch:
                _make_scratch(root)
        finally:
            os.close(root)
    return room


def _make_scratch(root: int) -> None:
    with suppress(FileExistsError):  # of a room that was prepared
        os.close(made_directory(SCRATCH, root))


def _made(
    station: Station, carried: BundledFiles, executable_tool: bool, prepared: str | None = None
) -> Snapshot:
    name = prepared or os.urandom(8).hex()
    snapshot = Snapshot(station, name, carried)
    with _all_or_nothing(snapshot):
        opened = open_private if prepared else made_directory
        root = opened(name, station.descriptor)
        try:
            os.close(made_directory(OUTPUT, root))
            _write(root, _files(carried, executable_tool))
        finally:
            os.close(root)
    return snapshot


def _files(carried: BundledFiles, executable_tool: bool) -> Iterator[tuple[str, bytes, int]]:
    yield carried.tool.relative, carried.tool.content, _EXECUTABLE if executable_tool else _FILE
    for file in (*carried.files[1:], *carried.library):
        yield file.relative, file.content, _EXECUTABLE if file.executable else _FILE


def _write(root: int, files: Iterable[tuple[str, bytes, int]]) -> None:
    writer = TreeWriter(root)
    try:
        for relative, content, mode in files:
            writer.write(relative, content, mode)
    finally:
        writer.close()


@contextmanager
def _all_or_nothing(snapshot: Snapshot | Room) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        snapshot.remove()
        shown = printable(snapshot.root.parent)
        what = f"expected room for what is about to run in {shown}, found: {exc.strerror}"
        raise RyeError("write_failed", what, where=shown) from exc
    except BaseException:
        snapshot.remove()
        raise
