"""The file for `mcp dev`: `mcp` is the server object, as in `rye_mcp/server.py`.

`mcp dev` imports a file twice: where it runs itself, and in an environment that uv makes. That one has the
SDK and what `mcp.dependencies` names (`mcp run` needs the extra `cli`), but not this package. There, the
process becomes the `rye-mcp` of the installation that this file lies in.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

__all__ = ["mcp"]


def _command() -> Path:
    """The `rye-mcp` that was installed with this file, in an environment or a clone."""
    here = Path(__file__).resolve()
    installed = here.parents[1].name.endswith("-packages")
    return here.parents[4 if installed else 2] / "bin" / "rye-mcp"


if find_spec("rye_mcp") is None:
    os.execv(_command(), ["rye-mcp"])  # noqa: S606 - no shell, and the command of this very installation

from rye_mcp.server import mcp  # noqa: E402 - only where the package is

mcp.dependencies = ["mcp[cli]"]
