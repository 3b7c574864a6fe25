"""The answer of another server, as the outcome of a run.

The data of a success is `content` and `structuredContent`, as they are; nothing in them speaks in the name of
rye-mcp. An answer that says `isError`, does not fit the approved output schema, or has a number that JSON
cannot hold, is a failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lilux._json import find_issues, is_finite
from lilux.schemas import validate_parameters
from rye_mcp.executor.job.outcomes import Exit, Outcome
from rye_mcp.marks import without_marks, without_our_addresses
from rye_mcp.visible import visible, visible_lines

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from rye_mcp.bridge.servers import BridgeError

__all__ = ["read_answer", "read_failure"]

KIND: Final = "mcp"
"""The kind of exit of such a run."""

_SHOWN_CHARACTERS: Final = 2000
_FROM: Final[Mapping[str, Any]] = {"data_from": "mcp"}


def read_answer(
    answer: CallToolResult, schema: Mapping[str, Any] | None, duration_ms: float, *, server: str
) -> Outcome:
    """Read the answer to a call; `schema` is the output schema that was approved."""
    if problem := _not_finite(answer):
        what = f"expected an answer of the server {visible(server)} that JSON can hold, found: {problem}"
        return _failed(None, what, duration_ms)
    said = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    data: dict[str, Any] = {name: said[name] for name in ("content", "structuredContent") if name in said}
    data["content"] = [without_our_addresses(without_marks(block)) for block in data.get("content", ())]
    if answer.is_error:
        return _failed(
            data, _text_of(data) or "the server says that it failed, and nothing else", duration_ms
        )
    if schema is not None and (problem := _misfit(data.get("structuredContent"), schema)):
        what = (
            f"expected output of the server {visible(server)} that fits its output schema, found: {problem}"
        )
        return _failed(data, what, duration_ms)
    return Outcome(True, data, Exit(KIND), duration_ms, metadata=_FROM)


def read_failure(error: BridgeError, duration_ms: float) -> Outcome:
    """Return the outcome of a call that was not answered."""
    kind = {"timeout": "timeout", "spawn_failed": "spawn_failed", "lost": "lost"}.get(error.code, KIND)
    return Outcome(
        False,
        error.data,
        Exit(kind),
        duration_ms,
        code=error.code,
        error=error.message,
        hint=error.hint,
        denied=error.denied,
        metadata={"data_from": "none", **({"said": list(error.lines)} if error.lines else {})},
    )


def _failed(data: Any, error: str, duration_ms: float) -> Outcome:
    return Outcome(False, data, Exit(KIND), duration_ms, code="tool_failed", error=error, metadata=_FROM)


def _text_of(data: Mapping[str, Any]) -> str:
    texts = [block["text"] for block in data.get("content", ()) if block.get("type") == "text"]
    return visible_lines("\n".join(texts).strip()[:_SHOWN_CHARACTERS])[:_SHOWN_CHARACTERS]


def _not_finite(answer: CallToolResult) -> str | None:
    """Where the first number is that is NaN or beyond a double; the parser of the SDK lets both pass."""
    said = answer.model_dump(by_alias=True, exclude_none=True)
    return None if is_finite(said) else visible(str(find_issues(said)[0]))


def _misfit(structured: Any, schema: Mapping[str, Any]) -> str | None:
    if structured is None:
        return "no structured content"
    errors = validate_parameters(structured, schema).errors
    return "; ".join(map(str, errors))[:_SHOWN_CHARACTERS] or None
