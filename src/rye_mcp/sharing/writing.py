"""Puts files into a space, all of them or none, and never over what somebody edited.

First everything is compared, then everything is written to the root of the space under names that nobody
reads, and only then does each file get its own. Where a name cannot be given, those before it get back what
they had. A process that is killed in between leaves whole files, and the next pull finishes the work.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from lilux import _files as whole_files
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError, printable
from rye_mcp.files import Tree, translated
from rye_mcp.items import Space
from rye_mcp.sharing.artifact import SharedFile
from rye_mcp.sharing.sources import Pin
from rye_mcp.trust.dependency_manifest import MAX_LISTED_BYTES

__all__ = ["Changes", "compare", "content_in", "sha256_in", "write"]

_DIRECTORY_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_PROGRAM_MODE: Final = 0o755
_NAMED: Final = 10
_ROOT: Final = ""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a pull would do to a space: what is written, by path, and which files are removed."""

    written: Mapping[str, SharedFile]
    removed: Collection[str] = ()

    def __bool__(self) -> bool:
        return bool(self.written or self.removed)


def sha256_in(space: Space, path: str) -> str | None:
    """The SHA256 of a file as it stands in a space; None where there is none."""
    found = content_in(space, path)
    return None if found is None else hashlib.sha256(found).hexdigest()


def compare(
    space: Space,
    files: Iterable[SharedFile],
    pins: Mapping[str, Pin],
    *,
    foreign: Collection[str] = (),
    overwrite: bool = False,
) -> Changes:
    """What has to change; RyeError `edited_locally` for what somebody else than the source has made.

    `pins` say what the source brought before, `foreign` are the paths that other sources brought.
    """
    written: dict[str, SharedFile] = {}
    edited: list[str] = []
    removed: list[str] = []
    arriving = {each.path: each for each in files}
    for path in sorted(arriving.keys() | pins.keys()):
        found, new = content_in(space, path), arriving.get(path)
        if found == (None if new is None else new.content):
            continue
        if found is not None and (path in foreign or not _is_pinned(found, pins.get(path))):
            edited.append(path)
        if new is None:
            removed.append(path)
        else:
            written[path] = new
    if edited and not overwrite:
        raise _edited(space, edited)
    return Changes(written, removed)


def _is_pinned(content: bytes, pin: Pin | None) -> bool:
    return pin is not None and hashlib.sha256(content).hexdigest() == pin.sha256


def _edited(space: Space, paths: list[str]) -> RyeError:
    shown = ", ".join(map(printable, paths[:_NAMED]))
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    what = (
        f"expected files in {printable(space.root)} as they were pulled, found other content in {shown}{more}"
    )
    return RyeError("edited_locally", what, where=space.root / paths[0], files=paths)


def content_in(space: Space, path: str) -> bytes | None:
    """The bytes of a file as it stands in a space; None where there is none."""
    try:
        return Tree(space.root).read(path, limit=MAX_LISTED_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None


def write(space: Space, changes: Changes, *others: SharedFile) -> None:
    """Make the changes, then write the `others` in their order; all or none."""
    files = [*changes.written.values(), *others]
    with translated("write_failed", space.root), ExitStack() as stack:
        directories = _Directories(space.root, stack)
        staged = [(each.path, directories.staged(each)) for each in files]
        kept = {path: directories.kept(path) for path in (*changes.removed, *(path for path, _ in staged))}
        done: list[str] = []
        try:
            for path in changes.removed:
                done.append(path)
                directories.remove(path)
            for path, temporary in staged:
                done.append(path)
                directories.publish(path, temporary)
        except BaseException:
            for path in reversed(done):
                directories.restore(path, kept[path])
            raise
        for path in changes.removed:
            directories.remove_empty(path)
        directories.sync()


class _Directories:
    """The directories of a space that are open while files are put into them."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self._root = root
        self._tree = Tree(root)
        self._stack = stack
        self._open: dict[str, int] = {}

    def _of(self, path: str) -> int:
        above = path.rpartition("/")[0]
        if above not in self._open:
            opened = self._tree.opened(above, create_mode=_DIRECTORY_MODE)
            self._open[above] = self._stack.enter_context(opened)
        return self._open[above]

    def staged(self, file: SharedFile) -> str:
        """Write a file to the root; the name that it has there until it is published.

        Not beside its place: whatever stands in the directory of a skill counts as a part of it.
        """
        self._of(file.path)
        mode = _PROGRAM_MODE if file.executable else _FILE_MODE
        place, directory = self._root / file.path, self._of(_ROOT)
        writing = whole_files.staged(place, file.content, mode=mode, durable=False, directory=directory)
        return self._stack.enter_context(writing)

    def kept(self, path: str) -> str | None:
        """A second name for what stands there, until the end; None where nothing does."""
        directory, root, name = self._of(path), self._of(_ROOT), f".lilux-{os.urandom(8).hex()}.tmp"
        try:
            os.link(_name(path), name, src_dir_fd=directory, dst_dir_fd=root, follow_symlinks=False)
        except FileNotFoundError:
            return None
        self._stack.callback(_unlink, name, root)
        return name

    def publish(self, path: str, temporary: str) -> None:
        """Give a file its name."""
        os.replace(temporary, _name(path), src_dir_fd=self._of(_ROOT), dst_dir_fd=self._of(path))

    def remove(self, path: str) -> None:
        """Take a file away, if it is there."""
        _unlink(_name(path), self._of(path))

    def restore(self, path: str, kept: str | None) -> None:
        """Put back what stood there; the error that made this necessary is raised anyway."""
        with suppress(OSError):
            if kept is None:
                self.remove(path)
            else:
                self.publish(path, kept)

    def remove_empty(self, path: str) -> None:
        """Remove the directories above a file that have nothing in them any more."""
        above = path.rpartition("/")[0]
        with suppress(OSError):
            while "/" in above:
                os.rmdir(_name(above), dir_fd=self._of(above))
                above = above.rpartition("/")[0]

    def sync(self) -> None:
        """Put the names on the disk."""
        for descriptor in self._open.values():
            whole_files.sync_directory(descriptor)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _unlink(name: str, directory: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
