"""Finds, reads, caches and writes the lockfiles of the three spaces.

The nearest lockfile counts. What stands in its place and is no lockfile is an error. The rules are in
`docs/architecture/execution.md`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from lilux._dataclasses import dataclass
from lilux._footprints import Remembered
from lilux._json import NotJsonError
from lilux.primitives.errors import LockfileError
from lilux.primitives.lockfile import MAX_LOCKFILE_BYTES, Lockfile
from rye_mcp.errors import RyeError
from rye_mcp.executor.lock import pins
from rye_mcp.executor.lock.pins import PACKAGE, Pins
from rye_mcp.files import Tree, translated
from rye_mcp.items import MAX_ID_SEGMENTS, ItemType, Space, SpaceName, check_item_id, is_item_id, printable
from rye_mcp.spaces import Spaces
from rye_mcp.trust.verify import Trust

__all__ = [
    "LOCKFILES_DIRECTORY",
    "SKILL_LOCKS_DIRECTORY",
    "LockPlace",
    "LockfileStore",
    "StoredLock",
    "comparable",
    "parse_lockfile",
    "read_lockfile",
    "relative_lockfile",
    "relative_skill_lock",
    "skill_of_lock",
]

LOCKFILES_DIRECTORY: Final = "lockfiles"
"""The directory of a space that holds its lockfiles."""

SKILL_LOCKS_DIRECTORY: Final = f"{LOCKFILES_DIRECTORY}/{ItemType.SKILL.directory}"
"""The directory of a project that holds the lockfiles of its skills, which have no version in their names."""

_SUFFIX: Final = ".lock.json"
_DIRECTORY_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_MAX_KEPT: Final = 4096
_SHOWN_ISSUES: Final = 20


@dataclass(frozen=True, slots=True)
class StoredLock:
    """A lockfile as it was read, and where; `digest` is the SHA-256 of its bytes."""

    lockfile: Lockfile
    pins: Pins
    space: Space
    path: Path
    digest: str

    @property
    def package_version(self) -> str | None:
        """The version of this package that it was written under."""
        registry = self.lockfile.registry or {}
        version = registry.get("version") if registry.get("package") == PACKAGE else None
        return version if isinstance(version, str) and pins.is_version(version) else None


@dataclass(frozen=True, slots=True)
class LockPlace:
    """Where a lockfile is, and for what, by its name; that of a skill has no version in it."""

    space: Space
    item_id: str
    version: str
    item_type: ItemType = ItemType.TOOL

    @property
    def path(self) -> Path:
        """The whole path of the file."""
        if self.item_type is ItemType.SKILL:
            return self.space.root / relative_skill_lock(self.item_id)
        return self.space.root / relative_lockfile(self.item_id, self.version)


class LockfileStore:
    """The lockfiles of one project and one user."""

    def __init__(self, spaces: Spaces, trust: Trust) -> None:
        self._spaces = spaces
        self._trust = trust
        self._kept: dict[tuple[SpaceName, str], tuple[bytes, StoredLock]] = {}
        self._nearest: Remembered[StoredLock | None] = Remembered()
        self._newer: Remembered[tuple[LockPlace, ...]] = Remembered()

    @property
    def is_writable(self) -> bool:
        """Whether there is a project whose `.ai` exists."""
        project = self._spaces.project
        return project is not None and os.path.isdir(project.root)  # noqa: PTH112 - never raises

    def find(self, item_id: str, version: str) -> StoredLock | None:
        """The nearest lockfile for this version of a tool; RyeError when there is something else instead."""
        relative = relative_lockfile(item_id, version)

        def work() -> StoredLock | None:
            for space in self._spaces.accessible():
                data = read_lockfile(space, relative, item_id)
                if data is not None:
                    return self._parsed(space, relative, data, item_id)
            return None

        return self._nearest.value(relative, work)

    def read(self, place: LockPlace) -> StoredLock:
        """The lockfile at a place that was listed; RyeError `lock_missing` when it is gone."""
        relative = relative_lockfile(place.item_id, place.version)
        data = read_lockfile(place.space, relative, place.item_id)
        if data is None:
            what = f"expected the lockfile {printable(place.path)}, found none"
            raise RyeError("lock_missing", what, where=printable(place.path), item_id=place.item_id)
        return self._parsed(place.space, relative, data, place.item_id)

    def versions(self, item_id: str) -> tuple[str, ...]:
        """The versions of a tool that are locked, in any space."""
        places = (place for space in self._spaces.accessible() for place in _locked(space, item_id))
        return tuple(sorted({place.version for place in places}))

    def newer(self, item_id: str, version: str) -> tuple[LockPlace, ...]:
        """The lockfiles for later versions, the latest first: in the nearest space with any for this tool."""
        return self._newer.value((item_id, version), lambda: self._find_newer(item_id, version))

    def _find_newer(self, item_id: str, version: str) -> tuple[LockPlace, ...]:
        for space in self._spaces.accessible():
            if places := _locked(space, item_id):
                if all(place.version == version for place in places):
                    return ()
                own = comparable(version)
                newer = [place for place in places if comparable(place.version) > own]
                return tuple(sorted(newer, key=lambda place: comparable(place.version), reverse=True))
        return ()

    def remove(self, place: LockPlace) -> None:
        """Remove a lockfile of the project; one that is gone is as good."""
        relative = relative_lockfile(place.item_id, place.version)
        directory, _, name = relative.rpartition("/")
        with (
            suppress(FileNotFoundError),
            translated("write_failed", place.path),
            Tree(self._spaces.require_project().root).opened(directory) as descriptor,
        ):
            os.unlink(name, dir_fd=descriptor)

    def list(self) -> tuple[LockPlace, ...]:
        """Every lockfile of every space, by space, id and version."""
        places = [place for space in self._spaces.accessible() for place in _places(space, ())]
        return tuple(sorted(places, key=lambda each: (-each.space.precedence, each.item_id, each.version)))

    def write(self, lockfile: Lockfile, *, replace: bool) -> Path:
        """Write a lockfile to the project; FileExistsError for one that is there and may not be replaced."""
        space = self._spaces.require_project()
        relative = relative_lockfile(lockfile.root.tool_id, lockfile.root.version)
        path = space.root / relative
        data = lockfile.to_bytes(path=path)
        Tree(space.root).write(relative, data, mode=_FILE_MODE, replace=replace, create_mode=_DIRECTORY_MODE)
        return path

    def _parsed(self, space: Space, relative: str, data: bytes, item_id: str) -> StoredLock:
        kept = self._kept.get((space.name, relative))
        if kept is not None and kept[0] == data:
            return kept[1]
        path = space.root / relative
        if space.name is SpaceName.SYSTEM:
            self._trust.manifest.require_listed(relative, data, path)
        lockfile = parse_lockfile(data, path, item_id)
        stored = StoredLock(
            lockfile, Pins.of_lockfile(lockfile), space, path, hashlib.sha256(data).hexdigest()
        )
        if len(self._kept) >= _MAX_KEPT:
            self._kept.clear()
        self._kept[space.name, relative] = (data, stored)
        return stored


def comparable(version: str) -> tuple[Any, ...]:
    """A key to sort versions by; an invalid version comes first."""
    from packaging.version import InvalidVersion, Version

    try:
        return (1, Version(version))
    except InvalidVersion:
        return (0, version)


def relative_lockfile(item_id: str, version: str) -> str:
    """Where the lockfile for a version of a tool is in a space."""
    check_item_id(item_id)
    if not pins.is_version(version):
        what = f"expected a version such as 1.2.0 of {item_id}, found one that no lockfile can have"
        raise RyeError("invalid_item", what, item_id=item_id)
    return f"{LOCKFILES_DIRECTORY}/{item_id}@{version}{_SUFFIX}"


def relative_skill_lock(name: str) -> str:
    """Where the lockfile of a skill is in a space."""
    return f"{SKILL_LOCKS_DIRECTORY}/{check_item_id(name)}{_SUFFIX}"


def skill_of_lock(path: str) -> str | None:
    """The name of the skill that a path is the lockfile of; None for every other path."""
    name = path.removeprefix(f"{SKILL_LOCKS_DIRECTORY}/").removesuffix(_SUFFIX)
    return name if is_item_id(name) and "/" not in name and path == relative_skill_lock(name) else None


def read_lockfile(space: Space, relative: str, item_id: str) -> bytes | None:
    """The bytes of a lockfile; None without one."""
    try:
        return Tree(space.root).read(relative, limit=MAX_LOCKFILE_BYTES)
    except RyeError as exc:
        if exc.code != "too_large":
            raise
        raise _malformed(space.root / relative, [exc.message], item_id) from exc


def parse_lockfile(data: bytes, path: Path, item_id: str) -> Lockfile:
    """A lockfile that pins something; RyeError `malformed_lockfile` for anything else."""
    try:
        lockfile = Lockfile.from_bytes(data)
    except LockfileError as exc:
        # A JSON error may quote words of the file's author.
        is_json = not isinstance(exc.__cause__, NotJsonError)
        issue = str(exc) if is_json else "expected JSON that can be read in one way only, found none"
        error = _malformed(path, [issue], item_id)
        if exc.newer:  # rewriting it would lose what the newer version knows
            error.hint = "pip install --upgrade rye-mcp"
        raise error from exc
    if issues := pins.issues_in(lockfile):
        raise _malformed(path, issues, item_id)
    return lockfile


def _malformed(path: Path, issues: list[str], item_id: str) -> RyeError:
    shown = "; ".join(issues[:_SHOWN_ISSUES])
    more = f"; and {len(issues) - _SHOWN_ISSUES} more" if len(issues) > _SHOWN_ISSUES else ""
    what = f"expected a lockfile in {printable(path)}, found one that is malformed: {shown}{more}"
    shown_path = printable(path)
    listed = [{"message": issue} for issue in issues[:_SHOWN_ISSUES]]
    return RyeError("malformed_lockfile", what, where=shown_path, item_id=item_id, issues=listed)


def _locked(space: Space, item_id: str) -> list[LockPlace]:
    """The lockfiles of a space for one tool."""
    above, _, last = check_item_id(item_id).rpartition("/")
    names, _ = _entries(space, tuple(filter(None, above.split("/"))))
    return [
        LockPlace(space, item_id, version) for item, version in map(_split, names) if item == last and version
    ]


def _places(space: Space, parts: tuple[str, ...]) -> Iterator[LockPlace]:
    names, below = _entries(space, parts)
    for last, version in map(_split, names):
        item_id = "/".join((*parts, last))
        if version and is_item_id(item_id):
            yield LockPlace(space, item_id, version)
    for name in below if len(parts) < MAX_ID_SEGMENTS else ():
        yield from _places(space, (*parts, name))


def _entries(space: Space, parts: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The files and the directories among lockfiles; links count as files, and are not followed."""
    try:
        with (
            Tree(space.root).opened("/".join((LOCKFILES_DIRECTORY, *parts))) as directory,
            os.scandir(directory) as entries,
        ):
            kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except FileNotFoundError:
        return [], []
    return [name for name in kinds if not kinds[name]], [name for name in kinds if kinds[name]]


def _split(name: str) -> tuple[str, str]:
    """The last segment of an id and the version in the name of a lockfile; no version for any other name."""
    last, _, version = name.removesuffix(_SUFFIX).rpartition("@")
    return (last, version) if name.endswith(_SUFFIX) and pins.is_version(version) else (name, "")
