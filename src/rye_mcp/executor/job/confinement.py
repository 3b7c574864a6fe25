"""The confinement of a program: from the permissions of a call to the policy for the supervisor.

It looks up where things are on this machine, again for each run where that may change. The supervisor checks
once more that a path is the same when it opens it.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, Self

from lilux import _files as whole_files
from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import Facts as MachineFacts
from lilux.primitives.subprocess import Halves, Limits, Policy, SubprocessPrimitive
from rye_mcp.apart import off_loop, on_loop
from rye_mcp.executor.job.guarded import Around, Found, Repository, Surroundings, find
from rye_mcp.executor.job.planted import Missing, present
from rye_mcp.executor.job.starting import WORKING_DIRECTORY
from rye_mcp.other_users import upwards
from rye_mcp.permissions import CLOSED, CREDENTIALS, Access, Permissions, below_any
from rye_mcp.permissions.planning import DOTENV, Facts, plan
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

_SYSTEM: Final = ("/usr", "/etc", "/opt", "/nix", "/snap", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
"""Directories that every policy shows anyway."""

_is_of_system: Final = below_any(_SYSTEM)

_TEMPORARY: Final = ("TMPDIR", "TMP", "TEMP", "TEMPDIR")
_GRAPHICS: Final = ("/dev/dri/renderD*", "/dev/nvidia*", "/dev/kfd")
_PRIVATE: Final = 0o700


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
        own = (os.path.realpath(spaces.user.root), self._state, f"{self._cache}/rye")
        # A link to such a place may lead into what a tool sees: a project with all settings of a person.
        theirs = (_expanded(each, self._home) for each in (*CLOSED, *CREDENTIALS))
        self._hidden = tuple(dict.fromkeys((*own, *theirs)))

    def hidden(self, hide: Iterable[str]) -> tuple[str, ...]:
        """The paths that no tool sees, with those that the user's policy hides."""
        return (*self._hidden, *(_expanded(each, self._home) for each in hide))

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
        hidden = self.hidden(rights.hide)
        repository = self._repository() if permissions.project is Access.WRITE else None
        around = Around() if repository is None else self._surroundings.look(repository)
        known = Facts(
            home=self._home,
            project=self._project,
            run=self._parts(_command(process), rights, also, tuple(map(str, interpreters)), hidden),
            scratch=_text_of(private_copy or scratch),
            has_cells=scratch is None,
            kept=self._kept(rights),
            hidden=hidden,
            limits=rights.limits,
        )
        facts = self._with_uses(
            known, permissions, Found() if repository is None else find(repository, around)
        )
        planned = plan(permissions, facts, item_id=rights.item_id)
        if planned is None:
            return Confined(process)
        policy, shown, protected = _on_this_machine(planned.policy)
        process = _placed(process, shown, facts.home)
        variables = dict(_variables(process.env, facts, scratch, permissions.uses)) | dict(planned.variables)
        call = replace(process.call, policy=policy, env={**process.call.env, **variables})
        missing = self._missing(permissions, protected, repository, around)
        return Confined(Halves(process.runtime, call), policy, variables, facts, missing)

    def _parts(
        self,
        command: str,
        rights: Rights,
        also: Iterable[Path | None],
        interpreters: tuple[str, ...],
        hidden: tuple[str, ...],
    ) -> tuple[str, ...]:
        """Return the parts of the run outside of the system: its programs, and what else it needs."""
        found = {os.path.realpath(each) for each in also if each is not None}
        found.update(self._programs(command, interpreters, rights, hidden))
        outside = [each for each in found if not _is_of_system(each)]
        if not outside:
            return ()
        # A part may be seen if no tool is kept from it, or from anything in it.
        is_closed, kept = below_any((*hidden, *_closed_in(self._home))), (self._home, *hidden)
        return tuple(sorted(each for each in outside if not is_closed(each) and not _holds_any(each, kept)))

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
        )

    def _programs(
        self, command: str, interpreters: tuple[str, ...], rights: Rights, hidden: tuple[str, ...]
    ) -> Iterator[str]:
        """Yield the parts of the programs that are not a part of the system.

        An agent's tool can name any file as its program: it may see only what the server itself finds as one.
        """
        never = (self._home, *hidden, *([] if self._project is None else [self._project]))
        for each in dict.fromkeys((command, *interpreters)):
            is_known = each in interpreters or not rights.by_agent or self._is_on_path(each)
            if each.startswith("/") and is_known:
                yield from _parts_of(each, os.path.realpath(each), never)

    def _is_on_path(self, program: str) -> bool:
        entries = self._environment.get("PATH", os.defpath).split(os.pathsep)
        places = {os.path.realpath(each) for each in entries if each.startswith("/")}
        return program.rpartition("/")[0] in places

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
        return f"{os.path.realpath(state)}/rye/trash"

    def _trash(self) -> str:
        place = Path(self._trash_place())
        for directory in (place.parent, place):
            whole_files.make_directory(directory, mode=_PRIVATE)
        return str(place)

    def _top(self) -> str | None:
        """Return the project, or the nearest directory above it, that has a `.git`."""
        around = () if self._project is None else upwards(self._project)
        return next((each for each in around if os.path.lexists(f"{each}/.git")), None)

    def _git(self, top: str | None) -> tuple[str, ...]:
        return () if top is None else tuple(map(str, git_directories(Path(top))))

    def _git_configuration(self) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        """The files and directories that are where git looks for them, and those that links lead to."""
        named = self._environment.get("XDG_CONFIG_HOME", "")
        config = named if named.startswith("/") else f"{self._home}/.config"
        found = [each for each in (f"{self._home}/.gitconfig", f"{config}/git") if os.path.exists(each)]  # noqa: PTH110
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


def _expanded(path: str, home: str) -> str:
    return os.path.realpath(f"{home}{path[1:]}" if path.startswith("~") else path)


def _closed_in(home: str) -> Iterator[str]:
    """Yield the real paths of what is closed to every tool; what is above several is looked at once."""
    known = {home: os.path.realpath(home)}
    yield from (_real(f"{home}{each[1:]}", known) for each in (*CLOSED, *CREDENTIALS))


def _real(path: str, known: dict[str, str]) -> str:
    """Return the real path of a path below a known one, and make it known."""
    if path not in known:
        directory, _, name = path.rpartition("/")
        place = f"{_real(directory, known).rstrip('/')}/{name}"
        known[path] = os.path.realpath(place) if os.path.islink(place) else place  # noqa: PTH114
    return known[path]


@lru_cache(maxsize=256)
def _parts_of(command: str, real: str, never: tuple[str, ...]) -> tuple[str, ...]:
    """The places of a program: its file, the prefix around it, and the virtual environment it belongs to.

    A prefix that contains a home, a project or a hidden place does not count: then only the file can be read.
    """
    found = {real} if _is_program(real) else set()
    venv = os.path.dirname(os.path.dirname(command))  # noqa: PTH120
    if (home := _home_of_venv(venv)) is not None:
        found |= {os.path.realpath(venv)}
        base = os.path.realpath(f"{home}/{os.path.basename(real)}")  # noqa: PTH119
        found |= {os.path.realpath(home), *_prefix_of(base, never)} if _is_program(base) else set()
    elif command != real:
        beside = os.path.realpath(os.path.dirname(command))  # noqa: PTH120
        found |= set() if _holds_any(beside, never) else {beside}
    found |= _prefix_of(real, never)
    return tuple(sorted(each for each in found if os.path.lexists(each)))


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113


def _prefix_of(real: str, never: tuple[str, ...]) -> set[str]:
    """The directory that an interpreter is installed in, with its library."""
    programs, prefix = os.path.dirname(real), os.path.dirname(os.path.dirname(real))  # noqa: PTH120
    is_prefix = os.path.basename(programs) == "bin" and os.path.isdir(f"{prefix}/lib")  # noqa: PTH112, PTH119
    return {prefix} if is_prefix and not _holds_any(prefix, never) else set()


def _behind_links(masked: Iterable[str], shown: Iterable[str]) -> Iterator[str]:
    """Yield masked paths; of a link, what it leads to, unless that is nothing or all that a tool sees."""
    for path in masked:
        if not os.path.islink(path):  # noqa: PTH114
            yield path
        elif os.path.lexists(real := os.path.realpath(path)) and not _holds_any(real, shown):
            yield real


def _holds_any(place: str, others: Iterable[str]) -> bool:
    return place == os.sep or any(map(below_any((place,)), others))


def _home_of_venv(venv: str) -> str | None:
    """The Python behind a virtual environment; None for any other directory."""
    try:
        lines = Path(venv, "pyvenv.cfg").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    values = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}
    return values.get("home") if values.get("home", "").startswith("/") else None


@lru_cache(maxsize=1)
def _devices() -> tuple[str, ...]:
    return tuple(sorted(path for pattern in _GRAPHICS for path in glob.glob(pattern)))  # noqa: PTH207


def _placed(process: Halves, shown: Iterable[str], home: str) -> Halves:
    """The process in a directory that it can see: in its own, or else in `/`."""
    runtime, call = process
    is_shown = below_any((*shown, *_SYSTEM))

    def is_seen(directory: str) -> bool:
        return directory == home or is_shown(directory)

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


def _text_of(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _on_this_machine(planned: Policy) -> tuple[Policy, tuple[str, ...], dict[str, bool | None]]:
    """Return the policy without missing paths and links, what it shows, and what it protects.

    Each protected path comes with whether it is a link, or None if it is missing.
    """
    read = [each for each in planned.read if os.path.lexists(each)]
    shown = (*read, *planned.write, *(bind.target for bind in planned.binds))
    protected, links = _protected_of(planned)
    policy = replace(
        planned,
        read=read,
        protect=[each for each in protected if each not in links],
        mask=list(dict.fromkeys(_behind_links(planned.mask, shown))),
    )
    return policy, shown, protected


def _protected_of(planned: Policy) -> tuple[dict[str, bool | None], set[str]]:
    """The protected paths with what links among them lead to, and the links.

    The kernel makes the target of a link read-only in place of the link.
    """
    there = present(planned.protect)
    targets = {path: os.path.realpath(path) for path, is_link in there.items() if is_link}
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
