"""The rights that a tool gets of those it declares: its signer and the policy decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.permissions._policy import Isolation, Undeclared
from rye_mcp.permissions._value import UNCONFINED, Access, Permissions, Requirement
from rye_mcp.permissions._words import sentence

__all__ = ["Effective", "effective", "taken_to_declare"]

_WRITES_PROJECT: Final = Permissions(project=Access.WRITE)

_UNDECLARED: Final[Mapping[str, Permissions]] = MappingProxyType(
    {"system": Permissions(), "agent": _WRITES_PROJECT, "person": UNCONFINED}
)
"""The rights of a tool that declares none, by the kind of its signer."""


@dataclass(frozen=True, slots=True)
class Effective:
    """The rights of a run, and those that its tool declares."""

    permissions: Permissions
    """`require` in it is what has to enforce them, or else the tool doesn't run."""
    declared: Permissions | None

    @property
    def withheld(self) -> Permissions:
        """The declared rights that the tool does not get."""
        return Permissions() if self.declared is None else self.declared.beyond(self.permissions)


def taken_to_declare(declared: Permissions | None, signer: str) -> Permissions:
    """Return the declared rights, or those assumed for a tool of this kind of signer that declares none.

    Policy has no part in this: what somebody agreed to stays the same when the policy changes.
    """
    return _UNDECLARED[signer] if declared is None else declared


def effective(
    declared: Permissions | None,
    signer: str,
    isolation: Isolation = Isolation(),  # noqa: B008 - frozen
    *,
    item_id: str,
    needs: Permissions | None = None,
) -> Effective:
    """Return the rights of a tool signed by this kind of signer (`person`, `agent`, `system`).

    `needs` are those of its runtimes: they add paths to read, and nothing else. RyeError `denied_by_policy`
    when the policy lets it run in no way.
    """
    granted = taken_to_declare(declared, signer)
    if signer == "agent":
        calls, granted = granted.calls, granted.meet(isolation.agent)
        # What an agent's program calls does no more than the program may; see `executor.tree`.
        granted = replace(granted, calls=calls, require=max(granted.require, Requirement.WALLS))
    elif isolation.lifts(item_id):
        granted = UNCONFINED
    elif declared is None and signer == "person":
        granted = _by_policy(isolation, item_id)
    if not granted.unconfined:
        return Effective(_confined(granted, isolation, needs), declared)
    if isolation.minimum:
        what = f"expected a tool that can be confined, found {item_id}, which {sentence(granted)}"
        raise RyeError("denied_by_policy", what, item_id=item_id)
    return Effective(granted, declared)


def _by_policy(isolation: Isolation, item_id: str) -> Permissions:
    if isolation.undeclared is Undeclared.REFUSE:
        what = f"expected permissions in {item_id}, found none, and the policy refuses such tools"
        raise RyeError(
            "denied_by_policy",
            what,
            hint=f"write permissions: {{project: write}}, or what it needs, and sign it: rye sign {item_id}",
            item_id=item_id,
        )
    if isolation.undeclared is Undeclared.CONFINE or isolation.minimum:
        return _WRITES_PROJECT
    return UNCONFINED


def _confined(granted: Permissions, isolation: Isolation, needs: Permissions | None) -> Permissions:
    read = granted.read if needs is None else granted.read | needs.read
    return replace(
        granted,
        read=frozenset(path for path in read if not isolation.hides(path)),
        write=frozenset(path for path in granted.write if not isolation.hides(path)),
        require=max(granted.require, isolation.minimum),
    )
