"""Makes one URL of a template and values, which cannot change its structure, and splits it in two parts.

The origin is what is checked and connected to, the target is what is sent. Only http and https are known.

    >>> render_url("https://example.org/users/{id}?q={q}", {}, {"id": "a/b", "q": "x&y"}).url.target
    '/users/a%2Fb?q=x%26y'
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote

import httpx

from lilux._dataclasses import dataclass
from lilux._templates import EnvironmentReference, Parameter, Placeholder, Template, parse
from lilux.primitives.errors import ConfigurationError

__all__ = ["Target", "Url", "escape_path", "escape_query", "parse_origin", "refusal", "render_url"]

LARGEST_PORT: Final = 65535
MAX_TARGET_CHARACTERS: Final = 65536

CACHED_CHARACTERS: Final = 4096
"""Longer texts and addresses are not cached, so that the caches stay small."""

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
        """The text of a Host header: with the port only when it is not the usual one."""
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
    """Make the error for an invalid address."""
    return ConfigurationError(f"expected {expected} as url, found {found}", field="url")


def _escape(text: str, safe: str) -> str:
    if _CONTROL.search(text):
        raise refusal("no line breaks and other control characters", "one")
    try:
        return quote(text, safe=safe)
    except UnicodeEncodeError as exc:
        raise refusal("text that UTF-8 can hold", "a lone surrogate") from exc


_escape_cached = lru_cache(maxsize=1024)(_escape)


Piece = tuple[str, Placeholder | None]


_SCHEME: Final = re.compile(r"https?://", re.IGNORECASE)
_FIXED: Final = re.compile(r"https?://[^/?#]+(?=[/?#])", re.IGNORECASE)
_WHOLE: Final = re.compile(
    r"(?P<scheme>https?://)(?P<authority>[^/?#\\\s]+)(?P<path>(?:/[^?#]*)?)(?P<query>\?[^#]*)?(?:#.*)?",
    re.IGNORECASE | re.DOTALL,
)
_AUTHORITY_END: Final = re.compile(r"[/?#]")
_BRACKETED: Final = re.compile(r"\[[^\]]*\]")
_HOST_VALUE: Final = re.compile(r"[A-Za-z0-9._\-\u0080-\U0010ffff]+")
_OPEN_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]?$")
_SEPARATORS: Final = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes. `userinfo` stood in the address; `secrets` must not be in any message."""

    url: Url
    from_parameter: bool
    userinfo: tuple[str, str] | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def render_url(text: str, env: Mapping[str, str], params: Mapping[str, Any]) -> Target:
    """Fill the template of an address; ConfigurationError when a value does not fit where it stands."""
    fixed = _fixed_origin(text) if len(text) <= CACHED_CHARACTERS else None
    if fixed is not None:
        origin = fixed[0]
        pieces = rest = list(fixed[1].pieces(env, params))
    else:
        pieces = _merged(parse(text).pieces(env, params))
        origin, rest = _origin_of_value(pieces) if pieces and pieces[0][1] else _origin_of_template(pieces)
    tail = _Tail()
    for piece in rest:
        tail.add(*piece)
    variables = [value for value, source in pieces if isinstance(source, EnvironmentReference)]
    return Target(
        url=Url(parse_origin(origin.scheme, origin.host_and_port), tail.text()),
        from_parameter=origin.from_parameter,
        userinfo=origin.userinfo,
        secrets=(*variables, *map(_escaped, variables), *(origin.userinfo or ())),
    )


# --- scheme and authority -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Origin:
    scheme: str
    userinfo: tuple[str, str] | None
    host_and_port: str
    from_parameter: bool


@lru_cache(maxsize=1024)
def _fixed_origin(text: str) -> tuple[_Origin, Template] | None:
    """The origin of a template, and what follows it; None when a placeholder has a say in the origin."""
    template = parse(text)
    first = template.segments[0] if template.segments else None
    fixed = _FIXED.match(first) if isinstance(first, str) else None
    if fixed is None or not isinstance(first, str):
        return None
    origin, _ = _origin_of_template([(fixed[0], None)])
    return origin, Template((first[fixed.end() :], *template.segments[1:]))


def _merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Text that stands beside text is one piece."""
    merged: list[Piece] = []
    for text, source in pieces:
        if source is None and merged and merged[-1][1] is None:
            merged[-1] = (merged[-1][0] + text, None)
        else:
            merged.append((text, source))
    return merged


def _origin_of_value(pieces: Sequence[Piece]) -> tuple[_Origin, list[Piece]]:
    """A URL that begins with a value: all of it, or all up to the text that follows."""
    (value, source), rest = pieces[0], list(pieces[1:])
    whole = _WHOLE.fullmatch(value)
    if whole is None:
        raise refusal(f"an absolute http or https URL for {_name(source)}", _shown(value, source))
    path, query = whole["path"], whole["query"] or ""
    userinfo, _, host_and_port = whole["authority"].rpartition("@")
    from_parameter = isinstance(source, Parameter)
    if userinfo and from_parameter:
        raise refusal(f"no user name in {_name(source)}", "one")
    if rest:
        following = "" if isinstance(rest[0][1], Parameter) else rest[0][0]  # its `/` is no separator
        path = _path_before(following, value, path, _name(source))
    origin = _Origin(whole["scheme"], _userinfo(userinfo), host_and_port, from_parameter)
    return origin, [(path + query, None), *rest]


def _path_before(following: str, value: str, path: str, name: str) -> str:
    if "?" in value or "#" in value:
        raise refusal(f"no query and no fragment in {name}, as text follows it", "one")
    if not path and not following.startswith(("/", "?", "#")):
        raise refusal(f"`/`, `?` or `#` after {name}", "text that would be part of the host")
    return path.removesuffix("/") if following.startswith("/") else path


def _origin_of_template(pieces: Sequence[Piece]) -> tuple[_Origin, list[Piece]]:
    """The text begins with its scheme, and values may stand in the authority."""
    scheme = _SCHEME.match(pieces[0][0]) if pieces else None
    if scheme is None:
        raise refusal("an absolute URL that begins with http:// or https://", "something else")
    authority: list[Piece] = []
    rest = [(pieces[0][0][scheme.end() :], None), *pieces[1:]]
    while rest:
        text, source = rest[0]
        end = None if source else _AUTHORITY_END.search(text)
        if end is not None:
            authority.append((text[: end.start()], None))
            rest[0] = (text[end.start() :], None)
            break
        authority.append(rest.pop(0))
    userinfo, host = _split_userinfo(authority)
    host_and_port = "".join(_host_text(host, position) for position in range(len(host)))
    return _Origin(scheme[0], _userinfo(userinfo), host_and_port, _names_the_host(host)), rest


def _split_userinfo(authority: Sequence[Piece]) -> tuple[str, Sequence[Piece]]:
    """Split the template at its last `@`; the values before it are encoded."""
    for position in reversed(range(len(authority))):
        text, source = authority[position]
        if source is None and "@" in text:
            before, _, after = text.rpartition("@")
            encoded = "".join(_userinfo_text(*piece) for piece in authority[:position]) + before
            return encoded, [(after, None), *authority[position + 1 :]]
    return "", authority


def _userinfo_text(text: str, source: Placeholder | None) -> str:
    if source is None:
        return text
    if not text:
        raise refusal(f"a value for {source.source}, which says who is asking,", "nothing")
    return _escaped(text, source)


def _host_text(pieces: Sequence[Piece], position: int) -> str:
    text, source = pieces[position]
    if source is None:
        return text
    before = "".join(piece for piece, _ in pieces[:position])
    after = "".join(piece for piece, _ in pieces[position + 1 :])
    if not before and (not after or after.startswith(":")) and _is_ipv6(text):
        return f"[{text.strip('[]')}]"
    if not _HOST_VALUE.fullmatch(text):
        raise refusal(f"a host name or an address for {_name(source)}", _shown(text, source))
    return text


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    except ValueError:
        return False
    return True


def _names_the_host(pieces: Sequence[Piece]) -> bool:
    """True when a parameter stands before the colon of the port."""
    for text, source in pieces:
        if isinstance(source, Parameter):
            return True
        if source is None and ":" in _BRACKETED.sub("", text):
            return False
    return False


def _userinfo(text: str) -> tuple[str, str] | None:
    if not text:
        return None
    user, _, password = text.partition(":")
    return unquote(user), unquote(password)


# --- path, query and fragment ---------------------------------------------------


class _Tail:
    """The part after the authority, as it grows."""

    def __init__(self) -> None:
        self._path = ""
        self._segment = ""
        self._fillers: list[Placeholder] = []
        self._query: str | None = None
        self._ended = False

    def add(self, text: str, source: Placeholder | None) -> None:
        """Text of the template, or a value."""
        if self._ended:
            return
        if source is None:
            self._add_text(text)
        elif self._query is not None:
            self._check_escape(self._query, source)
            self._query += _escaped(text, source)
        else:
            self._add_to_path(text, source)

    def text(self) -> str:
        """All of it."""
        self._end_segment()
        path = self._path or "/"
        return path if self._query is None else f"{path}?{self._query}"

    def _add_text(self, text: str) -> None:
        text, fragment, _ = text.partition("#")
        self._ended = bool(fragment)
        if self._query is not None:
            self._query += escape_query(text)
            return
        path, mark, query = text.partition("?")
        first, slash, others = escape_path(path).partition("/")
        self._segment += first
        if slash:
            self._end_segment()
            whole, slash, self._segment = others.rpartition("/")
            self._path += f"/{whole}{slash}"
        if mark:
            self._query = escape_query(query)

    def _add_to_path(self, value: str, source: Placeholder) -> None:
        self._check_escape(self._segment, source)
        first, *others = value.split("/") if isinstance(source, EnvironmentReference) else [value]
        self._segment += _escaped(first, source)
        self._fillers.append(source)
        for other in others:
            self._end_segment()
            self._path += "/"
            self._segment = _escaped(other, source)
            self._fillers.append(source)

    def _check_escape(self, before: str, source: Placeholder) -> None:
        if "%" in before[-2:] and _OPEN_ESCAPE.search(before):
            raise refusal(f"no unfinished %-escape before {source.source}", "one")

    def _end_segment(self) -> None:
        if self._fillers:
            if not self._segment:
                raise refusal(f"a path segment from {self._named()}", "an empty one")
            if _climbs(self._segment):
                raise refusal(f"no `.` or `..` as a path segment from {self._named()}", "one")
            self._fillers = []
        self._path += self._segment
        self._segment = ""

    def _named(self) -> str:
        return " and ".join(filler.source for filler in self._fillers)


def _climbs(segment: str) -> bool:
    """True for what a server that decodes before it looks would take for `.` or `..`."""
    if "." not in segment and "%" not in segment:
        return False
    return any(part.partition(";")[0] in {".", ".."} for part in _SEPARATORS.split(unquote(segment)))


def _escaped(value: str, source: Placeholder | None = None) -> str:
    if value.isascii() and value.isalnum():
        return value
    try:
        return quote(value, safe="")
    except UnicodeEncodeError as exc:
        name = source.source if source else "a value"
        raise refusal(f"text that UTF-8 can hold for {name}", "a lone surrogate") from exc


# --- words ----------------------------------------------------------------------


def _name(source: Placeholder | None) -> str:
    return source.source if source else "the address"


def _shown(value: str, source: Placeholder | None) -> str:
    """Show the value that was found: one of a caller may be shown, a variable may be a secret."""
    return f"{value!r:.60}" if isinstance(source, Parameter) else "something else"
