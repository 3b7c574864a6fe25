"""What the user has said of all calls, in `config/rye.yaml` of the user space.

Rules:

- `confirm: [sign, execute]` names what a person has to agree to each time, whichever server an agent uses.
- It is the user's own: what a project says there counts for nothing. Only of lockfiles a project says itself
  whether it asks for them (`asks_for_locks`), once a person has approved it.
- A policy that cannot be read, or that others could have changed, is a refusal: it restricts, and a typing
  mistake must not lift a restriction.
"""

from __future__ import annotations

from typing import Final, Literal, cast

from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS_WRITE
from rye_mcp.verbs._configuration import CONFIGURATION, asks_for_locks, list_of_texts
from rye_mcp.verbs.context import Context

__all__ = ["ACTIONS", "Action", "asks_for_locks", "to_be_confirmed"]

Action = Literal["sign", "execute"]

ACTIONS: Final[tuple[Action, ...]] = ("sign", "execute")
"""What can be made to wait for a person."""


def to_be_confirmed(context: Context) -> frozenset[Action]:
    """What a person has to agree to, as the policy is now."""
    root = context.spaces.user.root
    found = list_of_texts(root, "confirm", such_as="[sign, execute]", forbidden=OTHERS_WRITE)
    unknown = [each for each in found if each not in ACTIONS]
    if unknown:
        what = f"expected confirm to be of {', '.join(ACTIONS)}, found {', '.join(unknown)[:80]}"
        raise RyeError("invalid_item", what, where=root / CONFIGURATION, hint="such as confirm: [execute]")
    return frozenset(cast("tuple[Action, ...]", found))
