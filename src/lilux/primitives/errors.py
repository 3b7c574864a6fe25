"""All errors of Lilux, as one tree.

    Exception
    ├── ToolExecutionError(message, cause=None)
    │   ├── IntegrityError(message, **attributes)
    │   ├── LockfileError(message, path=None)             also a ValueError
    │   ├── ConfigurationError(message, field=None)
    │   └── SupervisorError(message, *, code, …)          the process supervisor, by a stable code
    ├── AuthenticationRequired(message, service=None)
    └── ValidationError(field, error, value)              a dataclass: one finding, in a list or raised

A message says what was expected, what was found and where. A tool that fails is not an error here: it is a
result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lilux._dataclasses import dataclass

__all__ = [
    "AuthenticationRequired",
    "ConfigurationError",
    "IntegrityError",
    "LockfileError",
    "SupervisorError",
    "ToolExecutionError",
    "ValidationError",
]


class ToolExecutionError(Exception):
    """A tool could not be run."""

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        if cause is not None:
            self.__cause__ = cause


class IntegrityError(ToolExecutionError):
    """Content is not what was signed or pinned. What was compared stands in the attributes."""

    def __init__(self, message: str, **attributes: Any) -> None:
        super().__init__(message)
        self.attributes = attributes
        for name, value in attributes.items():
            setattr(self, name, value)


class LockfileError(ToolExecutionError, ValueError):
    """A lockfile cannot be read, or is not one; `newer` says that a newer program can read it."""

    def __init__(self, message: str, path: str | Path | None = None, *, newer: bool = False) -> None:
        super().__init__(message)
        self.path = path
        self.newer = newer


class ConfigurationError(ToolExecutionError):
    """A configuration asks for something impossible; `field` names the part of it. Nothing was started."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class SupervisorError(ToolExecutionError):
    """The process supervisor failed, or refused; `code` is stable, and documented in `docs/protocol.md`.

    Codes that only this side gives: `lost` (the supervisor died; what it ran was killed), `stopping` (the
    event loop is ending) and `malformed_event`.
    """

    def __init__(
        self, message: str, *, code: str, stage: str | None = None, errno: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.stage = stage
        self.errno = errno


class AuthenticationRequired(Exception):  # noqa: N818 - its name is given
    """A service wants its user to sign in first."""

    def __init__(self, message: str, service: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.service = service


@dataclass
class ValidationError(Exception):
    """One value that does not fit its schema: where it stands, what is wrong, and the value itself."""

    field: str
    error: str
    value: Any = None

    # A dataclass that compares by value would lose its hash, and exceptions are hashed by the machinery of
    # tracebacks.
    __hash__ = Exception.__hash__

    def __post_init__(self) -> None:
        super().__init__(self.field, self.error, self.value)

    def __str__(self) -> str:
        return f"{self.field}: {self.error}" if self.field else self.error
