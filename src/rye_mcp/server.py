"""The `rye-mcp` command, which client configurations start: the MCP server over standard input and output.

`mcp` is the server object, for `mcp run` and `mcp dev` too. Standard output belongs to MCP; everything else
goes to standard error.
"""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from rye_mcp.mcp_surface.surface import RyeServer

if TYPE_CHECKING:
    from rye_mcp.app import App

__all__ = ["main", "mcp"]


def _open_app(project: Path | None) -> App:
    from rye_mcp.app import App, Settings

    return App.open(Settings.find(project=project))


mcp = RyeServer(_open_app, version=version("rye-mcp"))


def main() -> int:
    """Serve one client until it goes away."""
    import anyio

    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    anyio.run(mcp.run_stdio_async)
    return 0
