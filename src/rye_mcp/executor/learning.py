"""Runs a call as its user could, looks on, and says which permissions it would have needed.

Only commands of people at a terminal make one: while something is learned, nothing is confined. The system's
directories stay read-only, and where cells can be made hosts are reached by name, so that names are learned.

    learner = Learner(surroundings(project, hidden, environment), named=("api.test:8080:127.0.0.1",))
    await executor.run("demo/hello", watch=Watch(observer=learner))
    learner.proposal.permissions
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Final, Self

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import Fact, Facts, Hosts, Policy, ProcessSpec, SubprocessResult
from rye_mcp.permissions import Permissions
from rye_mcp.permissions.learning import SYSTEM, Proposal, propose
from rye_mcp.permissions.planning import Facts as Surroundings

__all__ = ["Learner", "Place", "surroundings"]

_PORTS: Final = (443, 80, 22, 8080, 8443, 8000, 3000, 5000, 9418, 5432, 3306, 6379)
"""Where hosts are reached from the beginning; another port is opened for the next run."""

_MAX_PORTS: Final = 16
_KERNEL: Final = ("/dev", "/boot", "/lost+found")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a host is that is not looked up: `name:port:address`."""

    name: str
    port: int
    address: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """ValueError for a text of another form."""
        name, port, address = text.split(":", 2)
        return cls(name, int(port), address.strip("[]"))


def surroundings(
    project: Path | None, hidden: Iterable[Path], environment: Mapping[str, str]
) -> Surroundings:
    """Where things are on this machine, as far as a proposal has to know."""
    home = os.path.realpath(environment.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111
    root = None if project is None else os.path.realpath(project)
    git = None if root is None else f"{root}/.git"
    agent = environment.get("SSH_AUTH_SOCK", "")
    return Surroundings(
        home=home,
        project=root,
        hidden=tuple(os.path.realpath(each) for each in hidden),
        git_directories=(git,) if git is not None and Path(git).is_dir() else (),
        git_configuration=(f"{home}/.gitconfig", f"{home}/.config/git"),
        ssh_agent=os.path.realpath(agent) if agent.startswith("/") else None,
        trash=f"{home}/.local/state/rye/trash",
    )


@dataclass(slots=True)
class Learner:
    """Looks on at the runs of one call. `can` says what this machine can make; without cells, no names."""

    where: Surroundings
    can: Facts
    declared: Permissions | None = None
    places: tuple[Place, ...] = ()
    ports: set[int] = field(default_factory=lambda: set(_PORTS))
    lost: int = 0
    is_blind: bool = True
    """Whether nothing could be seen: what runs in this process is not observed."""
    unserved: set[int] = field(default_factory=set)
    """Ports that were asked for, and not reached: another run learns more."""
    _facts: list[Fact] = field(default_factory=list)
    _hosts: set[tuple[str, int]] = field(default_factory=set)
    _names: dict[str, str] = field(default_factory=dict)
    _private: set[str] = field(default_factory=set)

    def prepared(self, spec: ProcessSpec) -> ProcessSpec:
        """The program as it is run while somebody looks on."""
        run = tuple(sorted(_parts_of(spec.command)))
        self.where = replace(self.where, run=tuple(sorted({*self.where.run, *run})))
        policy = self._policy() if self.can.cell is not None else None
        return replace(spec, policy=policy, observe=[*run])

    def saw(self, result: SubprocessResult, show: Callable[[str], str]) -> None:
        """Record the result of a run, except paths that belong to its private copy."""
        if result.observed is None:
            return
        self.is_blind = False
        self.lost += result.observed.lost
        self._facts += [fact for fact in result.observed.facts if show(fact.what) == fact.what]
        if result.network is not None:
            self._hosts |= {(host.host, host.port) for host in result.network.hosts if host.host != "*"}
            self._private |= {host.host for host in result.network.hosts if "private" in host.failed}
            self._names |= dict(result.network.names)
            named = {address: name for name, address in self._names.items()}
            wanted = (fact.what.rpartition(":") for fact in self._facts if fact.kind == "connect")
            self.unserved = {int(port) for address, _, port in wanted if address in named} - self.ports

    def requested(self, host: str, port: int) -> None:
        """This process asked a host for the call."""
        self.is_blind = False
        self._hosts.add((host, port))

    def open_more_ports(self) -> bool:
        """Whether another run reaches hosts at ports that this one did not."""
        more = sorted(self.unserved)[: _MAX_PORTS - len(self._all_ports())]
        self.ports.update(more)
        self.unserved = set()
        return bool(more)

    @property
    def proposal(self) -> Proposal:
        """Return the permissions that were needed up to now."""
        found = propose(self._facts, self.where, hosts=self._hosts, names=self._names, declared=self.declared)
        notes = [
            f"{name} has a private address: only a policy of yours leads there" for name in self._private
        ]
        if self.lost:
            notes.append(f"{self.lost} of its calls were not seen: it may need more")
        return Proposal(found.permissions, (*found.notes, *sorted(notes)))

    def _all_ports(self) -> set[int]:
        return {*self.ports, *(place.port for place in self.places)}

    def _policy(self) -> Policy:
        """Everything but the system can be written, as the user could; hosts are reached by name."""
        pinned: dict[str, list[str]] = {}
        for place in self.places:
            pinned.setdefault(place.name, []).append(place.address)
        roots = (each for each in Path("/").iterdir() if each.is_dir() and not each.is_symlink())
        write = sorted(str(each) for each in roots if str(each) not in (*SYSTEM, *_KERNEL))
        net = Hosts(pinned=pinned, every_host_at=sorted(self._all_ports())[:_MAX_PORTS])
        return Policy(tier="cell", write=write, net=net)


def _parts_of(command: str) -> set[str]:
    """Return the parts of a program: its file, its installation, and its virtual environment."""
    real = os.path.realpath(command)
    found = {real, *_installation(real)}
    venv = Path(command).parent.parent
    try:
        lines = (venv / "pyvenv.cfg").read_text("utf-8", "replace").splitlines()
    except OSError:
        return found
    return found | {os.path.realpath(venv), *(home for line in lines if (home := _home_of(line)))}


def _installation(real: str) -> set[str]:
    place = Path(real).parent
    is_one = place.name == "bin" and (place.parent / "lib").is_dir() and place.parent != Path("/")
    return {str(place.parent)} if is_one else set()


def _home_of(line: str) -> str | None:
    name, _, value = (part.strip() for part in line.partition("="))
    return os.path.realpath(Path(value).parent) if name == "home" and value.startswith("/") else None
