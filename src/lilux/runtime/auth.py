"""Keeps the tokens of services in files of their user, and returns them while they are valid.

Each token has a file of mode 0600 in a directory that only its user can enter. No repr, error or log line
shows a token. AuthenticationRequired means that a token is missing, has expired, or lacks a scope.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from lilux import _files, _trees
from lilux.primitives.errors import AuthenticationRequired, ConfigurationError

__all__ = ["AuthStore"]

EARLY_S: Final = 60.0
EARLY_SHARE: Final = 0.1
"""How much earlier a token counts as expired, so that it is still good when it arrives: seconds at most, and
as a share of its life.
"""

MAX_TOKEN_CHARACTERS: Final = 64 * 1024
MAX_FILE_BYTES: Final = 1024 * 1024
MAX_NAME_CHARACTERS: Final = 512

_SUFFIX: Final = ".json"


class _Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a token file."""

    service: str
    access_token: str
    issued_at: float
    expires_at: float | None
    scopes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<the token of {self.service!r}>"

    def is_fresh(self, now: float) -> bool:
        """Whether it can still be used."""
        if self.expires_at is None:
            return True
        early = min(EARLY_S, max(0.0, self.expires_at - self.issued_at) * EARLY_SHARE)
        return now < self.expires_at - early


class AuthStore:
    """The tokens of one program, by service. `directory` is where their files are, in the user's state
    directory if nobody says otherwise.
    """

    def __init__(
        self,
        service_name: str = "lilux",
        *,
        directory: str | os.PathLike[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.service_name = _name("service_name", service_name)
        if "/" in service_name or service_name in {".", ".."}:
            raise ConfigurationError(
                "expected a name without / as service_name, found a path", "service_name"
            )
        self._directory = None if directory is None else Path(directory).absolute()
        self._clock = clock

    def __repr__(self) -> str:
        return f"AuthStore({self.service_name!r})"

    @property
    def directory(self) -> Path:
        """Where the files are."""
        if self._directory is None:
            import platformdirs

            self._directory = platformdirs.user_state_path(self.service_name, appauthor=False) / "tokens"
        return self._directory

    def set_token(
        self,
        service: str,
        access_token: str,
        *,
        expires_in: float | None = None,
        scopes: str | Collection[str] = (),
    ) -> None:
        """Keep a token in place of any other. `expires_in` is in seconds; without it, it never expires."""
        now = self._clock()
        token = _Token(
            service=_name("service", service),
            access_token=_secret(access_token),
            issued_at=now,
            expires_at=None if expires_in is None else now + _seconds(expires_in),
            scopes=_scopes(scopes),
        )
        path = self._path(service)
        with _explained(path):
            _files.make_directory(self.directory, mode=0o700)
            with _trees.Tree(self.directory, forbidden=0o077).opened() as directory:
                _files.write_whole(path, msgspec.json.encode(token), mode=0o600, directory=directory)

    def get_token(self, service: str, scope: str | Collection[str] = ()) -> str:
        """An access token that is good, and has every scope that is asked for."""
        scopes, token = _scopes(scope), self._read(service)
        if token is None:
            raise _sign_in(service, "there is no token")
        if missing := [name for name in scopes if name not in token.scopes]:
            raise _sign_in(service, f"its token is not known to have the scope {', '.join(missing)}")
        if not token.is_fresh(self._clock()):
            raise _sign_in(service, "its token has expired")
        return token.access_token

    def is_authenticated(self, service: str) -> bool:
        """Whether there is a token that is good."""
        token = self._read(service)
        return token is not None and token.is_fresh(self._clock())

    def clear_token(self, service: str) -> None:
        """Forget a token, if there is one."""
        path = self._path(service)
        with suppress(FileNotFoundError), _explained(path):
            path.unlink()

    def services(self) -> tuple[str, ...]:
        """The services that there is a token for, good or not, sorted."""
        try:
            with (
                _explained(self.directory),
                _trees.Tree(self.directory, forbidden=0o077).opened() as directory,
            ):
                paths = [self.directory / name for name in os.listdir(directory) if name.endswith(_SUFFIX)]  # noqa: PTH208 - that very directory
                return tuple(sorted(self._parsed(directory, path).service for path in paths))
        except FileNotFoundError:
            return ()

    def _path(self, service: str) -> Path:
        """A service can be called anything, a file cannot."""
        name = hashlib.sha256(f"{self.service_name}\0{_name('service', service)}".encode()).hexdigest()
        return self.directory / f"{name[:40]}{_SUFFIX}"

    def _read(self, service: str) -> _Token | None:
        path = self._path(service)
        try:
            with _explained(path), _trees.Tree(self.directory, forbidden=0o077).opened() as directory:
                return self._parsed(directory, path)
        except FileNotFoundError:
            return None

    def _parsed(self, directory: int, path: Path) -> _Token:
        """Read a token file, if it is the file of that service."""
        data = _trees.read_in(directory, path, limit=MAX_FILE_BYTES, forbidden=0o177)
        token = _decoded(data)
        if token is None or self._path(token.service) != path:
            # Without what msgspec says of it, which may show a part of the token.
            what = f"expected the token of one service in {path}, found something else"
            raise ConfigurationError(what, "directory")
        return token


def _decoded(data: bytes) -> _Token | None:
    try:
        token = msgspec.json.decode(data, type=_Token)
        _name("service", token.service)
    except (msgspec.MsgspecError, UnicodeDecodeError, ConfigurationError):
        return None
    return token


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Errors of the system as ConfigurationErrors, but for the one that something is not there."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise ConfigurationError(f"cannot keep tokens in {path}: {exc.strerror}", "directory") from exc


def _sign_in(service: str, reason: str) -> AuthenticationRequired:
    return AuthenticationRequired(f"sign in to {service!r}: {reason}", service)


def _name(field: str, value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_CHARACTERS or not value.isprintable():
        what = f"expected 1 to {MAX_NAME_CHARACTERS} printable characters as {field}"
        raise ConfigurationError(f"{what}, found {type(value).__name__}", field)
    return value


def _secret(value: Any) -> str:
    """A token that can stand in a header; ConfigurationError, without it, when it cannot."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TOKEN_CHARACTERS or not _is_printable(value):
        found = f"{len(value)} others" if isinstance(value, str) else type(value).__name__
        what = f"expected 1 to {MAX_TOKEN_CHARACTERS} printable ASCII characters as access_token"
        raise ConfigurationError(f"{what}, found {found}", "access_token")
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigurationError(
            f"expected seconds as expires_in, found {type(value).__name__}", "expires_in"
        )
    return float(value)


def _scopes(given: Any) -> tuple[str, ...]:
    """The names of a list, or of a text with blanks between them, as OAuth writes it."""
    names = given.split() if isinstance(given, str) else given
    if not isinstance(names, list | tuple | set | frozenset) or not all(map(_is_scope, names)):
        raise ConfigurationError(f"expected the names of scopes, found {type(given).__name__}", "scopes")
    return tuple(sorted(set(names)))


def _is_scope(name: Any) -> bool:
    return isinstance(name, str) and bool(name) and _is_printable(name) and " " not in name


def _is_printable(text: str) -> bool:
    return text.isascii() and text.isprintable()
