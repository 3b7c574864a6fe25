"""From an id to a file: the spaces are searched by precedence, and what was found is read once.

The one exception is an executor's bare name: no file of another space takes it from the system space.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from lilux._dataclasses import dataclass
from lilux._footprints import note
from rye_mcp.errors import RyeError
from rye_mcp.files import refusal, wrong_kind
from rye_mcp.items import (
    DEPENDENCY_MANIFEST_NAME,
    EXTENSIONS,
    SHEBANG,
    ItemFile,
    ItemPlace,
    ItemType,
    Space,
    SpaceName,
    check_item_id,
    printable,
    relative_path,
)
from rye_mcp.spaces._directories import (
    Stamp,
    Way,
    begins_with_shebang,
    descend,
    open_directory,
    read_file,
)
from rye_mcp.spaces._listing import (
    Entering,
    Listing,
    ambiguous,
    list_space,
    look,
    refuse_case_collisions,
    scan_below,
)
from rye_mcp.spaces._roots import project_space, system_space, user_space
from rye_mcp.spaces._skills import read_skill

__all__ = ["Found", "Reader", "Spaces"]

_NO_PROJECT: Final = "there is no project here: go to one, or make one with rye init"


@dataclass(frozen=True, slots=True)
class Found:
    """An item that was found, and those with the same id that were not chosen, the nearest first."""

    item: ItemFile
    shadowed: tuple[ItemPlace, ...] = ()


@dataclass(frozen=True, slots=True)
class Spaces:
    """The spaces of one call. Without a project, `project` is None and `no_project` says why."""

    project: Space | None
    user: Space
    system: Space
    no_project: RyeError | None = None

    @classmethod
    def locate(
        cls,
        project: Path | None = None,
        *,
        user: Path | None = None,
        system: Path | None = None,
        private: Mapping[str, Path] | None = None,
    ) -> Spaces:
        """The spaces of a project, which is the directory that holds its `.ai`, or of none.

        `user` stands for `$USER_SPACE`, the directory that holds the user's `.ai`; `system` is the system
        space itself. Both have good defaults. `private` are directories besides the user space, by their
        names, that a project may not be inside or above.
        """
        user_root, system_root = user_space(user), system_space(system)
        if project is None:
            return cls(None, user_root, system_root, RyeError("no_project", "expected a project, found none"))
        try:
            root = project_space(project, user=user_root, system=system_root, private=private or {})
            return cls(root, user_root, system_root)
        except RyeError as exc:
            return cls(None, user_root, system_root, exc)

    def require_project(self) -> Space:
        """The project space; RyeError `no_project` with the reason without one."""
        if self.project is None:
            raise self.no_project or RyeError("no_project", "expected a project, found none")
        return self.project

    def space(self, name: SpaceName) -> Space:
        """The space of this name; RyeError `no_project` for the project space without a project."""
        if name is SpaceName.PROJECT:
            return self.require_project()
        return self.user if name is SpaceName.USER else self.system

    def accessible(self, seen_from: SpaceName | None = None) -> tuple[Space, ...]:
        """The spaces by precedence; from an item in one of them, only that one and those below it."""
        limit = seen_from.precedence if seen_from is not None else SpaceName.PROJECT.precedence
        there = (self.project, self.user, self.system)
        return tuple(space for space in there if space is not None and space.precedence <= limit)

    def find(
        self,
        item_id: str,
        item_type: ItemType = ItemType.TOOL,
        *,
        seen_from: SpaceName | None = None,
        only: SpaceName | None = None,
    ) -> Found:
        """The item with this id, read.

        `seen_from` is the space of the item that asks; `only` looks into one space, whatever the others hold.
        """
        check_item_id(item_id)
        spaces = self.accessible(seen_from) if only is None else (self.space(only),)
        found = self._exactly(item_id, item_type, spaces)
        if found is None:
            error = _not_found(item_id, item_type, spaces)
            if self.project is None and seen_from is None and only is None:
                error.hint = _NO_PROJECT
            raise error
        return found

    def find_executor(self, name: str, *, seen_from: SpaceName | None = None) -> Found:
        """The tool that an `executor_id` names: by its whole id, else the one file that is called so.

        A name without `/` that the system space knows means what it means there. Whoever may write into the
        project could otherwise put a file of theirs, anywhere in it, below every tool that names a primitive;
        a whole id says which file is meant, and is looked for by precedence as any other.
        """
        check_item_id(name)
        spaces = self.accessible(seen_from)
        if "/" in name:
            found = self._exactly(name, ItemType.TOOL, spaces)
        else:
            found = self._called(name, (self.system,)) or self._called(name, spaces)
        if found is None:
            raise _not_found(name, ItemType.TOOL, spaces)
        return found

    def list(self, name: SpaceName, item_type: ItemType = ItemType.TOOL) -> Listing:
        """Every item of a type in one space."""
        return list_space(self.space(name), item_type)

    def scan(
        self,
        name: SpaceName,
        item_type: ItemType,
        parts: tuple[str, ...] = (),
        *,
        entering: Entering = lambda _: None,
    ) -> Mapping[str, Stamp]:
        """Path → stamp of every file that may be an item, so that a caller can find out what has changed.

        `parts` are directories below that of the type, to look at no more than these; `entering` is told of
        each directory right before it is looked at, as all of its parts.
        """
        return scan_below(self.space(name).root, item_type, (item_type.directory, *parts), entering)

    def read(self, place: ItemPlace) -> ItemFile:
        """Read the item at a place that was listed; RyeError `item_not_found` when it is gone."""
        return _read(place)

    def _called(self, name: str, spaces: tuple[Space, ...]) -> Found | None:
        by_id = self._exactly(name, ItemType.TOOL, spaces)
        return by_id or self._by_last_segment(name, ItemType.TOOL, spaces)

    def _exactly(self, item_id: str, item_type: ItemType, spaces: tuple[Space, ...]) -> Found | None:
        for index, space in enumerate(spaces):
            item = _item_in(space, item_type, item_id)
            if item is not None:
                below = (_Candidates.probe(each, item_type, item_id) for each in spaces[index + 1 :])
                return Found(item, tuple(other for each in below for other in each.files))
        return None

    def _by_last_segment(self, name: str, item_type: ItemType, spaces: tuple[Space, ...]) -> Found | None:
        for index, space in enumerate(spaces):
            place = _Candidates.called(space, item_type, name).the_one()
            if place is not None:
                refuse_case_collisions(place)
                below = (_Candidates.called(each, item_type, name) for each in spaces[index + 1 :])
                return Found(_read(place), tuple(other for each in below for other in each.files))
        return None


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The candidates of one space for an item: files, and anything else in a file's place."""

    files: tuple[ItemPlace, ...] = ()
    others: tuple[RyeError, ...] = ()

    @classmethod
    def probe(cls, space: Space, item_type: ItemType, item_id: str) -> _Candidates:
        """Look for each extension that the item can have; nothing is listed."""
        *above, _ = (item_type.directory, *item_id.split("/"))
        try:
            way = descend(space.root, above)
            if way is None:
                return cls()
            try:
                return cls.in_directory(way, space, item_type, item_id)
            finally:
                os.close(way.directory)
        except FileNotFoundError:
            return cls()
        except RyeError as exc:
            return cls((), (exc,))

    @classmethod
    def in_directory(cls, way: Way, space: Space, item_type: ItemType, item_id: str) -> _Candidates:
        """The same, in the directory that the item would be in."""
        name, directory = item_id.rpartition("/")[2], way.directory
        files, others = [], []
        if item_type is ItemType.SKILL:
            return cls._of_skill(directory, space, name)
        for extension in way.entries[-1].extensions(name, EXTENSIONS[item_type]):
            if not _can_have(extension, name):
                continue
            place = ItemPlace(space, item_type, item_id, extension)
            mode = _mode(directory, name + extension, place)
            if mode is None:
                continue
            if stat.S_ISREG(mode):
                if extension or begins_with_shebang(directory, name, place.path):
                    files.append(place)
            elif extension or not stat.S_ISDIR(mode):
                others.append(wrong_kind("a regular file", mode, place.path))
        return cls(tuple(files), tuple(others))

    @classmethod
    def _of_skill(cls, directory: int, space: Space, name: str) -> _Candidates:
        """The same for a skill: its directory, its listing, or both."""
        (extension,) = EXTENSIONS[ItemType.SKILL]
        place = ItemPlace(space, ItemType.SKILL, name, extension)
        modes = _mode(directory, name, place), _mode(directory, name + extension, place)
        return cls(() if modes == (None, None) else (place,))

    @classmethod
    def called(cls, space: Space, item_type: ItemType, name: str) -> _Candidates:
        """Look for a last segment, in every directory of the space."""
        seen = look(space, item_type)
        names = {name + extension for extension in EXTENSIONS[item_type]}
        return cls(
            tuple(place for place in seen.items if place.item_id.rpartition("/")[2] == name),
            tuple(error for error in seen.refused if str(error.where).rpartition("/")[2] in names),
        )

    def the_one(self) -> ItemPlace | None:
        """The only file; None if it is missing; RyeError for several files, or for anything else."""
        if len(self.files) > 1:
            raise ambiguous(self.files)
        if self.files:
            return self.files[0]
        if self.others:
            raise self.others[0]
        return None


def _can_have(extension: str, name: str) -> bool:
    """`hello.py` is `hello` with an extension, never an id without one; a list of dependencies is no item."""
    return bool(extension or "." not in name) and name + extension != DEPENDENCY_MANIFEST_NAME


def _mode(directory: int, name: str, place: ItemPlace) -> int | None:
    """Return the mode of the file with this name; None if it is missing. Links are not followed."""
    note(lambda: place.path.with_name(name))
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise refusal(exc, place.path) from exc


def _item_in(space: Space, item_type: ItemType, item_id: str) -> ItemFile | None:
    """The item of one space, read; None when it has none. Each directory on the way is opened once."""
    segments = item_id.split("/")
    *above, _ = (item_type.directory, *segments)
    way = descend(space.root, above)
    if way is None:
        return None
    try:
        place = _Candidates.in_directory(way, space, item_type, item_id).the_one()
        if place is None:
            return None
        for segment, entries in zip(segments, way.entries, strict=True):
            if entries.in_several_cases and segment.lower() in entries.in_several_cases:
                refuse_case_collisions(place)
        return _read_in(way.directory, place)
    finally:
        os.close(way.directory)


def _read(place: ItemPlace) -> ItemFile:
    with Reader() as reader:
        return reader.read(place)


class Reader:
    """Reads items that were listed, one after the other; to be used in a `with` block.

    Those that follow each other in one directory share its descriptor: a file that is exchanged together with
    its directory meanwhile may be read as it was before.
    """

    def __init__(self) -> None:
        self._at: tuple[Path, str] | None = None
        self._directory = -1

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def read(self, place: ItemPlace) -> ItemFile:
        """Read the item at a place; RyeError `item_not_found` when it is gone."""
        above = relative_path(place.item_type, place.item_id, place.extension).rpartition("/")[0]
        try:
            if self._at != (place.space.root, above):
                self._close()
                self._directory = open_directory(place.space.root, above.split("/"))
                self._at = (place.space.root, above)
            return _read_in(self._directory, place)
        except FileNotFoundError:
            raise _not_found(place.item_id, place.item_type, (place.space,)) from None

    def _close(self) -> None:
        if self._at is not None:
            self._at = None
            os.close(self._directory)


def _read_in(directory: int, place: ItemPlace) -> ItemFile:
    """Read an item in the directory that it is in."""
    if place.item_type is ItemType.SKILL:
        skill = read_skill(directory, place)
        if skill is None:
            raise _not_found(place.item_id, place.item_type, (place.space,))
        return skill
    path = place.path
    try:
        content = read_file(directory, place.item_id.rpartition("/")[2] + place.extension, path)
    except FileNotFoundError:
        raise _not_found(place.item_id, place.item_type, (place.space,)) from None
    if not place.extension and not content.startswith(SHEBANG):
        raise _not_found(place.item_id, place.item_type, (place.space,))
    return ItemFile(place.space, place.item_type, place.item_id, place.extension, path, content)


def _not_found(item_id: str, item_type: ItemType, spaces: tuple[Space, ...]) -> RyeError:
    searched = [printable(space.root / item_type.directory) for space in spaces]
    what = f"expected a {item_type} called {item_id}, found none in {', '.join(searched) or 'any space'}"
    return RyeError("item_not_found", what, item_id=item_id, item_type=str(item_type), searched=searched)
