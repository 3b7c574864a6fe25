"""Every way in which another server can fail a call, as one exception with a code of `rye_mcp.errors`."""

from __future__ import annotations

from typing import Any

from rye_mcp.visible import visible

__all__ = ["BridgeError"]


class BridgeError(Exception):
    """A call, or a connection, that came to nothing.

    `code` is one of `spawn_failed`, `lost`, `timeout`, `tool_failed` and `remote_changed`; of the last one
    neither message nor `data` hold anything that the other server wrote. `said` is the end of what a program
    wrote on standard error; the message ends with it in one line, and `lines` are for a terminal.
    """

    def __init__(
        self, code: str, message: str, *, hint: str | None = None, data: Any = None, said: str = ""
    ) -> None:
        told = f"{message}; it last said: {visible(said)}" if said else message
        super().__init__(told)
        self.code = code
        self.message = told
        self.lines = tuple(visible(line) for line in said.split("\n")) if said else ()
        self.hint = hint
        self.data = data
