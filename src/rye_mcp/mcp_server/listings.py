"""The lists that clients have, of tools, prompts and resources: their names, entries, pages and changes.

A name has at most `MAX_NAME` letters, digits, `_` and `-`; ids that want the same name all get a piece of
their hash. Each entry is made alone: one bad item spoils no list. A cursor names the last item of a page, so
the server keeps nothing. When the spaces change, the lists that somebody has are made again and compared.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from lilux._dataclasses import dataclass
from rye_mcp.apart import apart
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType, parse_relative_path
from rye_mcp.mcp_server.logs import facts_of

if TYPE_CHECKING:
    from mcp.types import Prompt, Resource, Tool

    from rye_mcp.app import App
    from rye_mcp.mcp_server.exposed_items import ExposedTools
    from rye_mcp.mcp_server.file_changes import Beside, FileChanges
    from rye_mcp.mcp_server.skills import Skill
    from rye_mcp.mcp_server.subscriptions import Announcer, ListName
    from rye_mcp.verbs.offers import Offer

    Make = Callable[[App], "list[Listed[Any]]"]

__all__ = [
    "MAX_LIST_BYTES",
    "MAX_NAME",
    "MAX_PAGE_BYTES",
    "Listed",
    "Listings",
    "entries",
    "names_of",
    "page_of",
    "possible_names",
    "say_left_out",
]

MAX_NAME: Final = 64
"""How many characters a name may have."""

_HASH_CHARACTERS: Final = 6
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)


_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def possible_names(item_id: str) -> tuple[str, str]:
    """The names that an item can get: the plain one, and the one with a piece of its hash."""
    plain = _plain(item_id)
    return plain, _qualified(plain, item_id)


def names_of(
    item_ids: Iterable[str], *, taken: Container[str] = (), kept: Mapping[str, str] = _NOTHING
) -> dict[str, str]:
    """ListName → id, in the order of the ids. `kept` are names of before, and the ids that they stay with."""
    plain = {item_id: _plain(item_id) for item_id in item_ids}
    counts = Counter(plain.values())

    def is_free(name: str, item_id: str) -> bool:
        is_own = kept.get(name, item_id) == item_id
        return counts[name] == 1 and name not in taken and len(name) <= MAX_NAME and is_own

    names = {each: name if is_free(name, each) else _qualified(name, each) for each, name in plain.items()}
    wanted = Counter(names.values())
    return {
        name: item_id
        for item_id, name in names.items()
        if kept.get(name, item_id) == item_id and (wanted[name] == 1 or name in kept)
    }


def _plain(item_id: str) -> str:
    return _OTHER.sub("_", item_id)


def _qualified(name: str, item_id: str) -> str:
    digest = hashlib.sha256(item_id.encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"{name[: MAX_NAME - _HASH_CHARACTERS - 1]}_{digest}"


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
    for offer in sorted(offers, key=_key_of):
        try:
            entry = make(offer)
            size = _size_of(entry)
        except Exception as exc:  # noqa: BLE001 - whatever is wrong with one item, the others are listed
            code = exc.code if isinstance(exc, RyeError) else type(exc).__name__
            say_left_out(
                offer.item_id, code, "expected an item that a list can hold, found one that it cannot"
            )
        else:
            made.append(Listed(_key_of(offer), entry, size))
    left_out = _longest(made)
    return [each for each in made if each.item_id not in left_out]


def _key_of(offer: Offer) -> str:
    """What an entry is called in its list: a skill may have the id of another item, in lists of both."""
    is_skill = offer.item.file.item_type is ItemType.SKILL
    return f"skill:{offer.item_id}" if is_skill else offer.item_id


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


class Listings:
    """The lists of one server."""

    def __init__(
        self, native: ExposedTools, announcing: Announcer, changes: FileChanges, beside: Beside
    ) -> None:
        self._native = native
        self._announcing = announcing
        self._changes = changes
        self._beside = beside
        self._known: dict[ListName, str] = {}
        self._app: App | None = None

    @property
    def are_known(self) -> bool:
        """Whether somebody has a list."""
        return bool(self._known)

    async def tools(self, app: App) -> list[Listed[Tool]]:
        """The tools that are exposed."""
        return await self._made("tools", app)

    async def prompts(self, app: App) -> list[Listed[Prompt]]:
        """The directives."""
        return await self._made("prompts", app)

    async def resources(self, app: App) -> list[Listed[Resource]]:
        """The knowledge, and the texts of skills."""
        return await self._made("resources", app)

    async def skills(self, app: App) -> list[Listed[Skill]]:
        """The entries of skills."""
        return await self._made("skills", app)

    def watch(self, app: App) -> None:
        """Tell of changes of this project from now on."""
        self._app = app
        self._changes.tell(app, self._changed, self._beside)

    async def compare(self, app: App) -> None:
        """Tell of the lists that somebody has, and that are others for this project."""
        for listed, before in tuple(self._known.items()):
            await self._made(listed, app)
            if self._known[listed] != before:
                await self._announcing.changed(listed)

    async def _changed(self, paths: frozenset[Path]) -> None:
        app = self._app
        if app is None:
            return
        await self.compare(app)
        for address in sorted(_addresses(app, paths)):
            await self._announcing.updated(address)

    async def _made(self, listed: ListName, app: App) -> list[Listed[Any]]:
        """A list, with what it looked like; how many items there are, and how long, is up to others."""
        if listed == "tools":
            await self._native.find_tier(app)
        made, self._known[listed] = await apart(partial(_made_of, _makers(self._native)[listed], app))
        self._app = app
        return made


def _made_of(make: Make, app: App) -> tuple[list[Listed[Any]], str]:
    made = make(app)
    return made, "\n".join(each.entry.model_dump_json() for each in made)


def _makers(native: ExposedTools) -> dict[ListName, Make]:
    from rye_mcp.mcp_server.exposed_items import list_prompts, list_resources
    from rye_mcp.mcp_server.skills import list_skills

    return {
        "tools": native.listed,
        "prompts": list_prompts,
        "resources": list_resources,
        "skills": list_skills,
    }


def _addresses(app: App, paths: frozenset[Path]) -> set[str]:
    """The addresses of the items that changed."""
    from rye_mcp.mcp_server.exposed_items import address_of
    from rye_mcp.mcp_server.skills import address_in

    found: set[str] = set()
    for space in app.spaces.accessible():
        for path in paths:
            if not path.is_relative_to(space.root):
                continue
            kind, *parts = path.relative_to(space.root).parts or ("",)
            if kind == ItemType.SKILL.directory and len(parts) > 1:
                found |= {address_in(parts[0], "/".join(parts[1:])), address_of(ItemType.SKILL, parts[0])}
                continue
            try:
                item_type, item_id, _ = parse_relative_path("/".join((kind, *parts)))
            except RyeError:
                continue
            found.add(address_of(ItemType(item_type), item_id))
    return found
