"""The rights of a run, fully resolved, and which of them were enforced.

A `Policy` is exact: absolute paths and numbers. Who may do what is decided elsewhere; `lilux-proc` makes it
so and reports what the kernel has confirmed. The fields are those of `policy` in `docs/protocol.md`.

    >>> Policy(tier="walls", read=["/srv/data"], net="any").header()
    {'tier': 'walls', 'read': ['/srv/data'], 'net': 'any'}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from typing import Any, ClassVar, Literal, Self

from lilux._dataclasses import dataclass

__all__ = ["Bind", "Enforced", "Facts", "Groups", "Hosts", "Limits", "Policy", "Ports", "Tier"]

Tier = Literal["none", "walls", "cell"]
"""How much stands between a tool and the machine: nothing, Landlock and seccomp, or namespaces too."""


@dataclass(frozen=True, slots=True)
class Ports:
    """TCP to these ports of any address, and nothing else."""

    ports: Sequence[int]

    def header(self) -> dict[str, Any]:
        """The value of `net` in a request."""
        return {"ports": list(self.ports)}


@dataclass(frozen=True, slots=True)
class Hosts:
    """These names, each with a port if it is not 443, and no others. `*.name` stands for all names below it.

    Each host has to have public addresses. `pinned` says where some of them are instead of looking them up;
    these addresses may be private, because whoever makes a policy answers for them. At the ports
    `every_host_at` all hosts may be reached, which is for learning what a program needs.
    """

    hosts: Sequence[str] = ()
    pinned: Mapping[str, Sequence[str]] = field(default_factory=dict)
    every_host_at: Sequence[int] = ()

    def header(self) -> dict[str, Any]:
        """The value of `net` in a request."""
        header: dict[str, Any] = {"hosts": list(self.hosts)}
        if self.every_host_at:
            header["every_host_at"] = list(self.every_host_at)
        if self.pinned:
            header["pinned"] = {name: list(addresses) for name, addresses in self.pinned.items()}
        return header


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A place of the machine that a cell shows at another path."""

    source: str
    target: str
    write: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a run may use; None for no limit.

    `data` is what each process may have of private memory, `memory` what all of them may have together.
    `temp` is the room in the private home and the temporary directories of a cell. All but `processes` are
    bytes.
    """

    processes: int | None = None
    data: int | None = None
    memory: int | None = None
    temp: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rights of a run. Everything else is denied.

    `tier` is what is wanted, and `require` the least with which the run may start. `protect` stays read-only
    inside what is writable, and `mask` is empty inside what is visible. `home` is where a private, empty home
    directory stands. System directories like `/usr` need not be named.
    """

    tier: Tier
    require: Tier = "none"
    read: Sequence[str] = ()
    write: Sequence[str] = ()
    protect: Sequence[str] = ()
    mask: Sequence[str] = ()
    binds: Sequence[Bind] = ()
    devices: Sequence[str] = ()
    home: str | None = None
    net: Literal["none", "any"] | Ports | Hosts = "none"
    limits: Limits = Limits()

    _LISTS: ClassVar = ("read", "write", "protect", "mask", "devices")

    @classmethod
    def of(cls, header: Mapping[str, Any]) -> Self:
        """The policy that has this header."""
        net = header.get("net", "none")
        if not isinstance(net, str):
            net = Ports(net["ports"]) if "ports" in net else Hosts(**net)
        binds = [Bind(**each) for each in header.get("binds", ())]
        return cls(**{**header, "net": net, "binds": binds, "limits": Limits(**header.get("limits", {}))})

    def header(self) -> dict[str, Any]:
        """The policy as it stands in a request."""
        header: dict[str, Any] = {"tier": self.tier}
        if self.require != "none":
            header["require"] = self.require
        header |= {name: list(getattr(self, name)) for name in self._LISTS if getattr(self, name)}
        if self.binds:
            header["binds"] = [_set_fields(bind) for bind in self.binds]
        if self.home is not None:
            header["home"] = self.home
        if self.net != "none":
            header["net"] = self.net if isinstance(self.net, str) else self.net.header()
        if limits := _set_fields(self.limits):
            header["limits"] = limits
        return header


@dataclass(frozen=True, slots=True)
class Groups:
    """Where control groups can be made for runs, and which of the limits they enforce."""

    directory: str
    limits: Sequence[str]


@dataclass(frozen=True, slots=True)
class Facts:
    """What this machine can enforce, found by making a whole cell.

    `landlock` is the version of its interface, 0 without it. `cell` says how cells are made, None that they
    cannot be, and then `no_cell` says why. `proc` says whose processes a cell shows. With a `broker` hosts
    are told apart in walls too; without, `no_broker` says why. `groups` are the control groups that limit all
    processes of a run together; without, `no_groups` says why.
    """

    landlock: int
    seccomp: bool
    cell: Literal["administrator", "user_namespace"] | None
    no_cell: str | None
    proc: Literal["private", "shared"]
    broker: bool
    no_broker: str | None
    groups: Groups | None = None
    no_groups: str | None = None


@dataclass(frozen=True, slots=True)
class Enforced:
    """The part of a policy that was enforced, as the launch itself confirmed it.

    `net` is as in a policy. `proc` says whose processes the run could see. `limits` names those in force.
    `unenforced` names what was asked for, or what the tier stands for, and is not so; `reason` says why
    `level` is less than what was wanted. `capabilities` are those that root had to keep to write what others
    own.
    """

    level: Tier
    net: Literal["none", "any"] | dict[str, Sequence[int | str]]
    proc: Literal["private", "shared"]
    limits: Sequence[str]
    unenforced: Sequence[str]
    capabilities: Sequence[str] = ()
    reason: str | None = None


def _set_fields(value: Bind | Limits) -> dict[str, Any]:
    found = {each.name: getattr(value, each.name) for each in fields(value)}
    return {name: one for name, one in found.items() if one is not None}
