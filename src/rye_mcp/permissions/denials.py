"""Accesses that a confined run was probably denied, and which permissions would have allowed them.

A name that the door has refused is certain. A path in the last lines of standard error is likely, if
something is there that the run could not see; a program may print any path.

    suspect(["api.github.com"], "", Permissions(), Facts(home="/home/ada"), lambda path: False)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import Fact
from rye_mcp.permissions._grants import DEFAULT_PORT
from rye_mcp.permissions._value import Permissions
from rye_mcp.permissions.learning import propose
from rye_mcp.permissions.planning import Facts

__all__ = ["Denial", "suspect"]

_LAST_LINES: Final = 20
_LONGEST: Final = 4096
_TAIL: Final = 64 * 1024
_MAX_PATHS: Final = 8
_PATH: Final = re.compile(r"""'(/[^'\n]+)'|"(/[^"\n]+)"|(?<![\w/.~:])(/[^\s'"`:;,()<>\[\]{}]+)""")
"""In quotes, or up to what seldom stands in a path."""


@dataclass(frozen=True, slots=True)
class Denial:
    """A denied access. `would_need` lists the missing rights; `notes` name accesses that no right allows."""

    certain: tuple[str, ...]
    likely: tuple[str, ...]
    would_need: Permissions
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        answer: dict[str, Any] = {"certain": list(self.certain), "likely": list(self.likely)}
        if self.would_need != Permissions():
            answer["would_need"] = self.would_need.canonical()
        if self.notes:
            answer["notes"] = list(self.notes)
        return answer


def suspect(
    refused: Iterable[str],
    stderr: str,
    granted: Permissions,
    where: Facts,
    is_there: Callable[[str], bool],
) -> Denial | None:
    """Return the access that a run was denied; None without evidence of one.

    `refused` are names that the door did not answer. `is_there` looks at this machine, not at what the run
    saw.
    """
    if granted.unconfined:
        return None
    names = tuple(dict.fromkeys(refused))
    lacking = [path for path in _paths(stderr) if is_there(path) and _lacks(path, granted, where)]
    if not names and not lacking:
        return None
    proposal = propose(
        [Fact("read", path) for path in lacking], where, hosts=[(name, DEFAULT_PORT) for name in names]
    )
    return Denial(names, tuple(lacking), proposal.permissions.beyond(granted), proposal.notes)


def _lacks(path: str, granted: Permissions, where: Facts) -> bool:
    """Whether the run could not see it."""
    found = propose([Fact("read", path)], where)
    return bool(found.notes) or found.permissions.beyond(granted) != Permissions()


def _paths(stderr: str) -> Iterator[str]:
    """The first absolute paths in the last lines, each once."""
    found: dict[str, None] = {}
    for line in stderr[-_TAIL:].splitlines()[-_LAST_LINES:]:
        for match in _PATH.finditer(line[:_LONGEST]):
            text = next(group for group in match.groups() if group is not None)
            found[text.rstrip("./")] = None
    yield from [path for path in found if path][:_MAX_PATHS]
