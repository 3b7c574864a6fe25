"""`survey`: every item that is meant, whether it passes the gate, and who signed it.

Nothing is left out: what cannot be read is listed with its refusal. A file that only a valid listing above it
vouches for is `carried`. No content is kept.

    survey(SurveyRequest("demo/*"), context).as_dict()
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import (
    DEPENDENCY_MANIFEST_NAME,
    MAX_ITEM_BYTES,
    ItemFile,
    ItemPlace,
    ItemType,
    Space,
    SpaceName,
    printable,
)
from rye_mcp.metadata import parse_metadata
from rye_mcp.spaces import Reader
from rye_mcp.spaces.source_tree import SourceTree
from rye_mcp.trust.dependency_manifest import (
    MAX_LISTED_BYTES,
    DependencyManifest,
    manifest_file,
    verify_manifest,
)
from rye_mcp.trust.scope import Role
from rye_mcp.verbs._answers import Integrity
from rye_mcp.verbs._chains import LockState, LockStates
from rye_mcp.verbs._selection import EVERYTHING, Refused, Selection, Tracked, is_pattern, select
from rye_mcp.verbs._skill_copies import changed_copies
from rye_mcp.verbs.context import Context

__all__ = ["CarriedFiles", "Survey", "SurveyRequest", "Surveyed", "survey"]


class CarriedFiles:
    """Says of files whether a good listing carries them; reads each listing once."""

    def __init__(self, context: Context) -> None:
        self._trust = context.trust
        self._listings: dict[Path, DependencyManifest | None] = {}

    def integrity_of(self, space: Space, path: Path) -> Integrity | None:
        """Return the integrity of a file that a listing covers; None without one."""
        if space.name is SpaceName.SYSTEM or not path.is_relative_to(space.root / ItemType.TOOL.directory):
            return None
        relative = path.relative_to(space.root).as_posix()
        with SourceTree(space.root) as tree:
            for listing in self._above(space, relative, tree):
                listed = listing.files.get(relative.removeprefix(f"{listing.directory}/"))
                if listed is not None and listed == _listed_digest(tree, relative):
                    return Integrity(listing.signer, listed, listing=listing.file.path)
        return None

    def _above(self, space: Space, relative: str, tree: SourceTree) -> Iterator[DependencyManifest]:
        parts = relative.split("/")[:-1]
        for depth in range(len(parts), 0, -1):
            directory = "/".join(parts[:depth])
            place = space.root / directory
            if place not in self._listings:
                self._listings[place] = self._good(space, directory, tree)
            if (known := self._listings[place]) is not None:
                yield known

    def _good(self, space: Space, directory: str, tree: SourceTree) -> DependencyManifest | None:
        try:
            found = tree.read(f"{directory}/{DEPENDENCY_MANIFEST_NAME}", limit=MAX_ITEM_BYTES)
            if found is None:
                return None
            return verify_manifest(
                manifest_file(space, directory, found.content), self._trust, role=Role.TOOL
            )
        except RyeError:
            return None  # the run of the tool that rests on it says what is wrong with it


def _listed_digest(tree: SourceTree, relative: str) -> str | None:
    try:
        found = tree.read(relative, limit=MAX_LISTED_BYTES)
    except RyeError:
        return None  # no regular file is there, and the refusal of the item says so
    return None if found is None else hashlib.sha256(found.content).hexdigest()


@dataclass(frozen=True, slots=True)
class SurveyRequest:
    """The items to survey: an id, a pattern, or by default all; of one type or space, or of every one.

    `locks` asks how each tool stands to its lockfile too.
    """

    item_id: str = EVERYTHING
    item_type: ItemType | None = None
    space: SpaceName | None = None
    libraries: bool = True
    locks: bool = False


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The findings about one item."""

    item_id: str
    item_type: ItemType
    space: SpaceName
    path: Path
    integrity: Integrity
    description: str = ""
    version: str | None = None
    shadowed: bool = False
    library: bool = False
    lock: LockState | None = None
    copies: tuple[RyeError, ...] = ()
    """Why copies of a skill, in places where clients look for skills, are not that skill."""

    @property
    def obstacle(self) -> RyeError | None:
        """Why it would not run, though it passed the gate itself."""
        return None if self.lock is None else self.lock.obstacle

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        answer: dict[str, Any] = {
            "item_id": self.item_id,
            "type": self.item_type.value,
            "space": self.space.value,
            "path": printable(self.path),
        }
        if self.version is not None:
            answer |= {"version": self.version, "description": self.description}
        if self.shadowed:
            answer["shadowed"] = True
        if self.library:
            answer["library"] = True
        if self.lock is not None:
            answer["lock"] = self.lock.state
        if self.copies:
            answer["copies"] = [each.as_dict() for each in self.copies]
        if self.obstacle is not None:
            answer["would_not_run"] = self.obstacle.as_dict()
        return answer | {"integrity": self.integrity.as_dict()}


@dataclass(frozen=True, slots=True)
class Survey:
    """The findings about all items, by space, type and id."""

    items: tuple[Surveyed, ...]
    libraries_left_out: int = 0

    @property
    def refused(self) -> tuple[Surveyed, ...]:
        """Those that did not pass."""
        return tuple(item for item in self.items if item.integrity.refusal is not None)

    @property
    def carried(self) -> tuple[Surveyed, ...]:
        """Those that a listing vouches for, as parts of the tools beside them."""
        return tuple(item for item in self.items if item.integrity.listing is not None)

    @property
    def would_not_run(self) -> tuple[Surveyed, ...]:
        """Those that passed, and that something behind them or their lockfile keeps from running."""
        return tuple(item for item in self.items if item.obstacle is not None)

    @property
    def with_other_copies(self) -> tuple[Surveyed, ...]:
        """The skills that passed, and of which a client has something else."""
        return tuple(item for item in self.items if item.copies)

    @property
    def is_good(self) -> bool:
        """Whether nothing is to be done about any of them."""
        return not (self.refused or self.would_not_run or self.with_other_copies)

    def as_dict(self) -> dict[str, Any]:
        """Return it as data; the status says whether anything was refused, or would be when it runs."""
        refused, carried = len(self.refused), len(self.carried)
        return {
            "status": "verified" if self.is_good else "refused",
            "items": [item.as_dict() for item in self.items],
            "total": len(self.items),
            "verified": len(self.items) - refused - carried,
            "carried": carried,
            "refused": refused,
            "libraries_left_out": self.libraries_left_out,
            "would_not_run": len(self.would_not_run),
        }


def survey(request: SurveyRequest, context: Context, *, tracked: Tracked = lambda places: places) -> Survey:
    """Look at everything that is meant; RyeError only when nothing can be meant by the request."""
    if not is_pattern(request.item_id):
        return Survey(tuple(_by_id(request, _Judge(context, locks=request.locks))))
    selection = _selected(request, context)
    seen: set[tuple[ItemType, str]] = set()
    judge = _Judge(context, locks=request.locks)
    with Reader() as reader:
        items = [_look_at(place, reader, judge, seen) for place in tracked(selection.places)]
    items += map(judge.of_refused, selection.refused)
    shown = [item for item in items if request.libraries or not item.library]
    return Survey(tuple(sorted(shown, key=_order)), len(items) - len(shown))


def _selected(request: SurveyRequest, context: Context) -> Selection:
    """Return the items that the pattern of a request selects; RyeError when it selects none."""
    spaces = context.spaces
    searched = spaces.accessible() if request.space is None else (spaces.space(request.space),)
    names = [space.name for space in searched]
    types = ItemType if request.item_type is None else (request.item_type,)
    selection = select(spaces, request.item_id, names=names, types=types)
    if request.item_id != EVERYTHING and not selection.places and not selection.refused:
        what = f"expected ids that match {request.item_id}, found none in {', '.join(names)}"
        raise RyeError("item_not_found", what, item_id=request.item_id)
    return selection


def _by_id(request: SurveyRequest, judge: _Judge) -> list[Surveyed]:
    """The item with this id; of each type, when none is named."""
    types = tuple(ItemType) if request.item_type is None else (request.item_type,)
    found: list[Surveyed] = []
    missing: list[RyeError] = []
    for item_type in types:
        try:
            file = judge.context.spaces.find(request.item_id, item_type, only=request.space).item
        except RyeError as exc:
            if exc.code != "item_not_found":
                raise
            missing.append(exc)
        else:
            found.append(judge.of(file, shadowed=False))
    if not found:
        raise missing[0]
    return found


def _look_at(place: ItemPlace, reader: Reader, judge: _Judge, seen: set[tuple[ItemType, str]]) -> Surveyed:
    shadowed = (place.item_type, place.item_id) in seen
    seen.add((place.item_type, place.item_id))
    try:
        file = reader.read(place)
    except RyeError as exc:
        who = (place.item_id, place.item_type)
        return judge.of_none(*who, place.space, place.path, exc, shadowed=shadowed)
    return judge.of(file, shadowed=shadowed)


class _Judge:
    """Says of each item whether it passes, and of a tool how it stands to its lockfile, if that is asked."""

    def __init__(self, context: Context, *, locks: bool) -> None:
        self.context = context
        self._locks = LockStates(context) if locks else None
        self._carried = CarriedFiles(context)

    def of(self, file: ItemFile, *, shadowed: bool) -> Surveyed:
        """Survey a file."""
        who = (file.item_id, file.item_type, file.space.name, file.path)
        try:
            verified = self.context.verify(file)
            metadata = self.context.metadata(verified)
        except RyeError as exc:
            if _is_tool(file):
                return Surveyed(*who, Integrity(refusal=exc), shadowed=shadowed)
            return self.of_none(file.item_id, file.item_type, file.space, file.path, exc, shadowed=shadowed)
        integrity = Integrity.of(verified)
        library = file.item_type is ItemType.TOOL and metadata.is_library
        lock = None if self._locks is None or shadowed else self._locks.of(file, metadata)
        copies = () if self._locks is None or file.skill is None else changed_copies(file)
        said = (metadata.description, metadata.version)
        return Surveyed(*who, integrity, *said, shadowed, library, lock, copies)

    def of_refused(self, refused: Refused) -> Surveyed:
        """Survey a file in the place of an item that is not one."""
        path = Path(refused.error.where or refused.space.root)
        return self.of_none(refused.item_id, refused.item_type, refused.space, path, refused.error)

    def of_none(
        self,
        item_id: str,
        item_type: ItemType,
        space: Space,
        path: Path,
        error: RyeError,
        *,
        shadowed: bool = False,
    ) -> Surveyed:
        """Survey a file that did not pass: refused, unless a listing carries it."""
        carried = self._carried.integrity_of(space, path)
        integrity = carried or Integrity(refusal=error)
        return Surveyed(
            item_id,
            item_type,
            space.name,
            path,
            integrity,
            shadowed=shadowed,
            library=carried is not None,
        )


def _is_tool(file: ItemFile) -> bool:
    """Whether a file names what runs it: then it needs a signature of its own, whatever lists it."""
    try:
        return file.item_type is ItemType.TOOL and not parse_metadata(file).is_library
    except RyeError:
        return False


def _order(item: Surveyed) -> tuple[int, str, str]:
    return (-item.space.precedence, item.item_type.value, item.item_id)
