"""Starts the MCP server as a desktop session does, and asks it a few things; nothing is run or written.

The environment has hardly any PATH, the working directory is `/`. The supervisor runs it, so nothing is left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import Dialogue, ProcessSpec, SubprocessPrimitive
from rye_mcp.cli._client_files import KEPT

__all__ = ["BARE_PATH", "Conversation", "bare_environment", "talk"]

BARE_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
"""The PATH of a graphical session, roughly."""

TIME_LIMIT_S: Final = 20.0

_PERSONAL = ("HOME", "USER", "LOGNAME", "LANG", "SHELL", "TMPDIR", "XDG_RUNTIME_DIR")
_PROTOCOL: Final = "2025-11-25"
_INITIALIZE, _LIST, _CALL = 1, 2, 3
_LAST_WORDS: Final = 3
_LAST_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Conversation:
    """The server's answers; None for a missing one. `last_words` is the end of its standard error."""

    initialized: Mapping[str, Any] | None
    tools: tuple[str, ...] | None
    dry_run: Mapping[str, Any] | None
    last_words: str
    duration_ms: float


def bare_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment that a client with windows starts the server with."""
    named = {name: environment[name] for name in (*_PERSONAL, *KEPT) if environment.get(name)}
    return {**named, "PATH": BARE_PATH}


async def talk(command: Path, project: Path | None, environment: Mapping[str, str]) -> Conversation:
    """Start the server, shake hands, list its tools, and try what would run one."""
    heard = _Heard()
    spec = ProcessSpec(
        command=str(command),
        args=() if project is None else ("--project", str(project)),
        cwd="/",
        env=bare_environment(environment),
        timeout=TIME_LIMIT_S,
        on_output=heard.hear,
    )
    result = await SubprocessPrimitive().converse(spec, heard.begin)
    listed = heard.answers.get(_LIST)
    called = heard.answers.get(_CALL)
    return Conversation(
        initialized=heard.answers.get(_INITIALIZE),
        tools=None if listed is None else tuple(tool["name"] for tool in listed["tools"]),
        dry_run=None if called is None else called["structuredContent"],
        last_words=" ".join(heard.errors.decode(errors="replace").strip().splitlines()[-_LAST_WORDS:]),
        duration_ms=result.duration_ms,
    )


class _Heard:
    """The answers of a server. Its input stays open until they are there: its end would end the calls."""

    def __init__(self) -> None:
        self.answers: dict[object, Any] = {}
        self.errors = b""
        self._rest = b""
        self._dialogue: Dialogue | None = None

    def begin(self, dialogue: Dialogue) -> None:
        """Ask everything at once."""
        self._dialogue = dialogue
        for message in _messages():
            dialogue.tell(json.dumps(message).encode() + b"\n")

    def hear(self, stream: str, data: bytes, _skipped: int) -> None:
        """Take a piece of output."""
        if self._dialogue is None:
            return
        self._dialogue.took(len(data))
        if stream != "stdout":
            self.errors = (self.errors + data)[-_LAST_BYTES:]
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.answers |= {each.get("id"): each.get("result") for each in map(_read, lines)}
        if self.answers.keys() >= {_INITIALIZE, _LIST, _CALL}:
            self._dialogue.end_input()


def _messages() -> list[dict[str, Any]]:
    client = {"name": "rye doctor", "version": "1"}
    hello = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": client}
    call = {"item_id": "rye/bash/bash", "parameters": {"command": "true"}, "dry_run": True}
    return [
        _request(_INITIALIZE, "initialize", hello),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        _request(_LIST, "tools/list", {}),
        _request(_CALL, "tools/call", {"name": "execute", "arguments": call}),
    ]


def _request(number: int, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}


def _read(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
