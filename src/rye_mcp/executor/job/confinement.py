"""The confinement of a program: from the permissions of a call to the policy for the supervisor.

It looks up where things are on this machine, and remembers it for as long as nothing there has changed. The
supervisor checks once more that a path is the same when it opens it.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, Self

from lilux import _files as whole_files
from lilux._dataclasses import dataclass
from lilux._footprints import Remembered, note_links, note_names, note_way, stamp_of
from lilux.primitives.subprocess import Facts as MachineFacts
from lilux.primitives.subprocess import Halves, Limits, Policy, SubprocessPrimitive
from rye_mcp.apart import off_loop, on_loop
from rye_mcp.executor.job.guarded import Around, Found, Repository, Surroundings, find, tell_changes
from rye_mcp.executor.job.parts import SYSTEM, Needs, closed_in, expanded, holds_any, parts_of
from rye_mcp.executor.job.planted import Missing, present
from rye_mcp.executor.job.starting import WORKING_DIRECTORY
from rye_mcp.executor.job.under_way import UNDER_WAY
from rye_mcp.other_users import upwards
from rye_mcp.permissions import Access, Permissions, below_any
from rye_mcp.permissions.planning import DOTENV, Facts, plan, with_private_copy
from rye_mcp.trust.approvals import git_directories
from rye_mcp.trust.directories import KEPT_BY_TOOLS, cache_of, home_of
from rye_mcp.trust.scope import SignerKind

if TYPE_CHECKING:
    from rye_mcp.executor.decider import DecidedCall
    from rye_mcp.spaces import Spaces
    from rye_mcp.trust.directories import Directories

__all__ = [
    "Bounds",
    "Confined",
    "Confinement",
    "Rights",
]

_TEMPORARY: Final = ("TMPDIR", "TMP", "TEMP", "TEMPDIR")
_GRAPHICS: Final = ("/dev/dri/renderD*", "/dev/nvidia*", "/dev/kfd")
_PRIVATE: Final = 0o700
_MADE: Final = frozenset({"cache", "temp", "trash", "ssh-agent", "gpu"})
"""Uses whose places are made, or may be devices: they are looked up for each call."""

_MOST_LAYOUTS: Final = 64


@dataclass(frozen=True, slots=True)
class Confined:
    """A program as it is started, and what it may do. Without a `policy` nothing confines it."""

    process: Halves
    policy: Policy | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    where: Facts | None = None
    """The places that the policy was planned with."""
    missing: Missing | None = None


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of a program, and its item.

    `item_id` and `owner` say which files of its own it keeps.
    """

    permissions: Permissions
    item_id: str
    owner: tuple[str, ...]
    hide: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    by_agent: bool = False
    """Whether an agent signed it."""

    @classmethod
    def of(cls, decision: DecidedCall) -> Self:
        """Those of a decided call."""
        root = decision.verified.root
        owner = (str(root.file.space.root), str(root.signer.kind), str(root.signer.fingerprint))
        hide, limits = tuple(sorted(decision.isolation.hide)), decision.isolation.limits
        by_agent = root.signer.kind is SignerKind.AGENT
        return cls(decision.permissions, decision.chain.root.item_id, owner, hide, limits, by_agent)


@dataclass(frozen=True, slots=True)
class _Layout:
    """What calls with the same rights and needs have in common: all but the private copy."""

    facts: Facts
    policy: Policy
    variables: Mapping[str, str]
    is_shown: Callable[[str], bool]
    missing: Missing | None
    is_noted: bool
    """Whether each change would show: every file that is looked at is noted, and none hides its changes."""


class Confinement:
    """Confines the programs of one project, or of none, for one user."""

    def __init__(
        self, spaces: Spaces, project: Path | None, state: Path, environment: Mapping[str, str]
    ) -> None:
        self._project = None if project is None else os.path.realpath(project)
        self._environment = environment
        self._home = home_of(environment)
        self._state = os.path.realpath(state)
        self._cache = os.path.realpath(cache_of(environment))
        self._facts: MachineFacts | None = None
        self._surroundings = Surroundings()
        self._layouts: Remembered[_Layout] = Remembered(
            most=_MOST_LAYOUTS, worth=lambda layout: layout.is_noted
        )
        self._own = (os.path.realpath(spaces.user.root), self._state, f"{self._cache}/rye")

    def hidden(self, hide: Iterable[str]) -> tuple[str, ...]:
        """The paths that no tool sees, with those that the user's policy hides."""
        # A link to such a place may lead into what a tool sees: a project with all settings of a person.
        own = dict.fromkeys((*self._own, *closed_in(self._home)))
        return (*own, *(expanded(each, self._home) for each in hide))

    async def facts(self) -> MachineFacts:
        """Return what this machine can enforce; it is found out once."""
        if self._facts is None:
            await on_loop()
            self._facts = await SubprocessPrimitive().probe()
        return self._facts

    def confine_lasting(self, rights: Rights, process: Halves, facts: MachineFacts) -> Confined:
        """A process that outlives its call: where no cell can be its home, a directory that stays is."""
        home = None
        if facts.cell is None and not rights.permissions.unconfined:
            home = self._place_of(rights) / "home"
            whole_files.make_directory(home, mode=_PRIVATE)
        return self.confine(rights, process, scratch=home)

    def confine(
        self,
        rights: Rights,
        process: Halves,
        *,
        private_copy: Path | None = None,
        scratch: Path | None = None,
        also: Iterable[Path | None] = (),
        interpreters: Iterable[Path] = (),
    ) -> Confined:
        """The process under its policy; `also` are places that the run cannot do without.

        It starts `interpreters`, whatever its own command is: a shell may start uv.

        What may be read and is missing, such as Pythons of uv that were never installed, is left out.
        RyeError `denied_by_policy` for a permission that no tool gets here.
        """
        permissions = rights.permissions
        if permissions.unconfined:
            return Confined(process)
        parts = (os.fspath(each) for each in also if each is not None)
        own = () if private_copy is None else (f"{private_copy}/",)
        needs = Needs(
            _command(process),
            tuple(map(str, interpreters)),
            tuple(each for each in parts if not each.startswith(own)),
        )
        lay_out = partial(self._layout, rights, needs, has_cells=scratch is None)
        layout, others = UNDER_WAY.beside(lay_out)
        missing = None if layout.missing is None else layout.missing.beside(others)
        copy = _text_of(private_copy or scratch)
        facts = replace(layout.facts, scratch=copy)
        policy = layout.policy if copy is None else with_private_copy(layout.policy, copy)
        process = _placed(process, layout.is_shown, (facts.home, *(() if copy is None else (copy,))))
        variables = dict(_variables(process.env, facts, scratch, permissions.uses)) | dict(layout.variables)
        call = replace(process.call, policy=policy, env={**process.call.env, **variables})
        return Confined(Halves(process.runtime, call), policy, variables, facts, missing)

    def _layout(self, rights: Rights, needs: Needs, *, has_cells: bool) -> _Layout:
        lay_out = partial(self._lay_out, rights, needs, has_cells=has_cells)
        if rights.permissions.uses & _MADE:
            return lay_out()
        return self._layouts.value((rights, needs, has_cells), lay_out)

    def _lay_out(self, rights: Rights, needs: Needs, *, has_cells: bool) -> _Layout:
        """Look up where everything is; each look is noted."""
        permissions = rights.permissions
        hidden = self.hidden(rights.hide)
        repository = self._repository() if permissions.project is Access.WRITE else None
        around = Around() if repository is None else self._surroundings.look(repository)
        search = self._search_path() if rights.by_agent else None
        known = Facts(
            home=self._home,
            project=self._project,
            run=parts_of(needs, home=self._home, project=self._project, hidden=hidden, search=search),
            has_cells=has_cells,
            kept=self._kept(rights),
            hidden=hidden,
            limits=rights.limits,
        )
        found = Found() if repository is None else find(repository, around)
        facts = self._with_uses(known, permissions, found)
        planned = plan(permissions, facts, item_id=rights.item_id)
        policy, shown, protected = _on_this_machine(planned.policy, has_cells=has_cells)
        missing = self._missing(permissions, protected, repository, around)
        is_shown = below_any((*shown, *SYSTEM))
        directories = {*facts.git_directories, *(() if repository is None else repository.directories)}
        is_noted = len(directories) <= 1 and (repository is None or around.is_noted)
        is_noted = is_noted and _tell_of(planned.policy)
        return _Layout(facts, policy, planned.variables, is_shown, missing, is_noted)

    def _with_uses(self, known: Facts, permissions: Permissions, found: Found) -> Facts:
        """Add the places that `uses` opens or protects."""
        uses = permissions.uses
        plain, linked = self._git_configuration() if "git" in uses else ((), ())
        return replace(
            known,
            trash=self._trash() if "trash" in uses else None,
            git_directories=self._git(self._top()) if "git" in uses else (),
            repositories=found.repositories,
            guarded=found.guarded,
            packages=found.packages,
            git_configuration=plain,
            git_links=linked,
            ssh_agent=self._ssh_agent() if "ssh-agent" in uses else None,
            gpu_devices=_devices() if "gpu" in uses else (),
        )

    def _repository(self) -> Repository | None:
        """Return git's view of the project; None without a project."""
        if self._project is None:
            return None
        top = self._top()
        named = (self._environment.get(name, "") for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"))
        plain, linked = self._git_configuration()
        files = (
            each if each.endswith("config") else f"{each}/config"
            for each in (*plain, *(path for path, _ in linked))
        )
        configuration = (*files, *(each for each in named if each.startswith("/")), "/etc/gitconfig")
        return Repository(self._project, top or self._project, self._git(top), configuration)

    def _missing(
        self,
        permissions: Permissions,
        protected: Mapping[str, bool | None],
        repository: Repository | None,
        around: Around,
    ) -> Missing | None:
        """Return the names that the run must not make; None where it can make no file that others trust."""
        if repository is None:
            return Missing.among(protected, self._trash_place()) if protected else None
        dotenv = f"{self._project}/{DOTENV}"
        with_packages = "packages" not in permissions.uses

        def watched(now: Around) -> tuple[str, ...]:
            return (*now.nested, *(now.packages if with_packages else ()))

        return Missing.among(
            {**protected, dotenv: present((dotenv,)).get(dotenv)},
            self._trash_place(),
            look=lambda: watched(self._surroundings.look(repository)),
            known=watched(around),
            watched=(repository.project, with_packages),
        )

    def _search_path(self) -> tuple[str, ...]:
        """Return where an agent's tool may have its program: it may see only what the server itself finds."""
        entries = self._environment.get("PATH", os.defpath).split(os.pathsep)
        return tuple(each for each in entries if each.startswith("/"))

    def _kept(self, rights: Rights) -> str | None:
        """A directory of this tool alone, and of whoever signed it; made when it is used."""
        used = rights.permissions.uses & {"cache", "temp"}
        if not used:
            return None
        place = self._place_of(rights)
        for name in sorted(used):
            whole_files.make_directory(place / name, mode=_PRIVATE)
        return str(place)

    def _place_of(self, rights: Rights) -> Path:
        known = "\0".join((rights.item_id, *rights.owner)).encode("utf-8", "surrogateescape")
        return Path(self._cache, *KEPT_BY_TOOLS, hashlib.sha256(known).hexdigest()[:32])

    def _trash_place(self) -> str:
        named = self._environment.get("XDG_STATE_HOME", "")
        state = named if named.startswith("/") else f"{self._home}/.local/state"
        note_links((state,))
        return f"{os.path.realpath(state)}/rye/trash"

    def _trash(self) -> str:
        place = Path(self._trash_place())
        for directory in (place.parent, place):
            whole_files.make_directory(directory, mode=_PRIVATE)
        return str(place)

    def _top(self) -> str | None:
        """Return the project, or the nearest directory above it, that has a `.git`."""
        around = () if self._project is None else upwards(self._project)
        return next((each for each in around if _is_there(f"{each}/.git")), None)

    def _git(self, top: str | None) -> tuple[str, ...]:
        return () if top is None else tuple(map(str, git_directories(Path(top))))

    def _git_configuration(self) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        """The files and directories that are where git looks for them, and those that links lead to."""
        named = self._environment.get("XDG_CONFIG_HOME", "")
        config = named if named.startswith("/") else f"{self._home}/.config"
        usual = (f"{self._home}/.gitconfig", f"{config}/git")
        note_links(usual)
        found = [each for each in usual if os.path.exists(each)]  # noqa: PTH110
        pairs = [(each, os.path.realpath(each)) for each in found]
        return tuple(each for each, real in pairs if each == real), tuple(
            pair for pair in pairs if pair[0] != pair[1]
        )

    def _ssh_agent(self) -> str | None:
        named = self._environment.get("SSH_AUTH_SOCK", "")
        return os.path.realpath(named) if named.startswith("/") and os.path.exists(named) else None  # noqa: PTH110


def _command(process: Halves) -> str:
    """Where the program is; nothing where it is not found."""
    command = process.runtime.command
    if "/" in command:
        return command
    return shutil.which(command, path=process.runtime.search_path or process.env.get("PATH")) or ""


def _behind_links(masked: Iterable[str], shown: Iterable[str]) -> Iterator[str]:
    """Yield masked paths; of a link, what it leads to, unless that is nothing or all that a tool sees."""
    for path in masked:
        if not os.path.islink(path):  # noqa: PTH114
            yield path
            continue
        note_links((path,))
        if os.path.lexists(real := os.path.realpath(path)) and not holds_any(real, shown):
            yield real


def _tell_of(policy: Policy) -> bool:
    """Whether a name that appears where one is protected or hidden shows in the stamp of its directory."""
    above = dict.fromkeys(os.path.dirname(each) for each in (*policy.protect, *policy.mask))  # noqa: PTH120
    return tell_changes([(each, stamp_of(each)) for each in above])


@lru_cache(maxsize=1)
def _devices() -> tuple[str, ...]:
    return tuple(sorted(path for pattern in _GRAPHICS for path in glob.glob(pattern)))  # noqa: PTH207


def _placed(process: Halves, is_shown: Callable[[str], bool], own: Iterable[str]) -> Halves:
    """The process in a directory that it can see: in its own, or else in `/`."""
    runtime, call = process
    home, *copies = own
    is_copy = below_any(copies)

    def is_seen(directory: str) -> bool:
        return directory == home or is_shown(directory) or is_copy(directory)

    env = call.env
    named = env.get(WORKING_DIRECTORY)
    if named is not None and not is_seen(os.path.realpath(named)):
        env = {name: text for name, text in env.items() if name != WORKING_DIRECTORY}
    cwd = os.path.realpath(call.cwd or os.sep)
    return Halves(runtime, replace(call, cwd=cwd if is_seen(cwd) else os.sep, env=env))


def _variables(
    variables: Mapping[str, str], facts: Facts, scratch: Path | None, uses: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Variables that name what a confined program has in another place; `scratch` is its home in walls."""
    if scratch is not None:
        home = str(scratch)
        yield "HOME", home
        temporary = f"{facts.kept}/temp" if "temp" in uses else home
        yield from ((name, temporary) for name in {"TMPDIR", *(variables.keys() & {*_TEMPORARY})})
        yield "XDG_CACHE_HOME", f"{facts.kept}/cache" if "cache" in uses else f"{home}/.cache"
        return
    if variables.get("HOME", facts.home) != facts.home:
        yield "HOME", facts.home
    if "XDG_CACHE_HOME" in variables:
        yield "XDG_CACHE_HOME", f"{facts.home}/.cache"
    yield from ((name, "/tmp") for name in _TEMPORARY if name in variables)  # noqa: S108 - the cell's own


def _is_there(path: str) -> bool:
    note_way(lambda: (path,))
    return os.path.lexists(path)


def _text_of(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _on_this_machine(
    planned: Policy, *, has_cells: bool
) -> tuple[Policy, tuple[str, ...], dict[str, bool | None]]:
    """Return the policy without missing paths and links, what it shows, and what it protects.

    Each protected path comes with whether it is a link, or None if it is missing. Walls say that they protect
    and mask nothing by what they are asked for.
    """
    note_names((*planned.protect, *planned.mask))
    read = [each for each in planned.read if _is_there(each)]
    shown = (*read, *planned.write, *(bind.target for bind in planned.binds))
    protected, links = _protected_of(planned)
    masked = dict.fromkeys(_behind_links(planned.mask, shown))
    there = present(masked) if has_cells else masked
    policy = replace(
        planned,
        read=read,
        protect=[
            each
            for each, is_link in protected.items()
            if each not in links and not (has_cells and is_link is None)
        ],
        mask=list(there),
    )
    return policy, shown, protected


def _protected_of(planned: Policy) -> tuple[dict[str, bool | None], set[str]]:
    """The protected paths with what links among them lead to, and the links.

    The kernel makes the target of a link read-only in place of the link.
    """
    there = present(planned.protect)
    targets = {path: os.path.realpath(path) for path, is_link in there.items() if is_link}
    note_links(targets)
    note_names(targets.values())
    links = {*targets, *(real for real in targets.values() if os.path.islink(real))}  # noqa: PTH114
    pairs = ((path, targets[path]) if path in targets else (path,) for path in planned.protect)
    there |= present(path for path in targets.values() if path not in there)
    return {each: there.get(each) for pair in pairs for each in pair}, links


@dataclass(frozen=True, slots=True)
class Bounds:
    """The confinement of a program that a primitive of this process starts, and that may outlive its call.

    Calls with equal bounds may share a program: the servers of `rye mcp` do.
    """

    rights: Rights
    confinement: Confinement = field(compare=False, repr=False)
    directories: Directories = field(compare=False, repr=False)

    def shared(self) -> Self:
        """The bounds of a program that all items in a directory share, with the files that it keeps."""
        directory = str(PurePosixPath(self.rights.item_id).parent)
        return replace(self, rights=replace(self.rights, item_id=directory))

    async def around(self, process: Halves) -> Confined:
        """The process under its policy; RyeError `denied_by_policy` for what no program gets here."""
        facts = await self.confinement.facts()
        confine = partial(self.confinement.confine_lasting, self.rights, process, facts)
        return await off_loop(confine)
