"""A search as a program writes it, and the query that a catalog gets.

A scope is a type, or a type and a pattern of ids with dots for slashes: `tool`, `directive.rye.*`. An id
without `*` or `?` stands for the item and everything below it. Anything invalid is `invalid_query`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from lilux._dataclasses import dataclass
from rye_mcp.catalog import SearchQuery
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType, SpaceName
from rye_mcp.queries import FIELDS, read_query
from rye_mcp.spaces import Spaces
from rye_mcp.verbs._selection import is_pattern, require_pattern

__all__ = ["DEFAULT_LIMIT", "FILTERS", "MAX_LIMIT", "MAX_OFFSET", "ORDERS", "SearchRequest", "query_of"]

DEFAULT_LIMIT: Final = 10
"""How many results come back unless it is said."""

MAX_LIMIT: Final = 100
"""How many results come back at most; each of them is read and verified."""

MAX_OFFSET: Final = 100_000
"""How many results may be passed over."""

MAX_FILTER_VALUES: Final = 64
"""How many values all filters together may have."""

MAX_FILTER_CHARACTERS: Final = 4096
"""How long a value of a filter may be: as long as the longest name or category."""

FILTERS: Final = ("category", "executor_id", "name", "tags", "tool_type", "version")
"""Fields for filters: a filter compares the whole value, or one of the tags."""

ORDERS: Final = ("score", "name", "date")
"""Orders of results."""

_PREFIX: Final = "rye.search."
_HINT: Final = "leave it out, or correct it"


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search: its words, its scope, and how many results come back.

    `query` is in the language of `rye_mcp.queries`. Without `space` all of them are searched, without
    `fields` everything that is indexed. `filters` are a value for some of `FILTERS`, or several of
    which it has one. `fuzzy` is true, or `{"max_distance": 1 | 2}`: how many letters may differ. `detail`
    adds the schema and the beginning of the content.
    """

    query: str = ""
    scope: str = ItemType.TOOL.value
    space: SpaceName | None = None
    limit: int = DEFAULT_LIMIT
    offset: int = 0
    sort_by: str = "score"
    fields: Sequence[str] | None = None
    filters: Mapping[str, Any] | None = None
    fuzzy: bool | Mapping[str, Any] = False
    detail: bool = False


def query_of(request: SearchRequest, spaces: Spaces) -> SearchQuery:
    """Return the query for a catalog; RyeError `invalid_query`, `invalid_id` or `no_project`."""
    item_types, id_patterns = _scope(_text("scope", request.scope))
    searched = spaces.accessible() if request.space is None else (spaces.space(request.space),)
    query = read_query(_text("query", request.query))
    return SearchQuery(
        tree=query.tree,
        wish=query.wish,
        notices=() if query.notice is None else (query.notice,),
        item_types=item_types,
        id_patterns=id_patterns,
        spaces=tuple(space.name for space in searched),
        limit=_number("limit", request.limit, 1, MAX_LIMIT),
        offset=_number("offset", request.offset, 0, MAX_OFFSET),
        sort_by=_order(request.sort_by),
        fields=None if request.fields is None else _fields(request.fields),
        filters=_filters({} if request.filters is None else request.filters),
        fuzzy=_fuzzy(request.fuzzy),
    )


def _scope(scope: str) -> tuple[tuple[ItemType, ...], tuple[str, ...]]:
    """The types and the patterns of ids that a scope means."""
    kind, dot, rest = scope.removeprefix(_PREFIX).partition(".")
    if kind not in tuple(ItemType) or (dot and not rest):
        raise _wrong(f"a scope such as {', '.join(ItemType)} or tool.demo.*", scope)
    if not dot:
        return (ItemType(kind),), ()
    pattern = rest if "/" in rest else rest.replace(".", "/")
    require_pattern(pattern)
    return (ItemType(kind),), (pattern,) if is_pattern(pattern) else (pattern, f"{pattern}/*")


def _order(order: object) -> Literal["score", "name", "date"]:
    if order == "score" or order == "name" or order == "date":
        return order
    raise _wrong(f"one of {', '.join(ORDERS)} as sort_by", order)


def _fields(fields: object) -> tuple[str, ...]:
    if isinstance(fields, str) or not isinstance(fields, Sequence) or not fields:
        raise _wrong(f"a list of some of {', '.join(FIELDS)} as fields", fields)
    for field in fields:
        if field not in FIELDS:
            raise _wrong(f"fields of {', '.join(FIELDS)}", field)
    return tuple(dict.fromkeys(fields))


def _filters(filters: object) -> Mapping[str, str | tuple[str, ...]]:
    if not isinstance(filters, Mapping):
        raise _wrong(f"an object with values for some of {', '.join(FILTERS)} as filters", filters)
    found = {name: _filter(name, value) for name, value in filters.items()}
    if sum(1 if isinstance(value, str) else len(value) for value in found.values()) > MAX_FILTER_VALUES:
        raise _wrong(f"filters with at most {MAX_FILTER_VALUES} values", "more")
    return found


def _filter(name: str, value: object) -> str | tuple[str, ...]:
    if name not in FILTERS:
        raise _wrong(f"filters by {', '.join(FILTERS)}", name)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_filter_value(name, each) for each in value)
    return _filter_value(name, value)


def _filter_value(name: str, value: object) -> str:
    text = _text(f"filter {name}", value)
    if len(text) > MAX_FILTER_CHARACTERS:
        raise _wrong(f"at most {MAX_FILTER_CHARACTERS} characters as filter {name}", len(text))
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise _wrong(f"text without halves of characters as filter {name}", text)
    return text


def _fuzzy(fuzzy: object) -> Literal[0, 1, 2]:
    if isinstance(fuzzy, bool):
        return 1 if fuzzy else 0
    distance = fuzzy.get("max_distance") if isinstance(fuzzy, Mapping) and len(fuzzy) == 1 else None
    if isinstance(distance, bool) or distance not in (1, 2):
        raise _wrong('true, false or {"max_distance": 1 or 2} as fuzzy', fuzzy)
    return 1 if distance == 1 else 2


def _number(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _wrong(f"a number from {least} to {most} as {name}", value)
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(f"text as {name}", value)
    return value


def _wrong(expected: str, found: object) -> RyeError:
    shown = ascii(found)
    shown = shown if len(shown) <= 80 else f"{shown[:80]}…"
    return RyeError("invalid_query", f"expected {expected}, found {shown}", hint=_HINT)
