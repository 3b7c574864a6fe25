"""What a server offers now: connect to it once, ask, and part again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lilux import _templates
from rye_mcp.bridge.failures import BridgeError
from rye_mcp.bridge.pool import Pool
from rye_mcp.bridge.servers import Server
from rye_mcp.errors import RyeError

if TYPE_CHECKING:
    from rye_mcp.bridge.definitions import Definition

__all__ = ["offered_by"]


async def offered_by(
    config: Mapping[str, Any], variables: Mapping[str, str], *, cwd: str, project: str
) -> Mapping[str, Definition]:
    """The tools of the server that a whole configuration describes, by their names; RyeError for none."""
    given = {name: value for name, value in config.items() if name not in ("cwd", "timeout")}
    server = Server.of(_templates.render_tree(given, variables, {"project_path": project}), cwd)
    pool = Pool()
    try:
        connection = await pool.connection(server)
        return connection.tools
    except BridgeError as exc:
        raise RyeError(
            exc.code, exc.message, hint=exc.hint or "run the server by itself, and see what it says"
        ) from exc
    finally:
        await pool.close()
