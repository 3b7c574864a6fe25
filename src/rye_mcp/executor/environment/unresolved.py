"""One environment while it is resolved: what of the project may be in it, and what was left out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from lilux._dataclasses import dataclass
from lilux.primitives.errors import ConfigurationError
from lilux.runtime.env_resolver import EnvResolver, Resolution
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.executor.environment.project import DOTENV, PACKAGES, USUAL_VENV, ProjectParts
from rye_mcp.executor.environment.variables import holds_password, looks_secret
from rye_mcp.items import printable
from rye_mcp.notices import Notice
from rye_mcp.trust.directories import Directories

__all__ = ["Basis", "UnresolvedEnvironment", "packages_of", "tracked_node_of", "unsigned_parts", "venvs_of"]

_APPROVE: Final = "rye trust project"
_MANAGED: Final = "version_manager"


@dataclass(frozen=True, slots=True)
class Basis:
    """The basis for resolving an environment, apart from the files that a search for an interpreter reads.

    `dotenv` is what `.env` may set, `refused_names` what it may not; `refused_venvs` are environments that
    may not be used, with the reasons, `refused_node` is a Node.js that may not. `packages` are those that a
    chain asks for in an approved project, `unapproved` is what there is in a project that nobody approved.
    `refused_paths` are those of the server's variables that lead where nothing is used, with the reasons.
    """

    project: ProjectParts | None = None
    approved: bool = False
    dotenv: Mapping[str, str] = field(default_factory=dict)
    refused_names: tuple[str, ...] = ()
    refused_venvs: Mapping[Path, str] = field(default_factory=dict)
    refused_node: Path | None = None
    packages: Path | None = None
    unapproved: tuple[str, ...] = ()
    refused_paths: Mapping[str, str] = field(default_factory=dict)


class UnresolvedEnvironment:
    """An environment that is being resolved, and what was noticed on the way."""

    def __init__(self, basis: Basis, directories: Directories, system: Mapping[str, str]) -> None:
        """`system` are the variables of the server, of which no item and no project has a say."""
        self._basis = basis
        self._directories = directories
        self._system = system
        self._parts = basis.project
        self._left_out = [*basis.unapproved]
        self._venvs_left_out: dict[Path, str] = {}
        self._paths_left_out: dict[str, set[str]] = {}
        self._node_left_out: Path | None = None
        self.withheld: set[str] = set()
        self.project_used = basis.packages is not None

    @property
    def project(self) -> Path | None:
        """Where the project is, if there is one."""
        return None if self._parts is None else self._parts.root

    def from_dotenv(self, permitted: frozenset[str]) -> dict[str, str]:
        """Return the variables that `.env` may set."""
        secret = {
            name for name, value in self._basis.dotenv.items() if looks_secret(name) or holds_password(value)
        }
        self.withheld = secret - permitted
        kept = {name: text for name, text in self._basis.dotenv.items() if name not in self.withheld}
        self.project_used |= bool(kept)
        return kept

    def usable_paths(self, name: str, paths: Iterable[str]) -> list[str]:
        """The paths of a variable that lead nowhere where nothing is used; of PATH, the absolute ones."""
        return [path for path in paths if self._is_usable(name, path)]

    async def apply(self, element: ChainElement, variables: Mapping[str, str]) -> Resolution:
        """Step 3, for one element."""
        project = self._project_for(element)
        try:
            resolution = await EnvResolver().trace_async(
                element.metadata.env_config,
                include_dotenv=False,
                context={"project_path": project},
                base_env=variables,
                system_env=self._system,
                may_ask=lambda manager: self._directories.why_tools_write(str(manager)) is None,
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
        """Yield a notice for each part of the project that was left out."""
        if self._left_out:
            named = " and ".join(dict.fromkeys(self._left_out))
            yield Notice(
                "project_not_approved",
                f"{named} of this project is not used: you have not approved it: {_APPROVE}",
            )
        for path, names in self._paths_left_out.items():
            what = f"{printable(path)} in {', '.join(map(printable, sorted(names)))} is not used"
            yield Notice("path_not_used", f"{what}: {self._basis.refused_paths[path]}")
        for venv, reason in self._venvs_left_out.items():
            yield Notice("venv_not_used", f"{printable(venv)} is not used: {printable(reason)}")
        if self._node_left_out is not None:
            shown = printable(self._node_left_out)
            yield Notice("node_not_used", f"{shown} is not used: git tracks it, or nobody can tell")
        if self._basis.refused_names:
            named = ", ".join(self._basis.refused_names)
            yield Notice("dotenv_refused", f"a {DOTENV} may not set {named}")

    def _project_for(self, element: ChainElement) -> Path | None:
        """The project, when the interpreter of an element may come from it."""
        parts, interpreter = self._parts, _interpreter(element)
        if parts is None or interpreter is None or not self._basis.approved:
            return None
        if interpreter.get("type") == _MANAGED:  # nothing confines a manager, so it is asked elsewhere
            return None
        if interpreter.get("type") == PACKAGES and self._basis.refused_node is not None:
            self._node_left_out = self._basis.refused_node
            return None
        venv = _venv(interpreter, parts)
        if venv is None or venv not in self._basis.refused_venvs:
            return parts.root
        self._venvs_left_out[venv] = self._basis.refused_venvs[venv]
        return None

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

    def _is_usable(self, name: str, entry: str) -> bool:
        if not entry.startswith("/"):
            return False
        in_project = self._parts is not None and self._parts.holds(entry)
        if name == "PATH" and in_project and not self._basis.approved:
            self._left_out.append(f"{printable(entry)} on the PATH")
            return False
        if entry in self._basis.refused_paths:
            self._paths_left_out.setdefault(entry, set()).add(name)
            return False
        return not in_project or name != "PATH" or self._is_usable_here(entry)

    def _is_usable_here(self, entry: str) -> bool:
        """Whether an entry of the PATH that leads into this approved project may be used."""
        if self._leads_to_refused_node(entry):
            self._node_left_out = self._basis.refused_node
            return False
        refused = [venv for venv in self._basis.refused_venvs if Path(entry).is_relative_to(venv)]
        self._venvs_left_out.update((venv, self._basis.refused_venvs[venv]) for venv in refused)
        return not refused

    def _leads_to_refused_node(self, entry: str) -> bool:
        node = self._basis.refused_node
        return node is not None and os.path.realpath(entry) == os.path.realpath(node.parent)


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


def venvs_of(elements: Iterable[ChainElement], parts: ProjectParts) -> Iterator[Path]:
    """The virtual environments of a project that the elements of a chain ask for."""
    for element in elements:
        interpreter = _interpreter(element)
        if interpreter is not None and (venv := _venv(interpreter, parts)) is not None:
            yield venv


def unsigned_parts(elements: Iterable[ChainElement], parts: ProjectParts) -> Iterator[str]:
    """Return the parts of the project that the elements of a chain would use, if it were approved."""
    if parts.has_dotenv():
        yield DOTENV
    for venv in venvs_of(elements, parts):
        if os.path.lexists(venv):
            yield _shown(venv, parts)
    if packages_of(elements, parts) is not None:
        yield PACKAGES


def tracked_node_of(elements: Iterable[ChainElement], parts: ProjectParts) -> Path | None:
    """A Node.js that the elements of a chain ask for in a project, and that came with it."""
    for element in elements:
        interpreter = _interpreter(element) or {}
        places = interpreter.get("search_paths", (".",))
        if interpreter.get("type") == PACKAGES and isinstance(places, list | tuple):
            for place in places:
                if isinstance(place, str) and (found := parts.tracked_node(place)) is not None:
                    return found
    return None


def packages_of(elements: Iterable[ChainElement], parts: ProjectParts) -> Path | None:
    """The packages of a project, for a chain whose interpreter is looked for among them."""
    asks = any((_interpreter(element) or {}).get("type") == PACKAGES for element in elements)
    return parts.packages() if asks else None


def _shown(path: Path, parts: ProjectParts) -> str:
    return printable(path.relative_to(parts.root) if path.is_relative_to(parts.root) else path)
