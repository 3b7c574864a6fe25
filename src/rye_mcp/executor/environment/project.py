"""The unsigned parts of a project that a run may use: its `.env`, virtual environments and Node.js.

`rye_mcp.trust.approvals` decides; here are the facts, from a few stamps in each call. The rules are in
`docs/architecture/execution.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from lilux._stamps import Stamp, settled, stamp_of
from lilux.primitives.errors import ConfigurationError
from lilux.runtime.env_resolver import EnvResolver
from lilux.runtime.interpreters import VENV_CANDIDATES, NodeModules, Surroundings
from rye_mcp.errors import RyeError
from rye_mcp.executor.environment.git_index import GitIndexes
from rye_mcp.items import printable
from rye_mcp.trust.approvals import Approvals, DotenvSplit, ProjectFacts, decide_use, split_dotenv

__all__ = ["DOTENV", "PACKAGES", "USUAL_VENV", "ProjectParts"]

DOTENV: Final = ".env"
USUAL_VENV: Final = ".venv"
PACKAGES: Final = "node_modules"

_CONFIGURATION = "pyvenv.cfg"
_NOTHING: Final = DotenvSplit({}, ())


class ProjectParts:
    """The parts of one project, and which of them may be used."""

    def __init__(self, root: Path, approvals: Approvals) -> None:
        self.root = Path(os.path.realpath(root))
        self._approvals = approvals
        self._indexes = GitIndexes()
        self._venvs: dict[str, Path | None] = {}
        self._reasons: dict[Path, tuple[tuple[tuple[Stamp | None, ...], bool | None], str | None]] = {}
        self._dotenv: tuple[Stamp | None, DotenvSplit] = (None, _NOTHING)

    def is_approved(self) -> bool:
        """Whether the person has approved the project, as of now."""
        return self._approvals.read().approved

    def holds(self, path: str | Path) -> bool:
        """Whether a path lies in the project, by its name or in truth."""
        text = os.fspath(path)
        return _is_below(os.path.normpath(text), self.root) or _is_below(os.path.realpath(text), self.root)

    def venv(self, name: str) -> Path | None:
        """Where an environment of this name is looked for; None when that is not in the project."""
        if name not in self._venvs:
            venv = Path(os.path.normpath(self.root / name))
            self._venvs[name] = venv if self.holds(venv) else None
        return self._venvs[name]

    def venvs_on_path(self, path: str) -> Iterator[Path]:
        """The virtual environments of the project that a PATH leads into, by its names."""
        if str(self.root) not in path:
            return
        for entry in path.split(os.pathsep):
            venv = Path(os.path.normpath(entry)).parent
            if venv.is_relative_to(self.root) and os.path.isfile(f"{venv}/{_CONFIGURATION}"):  # noqa: PTH113
                yield venv

    def why_no_venv(self, venv: Path) -> str | None:
        """Why a virtual environment of this approved project may not be used; None when it may."""
        stamps = _stamps_of(venv)
        tracked = self._indexes.tracks(venv)
        kept = self._reasons.get(venv)
        if kept is None or kept[0] != (stamps, tracked):
            kept = ((stamps, tracked), self._judged(venv, tracked))
            if all(stamp is None or settled(stamp) for stamp in stamps):
                self._reasons[venv] = kept
        return kept[1]

    def _judged(self, venv: Path, tracked: bool | None) -> str | None:
        facts = ProjectFacts(
            self.root,
            approved=True,
            has_pyvenv_cfg=os.path.isfile(f"{venv}/{_CONFIGURATION}"),  # noqa: PTH113 - never raises
            venv_is_tracked=tracked,
            interpreter=_interpreter_of(venv),
        )
        # A worktree counts as its main repository, whose files came with it just the same.
        for root in {self.root, self._approvals.repository}:
            use = decide_use(replace(facts, root=root))
            if USUAL_VENV not in use.allowed:
                return use.refused[USUAL_VENV].replace(USUAL_VENV, printable(venv.name))
        return None

    def tracked_node(self, place: str) -> Path | None:
        """A Node.js below a place of this project that git tracks, or of which nobody can tell."""
        if "\0" in place:
            return None  # which the resolver refuses
        for path in NodeModules((place,)).candidates(Surroundings({}, self.root)):
            found = Path(os.path.normpath(path))
            if os.path.isfile(found) and self.holds(found) and self._came_along(found):  # noqa: PTH113
                return found
        return None

    def _came_along(self, path: Path) -> bool:
        real = Path(os.path.realpath(path))
        asked = {path, real} if self.holds(real) else {path}
        return any(self._indexes.tracks(each) is not False for each in asked)

    def dotenv(self) -> DotenvSplit:
        """The variables of the `.env` of this approved project, split into what it may set and what not."""
        stamp = stamp_of(f"{self.root}/{DOTENV}")
        kept, split = self._dotenv
        if stamp is None:
            return _NOTHING
        if kept != stamp:
            split = split_dotenv(self._read())
            self._dotenv = (settled(stamp), split)
        return split

    def has_dotenv(self) -> bool:
        """Whether there is a file that would be read if the project were approved."""
        return os.path.isfile(self.root / DOTENV)  # noqa: PTH113 - never raises

    def packages(self) -> Path | None:
        """Where the packages for Node.js are; None without any."""
        found = self.root / PACKAGES
        return found if os.path.isdir(found) else None  # noqa: PTH112 - never raises

    def _read(self) -> Mapping[str, str]:
        try:
            return EnvResolver(self.root).resolve(base_env={})
        except ConfigurationError as exc:
            path = printable(self.root / DOTENV)
            raise RyeError(
                "invalid_item",
                f"expected a .env that can be read, found: {printable(exc.message)}",
                where=path,
                hint="fix it, or move it away",
            ) from exc


def _stamps_of(venv: Path) -> tuple[Stamp | None, ...]:
    """Return the stamps by which a changed interpreter of an environment shows."""
    candidates = [f"{venv}/{name}" for name in VENV_CANDIDATES]
    return (
        stamp_of(f"{venv}/{_CONFIGURATION}"),
        *(stamp_of(candidate, follow=False) for candidate in candidates),
        *(stamp_of(candidate) for candidate in candidates),
    )


def _interpreter_of(venv: Path) -> Path | None:
    """The real file of the interpreter that would be found in a virtual environment."""
    for name in VENV_CANDIDATES:
        candidate = f"{venv}/{name}"
        if os.path.isfile(candidate):  # noqa: PTH113 - never raises
            return Path(os.path.realpath(candidate))
    return None


def _is_below(path: str, root: Path) -> bool:
    return path == str(root) or path.startswith(str(root).rstrip(os.sep) + os.sep)
