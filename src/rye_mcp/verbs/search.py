"""`search`: the items for some words, the best first.

The catalog only proposes ids: each hit is read and passes the gate, and is shown as the bytes that passed. A
hit that does not pass is shown as its shortened id and the code of the reason, behind all others.

    search(SearchRequest("turn this video into an mp3 file"), context, catalog).as_dict()
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import field, replace
from typing import Any, Final, Protocol

from lilux._dataclasses import dataclass
from rye_mcp.catalog import Hit, Page, SearchQuery
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemType, SpaceName
from rye_mcp.metadata import ItemMetadata, body_of
from rye_mcp.notices import data_of, present
from rye_mcp.queries import parse
from rye_mcp.spaces import Found
from rye_mcp.trust.scope import Signer
from rye_mcp.trust.signature import detach
from rye_mcp.trust.verify import VerifiedItem
from rye_mcp.verbs._chains import Runners
from rye_mcp.verbs._search_reasons import Reasons, Why
from rye_mcp.verbs._search_request import DEFAULT_LIMIT, MAX_LIMIT, SearchRequest, query_of
from rye_mcp.verbs._selection import matches
from rye_mcp.verbs.context import Context
from rye_mcp.visible import visible, visible_lines

__all__ = [
    "DEFAULT_LIMIT",
    "MAX_LIMIT",
    "SHADOWED",
    "Detail",
    "Finder",
    "Reasons",
    "SearchRequest",
    "SearchResult",
    "Shown",
    "Why",
    "search",
]

SHADOWED: Final = "shadowed"
"""The reason why an item cannot run whose id means another one, in a space that comes first."""

MAX_DESCRIPTION: Final = 200
"""How many characters of a description are shown."""

MAX_PREVIEW: Final = 600
"""How many characters of the content are shown with `detail`."""

MAX_SCHEMA: Final = 16_384
"""How long a schema may be to be shown with `detail`, as JSON."""

MAX_WITHHELD_ID: Final = 80
"""How much of the id of an item is shown that did not pass."""

SHOWN_WITHHELD: Final = 3
"""How many items are shown that did not pass."""

MAX_WITHHELD_OF_A_SPACE: Final = 1_000
"""How many items of a space may turn out not to pass before the rest of it is left alone."""

_LOOKED_AT: Final = 20_000
"""How many hits are looked at beyond those that a page needs."""

_MORE_AT_FIRST: Final = 10
_TIMES_MORE: Final = 4
_TRIED = 10
_NOT_RUNNABLE = "not_runnable"


class Finder(Protocol):
    """Finds items: the catalog, or a stand-in."""

    def search(self, query: SearchQuery, /) -> Page:
        """The hits of one page, the best first."""


@dataclass(frozen=True, slots=True)
class Detail:
    """More about an item that passed. A schema that is too long is left out."""

    version: str
    executor_id: str | None
    category: str | None
    tags: tuple[str, ...]
    schema: Mapping[str, Any] | None
    preview: str
    schema_left_out: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as data, without empty fields."""
        answer = {
            "version": self.version,
            **present(executor_id=self.executor_id, category=visible(self.category or "")),
            **present(tags=[visible(tag) for tag in self.tags]),
        }
        if self.schema is not None:
            answer["schema"] = self.schema
        if self.schema_left_out:
            answer["left_out"] = ["schema"]
        return answer | {"preview": self.preview}


@dataclass(frozen=True, slots=True)
class Shown:
    """One hit as it is shown. Without a `signer` it did not pass, and `reason` says why."""

    item_id: str
    item_type: ItemType
    space: SpaceName
    score: float
    reason: str | None = None
    signer: Signer | None = None
    description: str = ""
    shadows: tuple[SpaceName, ...] = ()
    detail: Detail | None = None
    why: Why | None = None

    @property
    def runnable(self) -> bool:
        """Whether it can be executed now."""
        return self.reason is None

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        answer: dict[str, Any] = {
            "id": self.item_id,
            "type": self.item_type.value,
            "space": self.space.value,
            "description": self.description,
            "score": round(self.score, 4),
            "signer": data_of(self.signer),
            "runnable": self.runnable,
        }
        return answer | present(
            reason=self.reason,
            shadows=[space.value for space in self.shadows],
            detail=data_of(self.detail),
            why=data_of(self.why),
        )


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One page of what was found."""

    results: tuple[Shown, ...]
    total: int
    request: SearchRequest
    did_you_mean: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        answer: dict[str, Any] = {
            "results": [shown.as_dict() for shown in self.results],
            "total": self.total,
            "offset": self.request.offset,
            "limit": self.request.limit,
            "query": self.request.query,
        }
        for name in ("did_you_mean", "notices"):
            if listed := getattr(self, name):
                answer[name] = list(listed)
        return answer


def search(request: SearchRequest, context: Context, finder: Finder) -> SearchResult:
    """Search, and show what may be shown.

    1. the request becomes a query, which holds nothing but words, patterns and numbers
    2. the catalog finds
    3. every hit is read by its id, and passes the gate or is withheld
    4. what passed is shown as far as it is on the page, and behind it a little of what did not
    5. what is suggested instead of nothing is tried out
    """
    query = query_of(request, context.spaces)
    with ExitStack() as ending:
        reasons = ending.enter_context(Reasons(query)) if request.detail else None
        view = _View(context, reasons, Runners(context))
        sifted = _Sifted(query, view)
        sifted.sift(finder)
        suggested = () if sifted.total else tuple(_vouched(sifted.did_you_mean, query, finder, view))
        return SearchResult(tuple(sifted.shown()), sifted.total, request, suggested, query.notices)


def _vouched(words: Iterable[str], query: SearchQuery, finder: Finder, view: _View) -> Iterable[str]:
    """The suggestions with which something is found that passes: others may be anybody's words."""
    for word in words:
        try:
            tried = replace(query, tree=parse(word), limit=_TRIED, offset=0, fuzzy=0)
        except RyeError:
            continue
        hits = (hit for hit in finder.search(tried).hits if _is_asked_for(hit, tried))
        if any(isinstance(view.judged(hit), _Passed) for hit in hits):
            yield visible(word)


@dataclass(frozen=True, slots=True)
class _Passed:
    """A hit that passed the gate, and why its id means something else, if it does."""

    hit: Hit
    found: Found
    meant: str | None
    verified: VerifiedItem
    metadata: ItemMetadata


@dataclass(slots=True)
class _Sifted:
    """The hits that passed, up to the end of a page, and those that did not."""

    query: SearchQuery
    view: _View
    did_you_mean: tuple[str, ...] = ()
    _found: int = 0
    _dropped: int = 0
    _passed: int = 0
    _on_page: list[_Passed] = field(default_factory=list)
    _withheld: list[Shown] = field(default_factory=list)
    _refused: Counter[SpaceName] = field(default_factory=Counter)
    _seen: set[tuple[SpaceName, ItemType, str]] = field(default_factory=set)
    _is_everything: bool = False

    @property
    def total(self) -> int:
        """How much there is to show on all pages; of what was not looked at, all counts."""
        refused = self._refused.total()
        too_many = max(0, refused - SHOWN_WITHHELD)
        return max(self._found - self._dropped - too_many, self._passed + refused - too_many)

    def sift(self, finder: Finder) -> None:
        """Look at hits, from the first one on, until the page is full or there are no more."""
        begin, size = 0, self.query.offset + self.query.limit + _MORE_AT_FIRST
        end = size + _LOOKED_AT
        while begin < end and not self._is_full:
            page = finder.search(replace(self.query, offset=begin, limit=size))
            self._found, self.did_you_mean = page.total, page.did_you_mean
            for hit in page.hits:
                if self._is_full:
                    return
                self._take(hit)
            begin += len(page.hits)
            if len(page.hits) < size or begin >= page.total:
                self._is_everything = True
                return
            size *= _TIMES_MORE

    def shown(self) -> Iterator[Shown]:
        """Yield the hits of the page."""
        for passed in self._on_page:
            yield self.view.shown(passed)
        if self._is_everything:
            first = max(0, self.query.offset - self._passed)
            yield from self._withheld[first : first + self.query.limit - len(self._on_page)]

    @property
    def _is_full(self) -> bool:
        return len(self._on_page) >= self.query.limit

    def _take(self, hit: Hit) -> None:
        which = (hit.space, hit.item_type, hit.item_id)
        if which in self._seen or not _is_asked_for(hit, self.query):
            self._dropped += 1
            return
        self._seen.add(which)
        if self._refused[hit.space] >= MAX_WITHHELD_OF_A_SPACE:
            self._refused[hit.space] += 1
            return
        judged = self.view.judged(hit)
        if judged is None:
            self._dropped += 1
        elif isinstance(judged, Shown):
            self._refused[hit.space] += 1
            self._withheld += [judged] if len(self._withheld) < SHOWN_WITHHELD else []
        else:
            self._passed += 1
            self._on_page += [judged] if self._passed > self.query.offset else []


@dataclass(slots=True)
class _View:
    """Looks at hits for one search; what runs them is looked at once for all."""

    context: Context
    reasons: Reasons | None
    runners: Runners

    def judged(self, hit: Hit) -> _Passed | Shown | None:
        """A hit that passed, what is shown of one that did not, or None for one that is to be dropped."""
        try:
            found, meant = self._find(hit)
        except RyeError as exc:
            return None if exc.code in ("item_not_found", "invalid_id") else _withheld(hit, exc.code)
        try:
            verified = self.context.verify(found.item)
            metadata = self.context.metadata(verified)
        except RyeError as exc:
            return _withheld(hit, exc.code)
        if found.item.item_type is ItemType.TOOL and metadata.is_library:
            return None
        return _Passed(hit, found, meant, verified, metadata)

    def shown(self, passed: _Passed) -> Shown:
        """Return a hit that passed, as it is shown."""
        file, metadata = passed.found.item, passed.metadata
        return Shown(
            file.item_id,
            file.item_type,
            file.space.name,
            _score(passed.hit),
            reason=passed.meant or self._why_not(file, metadata),
            signer=passed.verified.signer,
            description=_one_line(metadata.description),
            shadows=tuple(place.space.name for place in passed.found.shadowed),
            detail=None if self.reasons is None else _detail(passed.verified, metadata),
            why=None if self.reasons is None else self.reasons.of(passed.hit, file),
        )

    def _find(self, hit: Hit) -> tuple[Found, str | None]:
        """The item of a hit, and why its id means something else; None when it does not."""
        spaces = self.context.spaces
        try:
            found = spaces.find(hit.item_id, hit.item_type)
        except RyeError as exc:
            return spaces.find(hit.item_id, hit.item_type, only=hit.space), exc.code
        if found.item.space.name is hit.space:
            return found, None
        return spaces.find(hit.item_id, hit.item_type, only=hit.space), SHADOWED

    def _why_not(self, file: ItemFile, metadata: ItemMetadata) -> str | None:
        """Why the item cannot be executed; None when it can."""
        if file.item_type is not ItemType.TOOL:
            return None
        if metadata.is_runtime:
            return _NOT_RUNNABLE
        refused = self.runners.why_not(file, metadata)
        return None if refused is None else refused.code


def _is_asked_for(hit: Hit, query: SearchQuery) -> bool:
    """Whether a hit is what the query asks for, as far as its id tells: an index may hold anything."""
    return (
        hit.item_type in query.item_types
        and hit.space in query.spaces
        and (not query.id_patterns or any(matches(pattern, hit.item_id) for pattern in query.id_patterns))
    )


def _withheld(hit: Hit, code: str) -> Shown:
    return Shown(
        _cut(visible(hit.item_id), MAX_WITHHELD_ID), hit.item_type, hit.space, _score(hit), reason=code
    )


def _score(hit: Hit) -> float:
    return hit.score if 0.0 <= hit.score <= 1.0 else 0.0


def _one_line(description: str) -> str:
    """The first paragraph, as a line that hides nothing."""
    paragraph = description.strip().partition("\n\n")[0]
    return _cut(visible(" ".join(paragraph.split())), MAX_DESCRIPTION)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _detail(verified: VerifiedItem, metadata: ItemMetadata) -> Detail:
    file = verified.file
    schema = metadata.config_schema if file.item_type is ItemType.TOOL else metadata.inputs
    known = schema if isinstance(schema, Mapping) else None
    too_long = known is not None and len(json.dumps(known, default=str)) > MAX_SCHEMA
    return Detail(
        metadata.version,
        metadata.executor_id,
        metadata.category,
        metadata.tags,
        None if too_long else known,
        _cut(visible_lines(_content(file)).strip(), MAX_PREVIEW),
        too_long,
    )


def _content(file: ItemFile) -> str:
    """Return the file's content without its signature; of directives and knowledge, their text."""
    if file.item_type is not ItemType.TOOL:
        return body_of(file)
    return detach(file).decode("utf-8", "replace")
