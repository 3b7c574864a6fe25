"""Answers as MCP has them: structured content, a short text of the same, and content blocks of a tool.

All text that is shown is made visible; data in structured content is exact. A failure that a model should
read is a result with `isError`, a code, a sentence and a hint to follow. An unexpected error becomes
`internal`, without its text. Over HTTP an answer that is too long is kept, and its handle is given instead.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcp.types import CallToolResult, InputRequiredResult, TextContent

from lilux._dataclasses import dataclass
from rye_mcp.apart import apart_if_large, off_loop
from rye_mcp.errors import RyeError, addressed_to_a_person, printable
from rye_mcp.marks import without_marks
from rye_mcp.visible import visible_lines, with_texts

if TYPE_CHECKING:
    from mcp.types import ContentBlock

    from rye_mcp.app import App

__all__ = [
    "MAX_ANSWER_BYTES",
    "QUESTION_LIFETIME_S",
    "QuestionAsked",
    "Room",
    "answer",
    "blocks_in",
    "exact",
    "exposed_answer",
    "followable",
    "internal",
    "is_long",
    "refusal",
    "require_fitting",
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
    data = {"data", "content"} if "stream" in facts else {"data"}
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
    """What the blocks are, without what is in them."""
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


class QuestionAsked(Exception):  # noqa: N818 - nothing is wrong
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
        return CallToolResult(content=blocks, structured_content=found, _meta=meta)
    told = followable(facts) if is_error else addressed_to_a_person(facts) if "failed" in facts else facts
    content = TextContent(type="text", text=_short(_text(told, is_error=is_error)))
    return CallToolResult(
        content=[content],
        structured_content=structured(told),
        is_error=is_error,
        _meta=meta,
    )


def _receipt_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The digest of a run's receipt, as `_meta` names it."""
    return {f"rye/{_RECEIPT}": facts[_RECEIPT]} if facts.get(_RECEIPT) else {}


def exposed_answer(facts: Mapping[str, Any], schema: Mapping[str, Any] | None) -> CallToolResult:
    """The answer of a tool that is one of MCP itself: its data and nothing else; `schema` is its promise."""
    told = {"run_id": "run_id", "item_id": "item", "project": "project", "notices": "notices"}
    about = {f"rye/{name}": facts[known] for known, name in told.items() if facts.get(known)}
    about |= _receipt_of(facts)
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
    facts = error.as_dict() | more
    return answer(facts if error.receipt is None else facts | {_RECEIPT: error.receipt})


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


MAX_ANSWER_BYTES: Final = 1_000_000
"""How long an answer may be over HTTP, however it is escaped; the rest of the event has to fit too."""

_LEFT_OUT: Final = frozenset({"data", "stdout", "stderr"})
_TEXTS: Final = frozenset({"resources/read", "prompts/get"})
_WITHOUT_EVENTS: Final = "2026-07-28"
"""The first revision in which such a text is the whole body of a response."""

_HINT: Final = "ask for less: a smaller length or limit, or no detail"

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Room:
    """What the answer to one call may take up: `limit` bytes, or any number."""

    app: App
    limit: int | None

    @classmethod
    def of(cls, app: App, context: Any) -> Room:
        """The room for the answer to a call; `context` says by which transport it came."""
        is_http = context is not None and context.request_context.request is not None
        return cls(app, MAX_ANSWER_BYTES if is_http else None)

    async def fit(self, result: CallToolResult, facts: Facts) -> CallToolResult:
        """The answer of a verb, without the data of a run where it is too long."""
        what = await self._problem(result, facts)
        if what is None:
            return result
        handle = await self._kept(facts, what)
        notice = {"code": "answer_too_long", "message": f"{what}: load reads {handle} in pieces"}
        rest = {name: each for name, each in facts.items() if name not in _LEFT_OUT}
        notices = [*facts.get("notices", ()), notice]
        short = answer({**rest, "output": handle, "notices": notices})
        if (problem := await self._problem(short, rest)) is not None:
            raise RyeError("answer_too_long", problem, hint=_HINT)
        return short

    async def fit_exposed(self, result: CallToolResult, facts: Facts) -> CallToolResult:
        """The answer of a tool of its own; a failure where it is too long."""
        if facts.get("status") != "success":
            return await self.fit(result, facts)
        what = await self._problem(result, facts)
        if what is None:
            return result
        handle = await self._kept(facts, what)
        hint = f"the tool has run: load reads its data in pieces, by {handle}"
        return refusal(RyeError("answer_too_long", what, hint=hint, output=handle))

    async def _problem(self, result: CallToolResult, facts: Facts) -> str | None:
        """What is wrong with an answer that is too long; None for every other one."""
        if self.limit is None:
            return None
        found = await apart_if_large(facts, partial(_length, result))
        what = f"expected an answer of at most {self.limit} bytes, found {found}"
        return what if found > self.limit else None

    async def _kept(self, facts: Facts, what: str) -> str:
        """The handle of the data, which is kept from now on."""
        data, run_id = facts.get("data"), facts.get("run_id")
        if data is None or run_id is None:
            raise RyeError("answer_too_long", what, hint=_HINT)
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        outputs = self.app.executor().outputs
        return await off_loop(partial(outputs.keep, run_id, text.encode("utf-8", "replace")))


async def require_fitting(ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Refuse a text that a client of 2025 gets in one event, and that is too long for it."""
    result = await call_next(ctx)
    if ctx.method in _TEXTS and ctx.protocol_version < _WITHOUT_EVENTS and isinstance(result, dict):
        found = len(json.dumps(result, ensure_ascii=False).encode("utf-8", "replace"))
        if found > MAX_ANSWER_BYTES:
            from mcp.shared.exceptions import MCPError
            from mcp.types import INVALID_PARAMS

            what = f"answer_too_long: expected at most {MAX_ANSWER_BYTES} bytes, found {found}"
            raise MCPError(code=INVALID_PARAMS, message=what, data={"code": "answer_too_long"})
    return result


def _length(result: CallToolResult) -> int:
    plain = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return len(json.dumps(plain, separators=(",", ":")))
