"""Answers as MCP has them: structured content, and a short text of the same.

Rules:

- A failure that a model should read is a result with `isError`, never a protocol error; it has a code, a
  sentence and a hint.
- What nobody expected becomes `internal`, without its text: that may hold anything.
- The text says what a model needs without the rest: data or output of a run, content of an item, code and
  hint of a refusal.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from mcp.types import CallToolResult, TextContent

from rye_mcp.errors import RyeError

__all__ = ["answer", "refusal", "unexpected"]

_log = logging.getLogger(__name__)


def answer(facts: Mapping[str, Any]) -> CallToolResult:
    """The answer of a verb; one whose status is `error` is a failure."""
    is_error = facts.get("status") == "error"
    content = TextContent(type="text", text=_text(facts, is_error=is_error))
    return CallToolResult(content=[content], structured_content=dict(facts), is_error=is_error)


def refusal(error: RyeError) -> CallToolResult:
    """The answer to what was refused."""
    return answer(error.as_dict())


def unexpected(error: Exception) -> CallToolResult:
    """The answer to what nobody expected; the log has the rest."""
    _log.error("a call ended with %s", type(error).__name__, exc_info=error)
    found = f"expected none of this, found {type(error).__name__}"
    return refusal(RyeError("internal", found, hint="report it, with what the server's log says"))


def _text(facts: Mapping[str, Any], *, is_error: bool) -> str:
    if is_error:
        lines = [f"{facts['code']}: {facts['error']}"]
        lines += [f"hint: {facts['hint']}"] if facts.get("hint") else []
        lines += [_compact(facts["data"])] if facts.get("data") is not None else []
        lines += [str(facts["stderr"])] if facts.get("stderr") else []
        return "\n".join(lines)
    for name in ("instructions", "content"):
        if name in facts:
            return str(facts[name])
    if "data" in facts:
        return _compact(facts["data"])
    return _compact(facts)


def _compact(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
