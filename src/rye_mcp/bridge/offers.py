"""What a server offers now: connect to it once, ask, and part again.

It starts where a call of its tools starts it, and its variables lead no further: `rye_mcp.trust.directories`
says where.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lilux import _templates
from rye_mcp.bridge.failures import BridgeError
from rye_mcp.bridge.pool import Pool
from rye_mcp.bridge.servers import Server
from rye_mcp.errors import RyeError
from rye_mcp.executor.environment.variables import usable_variables

if TYPE_CHECKING:
    from rye_mcp.bridge.definitions import Definition
    from rye_mcp.trust.directories import Directories

__all__ = ["offered_by"]


async def offered_by(
    config: Mapping[str, Any],
    variables: Mapping[str, str],
    *,
    cwd: str,
    project: str,
    directories: Directories,
) -> Mapping[str, Definition]:
    """The tools of the server that a whole configuration describes, by their names; RyeError for none."""
    given = {name: value for name, value in config.items() if name not in ("cwd", "timeout", "server")}
    place = cwd if directories.why_not(cwd) is None else os.sep
    usable = usable_variables(variables, directories, Path(project) if project else None)
    filled = _templates.render_tree(given, usable, {"project_path": project})
    server = Server.of({**filled, "server": config.get("server")}, place)
    pool = Pool()
    try:
        connection = await pool.connection(server)
        return connection.tools
    except BridgeError as exc:
        hint = exc.hint or "run the server by itself, and see what it says"
        refusal = RyeError(exc.code, exc.message, hint=hint)
        if exc.lines:
            refusal.details["said"] = list(exc.lines)
        raise refusal from exc
    finally:
        await pool.close()
