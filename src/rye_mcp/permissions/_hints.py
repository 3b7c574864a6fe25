"""The hints for MCP clients about a tool, as far as the kernel makes them true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rye_mcp.permissions._value import Access, Permissions, Requirement

__all__ = ["hints"]

_CHANGING: Final = frozenset({"gpu", "ssh-agent"})
"""Words that let a tool change something that is not its own. For git and items, `project` decides."""

_KEEPING: Final = _CHANGING | {"cache", "temp", "trash"}
"""Words that let a tool write anything that outlives its call."""


def hints(
    permissions: Permissions, tier: Requirement, said: Mapping[str, Any] | None = None
) -> dict[str, bool]:
    """The hints for a tool with these permissions, where this is what enforces them.

    What its author `said` counts where it is more cautious, and nothing can be said about `idempotentHint`
    but by the author.
    """
    theirs = {name: value for name, value in (said or {}).items() if isinstance(value, bool)}
    confined = tier > Requirement.NONE and not permissions.unconfined
    changes = permissions.project is Access.WRITE or bool(
        permissions.write or permissions.calls or permissions.uses & _CHANGING
    )
    reaches = bool(permissions.net or permissions.calls) or "ssh-agent" in permissions.uses
    keeps = changes or bool(permissions.uses & _KEEPING)
    found = {
        "readOnlyHint": confined and tier is Requirement.CELL and not keeps and not reaches,
        "destructiveHint": not confined or changes,
        "openWorldHint": not confined or reaches,
    }
    found["readOnlyHint"] &= theirs.get("readOnlyHint", True)
    for name in ("destructiveHint", "openWorldHint"):
        found[name] |= theirs.get(name, False)
    if "idempotentHint" in theirs:
        found["idempotentHint"] = theirs["idempotentHint"]
    return found
