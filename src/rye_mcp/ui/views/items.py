"""The items of the page, found with the engine that agents have; each with its signer and whether it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.items import ItemType
from rye_mcp.ui.layout import button, field, path, select, state, table
from rye_mcp.ui.markup import Content, Markup, tag
from rye_mcp.ui.parts import Parts
from rye_mcp.verbs.search import SearchRequest, SearchResult, Shown, search

__all__ = ["ItemsQuery", "items_view"]

PAGE_ITEMS: Final = 30
"""How many items a page has."""

_TYPES: Final = tuple(
    (each.value, f"{each.value}s" if each is not ItemType.KNOWLEDGE else "knowledge") for each in ItemType
)


@dataclass(frozen=True, slots=True)
class ItemsQuery:
    """What the address asks for."""

    words: str = ""
    item_type: ItemType = ItemType.TOOL
    offset: int = 0

    @classmethod
    def of(cls, query: Mapping[str, str]) -> ItemsQuery:
        """The one of an address."""
        offset, wanted = query.get("offset", ""), query.get("type", "")
        return cls(
            query.get("q", "").strip(),
            ItemType(wanted) if wanted in set(ItemType) else ItemType.TOOL,
            int(offset) if offset.isascii() and offset.isdigit() and len(offset) < 6 else 0,
        )

    def address(self, offset: int) -> str:
        """The address of another page of the same."""
        return path("items", q=self.words, type=self.item_type.value, offset=offset or None)


def items_view(query: ItemsQuery, parts: Parts) -> Iterator[Content]:
    """The list."""
    yield tag("h1", "Items")
    yield tag(
        "form",
        tag(
            "div",
            field("What it is for", "q", query.words, type="search", placeholder="resize a picture"),
            class_="grow",
        ),
        select("Type", "type", _TYPES, query.item_type.value),
        button("Search"),
        method="get",
        action="/items",
        class_="filters",
        role="search",
    )
    found = _found(query, parts)
    if not found.results:
        yield tag("p", "Nothing was found.", class_="empty")
        for words in found.did_you_mean:
            yield tag(
                "p",
                "Did you mean ",
                tag("a", words, href=path("items", q=words, type=query.item_type.value)),
                "?",
            )
        return
    yield table(
        ("State", "Item", "Space", "Signed by", "About"),
        map(_row, found.results),
        caption="Items",
        id="found",
    )
    yield _pager(query, found)


def _found(query: ItemsQuery, parts: Parts) -> SearchResult:
    """The items, with an index that is as new as they are."""
    catalog = parts.app.kept_catalog()
    catalog.refresh()
    request = SearchRequest(
        query.words,
        scope=query.item_type.value,
        limit=PAGE_ITEMS,
        offset=query.offset,
        sort_by="score" if query.words else "name",
    )
    return search(request, parts.person, catalog)


def _row(shown: Shown) -> tuple[Content, ...]:
    word = "verified" if shown.signer is not None and shown.reason is None else (shown.reason or "refused")
    about = tag("span", shown.description, class_="about")
    link = tag("a", shown.item_id, href=item_path(shown.item_type, shown.item_id), class_="id")
    return state(word), link, shown.space.value, "" if shown.signer is None else shown.signer.in_words, about


def item_path(item_type: ItemType, item_id: str, *more: str) -> str:
    """The address of an item."""
    return path("items", item_type.value, *item_id.split("/"), *more)


def _pager(query: ItemsQuery, found: SearchResult) -> Markup:
    last = query.offset + len(found.results)
    back = tag("a", "Back", href=query.address(max(0, query.offset - PAGE_ITEMS))) if query.offset else None
    more = (
        tag("a", "More", href=query.address(query.offset + PAGE_ITEMS), rel="next")
        if last < found.total
        else None
    )
    told = tag("span", f"{query.offset + 1} to {last} of {found.total}", class_="faint")
    return tag("nav", back, more, told, class_="pager", aria_label="Pages")
