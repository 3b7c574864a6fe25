"""Resolves the environment of a tool from four sources; a later one wins.

These are the system environment, `.env` of the project, the `ENV_CONFIG`, and the variables of the tool.
Nothing but the result changes, and values are never expanded again. Only where files cannot tell is a version
manager asked.

    env = EnvResolver("/home/ada/project").resolve({"env": {"GREETING": "Hello, ${USER:-you}"}})
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from lilux import _supervisor
from lilux._dataclasses import dataclass
from lilux._protocol import RunRequest
from lilux._templates import render
from lilux.primitives.errors import ConfigurationError
from lilux.runtime import _dotenv, _env_config
from lilux.runtime.interpreters import Question, Surroundings

__all__ = ["DotenvFilter", "EnvResolver", "Resolution"]

ASK_LIMIT_MS: Final = 5000
"""How long a version manager may take to answer."""

ANSWER_LIMIT_BYTES: Final = 64 * 1024
"""How much of an answer is kept."""

MAX_ENV_CHARACTERS: Final = 2 << 20
"""How long all values of an `env` may be together once they are filled; the system takes no more either."""

DotenvFilter = Callable[[str], bool]
"""Says of the name of a variable whether `.env` may set it."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """An environment, the interpreter that was found for it, and how that was found.

    `look` looks for the interpreter again; None when a version manager had to be asked.
    """

    variables: dict[str, str] = field(repr=False)
    interpreter: Path | None = None
    look: Callable[[], Path | Question | None] | None = field(default=None, repr=False, compare=False)

    def is_current(self) -> bool:
        """Whether looking again, which takes microseconds, finds the same; what was asked is never current.

        Everything else of an environment depends on nothing but what it was resolved from.
        """
        return self.look is not None and self.look() == self.interpreter


class EnvResolver:
    """Resolves environments for the tools of one project, or of none.

    Without a project there is no `.env`, and no interpreter in it; a relative path is that of the
    directory in which the resolver is made.
    """

    def __init__(self, project_path: str | os.PathLike[str] | None = None) -> None:
        self.project_path = _directory("project_path", project_path)

    def resolve(
        self,
        env_config: Mapping[str, Any] | None = None,
        tool_env: Mapping[str, Any] | None = None,
        include_dotenv: bool = True,
        context: Mapping[str, Any] | None = None,
        *,
        base_env: Mapping[str, str] | None = None,
        dotenv_filter: DotenvFilter | None = None,
    ) -> dict[str, str]:
        """The whole environment. Blocks where a version manager has to be asked.

        `base_env` takes the place of the system environment. `dotenv_filter` says which names `.env` may
        set.
        """
        draft = _Draft(self.project_path, env_config, tool_env, context, base_env)
        draft.add_dotenv(include_dotenv, dotenv_filter)
        found = draft.find()
        if isinstance(found, Question):
            answer = _supervisor.execute(_supervisor.find_lilux_proc(), draft.request(found))
            found = found.read(answer["stdout"]) if answer["success"] else None
        return draft.finish(found)

    async def resolve_async(
        self,
        env_config: Mapping[str, Any] | None = None,
        tool_env: Mapping[str, Any] | None = None,
        include_dotenv: bool = True,
        context: Mapping[str, Any] | None = None,
        *,
        base_env: Mapping[str, str] | None = None,
        dotenv_filter: DotenvFilter | None = None,
    ) -> dict[str, str]:
        """The same as `resolve`, and the event loop goes on while a version manager is asked."""
        resolution = await self.trace_async(
            env_config,
            tool_env,
            include_dotenv,
            context,
            base_env=base_env,
            dotenv_filter=dotenv_filter,
        )
        return resolution.variables

    async def trace_async(
        self,
        env_config: Mapping[str, Any] | None = None,
        tool_env: Mapping[str, Any] | None = None,
        include_dotenv: bool = True,
        context: Mapping[str, Any] | None = None,
        *,
        base_env: Mapping[str, str] | None = None,
        dotenv_filter: DotenvFilter | None = None,
        system_env: Mapping[str, str] | None = None,
        may_ask: Callable[[Path], bool] | None = None,
    ) -> Resolution:
        """The same as `resolve_async`, with what was found: for callers that keep environments.

        A version manager gets `system_env`, by default `base_env`, and only runs where `may_ask` allows it.
        """
        draft = _Draft(self.project_path, env_config, tool_env, context, base_env, system_env)
        draft.add_dotenv(include_dotenv, dotenv_filter)
        found = draft.find()
        if isinstance(found, Question) and may_ask is not None and not may_ask(found.program):
            found = None
        if isinstance(found, Question):
            supervisor = _supervisor.supervisor(_supervisor.find_lilux_proc())
            outcome = await supervisor.run(draft.request(found))
            good = outcome.result.kind == "exited" and outcome.result.return_code == 0
            found = found.read(os.fsdecode(outcome.streams["stdout"])) if good else None
            return Resolution(draft.finish(found), found)
        return Resolution(draft.finish(found), found, draft.find)


class _Draft:
    """An environment that is being resolved: everything but the asking."""

    def __init__(
        self,
        project: Path | None,
        env_config: Any,
        tool_env: Any,
        context: Any,
        base: Any,
        system: Any = None,
    ) -> None:
        issues = _env_config.Issues()
        self._config = _env_config.parse(env_config)
        self._tool_env = _env_config.variables(issues, "tool_env", tool_env)
        self._env = os.environ.copy() if base is None else _env_config.variables(issues, "base_env", base)
        self._system = self._env if system is None else _env_config.variables(issues, "system_env", system)
        issues.raise_any()
        if not isinstance(context, Mapping | None):
            raise ConfigurationError(
                f"expected an object as context, found {type(context).__name__}", "context"
            )
        named = {name: _directory(f"context.{name}", (context or {}).get(name)) for name in _CONTEXT}
        self._project = named["project_path"] or project
        self._user = named["user_space"]

    def add_dotenv(self, include: bool, allowed: DotenvFilter | None) -> None:
        """Step 2, on top of the system environment."""
        if include and self._project is not None:
            found = _dotenv.read(self._project)
            chosen = {name: found[name] for name in found if allowed is None or allowed(name)}
            self._env = {**self._env, **chosen}

    def find(self) -> Path | Question | None:
        """The interpreter of step 3, or the question that leads to it."""
        interpreter = self._config.interpreter
        if interpreter is None:
            return None
        user = self._user or Surroundings(self._env).home
        return interpreter.strategy.find(Surroundings(self._env, self._project, user, self._system))

    def request(self, question: Question) -> RunRequest:
        """Return the run that answers this question."""
        return RunRequest(
            command=str(question.program),
            args=question.args,
            cwd=str(self._project or "/"),
            env={name: value for name, value in self._system.items() if name.isascii()},
            timeout_ms=ASK_LIMIT_MS,
            max_output=ANSWER_LIMIT_BYTES,
        )

    def finish(self, found: Path | None) -> dict[str, str]:
        """Steps 3 and 4: the interpreter, the variables of the configuration and those of the tool."""
        # A copy: the next look for the interpreter uses the environment as it was.
        env, interpreter = {**self._env}, self._config.interpreter
        if interpreter is not None:
            value = interpreter.fallback if found is None else str(found)
            if value is not None:
                env[interpreter.var] = value
        room = MAX_ENV_CHARACTERS
        for name, text in self._config.env.items():
            env[name] = render(text, env, {})
            room -= len(env[name])
            if room < 0:
                what = f"expected at most {MAX_ENV_CHARACTERS} characters in all values of env, found more"
                raise ConfigurationError(what, field=f"env_config.env.{name}")
        env.update(self._tool_env)
        return env


_CONTEXT: Final = ("project_path", "user_space")


def _directory(field: str, path: Any) -> Path | None:
    """A directory as an absolute path; links stay."""
    if path is None:
        return None
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ConfigurationError(f"expected a path as {field}, found {type(path).__name__}", field=field)
    return Path(text).absolute()
