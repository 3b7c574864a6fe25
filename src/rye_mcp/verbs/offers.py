"""Items that are exposed as tools of their own: those that pass the gate now, and why others do not.

The item that comes first by precedence is offered, or none of its id. A tool is offered only if its chain
passes too. At most `MAX_OFFERS` are.

    offers(OffersRequest(("demo/*",)), context).items
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import Facts
from rye_mcp.configuration import approved_root, isolation_of, list_of_texts
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.executor.decider import granted
from rye_mcp.items import ItemPlace, ItemType
from rye_mcp.metadata import ItemMetadata
from rye_mcp.permissions import Isolation, Permissions, Requirement, hints
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.verify import VerifiedItem
from rye_mcp.verbs._chains import Executors, Runners
from rye_mcp.verbs._selection import EVERYTHING, select
from rye_mcp.verbs.context import Context

__all__ = [
    "MAX_OFFERS",
    "Offer",
    "Offers",
    "OffersRequest",
    "annotations_of",
    "exposed",
    "offers",
    "tier_of",
]

MAX_OFFERS: Final = 500
"""How many items are offered."""


@dataclass(frozen=True, slots=True)
class OffersRequest:
    """A selection of items: by ids and patterns of ids."""

    patterns: tuple[str, ...] = (EVERYTHING,)
    item_type: ItemType = ItemType.TOOL


@dataclass(frozen=True, slots=True)
class Offer:
    """An item that passed the gate, and what it says about itself."""

    item: VerifiedItem
    metadata: ItemMetadata
    executors: Executors = Executors()
    isolation: Isolation = field(default_factory=Isolation)

    @property
    def item_id(self) -> str:
        """Its id."""
        return self.item.file.item_id

    def annotations(self, tier: Requirement) -> dict[str, bool]:
        """The MCP hints of a tool, on a machine that enforces this much; RyeError if it may not run."""
        root = (ChainElement(self.item.file, self.metadata), self.item)
        return annotations_of((root, *self.executors.pairs), self.isolation, tier)


@dataclass(frozen=True, slots=True)
class Offers:
    """The offered items, by id, and the selected ones that are not offered."""

    items: tuple[Offer, ...]
    refused: tuple[tuple[str, RyeError], ...] = ()


def offers(request: OffersRequest, context: Context) -> Offers:
    """Everything that is meant, as it is now."""
    found: list[Offer] = []
    refused: list[tuple[str, RyeError]] = []
    runners = Runners(context)
    isolation = isolation_of(context) if request.item_type is ItemType.TOOL else Isolation()
    places, unreadable = _places(request, context)
    for place in places[:MAX_OFFERS]:
        try:
            offer = _offer(place, context, runners, isolation)
        except RyeError as exc:
            refused.append((place.item_id, exc))
        else:
            if offer is not None:
                found.append(offer)
    return Offers(tuple(found), (*unreadable, *refused))


def exposed(context: Context) -> tuple[str, ...]:
    """The patterns that the project names; RyeError for an invalid configuration."""
    root = approved_root(context)
    return () if root is None else list_of_texts(root, "expose", such_as="[demo/*]")


def _places(request: OffersRequest, context: Context) -> tuple[list[ItemPlace], list[tuple[str, RyeError]]]:
    names = [space.name for space in context.spaces.accessible()]
    first: dict[str, ItemPlace] = {}
    refused: dict[str, RyeError] = {}
    for pattern in request.patterns:
        selection = select(context.spaces, pattern, names=names, types=[request.item_type])
        refused |= {each.item_id: each.error for each in selection.refused}
        for place in _by_precedence(selection.places):
            first.setdefault(place.item_id, place)
    places = [first[item_id] for item_id in sorted(first) if item_id not in refused]
    return places, sorted(refused.items())


def _by_precedence(places: Iterable[ItemPlace]) -> list[ItemPlace]:
    return sorted(places, key=lambda place: -place.space.precedence)


def _offer(place: ItemPlace, context: Context, runners: Runners, isolation: Isolation) -> Offer | None:
    verified = context.verify(context.spaces.read(place))
    metadata = context.metadata(verified)
    if place.item_type is not ItemType.TOOL:
        return Offer(verified, metadata)
    if metadata.is_library or metadata.is_runtime or metadata.is_primitive:
        return None
    executors = runners.executors(verified.file, metadata)
    if isinstance(executors, RyeError):
        raise executors
    return Offer(verified, metadata, executors, isolation)


# --- annotations ---
# The MCP annotations of a tool, by what keeps it from doing more: the kernel, or this program.
#
# A program is described as this machine confines it, and a request as this program keeps it to its hosts.
# Work of this process is described by its author, if it came with the package. What other authors and
# bridged servers say counts only where it is more cautious.


_PROGRAM: Final = "rye/core/primitives/subprocess"
_REQUEST: Final = "rye/core/primitives/http_client"
_BRIDGE: Final = "rye/core/primitives/mcp_client"
_BRIDGED_PROGRAM: Final = "rye/core/runtimes/mcp_stdio_runtime"
_ONLY_ASKING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_CAUTIOUS: Final[Mapping[str, bool]] = MappingProxyType(
    {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
)
"""The hints for work of this process, unless the item, which came with the package, says otherwise."""


def tier_of(facts: Facts) -> Requirement:
    """The most that the probe has shown of this machine."""
    if facts.cell is not None:
        return Requirement.CELL
    return Requirement.WALLS if facts.landlock and facts.seccomp else Requirement.NONE


def annotations_of(
    pairs: Sequence[tuple[ChainElement, VerifiedItem]], isolation: Isolation, tier: Requirement
) -> dict[str, bool]:
    """The hints of MCP for the tool at the root of a verified chain; RyeError for what may not run."""
    permissions, _, _ = granted(pairs, isolation)
    (root, item), primitive = pairs[0], pairs[-1][0].item_id
    said: Mapping[str, Any] = root.metadata.annotations or {}
    if primitive == _PROGRAM:
        return hints(permissions, tier, said)
    if primitive == _REQUEST:
        return hints(permissions, Requirement.WALLS, _of_request(said, [each.metadata for each, _ in pairs]))
    if primitive == _BRIDGE:
        is_here = any(each.item_id == _BRIDGED_PROGRAM for each, _ in pairs)
        theirs = {name: value for name, value in said.items() if name != "idempotentHint"}
        return hints(permissions, tier if is_here else Requirement.NONE, theirs)
    if item.signer.kind is SignerKind.SYSTEM:
        return hints(permissions, Requirement.CELL, {**_CAUTIOUS, **said})
    return hints(Permissions(unconfined=True), Requirement.NONE, said)


def _of_request(said: Mapping[str, Any], chain: Sequence[ItemMetadata]) -> Mapping[str, Any]:
    """Return the author's hints, but mark a request that may change something elsewhere as destructive."""
    methods = [each.config["method"] for each in chain if each.config and "method" in each.config]
    method = methods[0] if methods else "GET"
    if isinstance(method, str) and method.upper() in _ONLY_ASKING:
        return said
    return {**said, "destructiveHint": True}
