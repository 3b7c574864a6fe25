"""Walking a space: every item of a type, in an order that depends on nothing but their ids.

Rules:

- Dot files, `__pycache__`, `deps.manifest.yaml`, files of other extensions (`secret.txt`) and files without
  one that do not begin with `#!` are no items. They are passed over without a word.
- What looks like an item and can be none is not passed over: a link, a FIFO, a name that is no id, one id for
  two files, two ids that differ only in case. It is in `refused`, as the error that asking for it would give.
- No link is followed, and nothing deeper than an id can be is looked at.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rye_mcp.errors import RyeError
from rye_mcp.items import (
    DEPENDENCY_MANIFEST_NAME,
    EXTENSIONS,
    MAX_ID_SEGMENTS,
    SHEBANG,
    ItemPlace,
    ItemType,
    Space,
    is_item_id,
    parse_relative_path,
    printable,
)
from rye_mcp.spaces._files import kind_of, opened, refusal, unsafe_path

__all__ = ["Listing", "ambiguous", "begins_with_shebang", "list_space", "look"]

_NAMED = 5
"""How many files an error names when there are many."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The items of a space: those that can be asked for, and why others cannot."""

    items: tuple[ItemPlace, ...]
    refused: tuple[RyeError, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """Every file that is an item by its name and kind, and what only looks like one."""

    places: tuple[ItemPlace, ...]
    refused: tuple[RyeError, ...]


def look(space: Space, item_type: ItemType) -> Seen:
    """Walk through everything of a type in a space, by id; nothing at all when the space is not there."""
    walk = _Walk(space, item_type)
    walk.enter((item_type.directory,))
    places = sorted(walk.places, key=lambda place: (place.item_id, place.extension))
    return Seen(tuple(places), tuple(sorted(walk.refused, key=_by_place)))


def list_space(space: Space, item_type: ItemType) -> Listing:
    """The items of a type in a space, by id, without those of which it is not clear which one is meant."""
    seen = look(space, item_type)
    clashes = [tuple(group) for group in _alike(seen.places) if len(group) > 1]
    clashing = {place for group in clashes for place in group}
    refused = sorted([*seen.refused, *map(ambiguous, clashes)], key=_by_place)
    return Listing(tuple(place for place in seen.places if place not in clashing), tuple(refused))


def _by_place(error: RyeError) -> str:
    return str(error.where)


def _alike(places: Iterable[ItemPlace]) -> Iterator[list[ItemPlace]]:
    """The places in groups: the same id, or ids that differ only in case."""
    groups: defaultdict[str, list[ItemPlace]] = defaultdict(list)
    for place in places:
        groups[place.item_id.lower()].append(place)
    yield from groups.values()


def ambiguous(places: Sequence[ItemPlace]) -> RyeError:
    """The error that names the files of which it is not clear which one is meant."""
    paths = [printable(place.path) for place in places]
    shown = " and ".join(paths[:_NAMED]) + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")
    ids = sorted({place.item_id for place in places})
    expected = f"expected one file for {ids[0]}"
    if len(ids) > 1 and len({item_id.lower() for item_id in ids}) == 1:
        expected = "expected ids that differ in more than case"
    return RyeError(
        "ambiguous_item", f"{expected}, found {shown}", where=paths[0], candidates=paths, item_ids=ids
    )


def begins_with_shebang(directory: int, name: str, path: Path) -> bool:
    """Whether a regular file begins with `#!`: only then is it an item without an extension."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
        try:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return regular and os.read(descriptor, len(SHEBANG)) == SHEBANG
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return False
    except OSError as exc:
        raise refusal(exc, path) from exc


@dataclass(slots=True)
class _Walk:
    """What a walk has seen so far."""

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
            raise unsafe_path("a regular file", kind_of(mode), self._path(*parts, entry.name))
        if not extension and not begins_with_shebang(directory, entry.name, self._path(*parts, entry.name)):
            return
        _, item_id, extension = parse_relative_path("/".join((*parts, entry.name)))
        self.places.append(ItemPlace(self.space, self.item_type, item_id, extension))

    def _path(self, *parts: str) -> Path:
        return self.space.root.joinpath(*parts)


def _extension(name: str) -> str:
    _, dot, ending = name.rpartition(".")
    return dot + ending if dot else ""
