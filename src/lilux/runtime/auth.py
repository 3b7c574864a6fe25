"""Tokens of services: kept, handed out while they are good, and refreshed when they are not.

- They are kept in the keyring of the operating system, else in a file of mode 0600:
  `lilux.runtime._token_storage` says what that protects from, and what it does not. `notices` tells when
  the keyring was not used.
- `get_token` gives a token that is good for a while yet. An expired one is refreshed (OAuth 2.0) when
  there is a refresh token and a refresh configuration, and both are kept for the next time, in whatever
  the service made of them.
- There is one refresh at a time for a token, across tasks, threads and processes: the others wait and
  take its result. A refresh that has begun is carried to its end and kept, even when everybody who waited
  for it was cancelled: the old refresh token may be worthless already.
- AuthenticationRequired means that somebody has to sign in: there is no token, it lacks a scope, it
  cannot be refreshed, or the service has said so. RefreshError means that it may work later.
- No terminal is needed, and nobody is asked for anything. No repr, error, notice or log line shows a
  token.

    store = AuthStore("my-tool")
    store.set_token("github", "gho_…", expires_in=3600, scopes=["repo"])
    token = await store.get_token("github", "repo")
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from lilux.primitives.errors import (
    AuthenticationRequired,
    ConfigurationError,
    IntegrityError,
    RefreshError,
)
from lilux.runtime._token_storage import TokenStorage
from lilux.runtime._tokens import Record, RefreshConfig, Token, check_secret, scope_names

__all__ = ["AuthStore", "RefreshConfig"]

Failure = AuthenticationRequired | RefreshError

REFRESH_LIMIT_S: Final = 60.0
"""How long to wait for another process that is refreshing the same token."""


class AuthStore:
    """Tokens by service, under one name in the keyring.

    `directory` is where files and locks are (default: the state directory of the user for
    `service_name`). `keyring_backend` is one of `keyring`'s, instead of the one that it finds; with
    `use_keyring=False` none is asked.
    """

    def __init__(
        self,
        service_name: str = "lilux",
        *,
        directory: str | os.PathLike[str] | None = None,
        use_keyring: bool = True,
        keyring_backend: Any = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.service_name = _name("service_name", service_name)
        if "/" in service_name or service_name in {".", ".."}:
            raise ConfigurationError(
                "expected a name without / as service_name, found a path", "service_name"
            )
        where = None if directory is None else Path(directory).absolute()
        self._storage = TokenStorage(service_name, where, keyring_backend, use_keyring)
        self._clock = clock

    def __repr__(self) -> str:
        return f"AuthStore({self.service_name!r})"

    @property
    def notices(self) -> tuple[str, ...]:
        """Why a keyring was not used, if it was not."""
        return self._storage.notices

    def set_token(
        self,
        service: str,
        access_token: str,
        *,
        refresh_token: str | None = None,
        expires_in: float | None = None,
        scopes: str | Collection[str] | None = None,
        refresh_config: RefreshConfig | Mapping[str, Any] | None = None,
    ) -> None:
        """Keep a token in place of any other. `expires_in` is in seconds; without it, it never expires."""
        now = self._clock()
        token = Token(
            access_token=check_secret("access_token", access_token),
            refresh_token=None if refresh_token is None else check_secret("refresh_token", refresh_token),
            issued_at=now,
            expires_at=None if expires_in is None else now + _seconds("expires_in", expires_in),
            scopes=scope_names("scopes", scopes),
            refresh_config=None if refresh_config is None else RefreshConfig.parse(refresh_config),
        )
        with self._alone():
            self._save(_name("service", service), token)

    def is_authenticated(self, service: str) -> bool:
        """Whether there is a token that is good, or can be refreshed as far as can be told from here."""
        token = self._token(service)
        return token is not None and (token.is_fresh(self._clock()) or token.is_refreshable)

    def clear_token(self, service: str) -> None:
        """Forget a token, if there is one."""
        with self._alone():
            self._storage.remove(_name("service", service), self._later(service))

    def get_cached_metadata(self, service: str) -> dict[str, Any] | None:
        """What may be told of the token: `scopes`, `issued_at`, `expires_at`, `expired`, `refreshable`."""
        token = self._token(service)
        return None if token is None else token.metadata(self._clock())

    async def get_token(self, service: str, scope: str | Collection[str] | None = None) -> str:
        """An access token that is good, and has every scope that is asked for."""
        _name("service", service)
        scopes = scope_names("scope", scope) or ()
        found = await anyio.to_thread.run_sync(self._token, service, abandon_on_cancel=True)
        token = self._usable(service, found, scopes)
        if token is None:
            following = await self._flight(service).fly(lambda: self._refresh(service))
            token = self._usable(service, following, scopes)
        if token is None:
            raise RefreshError(f"the token of {service!r} was refreshed, and has expired already", service)
        return token.access_token

    # --- one after the other ----------------------------------------------------

    def _flight(self, service: str) -> _Flight:
        flights = _flights.get(None)
        if flights is None:
            _flights.set(flights := WeakKeyDictionary())
        return flights.setdefault(self, {}).setdefault(service, _Flight())

    def _refresh(self, service: str) -> Token | None:
        """Refresh a token, unless somebody has done so meanwhile. Blocks."""
        try:
            with self._storage.lock(service, timeout_s=REFRESH_LIMIT_S):
                record = self._storage.read(service)
                if record is None or record.token is None or record.token.is_fresh(self._clock()):
                    return None if record is None else record.token
                return self._exchanged(record, record.token)
        except TimeoutError as exc:
            raise RefreshError(
                f"somebody else has been refreshing the token of {service!r} for {REFRESH_LIMIT_S:g} s",
                service,
            ) from exc

    def _exchanged(self, record: Record, token: Token) -> Token | None:
        """The next token, kept; or what somebody has set, or cleared, while the service was thinking."""
        from lilux.runtime._oauth import refreshed

        following = refreshed(record.service, token, self._clock())
        with self._alone():
            now = self._storage.read(record.service)
            if now is None or now.saved_at != record.saved_at:
                return None if now is None else now.token
            self._save(record.service, following)
        return following

    # --- what is kept -----------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else changes what is kept meanwhile."""
        try:
            with self._storage.lock():
                yield
        except TimeoutError as exc:
            raise ConfigurationError(
                f"cannot keep tokens in {self._storage.directory}: another process holds them", "directory"
            ) from exc

    def _token(self, service: str) -> Token | None:
        record = self._storage.read(_name("service", service))
        return None if record is None else record.token

    def _save(self, service: str, token: Token) -> None:
        self._storage.write(Record(service=service, saved_at=self._later(service), token=token))

    def _later(self, service: str) -> int:
        """A time after that of the record which is kept, whatever the clock says."""
        try:
            record = self._storage.read(service)
        except (ConfigurationError, IntegrityError):  # what cannot be read is about to be replaced
            record = None
        return max(time.time_ns(), 0 if record is None else record.saved_at + 1)

    def _usable(self, service: str, token: Token | None, scopes: Collection[str]) -> Token | None:
        """A token that can be used, None when it has to be refreshed; AuthenticationRequired when neither."""
        if token is None:
            raise _sign_in(service, "there is no token")
        if missing := token.missing(scopes):
            raise _sign_in(service, f"its token is not known to have the scope {', '.join(missing)}")
        if token.is_fresh(self._clock()):
            return token
        if not token.is_refreshable:
            raise _sign_in(service, "its token has expired and cannot be refreshed")
        return None


@dataclass
class _Flight:
    """The refresh of one token in one event loop: the first one does it, the others get its result."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    failures: int = 0
    failure: Failure | None = None

    async def fly(self, refresh: Callable[[], Token | None]) -> Token | None:
        """Refresh, or wait for the one who does."""
        seen = self.failures
        async with self.lock:
            if self.failure is not None and self.failures != seen:
                raise _copy_of(self.failure)
            try:
                return await anyio.to_thread.run_sync(refresh, abandon_on_cancel=True)
            except (AuthenticationRequired, RefreshError) as exc:
                # A copy: the error itself knows the store through its traceback, and would keep it alive.
                self.failures, self.failure = self.failures + 1, _copy_of(exc)
                raise


def _copy_of(failure: Failure) -> Failure:
    return type(failure)(failure.message, failure.service)


_flights: RunVar[WeakKeyDictionary[AuthStore, dict[str, _Flight]]] = RunVar("lilux.auth")
"""The refreshes of an event loop, by store and service. They are forgotten with their store."""


def _sign_in(service: str, reason: str) -> AuthenticationRequired:
    return AuthenticationRequired(f"sign in to {service!r}: {reason}", service)


def _name(field: str, value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > 512 or not value.isprintable():
        raise ConfigurationError(
            f"expected 1 to 512 printable characters as {field}, found {type(value).__name__}", field
        )
    return value


def _seconds(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigurationError(f"expected seconds as {field}, found {type(value).__name__}", field)
    return float(value)
