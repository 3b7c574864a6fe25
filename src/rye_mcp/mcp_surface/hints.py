"""Hints that an agent can follow: where a command looks something up, it is the call that does so.

Rules:

- An agent may have no terminal. What `rye show`, `explain` and `list` look up, `load`, `execute` and `search`
  look up as well.
- Whatever changes something, or is for a person to decide, stays the command that it was. Where the content
  is not what was signed, it is addressed to the person: see `addressed_to_a_person`.

    >>> followable({"hint": "rye show demo/review --type directive"})
    {'hint': 'load with item_id demo/review, item_type directive'}
    >>> followable({"hint": "rye trust review"})
    {'hint': 'rye trust review'}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from rye_mcp.errors import addressed_to_a_person

__all__ = ["followable"]

_ONE_ITEM: Final = r"\brye {} (?P<id>[\w./-]+)(?: --type (?P<type>\w+))?$"
_CALLS: Final = (
    (re.compile(_ONE_ITEM.format("show")), "load with item_id {id}", ""),
    (re.compile(_ONE_ITEM.format("explain")), "execute with item_id {id}", ", dry_run true"),
    (re.compile(r"\brye run (?P<id>[\w./-]+) --help$"), "load with item_id {id}", ""),
    (re.compile(r", then: rye log show (?P<id>[\w-]+)$"), "; this was the run {id}", ""),
    (re.compile(r"\bcopy it with --overwrite$"), "load it with overwrite true", ""),
    (re.compile(r"^rye list$"), "search finds ids, by words for what you want", ""),
)


def followable(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a refusal, with such a hint."""
    told = addressed_to_a_person(facts)
    hint = told.get("hint")
    return {**told, "hint": _call_for(hint)} if isinstance(hint, str) else told


def _call_for(hint: str) -> str:
    for command, call, more in _CALLS:
        if found := command.search(hint):
            named = found.groupdict()
            item_type = f", item_type {named['type']}" if named.get("type") else ""
            return hint[: found.start()] + call.format(**named) + item_type + more
    return hint
