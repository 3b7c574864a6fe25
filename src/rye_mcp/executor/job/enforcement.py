"""The permissions of a run that were enforced, as the launch itself confirmed them.

>>> Enforcement.none("nothing was asked for").as_dict()
{'level': 'none', 'reason': 'nothing was asked for'}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import Hosts
from rye_mcp.notices import present

if TYPE_CHECKING:
    from lilux.primitives.subprocess import Enforced, Facts, Policy
    from rye_mcp.permissions import Permissions

__all__ = ["Enforceable", "Enforcement"]

_IN_SERVER: Final = "rye-mcp"
_KERNEL: Final = "kernel"


@dataclass(frozen=True, slots=True)
class Enforcement:
    """How much stood between a run and the machine, and what it could use.

    `by` is `kernel`, or `rye-mcp` for what this program did itself: then nothing but its own code limited it.
    `project` is what the run could do with the project; `net` where it could connect to. `unenforced` names
    what was asked for and is not so, `reason` why `level` is less than it could be.
    """

    level: Literal["none", "walls", "cell"]
    by: str = _KERNEL
    project: str | None = None
    net: Literal["none", "any"] | tuple[str, ...] = "any"
    proc: str | None = None
    limits: tuple[str, ...] = ()
    unenforced: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    reason: str | None = None

    @classmethod
    def none(cls, reason: str) -> Self:
        """Return the enforcement of a program that ran unconfined, with the reason."""
        return cls("none", reason=reason)

    @classmethod
    def in_server(cls, net: Literal["none", "any"] | Sequence[str]) -> Self:
        """This program did it, and connected to nothing else."""
        if net == "none" or net == "any":
            return cls("none", _IN_SERVER, net=net)
        return cls("none", _IN_SERVER, net=tuple(net))

    @classmethod
    def of(cls, enforced: Enforced, permissions: Permissions) -> Self:
        """Return the enforcement that the supervisor reports for a run."""
        project = permissions.project.name.lower() if enforced.level != "none" else None
        net = enforced.net if isinstance(enforced.net, str) else _places(enforced.net)
        return cls(
            enforced.level,
            _KERNEL,
            project,
            net,
            enforced.proc,
            tuple(enforced.limits),
            tuple(enforced.unenforced),
            tuple(enforced.capabilities),
            enforced.reason,
        )

    def as_dict(self, *, detail: bool = True) -> dict[str, Any]:
        """Return it as data; without `detail`, what a caller has to know."""
        answer: dict[str, Any] = {"level": self.level}
        if self.by == _IN_SERVER:
            return answer | {"by": self.by, "net": _listed(self.net)}
        if self.level != "none":
            answer |= {"project": self.project, "net": _listed(self.net)}
        if detail and self.level != "none":
            answer |= {"proc": self.proc, "limits": list(self.limits)}
            answer |= present(capabilities=list(self.capabilities)) | {"unenforced": list(self.unenforced)}
        else:
            answer |= present(unenforced=list(self.unenforced))
        return answer | present(reason=self.reason if detail or self.unenforced else None)


@dataclass(frozen=True, slots=True)
class Enforceable:
    """How much this machine could enforce of a policy before it was tried, and why it is not more."""

    level: Literal["none", "walls", "cell"]
    unenforced: tuple[str, ...] = ()
    reason: str | None = None

    @classmethod
    def of(cls, facts: Facts, policy: Policy) -> Self:
        """Return the enforcement to expect of a policy here."""
        unlimited = tuple(_unlimited(facts, policy))
        if facts.seccomp and facts.cell is not None:
            return cls("cell", (*(() if facts.proc == "private" else ("cmdlines",)), *unlimited))
        if not facts.seccomp:
            return cls("none", ("everything",), facts.no_cell)
        if not facts.landlock:
            return cls("none", ("everything",), f"{facts.no_cell}; there is no Landlock here")
        asked = {
            "hosts": isinstance(policy.net, Hosts) and not facts.broker,
            "protected_paths": bool(policy.protect),
            "masked_paths": bool(policy.mask),
            "binds": bool(policy.binds),
        }
        missing = (name for name, is_asked in asked.items() if is_asked)
        return cls("walls", (*missing, "metadata_outside", "cmdlines", *unlimited), facts.no_cell)

    @property
    def in_words(self) -> str:
        """A line for a person."""
        by = {"cell": "a cell", "walls": "walls", "none": "nothing"}[self.level]
        without = f", without {', '.join(self.unenforced)}" if self.unenforced else ""
        return f"{by}{without}" + (f": {self.reason}" if self.reason is not None else "")

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {"level": self.level, **present(unenforced=list(self.unenforced), reason=self.reason)}


def _unlimited(facts: Facts, policy: Policy) -> Iterator[str]:
    """Yield the limits of a policy that nothing here enforces: without groups, a cell has some of its own."""
    groups = () if facts.groups is None else facts.groups.limits
    in_cell = {"processes": facts.cell == "user_namespace", "temp": facts.cell is not None}
    for name in ("processes", "memory", "temp"):
        is_enforced = name in groups or in_cell.get(name, False)
        if getattr(policy.limits, name) is not None and not is_enforced:
            yield name


def _listed(net: str | tuple[str, ...]) -> str | list[str]:
    return net if isinstance(net, str) else list(net)


def _places(net: dict[str, Sequence[int | str]]) -> tuple[str, ...]:
    """The hosts, or the ports of any host, each as `host:port`."""
    hosts = [str(each) for each in net.get("hosts", ())]
    ports = [f"*:{port}" for port in net.get("ports", ())]
    return (*(each if ":" in each else f"{each}:443" for each in hosts), *ports)
