"""One line of the log for each call: what was called, how it ended, how long it took.

    {"level": "info", "event": "called", "request": "3", "tool": "execute", "item": "demo/hello",
     "run": "…", "outcome": "success", "ms": 31.2}

Everything that is logged meanwhile says the same request and item. No argument stands in it but the id of an
item, or of a run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, InputRequiredResult

from rye_mcp.mcp_server.definitions import DEFINITIONS
from rye_mcp.mcp_server.logs import facts_of, within

__all__ = ["logged"]

Result = CallToolResult | InputRequiredResult

_log = logging.getLogger(__name__)


async def logged(
    tool: str,
    arguments: Mapping[str, Any],
    context: Any,
    call: Callable[[], Awaitable[Result]],
) -> Result:
    """The result of a call, which is logged."""
    begun = time.perf_counter()
    outcome: dict[str, Any] = {"outcome": "cancelled"}
    request = None if context is None else str(context.request_context.request_id)
    named = arguments if tool in DEFINITIONS else {}  # a tool of its own may call a secret like that
    item, run = _text(named.get("item_id")), _text(named.get("run_id"))
    with within(request=request, tool=tool, item=item, run=run):
        try:
            result = await call()
            outcome = _outcome(result, tool)
        except MCPError as exc:
            outcome = {"outcome": (exc.error.data or {}).get("code", exc.error.code)}
            raise
        finally:
            if _log.isEnabledFor(logging.INFO):
                took = round((time.perf_counter() - begun) * 1000, 1)
                _log.info("called", extra=facts_of(**outcome, ms=took))
    return result


def _outcome(result: Result, tool: str) -> dict[str, Any]:
    """What a line says of a result. What a tool of its own returned is its data: nothing of it is told."""
    if isinstance(result, InputRequiredResult):
        return {"outcome": "asked"}
    facts = result.structured_content or {}
    if result.is_error:
        outcome = facts.get("code", "tool_failed")
    else:
        outcome = facts.get("status", "success") if tool in DEFINITIONS else "success"
    if tool in DEFINITIONS:
        return {"outcome": outcome, "run": facts.get("run_id")}
    about = result.meta or {}
    return {"outcome": outcome, "run": about.get("rye/run_id"), "item": about.get("rye/item")}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
