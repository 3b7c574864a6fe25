"""Finds the skills of a space and reads their directories, whole.

A skill is a directory in `skills/`, and the signed listing of its files that stands beside it. Every file
counts, also a hidden one: what is no regular file, or more than a skill may have, refuses the skill. What was
read is kept while the stamps of all its files are the same; of the bytes, only those of `SKILL.md` are.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lilux import _trees
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.files import refusal, wrong_kind
from rye_mcp.items import (
    EXTENSIONS,
    MAX_ITEM_BYTES,
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    NO_FILES,
    SKILL_TEXT,
    ItemFile,
    ItemPlace,
    ItemType,
    ListedFile,
    SkillFiles,
    Space,
    printable,
    relative_path,
)
from rye_mcp.spaces._directories import Stamp, is_settled, opened, read_file
from rye_mcp.spaces.source_tree import SourceFile, SourceTree

__all__ = [
    "each_file",
    "read_files",
    "read_skill",
    "read_skill_file",
    "scan_files",
    "scan_skills",
    "skill_of",
    "skill_place",
    "skills_in",
]

_MAX_KEPT: Final = 1024
"""How many directories are kept, as they were read."""

_MAX_DEPTH: Final = 16
"""How many directories may stand inside each other in a skill."""

_MAX_DIRECTORIES: Final = 512
"""How many directories a skill may have, with files in them or not."""

_SET_ID: Final = stat.S_ISUID | stat.S_ISGID

(_EXTENSION,) = EXTENSIONS[ItemType.SKILL]
_DIRECTORY: Final = ItemType.SKILL.directory


def skill_place(space: Space, name: str) -> ItemPlace:
    """Where a skill is; RyeError `invalid_id` if none can be called that."""
    relative_path(ItemType.SKILL, name, _EXTENSION)
    return ItemPlace(space, ItemType.SKILL, name, _EXTENSION)


def skills_in(space: Space) -> tuple[list[ItemPlace], list[RyeError]]:
    """The skills of a space, by name, and what stands in their directory and can be none."""
    try:
        with opened(space.root, (_DIRECTORY,)) as directory, os.scandir(directory) as entries:
            names = {name for name in map(_name_of, entries) if name is not None}
    except FileNotFoundError:
        return [], []
    except OSError as exc:
        return [], [refusal(exc, space.root / _DIRECTORY)]
    except RyeError as exc:
        return [], [exc]
    places: list[ItemPlace] = []
    refused: list[RyeError] = []
    for name in sorted(names):
        try:
            places.append(skill_place(space, name))
        except RyeError as exc:
            exc.where = printable(space.root / _DIRECTORY / name)
            refused.append(exc)
    return places, refused


def _name_of(entry: os.DirEntry[str]) -> str | None:
    """What a skill would be called that an entry is a part of; a link is one, which reading it refuses."""
    if entry.name.startswith("."):
        return None
    if entry.is_dir(follow_symlinks=False) or entry.is_symlink():
        return entry.name.removesuffix(_EXTENSION)
    return entry.name.removesuffix(_EXTENSION) if entry.name.endswith(_EXTENSION) else None


def read_skill(directory: int, place: ItemPlace) -> ItemFile | None:
    """The skill at a place, in the open directory of all skills; None if neither part of it is there."""
    name, path = place.item_id, place.path
    try:
        content = read_file(directory, name + _EXTENSION, path, MAX_ITEM_BYTES)
    except FileNotFoundError:
        content = b""
    skill = _kept_directory(place.space.root, name)
    if skill is None and not content:
        return None
    return ItemFile(place.space, ItemType.SKILL, name, _EXTENSION, path, content, skill or NO_FILES)


def read_skill_file(file: ItemFile, path: str) -> SourceFile:
    """A file of a skill, with the bytes that it had when the skill was read.

    RyeError `item_not_found` for a path that the skill has not, `content_changed` for other bytes.
    """
    known = None if file.skill is None else file.skill.files.get(path)
    whole = f"{_DIRECTORY}/{file.item_id}/{path}"
    shown = printable(file.space.root / whole)
    if known is None:
        what = f"expected a file of the skill {file.item_id}, found none at {path!a}"
        raise RyeError(
            "item_not_found", what, item_id=file.item_id, hint=f"rye show {file.item_id} --type skill"
        )
    with SourceTree(file.space.root) as tree:
        found = tree.read(whole, limit=MAX_SKILL_BYTES)
    if found is None or hashlib.sha256(found.content).hexdigest() != known.digest:
        what = f"expected {shown} as it was a moment ago, found that it has changed"
        raise RyeError("content_changed", what, where=shown, item_id=file.item_id)
    return found


def scan_skills(root: Path) -> dict[str, Stamp]:
    """Path of each skill in the space → the later one of the stamps of its listing and of its text."""
    found: dict[str, Stamp] = {}
    try:
        with opened(root, (_DIRECTORY,)) as directory, os.scandir(directory) as entries:
            for name in (entry.name for entry in entries):
                stamps = (_stamp_at(directory, each) for each in (name, f"{name}/{SKILL_TEXT}"))
                known = [stamp for stamp in stamps if stamp is not None]
                key = f"{_DIRECTORY}/{name.removesuffix(_EXTENSION)}{_EXTENSION}"
                if known and not name.startswith(".") and name.isascii():
                    found[key] = max(*known, found.get(key, known[0]), key=lambda stamp: stamp[:2])
    except (OSError, RyeError):
        return found  # it is not there, or nobody can ask for what is in it
    return found


@dataclass(frozen=True, slots=True)
class _Kept:
    """A directory, as it was read, and what its files looked like then."""

    stamps: Mapping[str, Stamp]
    skill: SkillFiles


_kept: dict[tuple[Path, str], _Kept] = {}


def _kept_directory(root: Path, name: str) -> SkillFiles | None:
    """The directory of a skill, read if it has changed; None if it is missing."""
    below, now = f"{_DIRECTORY}/{name}", time.time_ns()
    stamps = scan_files(root, below)
    if stamps is None:
        return None
    kept = _kept.get((root, name))
    if kept is not None and kept.stamps == stamps:
        return kept.skill
    skill = read_files(root, below, stamps)
    if all(is_settled(stamp, now) for stamp in stamps.values()):
        if len(_kept) >= _MAX_KEPT:
            _kept.clear()
        _kept[root, name] = _Kept(stamps, skill)
    return skill


def scan_files(root: Path, below: str, *, without: Collection[str] = ()) -> dict[str, Stamp] | None:
    """Path → stamp of every file of a directory that may be a skill; None if it is missing.

    RyeError for anything that no skill may have: links, devices, files with set-uid, too much of anything.
    `without` are names that are left out, with everything below them.
    """
    stamps: dict[str, Stamp] = {}
    directories, size, path = 0, 0, root / below
    try:
        with opened(root, tuple(filter(None, below.split("/")))) as directory:
            for name, stamp in _scanned(directory, path, without=without):
                if stamp is None:
                    directories += 1
                else:
                    stamps[name] = stamp
                    size += stamp[2]
                _require_room(path, len(stamps), directories, size)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise refusal(exc, path) from exc
    return stamps


def _require_room(path: Path, files: int, directories: int, size: int) -> None:
    for found, most, what in (
        (files, MAX_SKILL_FILES, "files"),
        (directories, _MAX_DIRECTORIES, "directories"),
        (size, MAX_SKILL_BYTES, "bytes"),
    ):
        if found > most:
            shown = printable(path)
            raise RyeError(
                "too_large", f"expected at most {most} {what} in a skill, found more: {shown}", where=shown
            )


def _scanned(
    directory: int, path: Path, prefix: str = "", depth: int = 1, *, without: Collection[str] = ()
) -> Iterator[tuple[str, Stamp | None]]:
    """Every file of a directory and below it, with its stamp, and every directory without one."""
    if depth > _MAX_DEPTH:
        shown = printable(path)
        what = f"expected at most {_MAX_DEPTH} directories inside each other in a skill, found more: {shown}"
        raise RyeError("too_large", what, where=shown)
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name in without:
                continue
            name, status = prefix + entry.name, entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                yield name, None
                with _directory(entry.name, directory, path / name) as below:
                    yield from _scanned(below, path, f"{name}/", depth + 1, without=without)
                continue
            if not stat.S_ISREG(status.st_mode):
                raise wrong_kind("a regular file", status.st_mode, path / name)
            if status.st_mode & _SET_ID:
                raise _set_id(path / name)
            yield name, (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


@contextmanager
def _directory(name: str, above: int, path: Path) -> Iterator[int]:
    try:
        descriptor = _trees.open_directory(name, above, path)
    except _trees.UnsafeError as exc:
        raise refusal(exc, path) from exc
    with _trees.opened(descriptor):
        yield descriptor


def _set_id(path: Path) -> RyeError:
    shown = printable(path)
    what = f"expected a file that runs as whoever starts it, found one with set-uid or set-gid: {shown}"
    return RyeError("unsafe_permissions", what, where=shown, hint=f"chmod ug-s {shlex.quote(shown)}")


def read_files(root: Path, below: str, names: Iterable[str]) -> SkillFiles:
    """Read these files of a directory once; RyeError `content_changed` if one is gone by now."""
    return skill_of(each_file(root, below, names))


def skill_of(contents: Iterable[tuple[str, SourceFile]]) -> SkillFiles:
    """What is kept of the files of a skill."""
    files: dict[str, ListedFile] = {}
    text = b""
    for name, found in contents:
        files[name] = ListedFile(hashlib.sha256(found.content).hexdigest(), len(found.content))
        if name == SKILL_TEXT:
            text = found.content
    return SkillFiles(text, MappingProxyType(files))


def each_file(root: Path, below: str, names: Iterable[str]) -> Iterator[tuple[str, SourceFile]]:
    """Yield these files of a directory in the order of their paths, each read once."""
    room = MAX_SKILL_BYTES
    with SourceTree(root) as tree:
        for name in sorted(names):
            whole = f"{below}/{name}" if below else name
            found = tree.read(whole, limit=MAX_ITEM_BYTES if name == SKILL_TEXT else room)
            if found is None:
                shown = printable(root / whole)
                raise RyeError(
                    "content_changed", f"expected {shown}, found that it is gone by now", where=shown
                )
            room -= len(found.content)
            yield name, found


def _stamp_at(directory: int, name: str) -> Stamp | None:
    """The stamp of a file in an open directory, or in one below it; None for anything else."""
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
