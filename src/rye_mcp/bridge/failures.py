"""Every way in which another server can fail a call, as one exception with a code of `rye_mcp.errors`."""

from __future__ import annotations

from typing import Any

__all__ = ["BridgeError"]


class BridgeError(Exception):
    """A call, or a connection, that came to nothing.

    `code` is one of `spawn_failed`, `lost`, `timeout`, `tool_failed` and `remote_changed`; of the last one
    neither message nor `data` hold anything that the other server wrote.
    """

    def __init__(self, code: str, message: str, *, hint: str | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.data = data
