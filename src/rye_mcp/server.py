"""The `rye-mcp` command, which client configurations start as an MCP server.

The server itself is not part of this version. The command exists so that its name is taken by the right
package, and says so to whoever starts it: on standard error, because standard output belongs to MCP.
"""

import sys

__all__ = ["main"]

NOT_YET = "rye-mcp: the MCP server is not in this version yet; `rye demo` shows what this version does."
EXIT_UNAVAILABLE = 2


def main() -> int:
    """Say that there is no server yet, and return a failing exit code."""
    sys.stderr.write(f"{NOT_YET}\n")
    return EXIT_UNAVAILABLE
