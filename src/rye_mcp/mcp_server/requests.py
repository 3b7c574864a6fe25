"""The common part of requests: how a session begins, who asks, how a request is refused, what is logged.

A session begins once, and never with the revision 2025-03-26, which requires batches. Refusals of prompts and
resources are errors of the protocol. Each call is one line of the log, with its outcome and duration; of its
arguments, the line holds only the id of an item or of a run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_REQUEST, CallToolResult, InputRequiredResult

from rye_mcp.apart import on_behalf_of
from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.answers import seen
from rye_mcp.mcp_server.definitions import DEFINITIONS
from rye_mcp.mcp_server.logs import facts_of, within
from rye_mcp.telemetry import call_ended

if TYPE_CHECKING:
    from mcp.types import CompleteRequestParams, CompleteResult

    from rye_mcp.app import App
    from rye_mcp.executor.caller import TraceContext
    from rye_mcp.mcp_server.progress import Send, Tell

__all__ = [
    "agree_on_a_revision_without_batches",
    "begin_once",
    "client_of",
    "complete",
    "in_its_turn",
    "logged",
    "protocol_error",
    "sender_of",
    "session_of",
    "teller_of",
    "trace_of_call",
]

WITH_BATCHES: Final = "2025-03-26"
BEFORE: Final = "2024-11-05"

_WITHOUT_SESSIONS: Final = "2026-07-28"
_BEGUN: Final = "expected one initialize in a session, found another one"
_REVISION: Final = "protocolVersion"


async def begin_once(ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Pass a request on; not a second `initialize`. Without sessions, the SDK refuses the first."""
    begins = ctx.method == "initialize" and ctx.request_id is not None
    if begins and ctx.session.client_params is not None and ctx.protocol_version < _WITHOUT_SESSIONS:
        raise MCPError(code=INVALID_REQUEST, message=_BEGUN)
    return await call_next(ctx)


async def agree_on_a_revision_without_batches(ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Pass a request on; `initialize` without the revision that has batches."""
    if ctx.method == "initialize" and ctx.params and ctx.params.get(_REVISION) == WITH_BATCHES:
        # In place: the SDK reads these parameters once more, to keep what was agreed on.
        ctx.params[_REVISION] = BEFORE
    return await call_next(ctx)


_MAX_REPEATED: Final = 4096
"""How much a refusal repeats of what it is about."""


async def in_its_turn(ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Let each session over HTTP have its share of what is scarce; without sessions, each connection."""
    with on_behalf_of("" if ctx.request is None else _session_of(ctx.request)):
        return await call_next(ctx)


def _session_of(request: Any) -> str:
    from rye_mcp.mcp_server.http_requests import EXCHANGE_KEY

    exchange = getattr(request, "scope", {}).get(EXCHANGE_KEY)
    named = None if exchange is None else exchange.session
    return named or request.headers.get("mcp-session-id") or f"{request.client}"


def client_of(context: Any) -> str | None:
    """The program that the client says it is, with its version; None when it does not say."""
    params = None if context is None else context.session.client_params
    if params is None:
        return None
    return f"{params.client_info.name} {params.client_info.version}".strip()


def session_of(context: Any) -> Any:
    """The session to ask a client by; None over HTTP, where nobody tells the server where to look."""
    if context is None or context.request_context.request is not None:
        return None
    return context.session


@contextmanager
def span_of_call(item_id: str) -> Iterator[TraceContext | None]:
    """A span for a call of a program, below that of what asks for it; with the trace that its tool gets."""
    from opentelemetry.trace import get_tracer

    # What is raised here may quote what the call was given, so the span gets nothing of it.
    with get_tracer("rye-mcp").start_as_current_span(
        f"tools/call {item_id}", record_exception=False, set_status_on_exception=False
    ):
        yield trace_of_call()


def trace_of_call() -> TraceContext | None:
    """The span of this call, which the SDK has begun; without one, what the client sent as `traceparent`."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    from rye_mcp.executor.caller import TraceContext

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return TraceContext.read(carrier.get("traceparent"), carrier.get("tracestate"))


def teller_of(context: Any) -> Tell | None:
    """Return a callback that reports progress to the client; None when it did not ask for progress."""
    if context is None or "progress_token" not in (context.request_context.meta or {}):
        return None

    async def tell(seconds: float, message: str) -> None:
        await context.report_progress(seconds, None, message)

    return tell


def sender_of(context: Any) -> Callable[[str], Send] | None:
    """Return a sender of log messages to the client while a call is answered; None when it wants none."""
    from rye_mcp.mcp_server.progress import LEVEL
    from rye_mcp.mcp_server.subscriptions import wants_messages

    if context is None or not wants_messages(context.session, context.request_context.meta, LEVEL):
        return None

    def sender(logger: str) -> Send:
        return partial(_send_message, context, logger)

    return sender


async def _send_message(context: Any, logger: str, text: str) -> None:
    from mcp.types import LoggingMessageNotification, LoggingMessageNotificationParams

    from rye_mcp.mcp_server.progress import LEVEL

    params = LoggingMessageNotificationParams(level=LEVEL, logger=logger, data=text)
    notification = LoggingMessageNotification(params=params)
    await context.session.send_notification(notification, related_request_id=context.request_id)


@contextmanager
def protocol_error(**more: str) -> Iterator[None]:
    """A refusal of a prompt or a resource is an error of the protocol, with code and hint in its data.

    The SDK would tell the client the text of any other error, and that may hold anything.
    """
    from mcp.shared.exceptions import MCPError
    from mcp.types import INTERNAL_ERROR, INVALID_PARAMS

    from rye_mcp.mcp_server.answers import followable, internal

    code = INVALID_PARAMS
    try:
        yield
        return
    except MCPError:
        raise
    except RyeError as exc:
        refusal = exc
    except Exception as exc:  # noqa: BLE001 - its text must not reach the client
        code, refusal = INTERNAL_ERROR, internal(exc)
    repeated = {name: value[:_MAX_REPEATED] for name, value in more.items()}
    facts = seen(followable(refusal.as_dict()) | repeated)
    raise MCPError(code=code, message=f"{facts['code']}: {facts['error']}", data=facts) from refusal


def complete(app: App, params: CompleteRequestParams) -> CompleteResult:
    """Complete an argument of a prompt, or a variable of an address."""
    from mcp.types import CompleteResult, Completion, PromptReference

    from rye_mcp.mcp_server.exposed_items import (
        MAX_COMPLETIONS,
        completions_of_prompt,
        completions_of_template,
    )

    ref, argument, context = params.ref, params.argument, params.context
    if isinstance(ref, PromptReference):
        values = completions_of_prompt(app, ref.name, argument.name, argument.value)
    else:
        known = (context.arguments if context is not None else None) or {}
        values = completions_of_template(app, str(ref.uri), argument.name, argument.value, known)
    shown = values[:MAX_COMPLETIONS]
    found = Completion(values=shown, total=len(values), has_more=len(values) > len(shown))
    return CompleteResult(completion=found)


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
    has_failed = True
    request = None if context is None else str(context.request_context.request_id)
    named = arguments if tool in DEFINITIONS else {}  # a tool of its own may call a secret like that
    item, run = _text_or_none(named.get("item_id")), _text_or_none(named.get("run_id"))
    with within(request=request, tool=tool, item=item, run=run):
        try:
            result = await call()
            outcome = _outcome(result, tool)
            has_failed = isinstance(result, CallToolResult) and bool(result.is_error)
        except MCPError as exc:
            outcome = {"outcome": (exc.error.data or {}).get("code", exc.error.code)}
            raise
        finally:
            took = time.perf_counter() - begun
            is_known = tool in DEFINITIONS or outcome.get("item") is not None
            code = str(outcome["outcome"]) if has_failed else None
            call_ended(tool if is_known else None, code, took)
            if _log.isEnabledFor(logging.INFO):
                _log.info("called", extra=facts_of(**outcome, ms=round(took * 1000, 1)))
    return result


def _outcome(result: Result, tool: str) -> dict[str, Any]:
    """Describe a result for a log line. Data that a tool returned is never in it."""
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


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None
