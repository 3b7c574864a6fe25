"""Where everything is put together: what the surroundings say, and the parts that follow from it.

`Settings.find` reads options, then the environment, then the working directory, once. Only `App` makes
spaces, trust, keys and a catalog out of settings. docs/architecture/command-line.md says what is a project.

    app = App.open(Settings.find())
    load(LoadRequest("demo/hello"), app.context(SignerKind.PERSON))
"""

from __future__ import annotations

import logging
import os
import shlex
import sysconfig
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from lilux._dataclasses import dataclass
from rye_mcp import own_directories
from rye_mcp.errors import RyeError
from rye_mcp.items import SpaceName, printable
from rye_mcp.other_users import why_others_write
from rye_mcp.spaces import DIRECTORY_NAME, Spaces
from rye_mcp.trust.scope import SignerKind

if TYPE_CHECKING:
    from rye_mcp.catalog import Catalog
    from rye_mcp.executor.caller import TraceContext
    from rye_mcp.executor.primitive_executor import PrimitiveExecutor
    from rye_mcp.executor.tree import OnCall, OpenInside, Program
    from rye_mcp.language.meaning import Meaning
    from rye_mcp.nodes.engines import NodeEngines
    from rye_mcp.trust.keys import KeyRing
    from rye_mcp.trust.verify import Trust
    from rye_mcp.verbs.context import Context

__all__ = [
    "INDEX_DIRECTORY",
    "LOCKED_VARIABLE",
    "MODEL_VARIABLE",
    "OWN_PROJECT_VARIABLE",
    "PROJECT_VARIABLE",
    "App",
    "Settings",
]

PROJECT_VARIABLE: Final = "RYE_PROJECT_PATH"
"""The environment variable that names the project; what runs under rye-mcp has it set."""

OWN_PROJECT_VARIABLE: Final = "RYE_PROJECT"
"""The same for people and for client configurations, and it comes first."""

LOCKED_VARIABLE: Final = "RYE_LOCKED"
"""The environment variable that asks for locked mode."""

INDEX_DIRECTORY: Final = "search"
"""Where the search index is, in the cache."""

MODEL_VARIABLE: Final = "RYE_SENTENCE_MODEL"
"""The environment variable that names the directory of a sentence model, which search compares texts by."""

_log = logging.getLogger(__name__)
_NOT_LOCKED = frozenset({"", "0", "false", "no"})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings from the surroundings.

    `project` is the directory that holds the project's `.ai` (which need not be there yet), `user_directory`
    the one that holds the user's. `system_space` is the system space itself, None for that of this package.
    `cache` is None where the surroundings name no place for one. `no_project` says why there is no project,
    `is_named` that somebody has named it, `many_calls` that a server runs, whose interpreters may wait.
    """

    project: Path | None
    user_directory: Path
    system_space: Path | None
    state: Path
    environment: Mapping[str, str] = field(repr=False)
    cache: Path | None = None
    locked: bool = False
    no_project: RyeError | None = None
    is_named: bool = False
    many_calls: bool = False

    @classmethod
    def find(
        cls,
        *,
        project: Path | None = None,
        user_directory: Path | None = None,
        system_space: Path | None = None,
        state: Path | None = None,
        cache: Path | None = None,
        locked: bool = False,
        many_calls: bool = False,
        environment: Mapping[str, str] = os.environ,
        working_directory: Path | None = None,
    ) -> Settings:
        """The settings of a call; RyeError `no_project` when a project is named that can be none."""
        settings = cls(
            project=None,
            user_directory=user_directory or own_directories.user_directory(environment),
            system_space=system_space,
            state=state or own_directories.state_directory(),
            environment=environment,
            cache=cache or own_directories.cache_directory(),
            locked=locked or environment.get(LOCKED_VARIABLE, "").strip().lower() not in _NOT_LOCKED,
            many_calls=many_calls,
        )
        in_environment = environment.get(OWN_PROJECT_VARIABLE) or environment.get(PROJECT_VARIABLE)
        named = project or _path(in_environment)
        if named is None:
            return settings._with_nearest_project(working_directory)
        settings._spaces_of(named).require_project()
        return replace(settings, project=_absolute(named), is_named=True)

    def spaces(self) -> Spaces:
        """The three spaces; without a project, with the reason for that."""
        spaces = self._spaces_of(self.project)
        if spaces.project is None and self.no_project is not None:
            return replace(spaces, no_project=self.no_project)
        return spaces

    def _spaces_of(self, project: Path | None) -> Spaces:
        return Spaces.locate(
            project, user=self.user_directory, system=self.system_space, private=self._private()
        )

    def _private(self) -> dict[str, Path]:
        """The private directories of this user outside of the user space, by name."""
        runtime = _path(self.environment.get("XDG_RUNTIME_DIR"))
        kept = {
            "your decisions, logs and outputs": self.state,
            "the cache of rye-mcp": self.cache,
            "the private copies of what runs": runtime and runtime / "rye",
        }
        return {name: path for name, path in kept.items() if path is not None}

    def _with_nearest_project(self, working_directory: Path | None) -> Settings:
        try:
            start = _absolute(working_directory or Path.cwd())
        except FileNotFoundError:
            what = "expected a working directory, found that it was removed"
            return replace(self, no_project=RyeError("no_project", what, hint="cd to a project"))
        reason = None
        for candidate in _above(start):
            found = _writable_by_others(candidate)
            if found is None:
                spaces = self._spaces_of(candidate)
                if spaces.project is not None:
                    return replace(self, project=candidate)
                found = spaces.no_project
            reason = reason or found
        shown = printable(start)
        what = f"expected a directory with {DIRECTORY_NAME} here or above, found none: {shown}"
        return replace(self, no_project=reason or RyeError("no_project", what, where=shown))


@dataclass(frozen=True, slots=True)
class App:
    """The parts of one call, or of many calls with the same settings."""

    settings: Settings
    spaces: Spaces
    trust: Trust
    keys: KeyRing
    _executors: list[PrimitiveExecutor] = field(default_factory=list, compare=False, repr=False)
    _catalogs: list[Catalog] = field(default_factory=list, compare=False, repr=False)
    _opening: Lock = field(default_factory=Lock, compare=False, repr=False)

    @classmethod
    def open(cls, settings: Settings) -> App:
        """Put the parts together; nothing of an item is read yet."""
        return cls._of(settings, settings.spaces())

    @classmethod
    def _of(cls, settings: Settings, spaces: Spaces) -> App:
        from rye_mcp.trust.keys import KeyRing
        from rye_mcp.trust.verify import Trust

        trust = Trust(
            user_space=spaces.user.root,
            project=None if spaces.project is None else settings.project,
            system_space=spaces.system.root,
            state=settings.state,
            environment=settings.environment,
        )
        keys = KeyRing(spaces.user.root, environment=settings.environment)
        return cls(settings, spaces, trust, keys)

    def context(
        self,
        caller: SignerKind = SignerKind.AGENT,
        *,
        ask_passphrase: Callable[[], bytes] | None = None,
        client: str | None = None,
        trace: TraceContext | None = None,
    ) -> Context:
        """Return the context for this caller."""
        from rye_mcp.verbs.context import Context

        return Context(
            self.spaces,
            self.trust,
            self.keys,
            caller,
            ask_passphrase,
            project=None if self.spaces.project is None else self.settings.project,
            locked=self.settings.locked,
            open_executor=self.executor,
            client=client,
            trace=trace,
            open_inside=self._open_inside,
        )

    def _open_inside(self, context: Context) -> OpenInside:
        """Return the service for the programs that are called in this context, of which few ask."""

        def opened(program: Program, on_call: OnCall | None = None) -> AbstractAsyncContextManager[int]:
            from rye_mcp.inside.desk import Desk

            return Desk(context, self.kept_catalog, context.agree).opened(program, on_call)

        return opened

    def executor(self) -> PrimitiveExecutor:
        """The executor of tools: made when the first one runs, and kept."""
        if not self._executors:
            from rye_mcp.executor.primitive_executor import PrimitiveExecutor
            from rye_mcp.telemetry import row_written

            made = PrimitiveExecutor.of(
                self.spaces,
                self.trust,
                project=self.settings.project,
                state=self.settings.state,
                locked=self.settings.locked,
                environment=self.settings.environment,
                writes_locks=self.writes_locks,
                why_cold=self.why_cold,
                open_engines=self.open_engines,
                tell=row_written if self.settings.many_calls else None,
            )
            self._executors.append(made)
        return self._executors[0]

    def open_engines(self) -> NodeEngines:
        """What leads to other machines; nothing of it is loaded before a tool may run on one."""
        from rye_mcp.nodes.engines import NodeEngines

        settings = self.settings
        rye = Path(sysconfig.get_path("scripts"), "rye")
        return NodeEngines(self.spaces, self.trust, settings.state, settings.environment, rye=str(rye))

    def in_directory(self, directory: Path) -> App:
        """The same for which this directory is the project."""
        # It may be a directory among those of the user: made for this, and empty.
        settings = self.settings
        spaces = Spaces.locate(directory, user=settings.user_directory, system=settings.system_space)
        return App._of(replace(settings, project=directory, no_project=None), spaces)

    def executor_in(self, directory: Path, *, with_items: bool) -> PrimitiveExecutor:
        """One for which this directory is the project, `with_items` of this one; the caller closes it."""
        from rye_mcp.executor.primitive_executor import PrimitiveExecutor

        parts = self if with_items else self.in_directory(directory)
        return PrimitiveExecutor.of(
            parts.spaces,
            parts.trust,
            project=directory,
            state=self.settings.state,
            locked=self.settings.locked,
            environment=self.settings.environment,
            writes_locks=parts.writes_locks,
        )

    def writes_locks(self, space: SpaceName) -> bool:
        """Whether a successful run locks a tool of this space: those of a project that asks for it."""
        from rye_mcp.configuration import asks_for_locks

        return space is SpaceName.PROJECT and asks_for_locks(self.context())

    def why_cold(self) -> str | None:
        """Why no interpreter may wait for a call, if none may: it pays only where many calls are made."""
        from rye_mcp.configuration import allows_warm

        if not self.settings.many_calls:
            return "one_call"
        return None if allows_warm(self.context()) else "off"

    async def close(self) -> None:
        """Close what was opened in this event loop, and what was kept for many calls, even when cancelled."""
        import anyio

        with anyio.CancelScope(shield=True):
            for executor in self._executors:
                await executor.close()
        while self._catalogs:
            self._catalogs.pop().close()

    @asynccontextmanager
    async def closing(self) -> AsyncIterator[None]:
        """Close what was opened when the block ends, whatever ends it."""
        try:
            yield
        finally:
            await self.close()

    def catalog(self) -> Catalog:
        """Return the catalog, which the caller closes; it has not looked for changes yet."""
        from rye_mcp.catalog import Catalog
        from rye_mcp.language.meaning import WordTable

        cache, model = self.settings.cache, _path(self.settings.environment.get(MODEL_VARIABLE))
        return Catalog.open(
            self.spaces,
            None if cache is None else cache / INDEX_DIRECTORY,
            meaning=WordTable.load if model is None else lambda _: _sentence_model(model),
        )

    def kept_catalog(self) -> Catalog:
        """The same for many calls, in any thread: opened for the first, closed with everything else."""
        with self._opening:
            if not self._catalogs:
                self._catalogs.append(self.catalog())
            return self._catalogs[0]


def _sentence_model(directory: Path) -> Meaning:
    from rye_mcp.language.sentence_model import SentenceModel

    return SentenceModel.load(directory)


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _above(start: Path) -> Iterator[Path]:
    """The directories with an `.ai` from this one upward."""
    return (each for each in (start, *start.parents) if os.path.isdir(each / DIRECTORY_NAME))  # noqa: PTH112 - never raises


def _writable_by_others(candidate: Path) -> RyeError | None:
    """Why a directory that other users can write to is passed over; None if they can't."""
    why = why_others_write(str(candidate)) or why_others_write(str(candidate / DIRECTORY_NAME))
    return _passed_over(candidate, why) if why else None


def _passed_over(candidate: Path, why: str) -> RyeError:
    """Say that a directory is not taken for the project; what says so where there is no other one."""
    shown = printable(candidate)
    _log.warning("passed over the project %s, since %s", shown, why)
    what = f"expected a project that no other user can write to, found {shown}, where {why}"
    return RyeError("no_project", what, where=shown, hint=f"if you mean it: --project {shlex.quote(shown)}")


def _absolute(path: Path) -> Path:
    return Path(os.path.realpath(path))
