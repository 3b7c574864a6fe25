"""The `rye-mcp` command, which client configurations start: the MCP server over standard streams, or HTTP.

`mcp` is the server object, for `mcp run` and `mcp dev` too. Over standard input and output, standard output
belongs to MCP; everything else goes to standard error.
"""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version

from rye_mcp.mcp_surface.projects import Projects
from rye_mcp.mcp_surface.surface import RyeServer

__all__ = ["main", "mcp"]

mcp = RyeServer(Projects().open, version=version("rye-mcp"))


def main() -> int:
    """Serve one client over standard input and output until it goes away, or many over HTTP."""
    import anyio

    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    server = mcp
    if arguments := sys.argv[1:]:
        from rye_mcp.mcp_surface.options import read_options

        options = read_options(arguments)
        projects = Projects(options.projects, no_other=options.http is not None)
        server = RyeServer(projects.open, version=version("rye-mcp"), expose=options.expose)
        if options.http is not None:
            from rye_mcp.mcp_surface.http import serve_http

            return serve_http(server, projects, options.http)
    anyio.run(server.run_stdio_async)
    return 0
