"""The recipe of a waiting interpreter, and whether a call would have the same.

A call is prepared whole, as if it ran cold. Only if its process, its confinement and everything that the
interpreter has read when it started are those of the waiting one does it run there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from lilux._dataclasses import dataclass
from lilux._files import real_path
from lilux._stamps import Stamp, settled, stamp_of
from lilux.primitives.subprocess import Halves, Policy, RuntimeSpec, SubprocessResult, Zygote
from lilux.primitives.subprocess import Hosts as NamedHosts
from rye_mcp.metadata import Warm

__all__ = ["Lockfiles", "Recipe", "Slot", "at_start", "is_worn", "why_never"]

_MAX_LOCKFILES: Final = 1024

_SYSTEM: Final = "/etc"
"""A cell hides files in it, whatever its policy says."""

_PACKAGES: Final = ("site-packages", "dist-packages")
_SYSTEM_PACKAGES: Final = "/usr/lib/python3/dist-packages"
_STARTS_CODE: Final = (".pth", "sitecustomize.py", "usercustomize.py")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that a waiting interpreter was made from."""

    runtime: RuntimeSpec
    policy: Policy | None
    warm: Warm
    interpreter: tuple[Stamp | None, ...]
    packages: Mapping[str, Stamp | None]
    places: Mapping[str, Places] = field(default_factory=dict)
    """What its policy protects and hides. A mount is gone when its file is replaced."""

    @classmethod
    def of(cls, process: Halves, warm: Warm) -> Recipe:
        """The recipe that a prepared process is made by."""
        command = process.runtime.command
        stamps = (stamp_of(command), stamp_of(f"{_prefix(command)}/pyvenv.cfg"))
        packages = dict(_packages(command)) if warm.prepare == "python" else {}
        packages |= {path: stamp_of(path) for path in _preloaded(packages, warm.preload)}
        policy = process.call.policy
        return cls(process.runtime, policy, warm, stamps, packages, places_of(policy))

    def parked(self, policy: Policy | None) -> Recipe:
        """The recipe of what is forked now, with a policy of its own."""
        return replace(self, policy=policy, places=places_of(policy))

    def why_not(self, other: Recipe, *, apart_from_paths: bool = False) -> str | None:
        """The word for what another one was made of otherwise; None when it is the same.

        `apart_from_paths` is for what gets the paths of its policy later.
        """
        mine, its = self.runtime, other.runtime
        if self.interpreter != other.interpreter or mine.command != its.command:
            return "interpreter"
        if mine.args != its.args or self.warm != other.warm:
            return "arguments"
        if mine.env != its.env or mine.search_path != its.search_path:
            return "environment"
        if self.packages != other.packages:
            return "packages"
        if apart_from_paths:
            is_same = without_paths(self.policy) == without_paths(other.policy)
        else:
            is_same = self.policy == other.policy and not _have_changed(self.places, other.places)
        return None if is_same else "permissions"


Places = tuple[Stamp | None, Stamp | None]
"""A file and the directory that it is in."""


def places_of(policy: Policy | None) -> dict[str, Places]:
    """Return the files that a policy protects or hides as they are now, with their directories."""
    named = () if policy is None else (*policy.protect, *policy.mask)
    above = {path: os.path.dirname(path) for path in named}  # noqa: PTH120
    stamps = {directory: stamp_of(directory) for directory in {*above.values()}}
    places = {path: (stamp_of(path, follow=False), stamps[directory]) for path, directory in above.items()}
    return {_SYSTEM: (stamp_of(_SYSTEM), None), **places}


def _have_changed(before: Mapping[str, Places], now: Mapping[str, Places]) -> bool:
    return before.keys() != now.keys() or any(_is_replaced(then, now[path]) for path, then in before.items())


def _is_replaced(before: Places, now: Places) -> bool:
    """Whether something else may have this name: then the directory has changed, and so has the file."""
    (file, directory), (its_file, its_directory) = before, now
    if file is None or its_file is None or file[:2] != its_file[:2]:
        return file != its_file
    return file != its_file and (directory is None or directory != its_directory)


class Lockfiles:
    """The lockfiles of the last calls, as they were then."""

    def __init__(self) -> None:
        self._seen: dict[Path, Stamp | None] = {}

    def has_changed(self, path: Path | None) -> bool:
        """Whether it is another one than that of the last call that had it."""
        if path is None:
            return False
        found = stamp_of(path)
        if len(self._seen) >= _MAX_LOCKFILES:
            self._seen.clear()
        before = self._seen.get(path, found)
        self._seen[path] = found
        return before != found


def without_paths(policy: Policy | None) -> Policy | None:
    """A policy without what differs from run to run in a cell: what it sees of the machine."""
    if policy is None:
        return None
    return replace(policy, read=(), write=(), protect=(), mask=(), binds=(), home=None)


def why_never(process: Halves) -> str | None:
    """The word for why no interpreter can wait for such a process; None where one can."""
    runtime, call = process
    if call.observe is not None:
        return "watched"
    if call.policy is not None and isinstance(call.policy.net, NamedHosts):
        return "network"
    if not runtime.command.startswith("/"):
        return "interpreter"
    return "descriptors" if call.descriptors else None


def _prefix(command: str) -> str:
    return os.path.dirname(os.path.dirname(command))  # noqa: PTH120 - in every call


def _packages(command: str) -> Iterator[tuple[str, Stamp | None]]:
    """The directories of installed packages, and the files in them that run code when Python starts."""
    for prefix in dict.fromkeys((_prefix(command), _prefix(real_path(command)))):
        for directory in _directories(prefix, stamp_of(f"{prefix}/lib")):
            stamp = stamp_of(directory)
            yield directory, stamp
            names = _starting_code(directory, stamp) if settled(stamp) else _names(directory)
            yield from ((path, stamp_of(path)) for path in (f"{directory}/{name}" for name in names))


def _preloaded(directories: Iterable[str], modules: Iterable[str]) -> list[str]:
    """Where these modules may be: a package that is replaced in its place is another one."""
    tops = dict.fromkeys(name.partition(".")[0] for name in modules)
    ends = (ending for top in tops for ending in (f"{top}.py", top, f"{top}/__init__.py"))
    return [f"{directory}/{ending}" for ending in ends for directory in directories]


@lru_cache(maxsize=64)
def _directories(prefix: str, _stamp: Stamp | None) -> tuple[str, ...]:
    """Where the Pythons of a prefix may have packages; a directory that is not there yet is one, too."""
    found = [each.path for each in _entries(f"{prefix}/lib") if each.name.startswith("python3")]
    places = [f"{library}/{name}" for library in sorted(found) for name in _PACKAGES]
    return (*places, *([_SYSTEM_PACKAGES] if prefix == "/usr" else []))


@lru_cache(maxsize=64)
def _starting_code(directory: str, _stamp: Stamp) -> tuple[str, ...]:
    return _names(directory)


def _names(directory: str) -> tuple[str, ...]:
    return tuple(sorted(each.name for each in _entries(directory) if each.name.endswith(_STARTS_CODE)))


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


# --- zygotes ---
# Prepared interpreters that others are forked from: what one is doing, and when it is replaced.
#
# A zygote holds no code of a tool and no variable but those that an interpreter reads when it starts. It is
# replaced when it is old, worn, has grown, is slow, or when what was forked from it has crashed.


MAX_AGE_S: Final = 600.0
MAX_FORKS: Final = 1000
MAX_GROWTH: Final = 1.2
MAX_FORK_MS: Final = 100.0
MAX_PROCESSOR_MS: Final = 25.0
"""When a zygote is replaced: by its age, its forks, its memory beside that at the start, and a slow last fork
if forks take it that long on average. Otherwise it is the machine that is busy, and a new one would be too.
"""

_READ_AT_START: Final = ("PYTHON", "LC_", "LANG")
"""How variables begin that an interpreter reads when it starts, and not again."""

_THREADS: Final = ("OMP_", "OPENBLAS_", "MKL_", "BLIS_", "NUMEXPR_")
"""How variables begin that say how many threads a library starts when it is imported."""

_OF_CALLS: Final = frozenset({"PYTHONPATH", "PYTHONSTARTUP", "PYTHONBREAKPOINT"})
"""What comes with a call. Modules in its places may be those of a tool, and a zygote imports none."""


@dataclass(slots=True)
class Slot:
    """A zygote, what it was made of, and what it is doing.

    It is `idle` while nothing that was forked from it is there: only then may it be closed. One that is
    `spoilt` is closed as soon as it is idle.
    """

    zygote: Zygote[SubprocessResult]
    recipe: Recipe
    is_idle: bool = True
    is_spoilt: bool = False
    busy_since: float = 0.0

    @property
    def is_fit(self) -> bool:
        """Whether more can be forked from it."""
        return not self.is_spoilt and not is_worn(self.zygote)


def is_worn(zygote: Zygote[SubprocessResult]) -> bool:
    """Whether it is to be replaced."""
    facts = zygote.facts
    return (
        not zygote.is_alive
        or time.monotonic() - facts.started_at > MAX_AGE_S
        or facts.forks >= MAX_FORKS
        or facts.memory_kb > facts.memory_at_start_kb * MAX_GROWTH
        or ((facts.last_fork_ms or 0.0) > MAX_FORK_MS and facts.processor_ms > facts.forks * MAX_PROCESSOR_MS)
    )


def at_start(runtime: RuntimeSpec) -> RuntimeSpec:
    """The same program with no variable but those that it reads when it starts."""
    beginnings = (*_READ_AT_START, *_THREADS)
    env = {
        name: text
        for name, text in runtime.env.items()
        if name.startswith(beginnings) and name not in _OF_CALLS
    }
    return RuntimeSpec(command=runtime.command, args=runtime.args, env=env, search_path=runtime.search_path)
