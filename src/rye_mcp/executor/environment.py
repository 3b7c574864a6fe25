"""The environment of a tool: the resolved one, and nothing else.

1. The environment of the server, without what is withheld (`rye_mcp.executor.variable_names`).
2. `.env` of a project that the person has approved, filtered.
3. The `env_config` of each element, from the primitive to the tool; later ones override.
4. The paths of an anchor, and what every tool is told: `RYE_PROJECT_PATH`, `RYE_TOOL_SOURCE` and
   `RYE_RESULT_FD`.

Rules:

- What looks like a secret, and what decides which code is loaded, is withheld, and named in a notice; its
  value is in nothing that comes out of here. A tool gets it when `permissions.env` names it in an element of
  its chain that a person or the system vouches for: what an agent signs asks for nothing. `RYE_*` of the
  server is never passed on.
- A project's interpreter, its `.env` and its directories on the PATH are used only as
  `rye_mcp.executor.project_parts` allows. What was left out for that is a notice with the command that
  changes it. An interpreter that is found in a project all the same is refused.
- PATH keeps no entry that is no absolute path; a variable of paths gets no empty one, which would be the
  working directory.
- An environment is kept as long as everything that it came from is the same, which each call looks at again.
  Where a version manager had to be asked nothing is kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from lilux import _templates
from lilux.primitives.errors import ConfigurationError
from lilux.runtime.env_resolver import EnvResolver, Resolution
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain import ChainElement
from rye_mcp.executor.project_parts import DOTENV, USUAL_VENV, ProjectParts
from rye_mcp.executor.variable_names import holds_password, is_private, is_withheld, looks_secret
from rye_mcp.items import printable
from rye_mcp.notices import Notice
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.verify import Trust, VerifiedItem

if TYPE_CHECKING:
    from rye_mcp.executor.anchor import Anchor, EnvPaths
    from rye_mcp.executor.chain_validator import ValidChain

__all__ = ["RESULT_DESCRIPTOR", "Environment", "EnvironmentResolver", "Paths", "SnapshotPlaces"]

RESULT_DESCRIPTOR: Final = 3
"""Where a tool can write its result; the value of `RYE_RESULT_FD`."""

_MAX_KEPT = 256
_APPROVE = "rye trust project"
_GRANTING: Final = frozenset({SignerKind.PERSON, SignerKind.SYSTEM})


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


@dataclass(frozen=True, slots=True)
class Paths:
    """Where everything is, for one call; the spaces are the directories that hold `tools/`."""

    project: Path | None
    user_space: Path
    system_space: Path
    tool_source: Path
    snapshot: SnapshotPlaces

    def named(self) -> dict[str, str]:
        """What templates call these places; empty for what there is not."""
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
    """The variables of a run. `withheld` are the names of what the server has and the tool does not get;
    `project_used` says that something unsigned of the project is in use.
    """

    variables: Mapping[str, str] = field(repr=False)
    withheld: tuple[str, ...] = ()
    project_used: bool = False
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class _Basis:
    """What an environment was resolved from, apart from what each interpreter search looks at."""

    project: ProjectParts | None
    approved: bool
    dotenv: Mapping[str, str]
    refused_names: tuple[str, ...]
    refused_venvs: Mapping[Path, str]


@dataclass(frozen=True, slots=True)
class _Kept:
    basis: _Basis
    environment: Environment
    resolutions: tuple[Resolution, ...]

    def is_current(self, basis: _Basis) -> bool:
        return self.basis == basis and all(each.is_current() for each in self.resolutions)


class EnvironmentResolver:
    """Resolves the environments of chains, for one user in one project or in none.

    `base` is the environment of the server, as it is now; by default that of this process.
    """

    def __init__(self, trust: Trust, base: Mapping[str, str] | None = None) -> None:
        self._trust = trust
        self._passed, self._withheld = _split(os.environ if base is None else base)
        self._projects: dict[Path, ProjectParts] = {}
        self._kept: dict[tuple[object, ...], _Kept] = {}

    async def resolve(self, valid: ValidChain, paths: Paths, anchor: Anchor | None) -> Environment:
        """The environment of one run."""
        elements, items = valid.verified.chain.elements, valid.verified.items
        permitted, notices = _permissions(elements, items)
        basis = self._basis(elements, paths.project)
        key = (paths.project, permitted, *((item.file.item_id, item.digest) for item in items))
        kept = self._kept.get(key)
        if kept is None or not kept.is_current(basis):
            kept = await self._resolved(elements, basis, permitted)
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            self._kept[key] = kept
        found = kept.environment
        variables = {**found.variables}
        if anchor is not None:
            _add_paths(variables, anchor.env_paths, paths.named(), elements[0])
        _tell(variables, paths)
        return Environment(
            MappingProxyType(variables), found.withheld, found.project_used, (*notices, *found.notices)
        )

    def _basis(self, elements: Sequence[ChainElement], project: Path | None) -> _Basis:
        parts = self._parts(project)
        if parts is None or not parts.is_approved():
            return _Basis(parts, approved=False, dotenv={}, refused_names=(), refused_venvs={})
        dotenv = parts.dotenv()
        venvs = {*_venvs(elements, parts), *self._venvs_on_path(parts)}
        refused = {venv: reason for venv in venvs if (reason := parts.why_no_venv(venv)) is not None}
        return _Basis(
            parts, approved=True, dotenv=dotenv.kept, refused_names=dotenv.refused, refused_venvs=refused
        )

    def _parts(self, project: Path | None) -> ProjectParts | None:
        if project is None or self._trust.approvals is None:
            return None
        parts = self._projects.get(project)
        if parts is None:
            parts = self._projects[project] = ProjectParts(project, self._trust.approvals)
        return parts

    def _venvs_on_path(self, parts: ProjectParts) -> Iterator[Path]:
        venv = parts.root / USUAL_VENV
        if str(venv) in self._passed.get("PATH", ""):
            yield venv

    async def _resolved(
        self, elements: Sequence[ChainElement], basis: _Basis, permitted: frozenset[str]
    ) -> _Kept:
        draft = _Draft(basis)
        variables = self._base(draft, permitted)
        resolutions = []
        for element in reversed(elements):
            if element.metadata.env_config is not None:
                resolution = await draft.apply(element, variables)
                variables = resolution.variables
                resolutions.append(resolution)
        withheld = tuple(sorted({*self._withheld, *draft.withheld} - permitted))
        environment = Environment(
            variables, withheld, draft.project_used, (*_withheld_notice(withheld), *draft.notices())
        )
        return _Kept(basis, environment, tuple(resolutions))

    def _base(self, draft: _Draft, permitted: frozenset[str]) -> dict[str, str]:
        """Steps 1 and 2."""
        variables = {**self._passed}
        variables.update((name, self._withheld[name]) for name in permitted & self._withheld.keys())
        _set_paths(variables, "PATH", draft.search_path(variables.get("PATH", "")))
        variables.update(draft.from_dotenv(permitted))
        return variables


class _Draft:
    """An environment that is being resolved, and what was noticed on the way."""

    def __init__(self, basis: _Basis) -> None:
        self._basis = basis
        self._parts = basis.project
        self._left_out: list[str] = []
        self._venvs_left_out: dict[Path, str] = {}
        self.withheld: set[str] = set()
        self.project_used = False

    def from_dotenv(self, permitted: frozenset[str]) -> dict[str, str]:
        """What `.env` may set."""
        if self._parts is not None and not self._basis.approved and self._parts.has_dotenv():
            self._left_out.append(DOTENV)
        secret = {
            name for name, value in self._basis.dotenv.items() if looks_secret(name) or holds_password(value)
        }
        self.withheld = secret - permitted
        kept = {name: text for name, text in self._basis.dotenv.items() if name not in self.withheld}
        self.project_used |= bool(kept)
        return kept

    def search_path(self, path: str) -> list[str]:
        """A PATH without what is no absolute path, and without what of the project may not be used."""
        return [entry for entry in path.split(os.pathsep) if self._is_usable(entry)]

    async def apply(self, element: ChainElement, variables: Mapping[str, str]) -> Resolution:
        """Step 3, for one element."""
        project = self._project_for(element)
        try:
            resolution = await EnvResolver().trace_async(
                element.metadata.env_config,
                include_dotenv=False,
                context={"project_path": project},
                base_env=variables,
            )
        except ConfigurationError as exc:
            raise RyeError(
                "invalid_item",
                f"expected an env_config that can be resolved in {element.item_id}, found: {exc.message}",
                where=element.path,
                item_id=element.item_id,
                field=exc.field,
            ) from exc
        self._check_interpreter(element, resolution.interpreter, allowed=project is not None)
        return resolution

    def notices(self) -> Iterator[Notice]:
        """What was left out of the project."""
        if self._left_out:
            named = " and ".join(dict.fromkeys(self._left_out))
            yield Notice(
                "project_not_approved",
                f"{named} of this project is not used: you have not approved it: {_APPROVE}",
            )
        for venv, reason in self._venvs_left_out.items():
            yield Notice("venv_not_used", f"{printable(venv)} is not used: {printable(reason)}")
        if self._basis.refused_names:
            named = ", ".join(self._basis.refused_names)
            yield Notice("dotenv_refused", f"a {DOTENV} may not set {named}")

    def _project_for(self, element: ChainElement) -> Path | None:
        """The project, when the interpreter of an element may come from it."""
        parts, interpreter = self._parts, _interpreter(element)
        if parts is None or interpreter is None:
            return None
        venv = _venv(interpreter, parts)
        if not self._basis.approved:
            if _is_there(interpreter, venv, parts):
                self._left_out.append(_shown(venv or parts.root / "node_modules", parts))
            return None
        reason = None if venv is None else self._basis.refused_venvs.get(venv)
        if venv is not None and reason is not None:
            if venv.exists():
                self._venvs_left_out[venv] = reason
            return None
        return parts.root

    def _check_interpreter(self, element: ChainElement, found: Path | None, *, allowed: bool) -> None:
        if found is None or self._parts is None or not self._parts.holds(found.parent):
            return
        if not allowed:
            raise RyeError(
                "invalid_item",
                f"expected an interpreter outside the project for {element.item_id}, "
                f"found {printable(found)}",
                where=element.path,
                hint=_APPROVE,
                item_id=element.item_id,
            )
        self.project_used = True

    def _is_usable(self, entry: str) -> bool:
        if not entry.startswith("/"):
            return False
        if self._parts is None or not self._parts.holds(entry):
            return True
        if not self._basis.approved:
            self._left_out.append(f"{printable(entry)} on the PATH")
            return False
        refused = [venv for venv in self._basis.refused_venvs if Path(entry).is_relative_to(venv)]
        self._venvs_left_out.update((venv, self._basis.refused_venvs[venv]) for venv in refused)
        return not refused


# --- what an element says ---


def _permissions(
    elements: Iterable[ChainElement], items: Iterable[VerifiedItem]
) -> tuple[frozenset[str], list[Notice]]:
    """The names that may be passed on, and whose wish for some counts for nothing."""
    permitted: set[str] = set()
    notices = []
    for element, item in zip(elements, items, strict=True):
        names = element.metadata.permitted_env
        if not names:
            continue
        if item.signer.kind in _GRANTING:
            permitted.update(name for name in names if not is_private(name))
        else:
            message = (
                f"{element.item_id} asks for {', '.join(names)}, and only an agent signed it; "
                f"a person who has read it signs it with: rye sign {element.item_id}"
            )
            notices.append(Notice("permissions_ignored", message))
    return frozenset(permitted), notices


def _interpreter(element: ChainElement) -> Mapping[str, Any] | None:
    found = (element.metadata.env_config or {}).get("interpreter")
    return found if isinstance(found, Mapping) else None


def _venv(interpreter: Mapping[str, Any], parts: ProjectParts) -> Path | None:
    """Where in the project a virtual environment is looked for; None when it is looked for nowhere there."""
    if interpreter.get("type") != "venv_python" or "project" not in interpreter.get("search", ("project",)):
        return None
    name = interpreter.get("venv_path", USUAL_VENV)
    if not isinstance(name, str) or "\0" in name:
        return None  # which the resolver refuses
    return parts.venv(name)


def _venvs(elements: Iterable[ChainElement], parts: ProjectParts) -> Iterator[Path]:
    for element in elements:
        interpreter = _interpreter(element)
        if interpreter is not None and (venv := _venv(interpreter, parts)) is not None:
            yield venv


def _is_there(interpreter: Mapping[str, Any], venv: Path | None, parts: ProjectParts) -> bool:
    """Whether the project has what an interpreter would be looked for in."""
    if venv is not None:
        return os.path.lexists(venv)
    return interpreter.get("type") == "node_modules" and os.path.lexists(
        parts.root / "node_modules/.bin/node"
    )


def _shown(path: Path, parts: ProjectParts) -> str:
    return printable(path.relative_to(parts.root) if path.is_relative_to(parts.root) else path)


# --- variables ---


def _split(base: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What every tool gets of the server's environment, and what none gets unless it was signed to."""
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
        yield Notice(
            "variables_withheld",
            f"{', '.join(map(printable, withheld))}: withheld, as they look like secrets or decide which "
            "code is loaded; a tool gets them when a person signs it with their names in permissions.env",
        )


def _tell(variables: dict[str, str], paths: Paths) -> None:
    """What every tool is told, whatever its chain says."""
    variables["RYE_TOOL_SOURCE"] = str(paths.tool_source)
    variables["RYE_RESULT_FD"] = str(RESULT_DESCRIPTOR)
    variables.pop("RYE_PROJECT_PATH", None)
    if paths.project is not None:
        variables["RYE_PROJECT_PATH"] = str(paths.project)


def _add_paths(
    variables: dict[str, str],
    env_paths: Mapping[str, EnvPaths],
    places: Mapping[str, str],
    root: ChainElement,
) -> None:
    """Put the paths of an anchor before and after what variables hold."""
    for name, paths in env_paths.items():
        own = variables.get(name, "").split(os.pathsep)
        before = [_path(text, name, variables, places, root) for text in paths.prepend]
        after = [_path(text, name, variables, places, root) for text in paths.append]
        _set_paths(variables, name, [*before, *own, *after])


def _set_paths(variables: dict[str, str], name: str, paths: Iterable[str]) -> None:
    """Set a variable of paths, each once; one without any is not set, as that would be an empty path."""
    kept = dict.fromkeys(path for path in paths if path)
    if kept:
        variables[name] = os.pathsep.join(kept)
    else:
        variables.pop(name, None)


def _path(
    template: str, name: str, variables: Mapping[str, str], places: Mapping[str, str], root: ChainElement
) -> str:
    """One path, absolute; empty when the place that it begins with is not there."""
    for placeholder in _templates.placeholders(template):
        if isinstance(placeholder, _templates.Parameter) and places.get(placeholder.name) == "":
            return ""
    path = _templates.render(template, variables, places)
    if path.startswith("/") and os.pathsep not in path and "\0" not in path:
        return path
    raise RyeError(
        "invalid_item",
        f"expected an absolute path without {os.pathsep} from {template!r} in anchor.env_paths.{name}, "
        f"found {printable(path)!r}",
        where=root.path,
        item_id=root.item_id,
        field=f"anchor.env_paths.{name}",
    )
