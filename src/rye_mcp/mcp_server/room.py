"""How much of an answer a model gets: what is longer is kept, and the answer says how to read it.

Rules:

- Data of a run that is longer than the user's `handle_over`, or was asked for as a handle, is kept.
- An answer has at most `MAX_TOKENS` tokens, of `BYTES_PER_TOKEN` bytes of UTF-8 each. Its texts and its
  structured content each stay below that, because a client shows a model one of them. Pictures don't count.
- Over HTTP an answer has at most `MAX_ANSWER_BYTES` bytes, pictures included: clients read no longer events.
- Nothing is cut: the longest text goes first, as a whole, until the rest fits.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcp.types import CallToolResult

from lilux._dataclasses import dataclass
from rye_mcp.apart import apart, apart_if_large, off_loop, size_of
from rye_mcp.configuration import handle_over
from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.answers import blocks_in, refusal
from rye_mcp.runs.results import as_bytes, with_kept

if TYPE_CHECKING:
    from rye_mcp.app import App

__all__ = ["BYTES_PER_TOKEN", "MAX_ANSWER_BYTES", "MAX_TOKENS", "Room", "require_fitting"]

MAX_TOKENS: Final = 25_000
"""How many tokens an answer may have."""

BYTES_PER_TOKEN: Final = 4
"""How many bytes of UTF-8 count as one token."""

MAX_ANSWER_BYTES: Final = 1_000_000
"""How long an answer may be over HTTP, however it is escaped; the rest of the event has to fit too."""

_TEXTS: Final = frozenset({"resources/read", "prompts/get"})
_WITHOUT_EVENTS: Final = "2026-07-28"
"""The first revision in which such a text is the whole body of a response."""

_KEEPABLE: Final = ("data", "stdout", "stderr", "content", "instructions")
_SMALL: Final = 30
"""Data with so few values, or pieces of text (see `size_of`), is below every limit."""

_BYTES_PER_VALUE: Final = 700
"""How many bytes of JSON one value, or piece of text, has at most."""

_WORTH_KEEPING_BYTES: Final = 4096
_HINT: Final = "ask for less: a smaller length or limit, or no detail"

Facts = Mapping[str, Any]
Make = Callable[[Facts], CallToolResult]


@dataclass(frozen=True, slots=True)
class Room:
    """The room for the answer to one call; data is kept from `over` bytes on."""

    app: App
    is_http: bool
    over: int

    @classmethod
    def of(cls, app: App, context: Any, *, as_handle: bool = False) -> Room:
        """The room for the answer to a call; `context` says by which transport it came."""
        is_http = context is not None and context.request_context.request is not None
        return cls(app, is_http, 0 if as_handle else handle_over(app))

    async def fit(self, facts: Facts, make: Make) -> CallToolResult:
        """The answer that `make` makes of the facts, or of what is left of them."""
        if "run_id" in facts and "data" in facts and await self._is_over(facts["data"]):
            facts = await self._without(facts, "data")
        result = await apart_if_large(facts, partial(make, facts))
        while (problem := await self._problem(result, facts)) is not None:
            name = await apart(partial(_longest, facts))
            if name is None:
                raise RyeError("answer_too_long", problem, hint=_HINT)
            facts = await self._without(facts, name)
            result = await apart_if_large(facts, partial(make, facts))
        return result

    async def fit_promised(self, facts: Facts, make: Make) -> CallToolResult:
        """The same for a tool that promised its output: then it is all there, or the call fails."""
        result = await apart_if_large(facts, partial(make, facts))
        problem = await self._problem(result, facts)
        if problem is None:
            return result
        [kept] = (await self._without({"data": facts.get("data")}, "data"))["kept"]
        hint = f"the tool has run: load reads its data in pieces, with run_id {kept['handle']}"
        return refusal(RyeError("answer_too_long", problem, hint=hint), kept=[kept])

    async def _is_over(self, data: Any) -> bool:
        if data is None or size_of(data) * _BYTES_PER_VALUE <= self.over:
            return False
        return await apart_if_large(data, partial(_text_bytes, data)) > self.over

    async def _problem(self, result: CallToolResult, facts: Facts) -> str | None:
        """Find the problem of an answer that is too long; None for every other one."""
        if size_of(facts) <= _SMALL:
            return None
        tokens, length = await apart_if_large(facts, partial(_lengths, result))
        if tokens > MAX_TOKENS:
            return f"expected an answer of at most {MAX_TOKENS} tokens, found {tokens}"
        if self.is_http and length > MAX_ANSWER_BYTES:
            return f"expected an answer of at most {MAX_ANSWER_BYTES} bytes, found {length}"
        return None

    async def _without(self, facts: Facts, name: str) -> Facts:
        """The facts with one of them kept, and a handle in its place."""
        data = await apart(partial(as_bytes, facts[name]))
        results = self.app.executor().shelf.results
        kept = await off_loop(partial(results.keep, data, name=name))
        return with_kept(facts, kept)


def _longest(facts: Facts) -> str | None:
    """The longest of the facts that can be kept; None when what is left isn't worth it."""
    sizes = {name: len(as_bytes(facts[name])) for name in _KEEPABLE if facts.get(name) is not None}
    name = max(sizes, key=sizes.__getitem__, default=None)
    return None if name is None or sizes[name] < _WORTH_KEEPING_BYTES else name


def _text_bytes(data: Any) -> int:
    """How many bytes of text there are; of content blocks, without pictures and sound."""
    blocks = blocks_in(data)
    if blocks is None:
        return len(as_bytes(data))
    structured = data.get("structuredContent")
    texts = sum(map(_block_bytes, blocks))
    return texts + (0 if structured is None else len(as_bytes(structured)))


def _block_bytes(block: Any) -> int:
    """How many bytes of text a content block has; nothing in base64 counts."""
    if block.type == "text":
        return len(as_bytes(block.text))
    plain = block.model_dump(mode="json", by_alias=True, exclude_none=True)
    plain.pop("data", None)
    if isinstance(plain.get("resource"), dict):
        plain["resource"].pop("blob", None)
    return len(as_bytes(plain))


def _lengths(result: CallToolResult) -> tuple[int, int]:
    """The tokens of an answer, and its bytes on the wire."""
    plain = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    texts = sum(map(_block_bytes, result.content))
    structured = len(as_bytes(plain.get("structuredContent") or {}))
    tokens = -(-max(texts, structured) // BYTES_PER_TOKEN)
    return tokens, len(json.dumps(plain, separators=(",", ":")))


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
