"""An MCP server that does what its caller says with files and addresses: what it may not do, it tells."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def read(place: str) -> str:
    return Path(place).read_text("utf-8", "replace")


def names(place: str) -> str:
    return " ".join(sorted(each.name for each in Path(place).iterdir()))


def plant(place: str) -> str:
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    Path(place).write_text("planted")
    return "planted"


def connect(place: str) -> str:
    host, _, port = place.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5):
        return "connected"


def variable(name: str) -> str:
    return os.environ.get(name, "")


TOOLS: dict[str, Callable[[str], str]] = {
    each.__name__: each for each in (read, names, plant, connect, variable)
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "grasping", "version": "1"},
        }
    if method == "tools/list":
        schema = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
        return {
            "tools": [{"name": name, "description": name, "inputSchema": schema} for name in sorted(TOOLS)]
        }
    try:
        said, failed = TOOLS[params["name"]](params["arguments"]["place"]), False
    except OSError as exc:
        said, failed = f"{type(exc).__name__}: {exc}", True
    return {"content": [{"type": "text", "text": said}], "isError": failed}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        if message["method"] in ("initialize", "tools/list", "tools/call"):
            said = {"result": answer(message["method"], message.get("params") or {})}
        else:
            said = {"error": {"code": -32601, "message": "no such method"}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
