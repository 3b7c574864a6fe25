"""Decides which request follows a redirect, and what it may carry along.

Nothing configured goes to another origin; a body that would have to go there refuses the redirect. A host
that a response names is checked like one that a parameter names.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from lilux._dataclasses import dataclass
from lilux._http.spec import Headers, HttpSpec
from lilux._http.url import Url
from lilux.primitives.errors import ConfigurationError

__all__ = ["MAX_REDIRECTS", "Hop", "RedirectRefusedError", "first_hop", "next_hop"]

MAX_REDIRECTS: Final = 20

_REPEATED: Final = frozenset([307, 308])
_REDIRECTS: Final = frozenset([301, 302, 303, *_REPEATED])


class RedirectRefusedError(Exception):
    """A redirect that is not followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One request of an exchange. `checked` says that its host must have public addresses only."""

    method: str
    url: Url
    headers: Headers = field(repr=False)
    body: bytes | None = field(repr=False)
    checked: bool


def first_hop(spec: HttpSpec) -> Hop:
    """Return the hop of the original request."""
    return Hop(
        method=spec.method,
        url=spec.url,
        headers=spec.headers,
        body=spec.body,
        checked=spec.host_from_parameter and not spec.allow_private_hosts,
    )


def next_hop(spec: HttpSpec, hop: Hop, status: int, location: str | None) -> Hop | None:
    """Return the hop that an answer asks for; None when it is no redirect, or redirects are not followed."""
    if not spec.follow_redirects or status not in _REDIRECTS or location is None:
        return None
    try:
        url = hop.url.join(location)
    except ConfigurationError as exc:
        raise RedirectRefusedError("it leads to no address of http or https") from exc
    method = _method(hop.method, status)
    headers, body = _carried(spec, hop, url, method)
    checked = not spec.allow_private_hosts and (hop.checked or url.host != hop.url.host)
    return Hop(method=method, url=url, headers=headers, body=body, checked=checked)


def _carried(spec: HttpSpec, hop: Hop, url: Url, method: str) -> tuple[Headers, bytes | None]:
    """The headers and the body that travel along."""
    same_origin = url.has_origin_of(hop.url)
    headers = hop.headers if same_origin else spec.bare_headers
    if method != hop.method:
        return _without_content(headers), None
    if hop.body is not None and not same_origin:
        raise RedirectRefusedError("it would carry the body to another origin")
    return headers, hop.body


def _method(method: str, status: int) -> str:
    if method == "HEAD" or status in _REPEATED:
        return method
    return method if status == 301 and method != "POST" else "GET"


def _without_content(headers: Headers) -> Headers:
    return tuple(header for header in headers if not header[0].lower().startswith("content-"))
