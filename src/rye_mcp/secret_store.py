"""Keeps the user's secrets by name, in files of mode 0600 in `secrets` of the user space.

A value goes to a run of a tool that a person signed for it, and nowhere else. No repr, error or log line
shows one. The rules are in `docs/architecture/permissions.md`.

    SecretStore(user_space).values(["WEATHER_API_KEY"])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lilux.primitives.errors import ConfigurationError
from rye_mcp.errors import RyeError
from rye_mcp.files import make_user_space, require_not_exchanged, translated
from rye_mcp.permissions import VARIABLE_PATTERN
from rye_mcp.trust.control_variables import chooses_code

if TYPE_CHECKING:
    from lilux.runtime.auth import AuthStore

__all__ = ["DIRECTORY", "SecretStore", "command_to_set", "missing", "problem_of_name"]

DIRECTORY: Final = "secrets"
"""Where the files are, in the user space."""

_STORE: Final = "rye-secrets"
_OWN: Final = ("RYE_", "LILUX_")
_NAME: Final = re.compile(VARIABLE_PATTERN, re.ASCII)
_MAX_CHARACTERS: Final = 64 << 10


class SecretStore:
    """The secrets of one user. What is lent is known to this object, and in no file."""

    def __init__(self, user_space: Path) -> None:
        self._user_space = user_space
        self._lent: dict[str, str] = {}

    @property
    def directory(self) -> Path:
        """Where the files are."""
        return self._user_space / DIRECTORY

    def set(self, name: str, value: str) -> None:
        """Keep a secret in place of any other of this name; RyeError for what no variable or header holds."""
        _require_value(value)
        with self._checked("write_failed"):
            make_user_space(self._user_space)
            self._kept.set_token(name, value)

    def remove(self, name: str) -> None:
        """Forget a secret; RyeError `secret_missing` if it does not exist."""
        if name not in self.names():
            raise missing([name], hint="rye secret list")
        with self._checked("write_failed"):
            self._kept.clear_token(name)

    def lend(self, name: str, value: str) -> None:
        """Use this value for the runs of this process, and keep it nowhere."""
        _require_value(value)
        self._lent[name] = value

    def names(self) -> tuple[str, ...]:
        """The names of the secrets, without the values."""
        with self._checked("read_failed"):
            return self._kept.services()

    def lacking(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names that there is no secret for, sorted."""
        with self._checked("read_failed"):
            return tuple(
                name
                for name in sorted(names)
                if name not in self._lent and not self._kept.is_authenticated(name)
            )

    def values(self, names: Iterable[str]) -> Mapping[str, str]:
        """The secrets of these names; RyeError `secret_missing` with all names that have no secret."""
        asked = sorted(names)
        if lacking := self.lacking(asked):
            raise missing(lacking)
        with self._checked("read_failed"):
            return {name: self._lent.get(name) or self._kept.get_token(name) for name in asked}

    @cached_property
    def _kept(self) -> AuthStore:
        from lilux.runtime.auth import AuthStore

        return AuthStore(_STORE, directory=self.directory)

    @contextmanager
    def _checked(self, code: str) -> Iterator[None]:
        """Nobody else can exchange the user space; errors of lilux become those of the table."""
        if self._user_space.exists():
            require_not_exchanged(self._user_space)
        try:
            with translated(code, self.directory):
                yield
        except ConfigurationError as exc:
            raise RyeError(code, exc.message, where=self.directory) from None


def _require_value(value: str) -> None:
    """Refuse what a variable or a header cannot hold, without showing it."""
    if 0 < len(value) <= _MAX_CHARACTERS and value.isascii() and value.isprintable():
        return
    what = f"expected a secret of 1 to {_MAX_CHARACTERS} printable ASCII characters in one line"
    hint = "encode what has several lines, such as a key in PEM: base64 --wrap=0"
    raise RyeError("invalid_parameters", f"{what}, found something else", hint=hint)


def missing(names: Iterable[str], *, hint: str | None = None) -> RyeError:
    """The refusal of a call for want of these secrets."""
    wanted = sorted(names)
    what = f"expected {', '.join(wanted)} in your store of secrets, found none"
    return RyeError("secret_missing", what, hint=hint or command_to_set(wanted), secrets=wanted)


def command_to_set(names: Iterable[str]) -> str:
    """Return the command that sets these secrets."""
    return " && ".join(f"rye secret set {name}" for name in names)


def problem_of_name(name: str) -> str | None:
    """Return the problem of a secret's name: a tool gets the secret as a variable of that name."""
    if not _NAME.fullmatch(name):
        return "expected the name of a variable, such as API_TOKEN, found something else"
    if chooses_code(name) or name.upper().startswith(_OWN):
        return f"expected a name that no program goes by, found {name}"
    return None
