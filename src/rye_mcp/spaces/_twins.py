"""Refusing two items whose ids differ only in case.

On a file system that does not tell cases apart, one of them would be the other one: whoever signs there and
runs here may not run what they signed. So both are refused, everywhere. Whether there may be such a twin, the
directories on the way to an item tell: `rye_mcp.spaces._entries`.
"""

from __future__ import annotations

from rye_mcp.items import ItemPlace
from rye_mcp.spaces._walk import ambiguous, look

__all__ = ["refuse_twins"]


def refuse_twins(place: ItemPlace) -> None:
    """RyeError `ambiguous_item` when the space has another item whose id differs only in case."""
    # A directory or a file of another kind may be the reason to ask; only a second item counts.
    folded = place.item_id.lower()
    same = [other for other in look(place.space, place.item_type).places if other.item_id.lower() == folded]
    if len({other.item_id for other in same}) > 1:
        raise ambiguous(same)
