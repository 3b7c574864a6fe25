"""An address, in two parts: the origin, which is checked and connected to, and the target, which is sent.

Rules:

- Only http and https. The origin is what httpx makes of scheme, host and port; what is checked there is what
  is connected to. Hosts are ASCII in the end (IDNA), their labels at most 63 characters.
- The target is ASCII: percent-encoded where it has to be, otherwise left as it is. It may hold secrets, and
  no `repr` shows it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import quote

import httpx

from lilux.primitives.errors import ConfigurationError

__all__ = ["Url", "escape_path", "escape_query", "parse_origin", "refusal"]

LARGEST_PORT: Final = 65535
MAX_TARGET_CHARACTERS: Final = 65536

CACHED_CHARACTERS: Final = 4096
"""Longer texts are escaped anew each time, so that the cache stays small."""

_PORTS: Final = {"http": 80, "https": 443}

_HOST_AND_PORT: Final = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]+)(?::[0-9]{0,5})?")
_HOST: Final = re.compile(r"(?=.{1,254}$)(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?|[0-9a-f.]*:[0-9a-f:.]*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

_PATH_SAFE: Final = "!$%&'()*+,-./:;=@[\\]^_|~"
_QUERY_SAFE: Final = f"{_PATH_SAFE}?`{{}}"


@dataclass(frozen=True, slots=True)
class Url:
    """Where to ask (`origin` has no path), and what for."""

    origin: httpx.URL
    target: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.target.startswith("/"):
            raise refusal("a path that begins with `/`", "something else")
        if len(self.target) > MAX_TARGET_CHARACTERS:
            raise refusal(f"at most {MAX_TARGET_CHARACTERS} characters", str(len(self.target)))

    @property
    def host(self) -> str:
        """The name or the address, without the brackets of IPv6."""
        return self.origin.raw_host.decode("ascii")

    @property
    def port(self) -> int:
        """The port, also when it is the usual one."""
        return self.origin.port or _PORTS[self.origin.scheme]

    @property
    def netloc(self) -> str:
        """What a Host header says: the port only when it is not the usual one."""
        return self.origin.netloc.decode("ascii")

    def has_origin_of(self, other: Url) -> bool:
        """True when scheme, host and port are the same: what a secret must not leave."""
        return (self.origin.scheme, self.host, self.port) == (other.origin.scheme, other.host, other.port)

    def join(self, location: str) -> Url:
        """Where a redirect leads; ConfigurationError when it is no address of http or https."""
        try:
            full = httpx.URL(f"{self.origin.scheme}://{self.netloc}{self.target}").join(location)
            netloc, target = full.netloc.decode("ascii"), full.raw_path.decode("ascii")
        except (httpx.InvalidURL, ValueError) as exc:
            raise refusal("an absolute URL", "something else") from exc
        return Url(parse_origin(f"{full.scheme}://", netloc), target)


@lru_cache(maxsize=1024)
def parse_origin(scheme: str, host_and_port: str) -> httpx.URL:
    """An origin in its canonical form, every part of it checked; the scheme comes with its `://`."""
    if not host_and_port or host_and_port.startswith(":"):
        raise refusal("a host", "none")
    if not _HOST_AND_PORT.fullmatch(host_and_port):
        raise refusal("a host, or a host and a port", "something else")
    try:
        url = httpx.URL(f"{scheme.lower()}{host_and_port}")
        host = url.raw_host.decode("ascii")
    except (httpx.InvalidURL, ValueError) as exc:
        raise refusal("a host name or an address", "something else in its place") from exc
    if url.scheme not in _PORTS:
        raise refusal("http or https as the scheme", "another one")
    if not _HOST.fullmatch(host) or url.path != "/":
        raise refusal("a host name or an address", "something else in its place")
    if url.port is not None and not 1 <= url.port <= LARGEST_PORT:
        raise refusal(f"a port from 1 to {LARGEST_PORT}", str(url.port))
    return url


def escape_path(text: str) -> str:
    """Text of a path, with what may not stand there percent-encoded; what is encoded already stays so."""
    return _escape(text, _PATH_SAFE) if len(text) > CACHED_CHARACTERS else _escape_cached(text, _PATH_SAFE)


def escape_query(text: str) -> str:
    """The same for a query."""
    return _escape(text, _QUERY_SAFE) if len(text) > CACHED_CHARACTERS else _escape_cached(text, _QUERY_SAFE)


def refusal(expected: str, found: str) -> ConfigurationError:
    """What is wrong with an address."""
    return ConfigurationError(f"expected {expected} as url, found {found}", field="url")


def _escape(text: str, safe: str) -> str:
    if _CONTROL.search(text):
        raise refusal("no line breaks and other control characters", "one")
    try:
        return quote(text, safe=safe)
    except UnicodeEncodeError as exc:
        raise refusal("text that UTF-8 can hold", "a lone surrogate") from exc


_escape_cached = lru_cache(maxsize=1024)(_escape)
