"""The entries of a list, each made and checked alone: one bad item spoils no list.

Rules:

- An item that cannot be made into an entry is left out, and so is one whose entry MCP does not take. The log
  says why, once.
- All entries together have at most `MAX_LIST_BYTES`. If they are longer, the longest are left out. An entry
  that no page has room for is left out too; `sign` refuses such an item.
- A list is in the order of the ids. A client gets it page by page, over every transport.
- A cursor names the last item of a page, and says nothing else: the next page begins with the first item
  behind it, whatever was added or removed meanwhile. So the server keeps nothing, every worker takes the
  cursor of another, and whoever makes one up gets a part of a list that they may see anyway.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.logs import facts_of

if TYPE_CHECKING:
    from rye_mcp.verbs.offers import Offer

__all__ = ["MAX_LIST_BYTES", "MAX_PAGE_BYTES", "Listed", "entries", "page_of", "say_left_out"]

MAX_LIST_BYTES: Final = 4 << 20
"""How long a list may be as JSON."""

MAX_PAGE_BYTES: Final = 500_000
"""How long the entries of a page may be as JSON, however it is escaped; clients read events of 1 MiB."""

_MAX_CURSOR: Final = 4096
_SAID: Final = 1024

_log = logging.getLogger(__name__)


class _Model(Protocol):
    def model_dump_json(self, *, by_alias: bool, exclude_none: bool) -> str: ...


Entry = TypeVar("Entry", bound=_Model)


@dataclass(frozen=True, slots=True)
class Listed(Generic[Entry]):
    """An entry of a list, the item that it is of, and how many bytes it has as JSON."""

    item_id: str
    entry: Entry
    size: int


def entries(offers: Iterable[Offer], make: Callable[[Offer], Entry]) -> list[Listed[Entry]]:
    """The entries of these items, in the order of their ids, without those that are bad."""
    made: list[Listed[Entry]] = []
    for offer in sorted(offers, key=lambda offer: offer.item_id):
        try:
            entry = make(offer)
            size = _size_of(entry)
        except Exception as exc:  # noqa: BLE001 - whatever is wrong with one item, the others are listed
            code = exc.code if isinstance(exc, RyeError) else type(exc).__name__
            say_left_out(
                offer.item_id, code, "expected an item that a list can hold, found one that it cannot"
            )
        else:
            made.append(Listed(offer.item_id, entry, size))
    left_out = _longest(made)
    return [each for each in made if each.item_id not in left_out]


def page_of(listed: Sequence[Listed[Entry]], cursor: str | None, name: str) -> tuple[list[Entry], str | None]:
    """A page of the list with this name, and the cursor of the next one; RyeError for no cursor of it."""
    after = "" if not cursor else _item_after(cursor, name)
    rest = [each for each in listed if each.item_id > after]
    page: list[Entry] = []
    room = MAX_PAGE_BYTES
    for each in rest:
        room -= each.size
        if room < 0:
            break
        page.append(each.entry)
    if len(page) == len(rest):
        return page, None
    return page, _cursor(name, rest[len(page) - 1].item_id)


def _cursor(name: str, item_id: str) -> str:
    return base64.urlsafe_b64encode(f"{name} {item_id}".encode()).decode()


def _item_after(cursor: str, name: str) -> str:
    """The item that a cursor names."""
    try:
        found, _, item_id = base64.urlsafe_b64decode(cursor[:_MAX_CURSOR]).decode().partition(" ")
    except ValueError:
        found, item_id = "", ""
    if found != name or _cursor(name, item_id) != cursor:
        what = f"expected a cursor that {name} has given, found another text of {len(cursor)} characters"
        raise RyeError("invalid_parameters", what, hint="begin again without a cursor")
    return item_id


def _size_of(entry: _Model) -> int:
    """How many bytes an entry has as JSON, escaped as far as any encoder does."""
    text = entry.model_dump_json(by_alias=True, exclude_none=True)
    return len(text) if text.isascii() else len(json.dumps(json.loads(text), separators=(",", ":")))


def _longest(made: Sequence[Listed[Entry]]) -> set[str]:
    """The items that are left out, because no page or the list has no room for them."""
    room = MAX_LIST_BYTES - sum(each.size for each in made)
    left_out: set[str] = set()
    for each in sorted(made, key=lambda each: (-each.size, each.item_id)):
        if room >= 0 and each.size <= MAX_PAGE_BYTES:
            break
        room += each.size
        left_out.add(each.item_id)
        place, limit = ("page", MAX_PAGE_BYTES) if each.size > MAX_PAGE_BYTES else ("list", MAX_LIST_BYTES)
        say_left_out(each.item_id, "too_long", f"expected a {place} of at most {limit} bytes, found more")
    return left_out


@lru_cache(maxsize=_SAID)
def say_left_out(item_id: str, code: str, reason: str) -> None:
    """Say in the log why an item is not listed; what was said before is not said again."""
    _log.warning("an item is not listed", extra=facts_of(item=item_id, code=code, reason=reason))
