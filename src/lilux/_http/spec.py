"""One HTTP request, fully resolved: turns a configuration and parameters into an `HttpSpec`.

`render` fills the templates and checks everything; it sends nothing. A malformed field is a
ConfigurationError with its name. No message has the value of a header, token, key or variable.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import field
from typing import Any, Final, Literal, NoReturn, TypeVar

from lilux._dataclasses import dataclass
from lilux._http.body import is_json
from lilux._http.events import Sink
from lilux._http.retry import Backoff, RetryPolicy
from lilux._http.url import Target, Url, render_url
from lilux._templates import EnvironmentReference, parse, render_tree
from lilux._templates import render as fill
from lilux.primitives.errors import ConfigurationError

__all__ = [
    "CONFIG_KEYS",
    "HttpSpec",
    "choice",
    "count",
    "flag",
    "is_whole",
    "kind",
    "mapping",
    "refuse",
    "render",
    "seconds",
    "text_of",
    "utf8",
]

MAX_SECONDS: Final = 365 * 24 * 3600

_SHOWN_BITS: Final = 64
"""Larger numbers are not shown."""

C = TypeVar("C", bound=str)


def refuse(name: str, expected: str, found: str) -> NoReturn:
    """A ConfigurationError about the field with this name."""
    raise ConfigurationError(f"expected {expected} as {name}, found {found}", field=name)


def kind(value: Any) -> str:
    """Describe a value without showing it, unless it is a number."""
    if value is None or value == "":
        return "nothing"
    if isinstance(value, float | bool) or (is_whole(value) and value.bit_length() <= _SHOWN_BITS):
        return repr(value)
    return type(value).__name__


def is_whole(value: Any) -> bool:
    """True for a whole number, but not for `True`."""
    return isinstance(value, int) and not isinstance(value, bool)


def mapping(name: str, value: Any, keys: Set[str] | None = None, prefix: str = "") -> Mapping[str, Any]:
    """The keys of an object that are given a value; with `keys`, all of them known."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or (keys is None and not {*map(type, value)} <= {str}):
        refuse(name, "an object", kind(value))
    if keys is not None:
        _check_keys(name, value.keys(), keys, prefix)
    return {key: item for key, item in value.items() if item is not None}


def _check_keys(name: str, given: Set[Any], keys: Set[str], prefix: str) -> None:
    unknown = [str(key) for key in given if key not in keys]
    if unknown:
        message = f"expected only {', '.join(sorted(keys))} in {name}, found {', '.join(unknown):.200}"
        raise ConfigurationError(message, field=prefix + unknown[0])


def text_of(name: str, value: object) -> str:
    """A text; an empty one is as good."""
    if not isinstance(value, str):
        refuse(name, "text", kind(value))
    return value


def choice(name: str, value: object, words: Iterable[C]) -> C:
    """One of a few words."""
    for word in words:
        if word == value:
            return word
    refuse(name, " or ".join(words), f"{value!r:.60}" if isinstance(value, str) and value else kind(value))


def flag(name: str, given: Mapping[str, Any]) -> bool:
    """True or false; false when it is not given."""
    value = given.get(name, False)
    if not isinstance(value, bool):
        refuse(name, "true or false", kind(value))
    return value


def seconds(name: str, value: Any) -> float:
    """A time that is more than nothing."""
    number = is_whole(value) or isinstance(value, float)
    if not number or not 0 < value <= MAX_SECONDS:  # which is False for NaN too
        refuse(name, f"seconds, more than 0 and at most {MAX_SECONDS}", kind(value))
    return float(value)


def count(name: str, value: Any) -> int:
    """A whole number from 1."""
    if not is_whole(value) or value < 1:
        refuse(name, "a whole number, at least 1", kind(value))
    return int(value)


def utf8(name: str, text: str) -> bytes:
    """The bytes of a text."""
    try:
        return text.encode()
    except UnicodeEncodeError as exc:
        message = f"expected text that UTF-8 can hold as {name}, found a lone surrogate"
        raise ConfigurationError(message, field=name) from exc


Mode = Literal["sync", "stream"]

DEFAULT_TIMEOUT_S: Final = 30
MAX_RESPONSE_BYTES: Final = 10 * 1024 * 1024
DEFAULT_KEY_HEADER: Final = "X-API-Key"
MAX_HEADER_CHARACTERS: Final = 64 << 10

CONFIG_KEYS: Final = frozenset(
    [
        *("mode", "method", "url", "headers", "body", "timeout", "retry", "auth", "sinks"),
        *("follow_redirects", "allow_private_hosts", "max_response_bytes"),
    ]
)
RETRY_KEYS: Final = frozenset(["max_attempts", "backoff", "on_status"])
AUTH_KEYS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "bearer": ("token", frozenset(["type", "token"])),
    "api_key": ("key", frozenset(["type", "key", "header"])),
}
"""The types of authentication: where the secret stands, and every key."""

MODES: Final[tuple[Mode, ...]] = ("sync", "stream")
BACKOFFS: Final[tuple[Backoff, ...]] = ("exponential", "linear")
BODILESS: Final = frozenset(["GET", "HEAD", "TRACE"])
FRAMING: Final = frozenset(
    ["connection", "content-length", "host", "te", "trailer", "transfer-encoding", "upgrade"]
)


def _after_scheme(value: str) -> list[str]:
    return [value.partition(" ")[2]]


def _values_of_cookies(value: str) -> list[str]:
    return [pair.partition("=")[2].strip(" \t") for pair in value.split(";")]


CREDENTIALS: Final[Mapping[str, Callable[[str], list[str]]]] = {
    "authorization": _after_scheme,
    "proxy-authorization": _after_scheme,
    "cookie": _values_of_cookies,
}
"""Headers that are more than a secret, and what in them is one."""

TEMPLATED: Final = ("headers", "auth", "body")
"""Where variables may stand, beside the URL."""

SHORTEST_SECRET: Final = 4
"""Characters. What is shorter, and only a part of a header or a body, stands in any message by chance."""

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

_DEFAULT_HEADERS: Final = {
    mode: (("Accept", accepted), ("Accept-Encoding", packed), ("User-Agent", "lilux"))
    for mode, accepted, packed in [
        ("sync", "*/*", "gzip, deflate"),
        ("stream", "text/event-stream", "identity"),
    ]
}

_NO_RETRY: Final = RetryPolicy()

Headers = tuple[tuple[str, str], ...]
Values = tuple[Mapping[str, str], Mapping[str, Any]]
"""The values for templates: the environment, and the parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSpec:
    """One request, as `render` makes it.

    `headers` are all that go to the origin of `url`, `bare_headers` those that may go to any other. `timeout`
    is in seconds, for one attempt as a whole. `secrets` are the texts that no message may hold.
    """

    method: str
    url: Url
    headers: Headers = field(repr=False)
    bare_headers: Headers = field(repr=False)
    body: bytes | None = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    host_from_parameter: bool
    allow_private_hosts: bool
    follow_redirects: bool
    timeout: float
    max_response_bytes: int
    retry: RetryPolicy
    mode: Mode
    sinks: tuple[Sink, ...]


def render(
    config: Mapping[str, Any],
    params: Mapping[str, Any] | None = None,
    *,
    env: Mapping[str, str] | None = None,
) -> HttpSpec:
    """Fill and check a configuration; `${VAR}` comes from `env`, or from the environment of this process."""
    given = mapping("config", config, CONFIG_KEYS)
    if not isinstance(params, Mapping | None):
        refuse("params", "an object", kind(params))
    values = (os.environ if env is None else env, params or {})
    target = render_url(text_of("url", given.get("url")), *values)
    mode = _mode(given, values[1])
    method = _method(given)
    headers = _headers(given, values)
    identity = _identity(mapping("auth", given.get("auth")), target, values)
    _check_unique([*headers, *identity])
    body, content_type = _body(method, given, headers, values)
    own = (*headers, *identity, *content_type)
    bare = _DEFAULT_HEADERS[mode]
    named = {name.lower() for name, _ in own}
    return HttpSpec(
        method=method,
        url=target.url,
        headers=(*(default for default in bare if default[0].lower() not in named), *own),
        bare_headers=bare,
        body=body,
        secrets=(*target.secrets, *_secrets(headers, identity), *_variables(given, values)),
        host_from_parameter=target.from_parameter,
        allow_private_hosts=flag("allow_private_hosts", given),
        follow_redirects=flag("follow_redirects", given),
        timeout=seconds("timeout", given.get("timeout", DEFAULT_TIMEOUT_S)),
        max_response_bytes=count("max_response_bytes", given.get("max_response_bytes", MAX_RESPONSE_BYTES)),
        retry=_retry(mapping("retry", given.get("retry"), RETRY_KEYS, "retry.")),
        mode=mode,
        sinks=_sinks(given.get("sinks") or values[1].get("__sinks")),
    )


# --- what is sent ---------------------------------------------------------------


def _method(given: Mapping[str, Any]) -> str:
    method = text_of("method", given.get("method", "GET")).upper()
    if not _TOKEN.fullmatch(method) or method == "CONNECT":
        refuse("method", "an HTTP method other than CONNECT", "something else")
    return method


def _headers(given: Mapping[str, Any], values: Values) -> list[tuple[str, str]]:
    headers = []
    for name, value in mapping("headers", given.get("headers")).items():
        where = f"headers.{name}"
        if name.lower() in FRAMING:
            refuse(where, "only headers that do not frame the message", name)
        text = fill(text_of(where, value), *values)
        headers.append((_header_name("headers", name), _header_value(where, text)))
    return headers


def _header_name(where: str, name: str) -> str:
    if not _TOKEN.fullmatch(name):
        refuse(where, "names of headers", f"{name!r:.60}")
    return name


def _header_value(where: str, text: str) -> str:
    if len(text) > MAX_HEADER_CHARACTERS:
        refuse(where, f"at most {MAX_HEADER_CHARACTERS} characters", "more")
    if _CONTROL.search(text):
        refuse(where, "one line of text", "a line break or another control character")
    utf8(where, text)
    return text.strip(" \t")


def _check_unique(headers: Iterable[tuple[str, str]]) -> None:
    seen: set[str] = set()
    for name, _ in headers:
        if name.lower() in seen:
            refuse(f"headers.{name}", "a header once (auth and the URL's user name make one too)", "it twice")
        seen.add(name.lower())


def _identity(auth: Mapping[str, Any], target: Target, values: Values) -> list[tuple[str, str]]:
    """The headers that say who is asking."""
    headers = []
    if target.userinfo is not None:
        credentials = b64encode(utf8("url", ":".join(target.userinfo))).decode()
        headers.append(("Authorization", f"Basic {credentials}"))
    if not auth:
        return headers
    scheme = choice("auth.type", auth.get("type"), AUTH_KEYS)
    secret, keys = AUTH_KEYS[scheme]
    auth = mapping("auth", auth, keys, "auth.")
    value = _secret(f"auth.{secret}", auth.get(secret), values)
    if scheme == "bearer":
        return [*headers, ("Authorization", f"Bearer {value}")]
    name = fill(text_of("auth.header", auth.get("header", DEFAULT_KEY_HEADER)), *values)
    if name.lower() in FRAMING:
        refuse("auth.header", "a header that does not frame the message", name)
    return [*headers, (_header_name("auth.header", name), value)]


def _secret(where: str, template: object, values: Values) -> str:
    text = text_of(where, template)
    value = _header_value(where, fill(text, *values))
    if not value:
        sources = [part.source for part in parse(text).segments if not isinstance(part, str)]
        refuse(where, "a secret", f"nothing: is {' and '.join(sources)} set?" if sources else "nothing")
    return value


def _body(
    method: str, given: Mapping[str, Any], headers: Iterable[tuple[str, str]], values: Values
) -> tuple[bytes | None, Headers]:
    """The bytes to send, and the header that says what they are when nobody has."""
    if "body" not in given:
        return None, ()
    content_type = _content_type(headers)
    try:
        body = render_tree(given["body"], *values)
        as_it_is = isinstance(body, str) and content_type is not None and not is_json(content_type)
        text = body if as_it_is else _ENCODER.encode(body)
    except (TypeError, ValueError, RecursionError) as exc:
        raise ConfigurationError(
            f"expected a value that JSON can hold as body: {exc!s:.200}", "body"
        ) from exc
    if body is None:
        return None, ()
    if method in BODILESS:
        refuse("body", f"none with {method}", "one")
    return utf8("body", text), () if content_type else (("Content-Type", "application/json"),)


def _content_type(headers: Iterable[tuple[str, str]]) -> str | None:
    return next((value for name, value in headers if name.lower() == "content-type"), None)


# --- what must not be told ------------------------------------------------------


def _secrets(headers: Iterable[tuple[str, str]], identity: Iterable[tuple[str, str]]) -> list[str]:
    """The values of headers, and what in them is the secret itself."""
    found = []
    for name, value in headers:
        found.append(value)
        if name.lower() in CREDENTIALS:
            found += CREDENTIALS[name.lower()](value)
    for _, value in identity:
        found += (value, *_after_scheme(value))
    return found


def _variables(given: Mapping[str, Any], values: Values) -> list[str]:
    """The values of the variables in headers, auth and body, also as JSON spells them."""
    found: list[str] = []
    pending = [given[name] for name in TEMPLATED if name in given]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            found += _variables_in(item, values) if "${" in item else ()
        elif isinstance(item, Mapping):
            pending += item.values()
        elif isinstance(item, list | tuple):
            pending += item
    return found


def _variables_in(text: str, values: Values) -> Iterator[str]:
    for value, source in parse(text).pieces(*values):
        if isinstance(source, EnvironmentReference) and len(value) >= SHORTEST_SECRET:
            yield from (value, _ENCODER.encode(value)[1:-1])


# --- how it is sent -------------------------------------------------------------


def _mode(given: Mapping[str, Any], params: Mapping[str, Any]) -> Mode:
    if "mode" in given:
        return choice("mode", given["mode"], MODES)
    return "stream" if params.get("mode") == "stream" else "sync"


def _retry(given: Mapping[str, Any]) -> RetryPolicy:
    if not given:
        return _NO_RETRY
    statuses = given.get("on_status", ())
    if not isinstance(statuses, list | tuple):
        refuse("retry.on_status", "a list of statuses", kind(statuses))
    for position, status in enumerate(statuses):
        if not is_whole(status) or not 100 <= status <= 599:
            refuse(f"retry.on_status[{position}]", "a status from 100 to 599", kind(status))
    return RetryPolicy(
        max_attempts=count("retry.max_attempts", given.get("max_attempts", 1)),
        backoff=choice("retry.backoff", given.get("backoff", "exponential"), BACKOFFS),
        on_status=frozenset(statuses),
    )


def _sinks(sinks: object) -> tuple[Sink, ...]:
    if not sinks:
        return ()
    if not isinstance(sinks, list | tuple):
        refuse("sinks", "a list of sinks", kind(sinks))
    for position, sink in enumerate(sinks):
        if isinstance(sink, type) or not isinstance(sink, Sink):
            refuse(f"sinks[{position}]", "an object with `write` and `close`", kind(sink))
    return tuple(sinks)
