"""A token and everything that is kept with it, as values and as JSON.

Nothing here shows a token: neither a repr, nor an error, nor what `metadata` tells. A token counts as
expired a little early, so that one that was handed out is still good when it arrives: 60 seconds, or a
tenth of its life if that is less.
"""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from lilux.primitives.errors import ConfigurationError
from lilux.runtime._env_config import Issues

__all__ = ["Record", "RefreshConfig", "Token", "check_secret", "scope_names"]

FORMAT: Final = 1
"""The version of what is kept."""

EARLY_S: Final = 60.0
EARLY_SHARE: Final = 0.1
"""How much earlier a token counts as expired: seconds at most, and as a share of its life."""

SECRET_LIMIT: Final = 64 * 1024
"""Characters of a token."""

AUTH_METHODS: Final = ("post", "basic")
"""How a client shows who it is: in the form, or in the header `Authorization`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshConfig:
    """How a token is refreshed (RFC 6749, section 6): where, as which client, and what else is sent.

    `token_url` is `https`, or `http` to this machine. `auth_method` is `post` or `basic`. `extra` are
    further fields of the form, `audience` say.
    """

    token_url: str
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    auth_method: str = "post"
    extra: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, given: Any) -> RefreshConfig:
        """A configuration that somebody gave; ConfigurationError with all issues, without any secret."""
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            raise ConfigurationError(
                f"expected an object as refresh_config, found {type(given).__name__}", "refresh_config"
            )
        issues = Issues()
        for name in given:
            if name not in CHECKS:
                issues.add("refresh_config", f"only {', '.join(CHECKS)}", repr(name))
        values = {name: given[name] for name in CHECKS if given.get(name) is not None}
        for name, value in {"token_url": None, **values}.items():
            expected, accepts = CHECKS[name]
            if not accepts(value):
                issues.add(f"refresh_config.{name}", expected, type(value).__name__)
        issues.raise_any()
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """An access token, and what it takes to get the next one."""

    access_token: str = field(repr=False)
    issued_at: float
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    scopes: tuple[str, ...] | None = None
    refresh_config: RefreshConfig | None = None

    def is_fresh(self, now: float) -> bool:
        """Whether it can still be used."""
        if self.expires_at is None:
            return True
        early = min(EARLY_S, max(0.0, self.expires_at - self.issued_at) * EARLY_SHARE)
        return now < self.expires_at - early

    @property
    def is_refreshable(self) -> bool:
        """Whether there is all that it takes to get the next one."""
        return self.refresh_token is not None and self.refresh_config is not None

    def missing(self, scopes: Iterable[str]) -> list[str]:
        """Those of `scopes` that it is not known to have."""
        return [scope for scope in scopes if scope not in (self.scopes or ())]

    def metadata(self, now: float) -> dict[str, Any]:
        """What may be told about it."""
        return {
            "scopes": None if self.scopes is None else list(self.scopes),
            "issued_at": self.issued_at,
            "expires_at": self.expires_at,
            "expired": not self.is_fresh(now),
            "refreshable": self.is_refreshable,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is kept for a service: a token, or that there is none any more. The later one of two counts."""

    service: str
    saved_at: int
    token: Token | None = None

    def to_json(self) -> str:
        """The record as JSON."""
        return json.dumps({"format": FORMAT, **asdict(self)}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes, service: str) -> Record:
        """The record in a text; ValueError, without anything of the text, when it is none of this service."""
        try:
            given = json.loads(text)
            if given.pop("format") != FORMAT or given["service"] != service:
                raise ValueError
            if not isinstance(given["saved_at"], int):
                raise ValueError
            token = given.pop("token")
            return cls(**given, token=None if token is None else _token(token))
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError, ConfigurationError):
            raise ValueError(
                f"expected the token of {service!r} in format {FORMAT}, found something else"
            ) from None


def check_secret(name: str, value: Any) -> str:
    """A token that can stand in a header; ConfigurationError, without it, when it cannot."""
    if not isinstance(value, str) or not 0 < len(value) <= SECRET_LIMIT or not _is_printable(value):
        found = f"{len(value)} others" if isinstance(value, str) else type(value).__name__
        raise ConfigurationError(
            f"expected 1 to {SECRET_LIMIT} printable ASCII characters as {name}, found {found}", field=name
        )
    return value


def scope_names(name: str, given: Any) -> tuple[str, ...] | None:
    """Scopes as a tuple: those of a list, or of a text with blanks between them, as OAuth writes it."""
    if given is None:
        return None
    names = given.split() if isinstance(given, str) else given
    if not isinstance(names, list | tuple | set | frozenset) or not all(map(_is_scope, names)):
        raise ConfigurationError(
            f"expected the names of scopes as {name}, found {type(given).__name__}", name
        )
    return tuple(sorted(set(names)))


def _token(given: Any) -> Token:
    config = given.pop("refresh_config")
    scopes = scope_names("scopes", given.pop("scopes"))
    config = None if config is None else RefreshConfig.parse(config)
    token = Token(**given, scopes=scopes, refresh_config=config)
    check_secret("access_token", token.access_token)
    if token.refresh_token is not None:
        check_secret("refresh_token", token.refresh_token)
    times: list[Any] = [token.issued_at, 0.0 if token.expires_at is None else token.expires_at]
    if not all(isinstance(at, int | float) and math.isfinite(at) for at in times):
        raise ValueError
    return token


def _is_printable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _is_scope(name: Any) -> bool:
    return isinstance(name, str) and bool(name) and _is_printable(name) and " " not in name


def _is_form_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value


def _is_token_url(value: Any) -> bool:
    """Whether secrets may be sent there: nobody listens in, and the address holds none itself."""
    if not isinstance(value, str) or not _is_printable(value) or " " in value:
        return False
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_this_machine(host))


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_extra(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        _is_form_text(name) and isinstance(text, str) for name, text in value.items()
    )


CHECKS: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "token_url": ("an https address (or http of this machine) without a name or password", _is_token_url),
    "client_id": ("text", _is_form_text),
    "client_secret": ("text", _is_form_text),
    "auth_method": (" or ".join(AUTH_METHODS), AUTH_METHODS.__contains__),
    "extra": ("names and texts", _is_extra),
}
"""What the fields of a refresh configuration hold."""
