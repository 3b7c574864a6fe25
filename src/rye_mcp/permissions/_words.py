"""Permissions in plain English, for people who have to agree to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rye_mcp.permissions._value import USES, Access, Permissions, Requirement

__all__ = ["difference", "hints", "phrases", "sentence"]


def sentence(permissions: Permissions) -> str:
    """Everything that a tool may do, and that it is everything.

    >>> sentence(Permissions(project=Access.READ))
    'may read this project; nothing else'
    """
    if permissions.unconfined:
        return next(phrases(permissions))
    demand = f"; runs only in {_demand(permissions)}" if permissions.require else ""
    granted = "; ".join(phrases(permissions))
    return f"{granted}; nothing else{demand}" if granted else f"may only compute{demand}"


def difference(agreed: Permissions, now: Permissions) -> tuple[str, ...]:
    """Say in words which rights are wider now than those agreed to; empty when none are."""
    added = tuple(phrases(now.beyond(agreed)))
    if now.require >= agreed.require or agreed.unconfined:
        return added
    return (*added, f"runs without {_demand(agreed)}, too")


def phrases(permissions: Permissions) -> Iterator[str]:
    """Describe the rights, key by key."""
    if permissions.unconfined:
        yield "may do whatever you can: it is not confined"
        return
    if permissions.project:
        yield f"may {'read and write' if permissions.project is Access.WRITE else 'read'} this project"
    if permissions.net:
        hosts = "any host" if permissions.any_host else _named(map(str, permissions.net))
        yield f"may reach {hosts}"
    if permissions.env:
        yield f"gets {_named(permissions.env)} from the environment"
    if permissions.secrets:
        yield f"gets {_named(permissions.secrets)} from your store of secrets"
    if permissions.read:
        yield f"may read {_named(permissions.read)}"
    if permissions.write:
        yield f"may read and write {_named(permissions.write)}"
    yield from (f"may {USES[each]}" for each in sorted(permissions.uses))
    if permissions.calls:
        yield f"may call {_named(permissions.calls)}"


def _demand(permissions: Permissions) -> str:
    return "a cell" if permissions.require.name == "CELL" else "walls"


def _named(names: Iterator[str] | frozenset[str]) -> str:
    found = sorted(names)
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"


# --- hints for MCP clients ---


_CHANGING: Final = frozenset({"gpu", "ssh-agent"})
"""Words that let a tool change something that is not its own. For git and items, `project` decides."""

_KEEPING: Final = _CHANGING | {"cache", "temp", "trash"}
"""Words that let a tool write anything that outlives its call."""

_CAUTIOUS: Final = {"readOnlyHint": all, "destructiveHint": any, "openWorldHint": any}
"""Which of two hints is the more cautious one."""


def hints(
    permissions: Permissions, tier: Requirement, said: Mapping[str, Any] | None = None
) -> dict[str, bool]:
    """The hints for a tool with these permissions, where this is what enforces them.

    What its author `said` counts where it is more cautious, and nothing can be said about `idempotentHint`
    but by the author.
    """
    theirs = {name: value for name, value in (said or {}).items() if isinstance(value, bool)}
    free = tier is Requirement.NONE or permissions.unconfined
    changes, reaches = _changes(permissions), _reaches(permissions)
    keeps = changes or bool(permissions.uses & _KEEPING)
    found = {
        "readOnlyHint": not (free or tier is not Requirement.CELL or keeps or reaches),
        "destructiveHint": free or changes,
        "openWorldHint": free or reaches,
    }
    cautious = {name: _CAUTIOUS[name]((found[name], theirs.get(name, found[name]))) for name in found}
    return cautious | {name: theirs[name] for name in ("idempotentHint",) if name in theirs}


def _changes(permissions: Permissions) -> bool:
    """Whether something that is not the tool's own may be changed, by it or by what it calls."""
    written = permissions.write or permissions.calls or permissions.uses & _CHANGING
    return permissions.project is Access.WRITE or bool(written)


def _reaches(permissions: Permissions) -> bool:
    return bool(permissions.net or permissions.calls) or "ssh-agent" in permissions.uses
