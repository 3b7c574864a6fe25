"""What the query language and the search know: fields, filters, orders, limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rye_mcp import queries as query
from rye_mcp.verbs._search_request import DEFAULT_LIMIT, FILTERS, MAX_LIMIT, ORDERS
from scripts.reference.tables import table

__all__ = ["PARTS"]


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _query() -> str:
    limits = (
        f"{query.MAX_CHARACTERS:,} characters, {query.MAX_WORDS} words, {query.MAX_PREFIXES} words with `*`, "
        f"{query.MAX_NEAR_WORDS} words in one `NEAR`, parentheses {query.MAX_DEPTH} deep"
    )
    rows = [
        ("fields, in front of a `:`", _listed(query.FIELDS)),
        ("`filters`, by whole values", _listed(FILTERS)),
        ("`sort_by`", _listed(ORDERS)),
        ("`limit`", f"{DEFAULT_LIMIT} by itself, {MAX_LIMIT} at most"),
        ("a query has at most", limits),
    ]
    return table(("what", "values"), rows)


PARTS: Final[Mapping[str, Callable[[], str]]] = {"query": _query}
