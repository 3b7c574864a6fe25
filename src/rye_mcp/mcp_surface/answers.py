"""Answers as MCP has them: structured content, and a short text of the same.

Rules:

- A failure that a model should read is a result with `isError`, never a protocol error; it has a code, a
  sentence and a hint.
- What nobody expected becomes `internal`, without its text: that may hold anything.
- Text of more than `MAX_TEXT` characters is cut where structured content has all of it: it is sent once. It
  is cut before it is made visible, so that nothing is written out that nobody sees.
- The text says what a model needs without the rest: data or output of a run, content of an item, code and
  hint of a refusal. Content blocks that a tool returned stand in its place.
- A question ends a call too, for clients of 2026, which call again with what was said (`QuestionAsked`).
- Nothing hides in the text, and data in structured content is exact; see `rye_mcp.mcp_surface.content`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from mcp.types import CallToolResult, InputRequiredResult, TextContent

from rye_mcp.errors import RyeError, addressed_to_a_person
from rye_mcp.mcp_surface.content import blocks_in, exact, is_long, seen, structured, summary
from rye_mcp.mcp_surface.hints import followable
from rye_mcp.visible import visible_lines

__all__ = [
    "QUESTION_LIFETIME_S",
    "QuestionAsked",
    "answer",
    "internal",
    "native_answer",
    "refusal",
    "unexpected",
]

QUESTION_LIFETIME_S: Final = 600
"""For how long a question can be answered."""

MAX_TEXT: Final = 64 << 10
"""How many characters of text stand beside structured content."""

_BEGINNING: Final = 4 << 10
_IN_STRUCTURED: Final = "the structured content has them"
_IN_DATA: Final = "execute returns them as data"

_log = logging.getLogger(__name__)


class QuestionAsked(Exception):  # noqa: N818 - nothing is wrong
    """A call ends with a question; the client calls again with what was said."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__("a question was asked")
        self.result = result


def answer(facts: Mapping[str, Any]) -> CallToolResult:
    """The answer of a verb; one whose status is `error` is a failure."""
    is_error = facts.get("status") == "error"
    blocks = None if is_error else blocks_in(facts.get("data"))
    if blocks is not None:
        found = structured({**facts, "data": {**facts["data"], "content": summary(blocks)}})
        return CallToolResult(content=blocks, structured_content=found)
    told = followable(facts) if is_error else addressed_to_a_person(facts) if "failed" in facts else facts
    content = TextContent(type="text", text=_short(_text(told, is_error=is_error)))
    return CallToolResult(content=[content], structured_content=structured(told), is_error=is_error)


def native_answer(facts: Mapping[str, Any], schema: Mapping[str, Any] | None) -> CallToolResult:
    """The answer of a tool that is one of MCP itself: its data and nothing else; `schema` is its promise."""
    told = {"run_id": "run_id", "item_id": "item", "project": "project", "notices": "notices"}
    about = {f"rye/{name}": facts[known] for known, name in told.items() if facts.get(known)}
    if facts.get("status") != "success":
        return answer(facts).model_copy(update={"meta": seen(about)})
    data = facts.get("data")
    blocks = blocks_in(data)
    returned, where = data, _IN_STRUCTURED
    if isinstance(data, dict) and (blocks is not None or (schema is not None and is_long(data))):
        returned, where = data.get("structuredContent"), _IN_DATA
    if schema is not None:
        _require_promised(returned, schema, str(facts.get("item_id")))
    found = exact(returned) if isinstance(returned, dict) else None
    text = _compact(data)
    shown = visible_lines(text) if found is None else _short(text, where)
    content = blocks or [TextContent(type="text", text=shown)]
    return CallToolResult(content=content, structured_content=found, _meta=seen(about))


def refusal(error: RyeError, **more: Any) -> CallToolResult:
    """The answer to what was refused."""
    return answer(error.as_dict() | more)


def unexpected(error: Exception) -> CallToolResult:
    """The answer to what nobody expected; the log has the rest."""
    return refusal(internal(error))


def internal(error: Exception) -> RyeError:
    """What is said of an error that nobody expected: its type. It is logged, without its text too."""
    _log.error("a call ended with an error that nobody expected", exc_info=error)
    found = f"expected none of this, found {type(error).__name__}"
    return RyeError("internal", found, hint="report it, with what the server's log says")


def _require_promised(data: Any, schema: Mapping[str, Any], item_id: str) -> None:
    from lilux.schemas import validate_parameters

    errors = validate_parameters(data, schema).errors if isinstance(data, dict) else ("it is no object",)
    if errors:
        listed = "; ".join(map(str, errors))
        what = f"expected output that fits the output schema of {item_id}, found: {listed}"
        raise RyeError("tool_failed", what, hint=f"fix the output or the schema of {item_id}", data=data)


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


def _short(text: str, where: str = _IN_STRUCTURED) -> str:
    """A text as it can be seen, or its beginning with its length; then the whole is somewhere else."""
    shown = visible_lines(text[: MAX_TEXT + 1])
    if len(shown) <= MAX_TEXT:
        return shown
    return f"{shown[:_BEGINNING]}\n… {len(text)} characters in all: {where}"


def _compact(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
