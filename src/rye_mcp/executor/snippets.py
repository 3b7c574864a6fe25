"""Programs that agents write: what holds for the tools that run them, beside what holds for every tool.

Each of them is of the system space, and gets its source, and what it may call, as parameters. It runs only
where the user's policy (`code`) has switched it on, always confined, and calls nothing but what is named.
What it calls is judged as if its caller had called it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rye_mcp.errors import RyeError
from rye_mcp.items import SpaceName
from rye_mcp.permissions import Permissions, Requirement

if TYPE_CHECKING:
    from rye_mcp.configuration import CodePolicy
    from rye_mcp.executor.chain.builder import ChainElement
    from rye_mcp.executor.configuration.parameters import Parameters
    from rye_mcp.executor.decider import DecidedCall
    from rye_mcp.executor.tree import Program

__all__ = [
    "RUNNERS",
    "SAVER",
    "is_runner",
    "is_saver",
    "named_calls",
    "require_allowed",
    "require_switched_on",
]

RUNNERS: Final = frozenset({"rye/code/run", "rye/code/run_node"})
"""The tools that run a program: one in Python, one in JavaScript."""

SAVER: Final = "rye/code/save"
"""The tool that makes an item of a program."""


def is_runner(root: ChainElement) -> bool:
    """Whether a tool is one of the system space that runs programs."""
    return root.item_id in RUNNERS and root.space is SpaceName.SYSTEM


def is_saver(root: ChainElement) -> bool:
    """Whether a tool is the one of the system space that saves programs: for it alone somebody is asked."""
    return root.item_id == SAVER and root.space is SpaceName.SYSTEM


def named_calls(parameters: Parameters, caller: Program | None) -> frozenset[str]:
    """Return the calls that a caller allows a program; a calling program grants at most its own."""
    found = parameters.values.get("calls")
    named = Permissions(calls=frozenset(found) if isinstance(found, list) else frozenset())
    return (named if caller is None else named.meet(Permissions(calls=caller.calls))).calls


def require_switched_on(item_id: str, policy: CodePolicy) -> None:
    """RyeError `code_switched_off` where the policy has not switched programs on."""
    if policy == "off":
        what = f"expected a policy with code: ask or code: on for {item_id}, found that it is off"
        raise RyeError("code_switched_off", what, item_id=item_id)


def require_allowed(decided: DecidedCall, policy: CodePolicy, agreed: str | None) -> None:
    """RyeError for a program that the policy, or this machine, does not let run as it is."""
    item_id = decided.chain.root.item_id
    require_switched_on(item_id, policy)
    if policy == "ask" and decided.caller.kind == "agent" and agreed is None:
        what = f"expected a person to agree to the program of {item_id}, found that nobody was asked"
        raise RyeError("confirmation_required", what, item_id=item_id)
    if decided.permissions.unconfined or decided.permissions.require < Requirement.WALLS:
        what = f"expected {item_id} to run confined, found a policy that lifts its permissions"
        hint = f"leave {item_id} out of isolation.lift in config/rye.yaml"
        raise RyeError("isolation_unavailable", what, hint=hint, item_id=item_id)
