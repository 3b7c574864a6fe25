"""Answers that their transport can carry.

Rules:

- Over HTTP an answer has at most `MAX_ANSWER_BYTES`: clients read events of at most 1 MiB. There is no such
  limit over standard output.
- The data of a run that is too long is kept like output that was cut, and the answer names its handle. A tool
  of its own has promised its data, so its answer is then a failure that names the handle.
- Every other answer to a call that is too long is refused: the caller can ask for less. So is a resource or
  a prompt for clients of 2025, which get it as one event.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread
from mcp.types import CallToolResult

from rye_mcp.apart import apart_if_large
from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.answers import answer, refusal

if TYPE_CHECKING:
    from rye_mcp.app import App

__all__ = ["MAX_ANSWER_BYTES", "Room", "require_fitting"]

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

    async def fit_native(self, result: CallToolResult, facts: Facts) -> CallToolResult:
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
        return await to_thread.run_sync(outputs.keep, run_id, text.encode("utf-8", "replace"))


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
