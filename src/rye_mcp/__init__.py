"""rye-mcp: tools that people can trust, for AI agents over MCP and for people at a terminal.

This package is the orchestrator: it decides what may run, and how. It stands on `lilux`, which runs it, and
`lilux` knows nothing of this package. The system space, the items that ship with rye-mcp, is the directory
`.ai` beside this file.
"""

from functools import cache

__all__ = ["package_version"]


@cache
def package_version() -> str:
    """The version of this package; reading it takes longer than some calls do."""
    from importlib.metadata import version

    return version("rye-mcp")
