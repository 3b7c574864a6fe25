"""Checks an `ENV_CONFIG`: which interpreter to find, and which variables to set.

    interpreter: { type: venv_python, venv_path: .venv, search: [project, user, system], var: RYE_PYTHON }
    env: { PROJECT_VENV_PYTHON: "${RYE_PYTHON}" }

One ConfigurationError reports everything that is wrong, unknown fields included. Values of `env` are in no
message.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from lilux._dataclasses import dataclass
from lilux.primitives.errors import ConfigurationError
from lilux.runtime.interpreters import NodeModules, Strategy, SystemBinary, VenvPython
from lilux.runtime.version_managers import MANAGERS, VersionManager, is_version

__all__ = ["EnvConfig", "Interpreter", "Issues", "parse", "variables"]

PLACES: Final[tuple[Any, ...]] = ("project", "user", "system")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Which variable gets which interpreter; `fallback` if it is missing, and nothing without that."""

    var: str
    strategy: Strategy
    fallback: str | None = None


@dataclass(frozen=True, slots=True)
class EnvConfig:
    """The wishes of an `ENV_CONFIG`."""

    interpreter: Interpreter | None
    env: Mapping[str, str]


class Issues:
    """Collects problems until the caller asks for them."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str]] = []

    def add(self, field: str, expected: str, found: str) -> None:
        """Note that `field` holds something else than what was expected."""
        self._found.append((field, f"expected {expected} as {field}, found {found:.80}"))

    def raise_any(self) -> None:
        """ConfigurationError when there is anything."""
        if self._found:
            raise ConfigurationError("; ".join(text for _, text in self._found), field=self._found[0][0])


@dataclass(frozen=True, slots=True)
class _Field:
    """The type of a field of a configuration."""

    expected: str
    accepts: Callable[[Any], bool]
    required: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a value may stand there; None is no value."""
        return not self.required if value is None else self.accepts(value)


# --- what may stand in a field --------------------------------------------------


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value and _is_encodable(value)


def _is_encodable(text: str) -> bool:
    try:
        return text.isascii() or bool(os.fsencode(text))
    except UnicodeEncodeError:
        return False


def _is_path(value: Any) -> bool:
    return _is_text(value) and bool(value)


def _is_name(value: Any) -> bool:
    return _is_path(value) and "/" not in value and value not in {".", ".."} and not value.startswith("-")


def _is_variable(value: Any) -> bool:
    return _is_path(value) and "=" not in value


def _list_of(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and bool(value) and all(map(accepts, value))


def _is_program(value: Any) -> bool:
    return _is_name(value) or (_is_path(value) and value.startswith("/"))


_BINARY = _Field("the name of a program, without a directory", _is_name)

FIELDS: Final[dict[str, tuple[Callable[..., Strategy], dict[str, _Field]]]] = {
    "venv_python": (
        VenvPython,
        {
            "venv_path": _Field("a path", _is_path),
            "search": _Field(f"a list of {', '.join(PLACES)}", _list_of(PLACES.__contains__)),
        },
    ),
    "node_modules": (NodeModules, {"search_paths": _Field("a list of paths", _list_of(_is_path))}),
    "system_binary": (
        SystemBinary,
        {"binary": _Field("the name of a program, or its absolute path", _is_program, required=True)},
    ),
    "version_manager": (
        VersionManager,
        {
            "manager": _Field(
                f"one of {', '.join(MANAGERS)}",
                lambda value: isinstance(value, str) and value in MANAGERS,
                required=True,
            ),
            "version": _Field(
                "a version, as text (in quotes)", lambda value: _is_text(value) and is_version(value)
            ),
            "tool": _Field("the name of a tool", _is_name),
            "binary": _BINARY,
        },
    ),
}
"""Each type of interpreter: what finds it, and what the fields of that hold."""

COMMON: Final = {
    "var": _Field("the name of a variable", _is_variable, required=True),
    "fallback": _Field("text", _is_text),
}


# --- from a configuration -------------------------------------------------------


def parse(config: Any) -> EnvConfig:
    """Read a configuration; ConfigurationError with everything that is wrong with it."""
    issues = Issues()
    given = _known(issues, "env_config", config, ("interpreter", "env"))
    interpreter = _interpreter(issues, given.get("interpreter"))
    env = variables(issues, "env_config.env", given.get("env"))
    issues.raise_any()
    return EnvConfig(interpreter, env)


def variables(issues: Issues, field: str, given: Any) -> dict[str, str]:
    """Variables and their values as text, in order."""
    texts: dict[str, str] = {}
    for name, value in _object(issues, field, given).items():
        text = _text_of(value)
        if not _is_variable(name):
            issues.add(field, "names of variables", repr(name))
        elif text is None or not _is_text(text):
            issues.add(f"{field}.{name}", "text without NUL, a number or a truth value", _kind(value))
        else:
            texts[name] = text
    return texts


def _interpreter(issues: Issues, given: Any) -> Interpreter | None:
    if given is None:
        return None
    field = "env_config.interpreter"
    config = _object(issues, field, given)
    kind = config.get("type")
    if isinstance(kind, str) and kind in FIELDS:
        return _checked(issues, field, config, *FIELDS[kind])
    if isinstance(given, Mapping):
        issues.add(f"{field}.type", f"one of {', '.join(FIELDS)}", _shown(kind))
    return None


def _checked(
    issues: Issues,
    field: str,
    config: Mapping[Any, Any],
    make: Callable[..., Strategy],
    own: Mapping[str, _Field],
) -> Interpreter | None:
    rules = {**own, **COMMON}
    values = _known(issues, field, config, ("type", *rules))
    wrong = [name for name, rule in rules.items() if not rule.holds(values.get(name))]
    for name in wrong:
        issues.add(f"{field}.{name}", rules[name].expected, _shown(values.get(name)))
    if wrong:
        return None
    strategy = make(**{name: values[name] for name in own if name in values})
    return Interpreter(values["var"], strategy, values.get("fallback"))


def _known(issues: Issues, field: str, given: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields that are given a value; those with other names are issues."""
    config = _object(issues, field, given)
    for name in config:
        if name not in names:
            issues.add(field, f"only {', '.join(names)}", repr(name))
    return {name: config[name] for name in names if config.get(name) is not None}


def _object(issues: Issues, field: str, given: Any) -> Mapping[Any, Any]:
    if given is None or isinstance(given, Mapping):
        return given or {}
    issues.add(field, "an object", _kind(given))
    return {}


def _shown(value: Any) -> str:
    """A value of a configuration: texts and numbers as they are, of all else the kind."""
    return repr(value) if isinstance(value, str | int | float) else _kind(value)


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__


def _text_of(value: Any) -> str | None:
    """A value of a variable as text; None when it cannot be one."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return "" if value is None else value if isinstance(value, str) else None
