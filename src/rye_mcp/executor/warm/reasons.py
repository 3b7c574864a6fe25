"""Why a call ran cold: the words that results and the log have for it, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["WHY_COLD"]

WHY_COLD: Final[Mapping[str, str]] = MappingProxyType(
    {
        "not_offered": "its runtime says nothing of warm",
        "off": "warm: false in config/rye.yaml, or RYE_WARM=0",
        "one_call": "a command makes one call; interpreters wait only in a server",
        "first_call": "no call of its kind has run a short while ago",
        "none_waiting": "as many calls of its kind are under way as interpreters were waiting",
        "memory": "the machine has too little memory left",
        "environment": "the environment of the call has variables that an interpreter reads when it starts",
        "network": "it may reach hosts by name, and each run has a door of its own",
        "descriptors": "it is handed an open descriptor, by which it may call other tools",
        "watched": "somebody learns what it needs",
        "interpreter": "another interpreter, or another version of it, than the one that waited",
        "arguments": "the interpreter is started with other arguments",
        "packages": "installed packages, or a .pth file, have changed",
        "permissions": "it may do something else than what the waiting one was confined to",
        "lockfile": "its lockfile has changed",
        "not_parked": "no interpreter could be made to wait",
        "gone": "the interpreter that waited has ended",
    }
)
"""The word → what it means."""
