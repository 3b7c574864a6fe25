"""The rights of a tool, as one frozen value with an order.

A value is normal: what another part of it grants already is left out, so equal permissions are equal values.
The rules are in `docs/architecture/permissions.md`.

    >>> Permissions(project=Access.READ).is_within(Permissions(project=Access.WRITE))
    True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import IntEnum
from operator import eq
from types import MappingProxyType
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.permissions._grants import (
    ANY_HOST,
    Covers,
    Host,
    common,
    covers_host,
    covers_items,
    covers_path,
    maximal,
    uncovered,
)

__all__ = ["UNCONFINED", "USES", "Access", "Permissions", "Requirement"]


class Access(IntEnum):
    """Access to the files of the project; each level includes the ones before it."""

    NONE = 0
    READ = 1
    WRITE = 2


class Requirement(IntEnum):
    """The weakest isolation under which the tool may run."""

    NONE = 0
    WALLS = 1
    CELL = 2


USES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cache": "keep a cache of its own",
        "git": "use git in this project",
        "gpu": "use the graphics processor",
        "items": "change items and settings of this project in .ai",
        "packages": "change interpreters, packages and hooks of this project, which other programs run",
        "ssh-agent": "have your SSH agent sign",
        "temp": "keep temporary files of its own between calls",
        "terminal": "use pseudo-terminals",
        "trash": "move files to your trash",
    }
)
"""The words of `uses`, and their meaning after "may"."""

_SETS: Final[Mapping[str, Covers[Any]]] = MappingProxyType(
    {
        "net": covers_host,
        "env": eq,
        "secrets": eq,
        "uses": eq,
        "read": covers_path,
        "write": covers_path,
        "calls": covers_items,
    }
)
"""The keys whose value is a set, and when one member of it covers another."""


@dataclass(frozen=True, slots=True)
class Permissions:
    """The rights of a tool. Without arguments: only compute, and write into private directories."""

    project: Access = Access.NONE
    net: frozenset[Host] = frozenset()
    """Where it may connect to; `ANY_HOST` alone for everywhere."""
    env: frozenset[str] = frozenset()
    """Variables of the server that look like secrets, and that it gets all the same."""
    secrets: frozenset[str] = frozenset()
    """Names in the user's store of secrets."""
    uses: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    """Extra paths, beside those in `write`, which can be read too."""
    write: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    """The tools that it may call: ids, and `directory/*`."""
    require: Requirement = Requirement.NONE
    unconfined: bool = False
    """Whether it runs as its user does. Then nothing else is said."""

    def __post_init__(self) -> None:
        if self.unconfined:
            for each in fields(self)[:-1]:
                object.__setattr__(self, each.name, each.default)
            return
        for name, covers in _SETS.items():
            object.__setattr__(self, name, maximal(getattr(self, name), covers))
        object.__setattr__(self, "read", uncovered(self.read, self.write, covers_path))

    @property
    def readable(self) -> frozenset[str]:
        """The extra paths that can be read: those that can be written, too."""
        return maximal(self.read | self.write, covers_path)

    @property
    def any_host(self) -> bool:
        """Whether it may connect everywhere."""
        return self.unconfined or ANY_HOST in self.net

    @property
    def names_env_alone(self) -> bool:
        """Whether it names variables, and grants and demands nothing else."""
        return bool(self.env) and self == Permissions(env=self.env)

    def reaches(self, host: Host) -> bool:
        """Whether it may connect to this host."""
        return self.any_host or any(covers_host(each, host) for each in self.net)

    def is_within(self, other: Permissions) -> bool:
        """Whether all of this is granted by the other one, and nothing is demanded less strictly."""
        dropped = self.require < other.require
        return self.beyond(other) == Permissions() and (not dropped or other.unconfined)

    def beyond(self, other: Permissions) -> Permissions:
        """Return the rights of this one that the other lacks; `require` is a demand, and not part of it."""
        if other.unconfined or self.unconfined:
            return Permissions() if other.unconfined else UNCONFINED
        sets: dict[str, Any] = {
            name: uncovered(
                getattr(self, name), other.readable if name == "read" else getattr(other, name), c
            )
            for name, c in _SETS.items()
        }
        return Permissions(project=self.project if self.project > other.project else Access.NONE, **sets)

    def meet(self, other: Permissions) -> Permissions:
        """Return the rights that both grant, under the stricter demand: how a policy narrows."""
        if self.unconfined or other.unconfined:
            return other if self.unconfined else self
        sets: dict[str, Any] = {
            name: common(getattr(self, name), getattr(other, name), c) for name, c in _SETS.items()
        }
        sets["read"] = common(self.readable, other.readable, covers_path)
        project, require = min(self.project, other.project), max(self.require, other.require)
        return Permissions(project=project, require=require, **sets)

    def join(self, other: Permissions) -> Permissions:
        """Return the rights that either grants, under the laxer demand: the smallest that includes both."""
        if self.unconfined or other.unconfined:
            return UNCONFINED
        sets: dict[str, Any] = {name: getattr(self, name) | getattr(other, name) for name in _SETS}
        project, require = max(self.project, other.project), min(self.require, other.require)
        return Permissions(project=project, require=require, **sets)

    def canonical(self) -> dict[str, Any] | str:
        """The one form in metadata that says this; `read_permissions` reads it back."""
        if self.unconfined:
            return "unconfined"
        found: dict[str, Any] = {}
        if self.project:
            found["project"] = self.project.name.lower()
        if self.net:
            found["net"] = "any" if self.any_host else [each.written for each in sorted(self.net)]
        found |= {
            name: sorted(getattr(self, name)) for name in _SETS if name != "net" and getattr(self, name)
        }
        if self.require:
            found["require"] = self.require.name.lower()
        return found


UNCONFINED: Final = Permissions(unconfined=True)
"""Whatever the user may do."""
