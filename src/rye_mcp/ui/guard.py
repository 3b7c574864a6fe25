"""The checks that every request of the page passes, and the headers of every answer.

1. `Host` and `Origin` are those of the page. 2. The cookie is that of the session; what opens a session, and
looks, needs none. 3. Whatever changes something is a POST of the page itself: with its origin, and with the
token of its forms. The browser runs nothing of an answer, frames and keeps none, and asks no other server.
"""

from __future__ import annotations

import logging
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rye_mcp.known_names import STATUS_OF_UNKNOWN, KnownNames
from rye_mcp.ui.documents import HEADERS
from rye_mcp.ui.session import Session

__all__ = ["MAX_FORM_BYTES", "OPEN_PATHS", "Guard", "form_of"]

OPEN_PATHS: Final = frozenset({"/", "/session", "/icon.svg"})
"""What a browser gets before it has a session; nothing of this user is in it."""

MAX_FORM_BYTES: Final = 64 << 10
"""How long the form of a POST may be."""

_log = logging.getLogger(__name__)


class Guard:
    """The application behind these checks."""

    def __init__(self, application: ASGIApp, *, session: Session, names: KnownNames, cookie: str) -> None:
        self._application = application
        self._session = session
        self._names = names
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and pass it on."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._application)(scope, receive, sent)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        origins = headers.getlist("origin")
        unknown = self._names.unknown_in(headers.getlist("host"), origins)
        if unknown is not None:
            _log.warning("refused a request of the page with another %s", unknown)
            return _refused(
                STATUS_OF_UNKNOWN[unknown], f"expected the {unknown} of this page, found another one"
            )
        is_change = scope["method"] not in ("GET", "HEAD")
        if is_change and not origins:
            return _refused(403, "expected an Origin beside a change, found none")
        has_session = self._session.knows(cookie_in(headers, self._cookie))
        scope.setdefault("state", {})["has_session"] = has_session
        if not has_session and scope["path"] not in OPEN_PATHS:
            return _refused(
                401, "expected the session of this page: open the address that rye ui has printed"
            )
        return None


def cookie_in(headers: Headers, name: str) -> str | None:
    """The value of a cookie; None without one."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


async def form_of(request: Request, session: Session) -> dict[str, str] | Response:
    """The fields of a form of the page; the refusal of anything else."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_FORM_BYTES:
            return _refused(413, f"expected a form of at most {MAX_FORM_BYTES} bytes, found a longer one")
    fields = {name: values[-1] for name, values in parse_qs(bytes(body).decode("utf-8", "replace")).items()}
    if not session.knows_form(fields.pop("token", "")):
        return _refused(403, "expected a form of this page, found another one: load the page again")
    return fields


def _refused(status: int, reason: str) -> Response:
    return PlainTextResponse(reason + "\n", status_code=status)
