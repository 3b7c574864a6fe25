"""The lockfiles of skills: which files a skill of the project had when it was locked, and who signed it.

`lockfiles/skills/<name>.lock.json` has the form of a tool's lockfile, with one element and all files. The
name of a tool's lockfile has a version, so neither is ever taken for the other.

    SkillLocks(spaces).require(verified)  # RyeError `lock_mismatch` if the skill is not the locked one
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lilux._stamps import stamp_of
from lilux.primitives.lockfile import LOCKFILE_VERSION, Lockfile, LockfileRoot
from rye_mcp.errors import RyeError
from rye_mcp.executor.lock import pins
from rye_mcp.executor.lock.pins import PACKAGE, Pins, pins_of_root
from rye_mcp.executor.lock.store import (
    SKILL_LOCKS_DIRECTORY,
    LockPlace,
    StoredLock,
    parse_lockfile,
    read_lockfile,
    relative_skill_lock,
    skill_of_lock,
)
from rye_mcp.files import Tree
from rye_mcp.items import NO_FILES, ItemType, SpaceName
from rye_mcp.metadata import parse_metadata
from rye_mcp.spaces import Spaces
from rye_mcp.trust.verify import VerifiedItem

__all__ = ["SkillLocks", "pins_of_skill"]

_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o755


def pins_of_skill(item: VerifiedItem) -> Pins:
    """What a lockfile pins of a skill: its listing, its signer, and every file."""
    file, version = item.file, parse_metadata(item.file).version
    element = {
        "item_id": file.item_id,
        "space": file.space.name.value,
        "version": version,
        "integrity": item.digest,
        "signer": item.signer.key_id,
    }
    return Pins(
        pins_of_root(file.item_id, version, item.digest),
        (element,),
        {path: each.digest for path, each in (file.skill or NO_FILES).files.items()},
        {item.signer.key_id: item.signer.before},
    )


class SkillLocks:
    """The lockfiles of the skills of one project."""

    def __init__(self, spaces: Spaces) -> None:
        self._space = spaces.project

    def find(self, name: str) -> StoredLock | None:
        """The lockfile of a skill; RyeError when there is something else in its place."""
        if self._space is None:
            return None
        relative = relative_skill_lock(name)
        if stamp_of(f"{self._space.root}/{relative}", follow=False) is None:
            return None  # most skills have none, and lists of skills are long
        path = self._space.root / relative
        with _whole_hints(name):
            data = read_lockfile(self._space, relative, name)
            if data is None:
                return None
            lockfile = parse_lockfile(data, path, name)
        digest = hashlib.sha256(data).hexdigest()
        return StoredLock(lockfile, Pins.of_lockfile(lockfile), self._space, path, digest)

    def list(self) -> tuple[LockPlace, ...]:
        """Every lockfile of a skill, by its name."""
        if self._space is None:
            return ()
        try:
            with (
                Tree(self._space.root).opened(SKILL_LOCKS_DIRECTORY) as directory,
                os.scandir(directory) as found,
            ):
                paths = [f"{SKILL_LOCKS_DIRECTORY}/{entry.name}" for entry in found]
        except FileNotFoundError:
            return ()
        names = sorted(name for name in map(skill_of_lock, paths) if name is not None)
        return tuple(LockPlace(self._space, name, "", ItemType.SKILL) for name in names)

    def require(self, item: VerifiedItem) -> StoredLock | None:
        """What is locked of a skill, when it is still that; RyeError `lock_mismatch` otherwise."""
        if item.file.space.name is not SpaceName.PROJECT:
            return None
        name = item.file.item_id
        stored = self.find(name)
        different = () if stored is None else pins.differences(stored.pins, pins_of_skill(item))
        if stored is not None and different:
            with _whole_hints(name):
                raise pins.mismatch(different, name, stored.path)
        return stored

    def write(self, item: VerifiedItem, *, package_version: str) -> Path:
        """Lock a skill as it is."""
        assert self._space is not None  # noqa: S101 - for the type checker: a skill of the project has one
        found = pins_of_skill(item)
        lockfile = Lockfile(
            LOCKFILE_VERSION,
            (item.timestamp or "").replace("Z", "+00:00"),
            LockfileRoot(item.file.item_id, found.root["version"] or "", item.digest),
            resolved_chain=[dict(element) for element in found.elements],
            registry={"package": PACKAGE, "version": package_version},
            verified_deps=dict(sorted((found.dependencies or {}).items())),
        )
        relative = relative_skill_lock(item.file.item_id)
        path = self._space.root / relative
        Tree(self._space.root).write(
            relative, lockfile.to_bytes(path=path), mode=_MODE, replace=True, create_mode=_DIRECTORY_MODE
        )
        return path


@contextmanager
def _whole_hints(name: str) -> Iterator[None]:
    """Refusals tell the whole command, with the type."""
    try:
        yield
    except RyeError as exc:
        exc.hint = f"rye skill review {name}, then: rye lock update {name} --type {ItemType.SKILL}"
        raise
