"""The environment of a tool, and where it comes from.

It is cached as long as everything that it came from is the same; each call looks at that again (`look`),
beside the event loop. The rules are in `docs/architecture/execution.md`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from lilux._dataclasses import dataclass
from lilux.runtime.env_resolver import Resolution
from rye_mcp.apart import on_loop
from rye_mcp.executor.caller import TRACE_VARIABLES, TraceContext
from rye_mcp.executor.environment.project import ProjectParts
from rye_mcp.executor.environment.unresolved import (
    Basis,
    UnresolvedEnvironment,
    packages_of,
    tracked_node_of,
    unsigned_parts,
    venvs_of,
)
from rye_mcp.executor.environment.variables import (
    add_paths,
    holds_password,
    is_private,
    is_withheld,
    paths_in,
    programs_for_tools,
    refused_paths,
    set_paths,
)
from rye_mcp.items import printable
from rye_mcp.notices import Notice
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.verify import Trust

if TYPE_CHECKING:
    from rye_mcp.executor.chain.anchor import Anchor
    from rye_mcp.executor.chain.files import BundledFile
    from rye_mcp.executor.chain.verifier import VerifiedChain

__all__ = ["RESULT_DESCRIPTOR", "Environment", "EnvironmentResolver", "Paths", "SnapshotPlaces"]

RESULT_DESCRIPTOR: Final = 3
"""Where a tool can write its result; the value of `RYE_RESULT_FD`."""

_WHERE_THINGS_ARE: Final = ("USER_SPACE", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")
_OF_A_CALL: Final = (
    *("RYE_TOOL_SOURCE", "RYE_RESULT_FD", "RYE_CALL_FD", "RYE_OUTPUT_DIR", "RYE_PROJECT_PATH"),
)
_MAX_KEPT = 256
_NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{2,}")


class SnapshotPlaces(Protocol):
    """Where the private copy is that runs."""

    @property
    def tool_path(self) -> Path:
        """The tool itself."""
        ...

    @property
    def tool_dir(self) -> Path:
        """The directory of the tool."""
        ...

    @property
    def anchor_path(self) -> Path | None:
        """The directory that modules are resolved from, with an anchor."""
        ...

    @property
    def runtime_lib(self) -> Path | None:
        """The library of the runtime, when it has one."""
        ...

    @property
    def output_dir(self) -> Path | None:
        """Where a tool can leave files; None for one that has no private copy."""
        ...


@dataclass(frozen=True, slots=True)
class Paths:
    """Where everything is, for one call; the spaces are the directories that hold `tools/`."""

    project: Path | None
    user_space: Path
    system_space: Path
    tool_source: Path
    snapshot: SnapshotPlaces

    def named(self) -> dict[str, str]:
        """The places by their names in templates; empty for a missing one."""
        snapshot = self.snapshot
        places: dict[str, Path | None] = {
            "tool_path": snapshot.tool_path,
            "tool_dir": snapshot.tool_dir,
            "tool_source_path": self.tool_source,
            "project_path": self.project,
            "user_space": self.user_space,
            "system_space": self.system_space,
            "anchor_path": snapshot.anchor_path,
            "runtime_lib": snapshot.runtime_lib,
        }
        return {name: "" if path is None else str(path) for name, path in places.items()}


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables of a run, and `shared`, those that are the same in every run of its chain.

    `withheld` are the names of what the server has and the tool does not get; `project_used` says that
    something unsigned of the project is in use; `packages` is where those are which a program for Node.js may
    import from it. `secrets` are the names of what came from the user's store. `interpreters` are those that
    were found for the chain, except for what an agent signed: its command need not be one, but may start it.
    """

    variables: Mapping[str, str] = field(repr=False)
    shared: Mapping[str, str] = field(repr=False, default_factory=dict)
    withheld: tuple[str, ...] = ()
    project_used: bool = False
    notices: tuple[Notice, ...] = ()
    packages: Path | None = None
    secrets: frozenset[str] = frozenset()
    interpreters: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class _Kept:
    """The variables that every run of a chain gets; `trace` is for runs of a server without a trace."""

    basis: Basis
    environment: Environment
    resolutions: tuple[Resolution, ...]
    trace: Mapping[str, str]

    def is_current(self, basis: Basis) -> bool:
        return self.basis == basis and all(each.is_current() for each in self.resolutions)


class EnvironmentResolver:
    """Resolves the environments of chains, for one user in one project or in none.

    `base` is the environment of the server, as it is now; by default that of this process.
    """

    def __init__(self, trust: Trust, base: Mapping[str, str] | None = None) -> None:
        self._trust = trust
        self._passed, self._withheld = _split(os.environ if base is None else base)
        self._paths = {name: found for name, text in self._passed.items() if (found := paths_in(name, text))}
        self._projects: dict[Path, ProjectParts] = {}
        self._kept: dict[tuple[object, ...], _Kept] = {}
        self._mentioned: dict[tuple[object, ...], tuple[str, ...]] = {}

    async def resolve(
        self,
        verified: VerifiedChain,
        paths: Paths,
        anchor: Anchor | None,
        permitted: frozenset[str] = frozenset(),
        trace: TraceContext | None = None,
        basis: Basis | None = None,
        secrets: Mapping[str, str] = MappingProxyType({}),
    ) -> Environment:
        """The environment of one run; `permitted` are variables that it gets although they look secret.

        `basis` is the result of `look`, done beside the event loop. `secrets` are of the user's
        store: they are in no environment that is kept, and no `env_config` can put them elsewhere.
        """
        elements, items = verified.chain.elements, verified.items
        basis = self.look(verified, paths.project) if basis is None else basis
        key = (paths.project, permitted, *((item.file.item_id, item.digest) for item in items))
        kept = self._kept.get(key)
        if kept is None or not kept.is_current(basis):
            await on_loop()  # which asks version managers
            kept = await self._resolved(verified, basis, permitted)
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            self._kept[key] = kept
        found = kept.environment
        variables = {**found.shared, **(kept.trace if trace is None else trace.variables())}
        if anchor is not None:
            add_paths(variables, anchor.env_paths, paths.named(), elements[0])
        variables |= _told(paths)
        variables |= self._left_out(variables) | dict(secrets)
        withheld = tuple(name for name in found.withheld if name not in secrets)
        missed = _withheld_notice(self._mentioned_by(verified.carried.files, withheld))
        return Environment(
            MappingProxyType(variables),
            found.shared,
            withheld,
            found.project_used,
            (*missed, *found.notices),
            found.packages,
            frozenset(secrets),
            found.interpreters,
        )

    def _mentioned_by(self, files: Sequence[BundledFile], withheld: tuple[str, ...]) -> tuple[str, ...]:
        """Return which of these names stand in the code: it probably reads these variables."""
        if not withheld:
            return ()
        key = (withheld, *(file.digest for file in files))
        found = self._mentioned.get(key)
        if found is None:
            words = {word for file in files for word in _NAME.findall(file.content)}
            found = tuple(name for name in withheld if name.encode() in words)
            if len(self._mentioned) >= _MAX_KEPT:
                self._mentioned.clear()
            self._mentioned[key] = found
        return found

    def _left_out(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Where rye-mcp keeps things for the user, if no variable says it any more: file tools need it."""
        known = {name: self._passed[name] for name in _WHERE_THINGS_ARE if name in self._passed}
        return {f"RYE_{name}": value for name, value in known.items() if variables.get(name) != value}

    def look(self, verified: VerifiedChain, project: Path | None) -> Basis:
        """Look up everything that a chain's environment depends on; others choose how many files that are."""
        elements = verified.chain.elements
        parts, paths = self._parts(project), refused_paths(self._paths_in(project), self._trust.directories)
        if parts is None:
            return Basis(refused_paths=paths)
        if not parts.is_approved():
            unapproved = tuple(unsigned_parts(elements, parts))
            return Basis(parts, unapproved=unapproved, refused_paths=paths)
        dotenv = parts.dotenv()
        venvs = {*venvs_of(elements, parts), *parts.venvs_on_path(self._passed.get("PATH", ""))}
        reasons = {venv: parts.why_no_venv(venv) for venv in venvs if os.path.lexists(venv)}
        refused = {venv: reason for venv, reason in reasons.items() if reason is not None}
        return Basis(
            parts,
            approved=True,
            dotenv=dotenv.kept,
            refused_names=dotenv.refused,
            refused_venvs=refused,
            refused_node=tracked_node_of(elements, parts),
            packages=packages_of(elements, parts),
            refused_paths=paths,
        )

    def _paths_in(self, project: Path | None) -> dict[str, tuple[str, ...]]:
        """Return the paths in each variable of paths, for the tools of a project."""
        entries = self._paths.get("PATH", ())
        return {**self._paths, "PATH": tuple(programs_for_tools(entry, project) for entry in entries)}

    def _parts(self, project: Path | None) -> ProjectParts | None:
        if project is None or self._trust.approvals is None:
            return None
        parts = self._projects.get(project)
        if parts is None:
            parts = self._projects[project] = ProjectParts(project, self._trust.approvals)
        return parts

    async def _resolved(self, verified: VerifiedChain, basis: Basis, permitted: frozenset[str]) -> _Kept:
        system = self._of_server(basis)
        draft = UnresolvedEnvironment(basis, self._trust.directories, system)
        variables = self._base(draft, permitted)
        resolutions, interpreters = [], []
        for element, item in reversed(list(verified.pairs)):
            if element.metadata.env_config is not None:
                resolution = await draft.apply(element, variables)
                variables = resolution.variables
                resolutions.append(resolution)
                if resolution.interpreter is not None and item.signer.kind is not SignerKind.AGENT:
                    interpreters.append(resolution.interpreter)
        withheld = tuple(sorted({*self._withheld, *draft.withheld} - permitted))
        trace: dict[str, str] = {name: variables.pop(name) for name in TRACE_VARIABLES if name in variables}
        for name in _OF_A_CALL:
            variables.pop(name, None)
        environment = Environment(
            {},
            variables,
            withheld,
            draft.project_used,
            tuple(draft.notices()),
            basis.packages,
            interpreters=tuple(interpreters),
        )
        return _Kept(basis, environment, tuple(resolutions), trace)

    def path_of_server(self, basis: Basis) -> str | None:
        """The PATH of a tool whose items leave it as it is."""
        return self._of_server(basis).get("PATH")

    def _of_server(self, basis: Basis) -> dict[str, str]:
        """The variables of the server, without paths that lead where nothing is used."""
        variables = {**self._passed}
        for name, paths in self._paths_in(None if basis.project is None else basis.project.root).items():
            set_paths(variables, name, (path for path in paths if path not in basis.refused_paths))
        return variables

    def _base(self, draft: UnresolvedEnvironment, permitted: frozenset[str]) -> dict[str, str]:
        """Steps 1 and 2."""
        variables = {**self._passed}
        for name, paths in self._paths_in(draft.project).items():
            set_paths(variables, name, draft.usable_paths(name, paths))
        variables.update((name, self._withheld[name]) for name in permitted & self._withheld.keys())
        variables.update(draft.from_dotenv(permitted))
        return variables


# --- variables ---


def _split(base: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split the server's environment: variables for every tool, and those that a signature has to grant."""
    passed: dict[str, str] = {}
    withheld: dict[str, str] = {}
    for name, value in base.items():
        if not name or "=" in name or not _is_text(name) or "\0" in value or is_private(name):
            continue
        (withheld if is_withheld(name) or holds_password(value) else passed)[name] = value
    return passed, withheld


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _withheld_notice(withheld: Sequence[str]) -> Iterator[Notice]:
    if withheld:
        named = ", ".join(map(printable, withheld))
        yield Notice(
            "variables_withheld",
            f"withheld: {named}. The tool mentions what it does not get: such a variable holds a secret, or "
            "decides which code is loaded. A person who wants it to have that writes "
            f"permissions: {{env: [{named}]}} into the tool, and signs it",
        )


def _told(paths: Paths) -> dict[str, str]:
    """Return the variables that tell every tool of its surroundings."""
    told = {"RYE_TOOL_SOURCE": str(paths.tool_source), "RYE_RESULT_FD": str(RESULT_DESCRIPTOR)}
    if paths.snapshot.output_dir is not None:
        told["RYE_OUTPUT_DIR"] = str(paths.snapshot.output_dir)
    return told if paths.project is None else {**told, "RYE_PROJECT_PATH": str(paths.project)}
