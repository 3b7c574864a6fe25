"""`survey`: every item that is meant, whether it passes the gate, and who signed it.

Rules:

- Nothing is left out: what cannot be read, or only looks like an item, is there with its refusal.
- Spaces come by precedence. An item that another one with the same id hides is `shadowed`, and looked at all
  the same: it is what runs once the other one is gone.
- A description is shown of verified items alone: everybody can write one.
- No content is kept.

    survey(SurveyRequest("demo/*"), context).as_dict()
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemPlace, ItemType, SpaceName, printable
from rye_mcp.spaces import Reader
from rye_mcp.verbs._context import Context
from rye_mcp.verbs._selection import EVERYTHING, Refused, Tracked, is_pattern, select
from rye_mcp.verbs._shapes import Integrity

__all__ = ["Survey", "SurveyRequest", "Surveyed", "survey"]


@dataclass(frozen=True, slots=True)
class SurveyRequest:
    """Which items: an id, a pattern, or by default all; of a type, in a space, or of every one."""

    item_id: str = EVERYTHING
    item_type: ItemType | None = None
    space: SpaceName | None = None


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What was found out about one item."""

    item_id: str
    item_type: ItemType
    space: SpaceName
    path: Path
    integrity: Integrity
    description: str = ""
    version: str | None = None
    shadowed: bool = False

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
        return answer | {"integrity": self.integrity.as_dict()}


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found out about all of them, by space, type and id."""

    items: tuple[Surveyed, ...]

    @property
    def refused(self) -> tuple[Surveyed, ...]:
        """Those that did not pass."""
        return tuple(item for item in self.items if item.integrity.refusal is not None)

    def as_dict(self) -> dict[str, Any]:
        """Return it as data; the status says whether anything was refused."""
        refused = len(self.refused)
        return {
            "status": "refused" if refused else "verified",
            "items": [item.as_dict() for item in self.items],
            "total": len(self.items),
            "verified": len(self.items) - refused,
            "refused": refused,
        }


def survey(request: SurveyRequest, context: Context, *, tracked: Tracked = lambda places: places) -> Survey:
    """Look at everything that is meant; RyeError only when nothing can be meant by the request."""
    if not is_pattern(request.item_id):
        return Survey(tuple(_by_id(request, context)))
    accessible = [space.name for space in context.spaces.accessible()]
    if request.space is not None:
        accessible = [context.spaces.space(request.space).name]
    types = ItemType if request.item_type is None else (request.item_type,)
    selection = select(context.spaces, request.item_id, names=accessible, types=types)
    if request.item_id != EVERYTHING and not selection.places and not selection.refused:
        what = f"expected ids that match {request.item_id}, found none in {', '.join(accessible)}"
        raise RyeError("item_not_found", what, item_id=request.item_id)
    seen: set[tuple[ItemType, str]] = set()
    with Reader() as reader:
        items = [_look_at(place, reader, context, seen) for place in tracked(selection.places)]
    items += map(_cannot_be_one, selection.refused)
    return Survey(tuple(sorted(items, key=_order)))


def _by_id(request: SurveyRequest, context: Context) -> list[Surveyed]:
    """The item with this id; of each type, when none is named."""
    types = tuple(ItemType) if request.item_type is None else (request.item_type,)
    found: list[Surveyed] = []
    missing: list[RyeError] = []
    for item_type in types:
        try:
            file = context.spaces.find(request.item_id, item_type, only=request.space).item
        except RyeError as exc:
            if exc.code != "item_not_found":
                raise
            missing.append(exc)
        else:
            found.append(_judged(file, context, shadowed=False))
    if not found:
        raise missing[0]
    return found


def _look_at(place: ItemPlace, reader: Reader, context: Context, seen: set[tuple[ItemType, str]]) -> Surveyed:
    shadowed = (place.item_type, place.item_id) in seen
    seen.add((place.item_type, place.item_id))
    try:
        file = reader.read(place)
    except RyeError as exc:
        integrity = Integrity(refusal=exc)
        return Surveyed(
            place.item_id, place.item_type, place.space.name, place.path, integrity, shadowed=shadowed
        )
    return _judged(file, context, shadowed=shadowed)


def _judged(file: ItemFile, context: Context, *, shadowed: bool) -> Surveyed:
    who = (file.item_id, file.item_type, file.space.name, file.path)
    try:
        verified = context.verify(file)
        metadata = context.metadata(verified)
    except RyeError as exc:
        return Surveyed(*who, Integrity(refusal=exc), shadowed=shadowed)
    integrity = Integrity.of(verified)
    return Surveyed(*who, integrity, metadata.description, metadata.version, shadowed)


def _cannot_be_one(refused: Refused) -> Surveyed:
    path = Path(refused.error.where or refused.space.root)
    return Surveyed(
        refused.item_id, refused.item_type, refused.space.name, path, Integrity(refusal=refused.error)
    )


def _order(item: Surveyed) -> tuple[int, str, str]:
    return (-item.space.precedence, item.item_type.value, item.item_id)
