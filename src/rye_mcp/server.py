"""The `rye-mcp` command, which client configurations start: the MCP server over standard streams, or HTTP.

`mcp` is the server object, for `mcp run` and `mcp dev` too. Over standard input and output, standard output
belongs to MCP; everything else goes to standard error.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib.metadata import version

from rye_mcp.mcp_server.greeting import Greeting
from rye_mcp.mcp_server.logs import log_crashes, log_to_standard_error
from rye_mcp.mcp_server.projects import Projects
from rye_mcp.mcp_server.rye_server import RyeServer
from rye_mcp.telemetry import exporting

__all__ = ["main", "mcp"]

log_to_standard_error()  # before anybody else decides where logs go
mcp = RyeServer(Projects().open, version=version("rye-mcp"))


def main(greeting: Greeting | None = None) -> int:
    """Serve one client over standard input and output until it goes away, or many over HTTP."""
    import anyio

    log_crashes()
    server = mcp
    if arguments := sys.argv[1:]:
        from rye_mcp.mcp_server.options import read_options

        options = read_options(arguments)
        log_to_standard_error(options.log_level)
        projects = Projects(options.projects, no_other=options.http is not None)
        make = partial(
            RyeServer,
            projects.open,
            version=version("rye-mcp"),
            expose=options.expose,
            confirm=options.confirm,
        )
        if options.http is not None:
            from rye_mcp.mcp_server.http import serve_http

            with exporting(os.environ, version("rye-mcp")):
                return serve_http(make, projects, options.http)
        server = make()
    with exporting(os.environ, version("rye-mcp")):
        anyio.run(server.run_stdio_async, greeting)
    return 0
