"""Characters at which some readers end a line, and no transport of MCP does: NEL, U+2028 and U+2029.

The readline of Node.js, and clients of Python that use `splitlines`, would cut a message there. They can only
stand in JSON strings, where an escape means the same.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["WholeEvents", "one_line"]

_LINE_ENDS: Final = re.compile(b"\xc2\x85|\xe2\x80[\xa8\xa9]")


def one_line(message: bytes) -> bytes:
    """JSON in UTF-8 with escapes for these characters."""
    return message if message.isascii() else _LINE_ENDS.sub(_escape, message)


def _escape(found: re.Match[bytes]) -> bytes:
    return f"\\u{ord(found[0].decode()):04x}".encode()


class WholeEvents:
    """An application whose server-sent events have none of these characters; the SDK writes each at once."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        are_events = False

        async def sent(message: MutableMapping[str, Any]) -> None:
            nonlocal are_events
            if message["type"] == "http.response.start":
                are_events = _are_events(message)
            elif are_events and message.get("body"):
                message = {**message, "body": one_line(message["body"])}
            await send(message)

        await self._application(scope, receive, sent)


def _are_events(start: MutableMapping[str, Any]) -> bool:
    kinds = (value for name, value in start["headers"] if name.lower() == b"content-type")
    return any(kind.startswith(b"text/event-stream") for kind in kinds)
