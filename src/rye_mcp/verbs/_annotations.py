"""The MCP annotations of a tool, by what keeps it from doing more: the kernel, or this program.

A program is described as this machine confines it, and a request as this program keeps it to its hosts. Work
of this process is described by its author, if it came with the package. What other authors and bridged
servers say counts only where it is more cautious.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from lilux.primitives.subprocess import Facts
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.executor.decider import granted
from rye_mcp.metadata import ItemMetadata
from rye_mcp.permissions import Isolation, Permissions, Requirement, hints
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.verify import VerifiedItem

__all__ = ["annotations_of", "tier_of"]

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
