"""`load`: the content of an item and what it says about itself; and a copy of it in another space.

Rules:

- Content is given out only once the item has passed the gate, and is what passed it: the file is read once.
  What does not pass is the gate's RyeError, and carries nothing of the content.
- A person may read what does not pass, to decide about it; the result then says what is wrong. Metadata is
  left out where it makes no sense.
- Only what passes is copied. The copy keeps the id, and has to pass in its new place too, before it is
  written; see `rye_mcp.verbs._copying`.

    load(LoadRequest("demo/hello"), context).as_dict()
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemPlace, ItemType, SpaceName, printable
from rye_mcp.metadata import ItemMetadata, parse_metadata
from rye_mcp.notices import Notice
from rye_mcp.verbs._copying import copy_item
from rye_mcp.verbs._shapes import Integrity, metadata_as_dict
from rye_mcp.verbs.context import Context

__all__ = ["LoadRequest", "LoadResult", "load"]


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Which item, and where a copy of it is to go.

    Without `source` the item is found by precedence. `overwrite` is about the copy alone.
    """

    item_id: str
    item_type: ItemType = ItemType.TOOL
    source: SpaceName | None = None
    destination: SpaceName | None = None
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class LoadResult:
    """An item, as it was read. `metadata` is None where what an unverified item says makes no sense."""

    file: ItemFile
    metadata: ItemMetadata | None
    integrity: Integrity
    shadowed: tuple[ItemPlace, ...] = ()
    copied_to: Path | None = None
    warnings: tuple[Notice, ...] = ()

    @property
    def content(self) -> str:
        """The whole file as text; bytes that are no UTF-8, which no verified item has, as escapes."""
        return self.file.content.decode("utf-8", "backslashreplace")

    def as_dict(self) -> dict[str, Any]:
        """Return the result as data."""
        answer: dict[str, Any] = {
            "status": "success",
            "item_id": self.file.item_id,
            "type": self.file.item_type.value,
            "space": self.file.space.name.value,
            "path": printable(self.file.path),
            "content": self.content,
            "metadata": {} if self.metadata is None else metadata_as_dict(self.metadata),
            "integrity": self.integrity.as_dict(),
        }
        if self.shadowed:
            answer["shadows"] = [
                {"space": place.space.name.value, "path": printable(place.path)} for place in self.shadowed
            ]
        if self.copied_to is not None:
            answer["copied_to"] = printable(self.copied_to)
        if self.warnings:
            answer["warnings"] = [warning.as_dict() for warning in self.warnings]
        return answer


def load(request: LoadRequest, context: Context) -> LoadResult:
    """Load an item, and copy it when a destination is named.

    1. the item is found by its id, and read
    2. it passes the gate, or a person only reads it
    3. its metadata is parsed from those bytes
    4. the copy passes the gate in its new place, and is written
    """
    found = context.spaces.find(request.item_id, request.item_type, only=request.source)
    try:
        verified = context.verify(found.item)
    except RyeError as exc:
        if not context.is_person or request.destination is not None:
            raise
        return LoadResult(found.item, _readable(found.item), Integrity(refusal=exc), found.shadowed)
    metadata = context.metadata(verified)
    integrity = Integrity.of(verified)
    if request.destination is None:
        return LoadResult(verified.file, metadata, integrity, found.shadowed)
    copied = copy_item(verified, metadata, request.destination, context, overwrite=request.overwrite)
    return LoadResult(
        verified.file, metadata, integrity, found.shadowed, copied.path, warnings=copied.warnings
    )


def _readable(file: ItemFile) -> ItemMetadata | None:
    try:
        return parse_metadata(file)
    except RyeError:
        return None  # whoever reads it is told why it did not pass, and sees the rest in the content
