"""What somebody who mistyped an id was perhaps looking for: a hint, for people at the command line.

Only ids of the same type are compared, at most `MAX_COMPARED` of them, those of the nearest space first. The
name at the end has to be alike by itself too: what is in the same directory begins alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.spaces import Spaces

__all__ = ["MAX_COMPARED", "close_ids"]

MAX_COMPARED: Final = 1000
"""How many ids are compared with one that is nowhere."""

_CUTOFF: Final = 0.7


@contextmanager
def close_ids(spaces: Spaces) -> Iterator[None]:
    """Where an item is nowhere, name one whose id is like it."""
    try:
        yield
    except RyeError as exc:
        if exc.code == "item_not_found" and (close := _closest(exc, spaces)) is not None:
            exc.hint = f"did you mean {close}?"
        raise


def _closest(error: RyeError, spaces: Spaces) -> str | None:
    asked, kind = error.details.get("item_id"), error.details.get("item_type")
    if not isinstance(asked, str) or kind not in set(ItemType):
        return None
    ids = islice(_ids(spaces, ItemType(kind)), MAX_COMPARED)
    return next((close for close in _alike(asked, ids) if _alike(_name(asked), [_name(close)])), None)


def _alike(asked: str, ids: Iterable[str]) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(asked, ids, n=5, cutoff=_CUTOFF)


def _name(item_id: str) -> str:
    return item_id.rpartition("/")[2]


def _ids(spaces: Spaces, item_type: ItemType) -> Iterator[str]:
    for space in spaces.accessible():
        yield from (place.item_id for place in spaces.list(space.name, item_type).items)
