"""Walks a space: lists its items in the order of their ids, and looks cheaply for what has changed since.

`list_space` lists items, and refuses what looks like one and cannot be one. `scan_below` opens nothing but
directories, and returns the stamps of files.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.files import refusal, wrong_kind
from rye_mcp.items import (
    DEPENDENCY_MANIFEST_NAME,
    EXTENSIONS,
    MAX_ID_SEGMENTS,
    ItemPlace,
    ItemType,
    Space,
    is_item_id,
    parse_relative_path,
    printable,
)
from rye_mcp.spaces._directories import Stamp, begins_with_shebang, opened
from rye_mcp.spaces._skills import scan_skills, skills_in

__all__ = [
    "Entering",
    "Listing",
    "ambiguous",
    "list_space",
    "look",
    "refuse_case_collisions",
    "scan_below",
]

_NAMED = 5
"""How many files an error names when there are many."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Items of a space by their places, and why others cannot be asked for."""

    items: tuple[ItemPlace, ...]
    refused: tuple[RyeError, ...] = ()


def look(space: Space, item_type: ItemType) -> Listing:
    """Every item of this type by its name and kind; nothing if there is no such space."""
    if item_type is ItemType.SKILL:
        skills, refused = skills_in(space)
        return Listing(tuple(skills), tuple(refused))
    walk = _Walk(space, item_type)
    walk.enter((item_type.directory,))
    places = sorted(walk.places, key=lambda place: (place.item_id, place.extension))
    return Listing(tuple(places), tuple(sorted(walk.refused, key=_by_place)))


def list_space(space: Space, item_type: ItemType) -> Listing:
    """The items of a type in a space, by id, without ambiguous ones."""
    seen = look(space, item_type)
    clashes = [tuple(group) for group in _alike(seen.items) if len(group) > 1]
    clashing = {place for group in clashes for place in group}
    refused = sorted([*seen.refused, *map(ambiguous, clashes)], key=_by_place)
    return Listing(tuple(place for place in seen.items if place not in clashing), tuple(refused))


def refuse_case_collisions(place: ItemPlace) -> None:
    """RyeError `ambiguous_item` if the space has another item whose id differs only in case.

    On a file system that ignores case, one would be the other: a person who signs there and runs here might
    not run what they signed. So both are refused on every file system.
    """
    # A directory or a file of another kind may be the reason to ask; only a second item counts.
    folded = place.item_id.lower()
    same = [other for other in look(place.space, place.item_type).items if other.item_id.lower() == folded]
    if len({other.item_id for other in same}) > 1:
        raise ambiguous(same)


def _by_place(error: RyeError) -> str:
    return str(error.where)


def _alike(places: Iterable[ItemPlace]) -> Iterator[list[ItemPlace]]:
    """The places in groups: the same id, or ids that differ only in case."""
    groups: defaultdict[str, list[ItemPlace]] = defaultdict(list)
    for place in places:
        groups[place.item_id.lower()].append(place)
    yield from groups.values()


def ambiguous(places: Sequence[ItemPlace]) -> RyeError:
    """The error that names the ambiguous files."""
    paths = [printable(place.path) for place in places]
    shown = " and ".join(paths[:_NAMED]) + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")
    ids = sorted({place.item_id for place in places})
    expected = f"expected one file for {ids[0]}"
    if len(ids) > 1 and len({item_id.lower() for item_id in ids}) == 1:
        expected = "expected ids that differ in more than case"
    return RyeError(
        "ambiguous_item", f"{expected}, found {shown}", where=paths[0], candidates=paths, item_ids=ids
    )


@dataclass(slots=True)
class _Walk:
    """The state of a walk."""

    space: Space
    item_type: ItemType
    places: list[ItemPlace] = field(default_factory=list)
    refused: list[RyeError] = field(default_factory=list)

    def enter(self, parts: tuple[str, ...]) -> None:
        """Look at everything in a directory, and below it."""
        try:
            with opened(self.space.root, parts) as directory, os.scandir(directory) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
                below = [entry.name for entry in found if not self._look_at(entry, directory, parts)]
        except FileNotFoundError:
            return
        except RyeError as exc:
            self.refused.append(exc)
            return
        except OSError as exc:
            self.refused.append(refusal(exc, self._path(*parts)))
            return
        for name in below:
            self.enter((*parts, name))

    def _look_at(self, entry: os.DirEntry[str], directory: int, parts: tuple[str, ...]) -> bool:
        """Take note of an entry; False for a directory that is to be entered."""
        name = entry.name
        if name.startswith(".") or name == DEPENDENCY_MANIFEST_NAME:
            return True
        if entry.is_dir(follow_symlinks=False):
            return len(parts) >= MAX_ID_SEGMENTS or not is_item_id(name)
        extension = _extension(name)
        if extension not in EXTENSIONS[self.item_type]:
            return True
        try:
            self._take(entry, extension, directory, parts)
        except FileNotFoundError:
            pass  # it was there a moment ago
        except RyeError as exc:
            exc.where = exc.where or printable(self._path(*parts, name))
            self.refused.append(exc)
        return True

    def _take(self, entry: os.DirEntry[str], extension: str, directory: int, parts: tuple[str, ...]) -> None:
        if not entry.is_file(follow_symlinks=False):
            mode = entry.stat(follow_symlinks=False).st_mode
            raise wrong_kind("a regular file", mode, self._path(*parts, entry.name))
        if not extension and not begins_with_shebang(directory, entry.name, self._path(*parts, entry.name)):
            return
        _, item_id, extension = parse_relative_path("/".join((*parts, entry.name)))
        self.places.append(ItemPlace(self.space, self.item_type, item_id, extension))

    def _path(self, *parts: str) -> Path:
        return self.space.root.joinpath(*parts)


def _extension(name: str) -> str:
    _, dot, ending = name.rpartition(".")
    return dot + ending if dot else ""


Entering = Callable[[tuple[str, ...]], None]
"""Told of each directory right before it is looked at."""


def scan_below(
    root: Path, item_type: ItemType, parts: tuple[str, ...], entering: Entering = lambda _: None
) -> dict[str, Stamp]:
    """Path in the space → stamp, of every file at `parts` and below that may be an item of this type."""
    if item_type is ItemType.SKILL:
        entering((item_type.directory,))
        return scan_skills(root)
    found: dict[str, Stamp] = {}
    waiting = [parts]
    extensions = EXTENSIONS[item_type]
    while waiting:
        directory = waiting.pop()
        entering(directory)
        below = _look_into(root, directory, extensions, found)
        waiting += [(*directory, name) for name in below if len(directory) < MAX_ID_SEGMENTS]
    return found


def _look_into(
    root: Path, parts: tuple[str, ...], extensions: tuple[str, ...], found: dict[str, Stamp]
) -> list[str]:
    """Take note of the files of one directory; its directories are returned."""
    below: list[str] = []
    prefix = "/".join(parts) + "/"
    try:
        with opened(root, parts) as directory, os.scandir(directory) as entries:
            for entry in entries:
                name = entry.name
                if name[0] == ".":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if is_item_id(name):
                        below.append(name)
                elif _may_be_an_item(name, extensions) and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    found[prefix + name] = (
                        status.st_mtime_ns,
                        status.st_ctime_ns,
                        status.st_size,
                        status.st_ino,
                    )
    except (OSError, RyeError):
        pass  # it is not there, or nobody can ask for what is in it
    return below


def _may_be_an_item(name: str, extensions: tuple[str, ...]) -> bool:
    if not name.isascii():
        return False  # no id has such a name, and no index can hold one that is no text
    _, dot, ending = name.rpartition(".")
    return (dot + ending if dot else "") in extensions and name != DEPENDENCY_MANIFEST_NAME
