"""Answers as MCP has them: structured content, a short text of the same, and content blocks of a tool.

All text that is shown is made visible; data in structured content is exact. A failure that a model should
read is a result with `isError`, a code, a sentence and a hint to follow. An unexpected error becomes
`internal`, without its text. What was kept of an answer (`rye_mcp.mcp_server.room`) is linked to.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from mcp.types import CallToolResult, InputRequiredResult, ResourceLink, TextContent

from rye_mcp.errors import RyeError, addressed_to_a_person, printable
from rye_mcp.executor.tree import ProgramInterrupted
from rye_mcp.marks import without_marks
from rye_mcp.visible import visible, visible_lines, with_texts

if TYPE_CHECKING:
    from mcp.types import ContentBlock

__all__ = [
    "QUESTION_LIFETIME_S",
    "QuestionAsked",
    "answer",
    "blocks_in",
    "exact",
    "exposed_answer",
    "followable",
    "internal",
    "is_long",
    "refusal",
    "seen",
    "structured",
    "summary",
    "unexpected",
]

_ONE_ITEM: Final = r"\brye {} (?P<id>[\w./-]+)(?: --type (?P<type>\w+))?$"
_CALLS: Final = (
    (re.compile(_ONE_ITEM.format("show")), "load with item_id {id}", ""),
    (re.compile(_ONE_ITEM.format("explain")), "execute with item_id {id}", ", dry_run true"),
    (re.compile(r"\brye run (?P<id>[\w./-]+) --help$"), "load with item_id {id}", ""),
    (re.compile(r", then: rye log show (?P<id>[\w-]+)$"), "; this was the run {id}", ""),
    (re.compile(r"\bcopy it with --overwrite$"), "load it with overwrite true", ""),
    (re.compile(r"^rye list$"), "search finds ids, by words for what you want", ""),
)


def followable(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a refusal, with such a hint."""
    told = addressed_to_a_person(facts)
    hint = told.get("hint")
    return {**told, "hint": _call_for(hint)} if isinstance(hint, str) else told


def _call_for(hint: str) -> str:
    for command, call, more in _CALLS:
        if found := command.search(hint):
            named = found.groupdict()
            item_type = f", item_type {named['type']}" if named.get("type") else ""
            return hint[: found.start()] + call.format(**named) + item_type + more
    return hint


MAX_BLOCKS: Final = 100
"""How many blocks one answer may have."""

MAX_TEXTS: Final = 1 << 20
"""How many characters the texts of all blocks have together, before what hides in them is written out."""

MAX_SUMMARY: Final = 64 << 10
"""How many characters of a block are repeated in the structured content."""

_RECEIPT: Final = "receipt"
_KEYS: Final = frozenset({"content", "structuredContent"})
_IN_BASE64: Final = frozenset({"data", "blob"})
_SCHEMES: Final = ("https://", "http://")


def seen(value: Any) -> Any:
    """A copy in which every text can be seen."""
    return with_texts(value, visible_lines)


def exact(value: Any) -> Any:
    """A copy with every text as it is."""
    return with_texts(value, lambda text: text if text.isascii() else printable(text))


def structured(facts: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as structured content: what a run returned or wrote is exact, all other text is visible."""
    data = {"data", "content"} if "next_offset" in facts else {"data"}
    return {name: exact(value) if name in data else seen(value) for name, value in facts.items()}


def blocks_in(data: Any) -> list[ContentBlock] | None:
    """The content blocks that a tool has returned; None when its data is something else."""
    if not _says_blocks(data) or is_long(data):
        return None
    try:
        valid = CallToolResult.model_validate({"content": list(map(_seen_block, data["content"]))}).content
    except ValueError:
        return None
    return valid if all(map(_is_sound, valid)) else None


def is_long(data: Any) -> bool:
    """Whether the texts of content blocks are too long to be shown: their visible form is longer still."""
    return _says_blocks(data) and _characters(data["content"]) > MAX_TEXTS


def _says_blocks(data: Any) -> bool:
    if not isinstance(data, dict) or "content" not in data or data.keys() - _KEYS:
        return False
    blocks = data["content"]
    return isinstance(blocks, list) and 0 < len(blocks) <= MAX_BLOCKS


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(str(name)) + _characters(value[name]) for name in value.keys() - _IN_BASE64)
    return sum(map(_characters, value)) if isinstance(value, list | tuple) else 0


def summary(blocks: list[ContentBlock]) -> list[dict[str, Any]]:
    """Describe the blocks, without their content."""
    return [_summary(block) for block in blocks]


def _summary(block: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": block.type}
    for name in ("text", "uri"):
        value = getattr(block, name, None)
        if value is not None and len(str(value)) <= MAX_SUMMARY:
            facts[name] = value
        elif value is not None:
            facts["characters"] = len(str(value))
    if getattr(block, "mime_type", None):
        facts["mimeType"] = block.mime_type
    if isinstance(getattr(block, "data", None), str):
        facts["bytes"] = len(block.data) * 3 // 4
    return facts


def _seen_block(block: Any) -> Any:
    """A block with its texts to be seen; what is in base64 is left alone, as it is checked anyway."""
    if not isinstance(block, dict):
        return block
    shown = {name: value if name in _IN_BASE64 else seen(value) for name, value in block.items()}
    return without_marks(shown)


def _is_sound(block: Any) -> bool:
    match block.type:
        case "text":
            return True
        case "image" | "audio":
            return block.mime_type.startswith(f"{block.type}/") and _is_base64(block.data)
        case "resource_link":
            return str(block.uri).startswith(_SCHEMES)
        case "resource":
            blob = getattr(block.resource, "blob", None)
            return str(block.resource.uri).startswith(_SCHEMES) and (blob is None or _is_base64(blob))
        case _:
            return False


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


QUESTION_LIFETIME_S: Final = 600
"""For how long a question can be answered."""

MAX_TEXT: Final = 64 << 10
"""How many characters of text stand beside structured content."""

_BEGINNING: Final = 4 << 10
_IN_STRUCTURED: Final = "the structured content has them"
_IN_DATA: Final = "execute returns them as data"

_log = logging.getLogger(__name__)


class QuestionAsked(ProgramInterrupted):
    """A call ends with a question; the client calls again with what was said."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__("a question was asked")
        self.result = result


def answer(facts: Mapping[str, Any]) -> CallToolResult:
    """The answer of a verb; one whose status is `error` is a failure.

    The digest of a receipt is for programs: it stands in `_meta`, and takes no room of a model.
    """
    meta = _receipt_of(facts) or None
    facts = {name: value for name, value in facts.items() if name != _RECEIPT}
    is_error = facts.get("status") == "error"
    blocks = None if is_error else blocks_in(facts.get("data"))
    if blocks is not None:
        found = structured({**facts, "data": {**facts["data"], "content": summary(blocks)}})
        content = [*blocks, *_links(facts)]
        return CallToolResult(content=content, structured_content=found, _meta=meta)
    told = followable(facts) if is_error else addressed_to_a_person(facts) if "failed" in facts else facts
    content = [TextContent(type="text", text=_whole_text(told, _short(_text(told, is_error=is_error))))]
    return CallToolResult(
        content=[*content, *_links(facts)],
        structured_content=structured(told),
        is_error=is_error,
        _meta=meta,
    )


def _receipt_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The digest of a run's receipt, as `_meta` names it."""
    return {f"rye/{_RECEIPT}": facts[_RECEIPT]} if facts.get(_RECEIPT) else {}


_IN_META: Final = {"run_id": "run_id", "item_id": "item", "project": "project", "notices": "notices"}
"""Facts of a call for `_meta`, with their names there."""


def exposed_answer(facts: Mapping[str, Any], schema: Mapping[str, Any] | None) -> CallToolResult:
    """The answer of a tool that is one of MCP itself: its data and nothing else; `schema` is its promise."""
    about = {f"rye/{name}": facts[known] for known, name in _IN_META.items() if facts.get(known)}
    about |= _receipt_of(facts)
    if facts.get("status") != "success":
        return answer(facts).model_copy(update={"meta": seen(about)})
    data = facts.get("data")
    blocks = blocks_in(data)
    returned, where = _returned(data, blocks, schema)
    if schema is not None:
        _require_promised(returned, schema, str(facts.get("item_id")))
    found = exact(returned) if isinstance(returned, dict) else None
    text = "" if "data" not in facts and facts.get("kept") else _compact(data)
    shown = _whole_text(facts, visible_lines(text) if found is None else _short(text, where))
    content = [*(blocks or [TextContent(type="text", text=shown)]), *_links(facts)]
    return CallToolResult(content=content, structured_content=found, _meta=seen(about))


def _returned(
    data: Any, blocks: list[ContentBlock] | None, schema: Mapping[str, Any] | None
) -> tuple[Any, str]:
    """The part of the data that fits the promise, and where a reader finds the rest."""
    if isinstance(data, dict) and (blocks is not None or (schema is not None and is_long(data))):
        return data.get("structuredContent"), _IN_DATA
    return data, _IN_STRUCTURED


def _links(facts: Mapping[str, Any]) -> list[ResourceLink]:
    """A link to each result that was kept."""
    return [
        ResourceLink(
            type="resource_link",
            uri=kept["handle"],
            name=visible(kept["name"]),
            mime_type=kept["mime_type"],
            size=kept["bytes"],
        )
        for kept in facts.get("kept", ())
    ]


def refusal(error: RyeError, **more: Any) -> CallToolResult:
    """The answer to what was refused."""
    facts = error.as_dict() | more
    return answer(facts if error.receipt is None else facts | {_RECEIPT: error.receipt})


def unexpected(error: Exception) -> CallToolResult:
    """The answer to what nobody expected; the log has the rest."""
    return refusal(internal(error))


def internal(error: Exception) -> RyeError:
    """Turn an unexpected error into one that tells its type only. The log does not get its text either."""
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
    for name in ("instructions", "content", "data"):
        if name in facts:
            return _compact(facts[name])
    return "" if facts.get("kept") else _compact(facts)


def _whole_text(facts: Mapping[str, Any], shown: str) -> str:
    """The text of an answer, and after it what was kept."""
    return "\n".join(filter(None, [shown, *map(visible_lines, _about_kept(facts))]))


def _about_kept(facts: Mapping[str, Any]) -> Iterator[str]:
    """Say which parts were kept, how to read them, and how they begin."""
    for kept in facts.get("kept", ()):
        whole = "all of it" if kept["bytes"] <= len(kept["preview"].encode()) else "its beginning"
        shown = f"; {whole}:\n{kept['preview']}" if kept["preview"] else ""
        yield (
            f"kept: {kept['name']}, {kept['bytes']} bytes of {kept['mime_type']}. load with run_id "
            f"{kept['handle']} reads it in pieces, and other tools take this handle as a parameter{shown}"
        )


def _short(text: str, where: str = _IN_STRUCTURED) -> str:
    """A text as it can be seen, or its beginning with its length; then the whole is somewhere else."""
    shown = visible_lines(text[: MAX_TEXT + 1])
    if len(shown) <= MAX_TEXT:
        return shown
    return f"{shown[:_BEGINNING]}\n… {len(text)} characters in all: {where}"


def _compact(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
