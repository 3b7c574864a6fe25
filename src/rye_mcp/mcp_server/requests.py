"""What requests have in common: who sent one, who wants to hear of its progress, how it is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rye_mcp.apart import on_behalf_of
from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.content import seen

if TYPE_CHECKING:
    from mcp.types import CompleteRequestParams, CompleteResult

    from rye_mcp.app import App
    from rye_mcp.executor.trace_context import TraceContext
    from rye_mcp.mcp_server.progress import Send, Tell

__all__ = [
    "client_of",
    "complete",
    "in_its_turn",
    "protocol_error",
    "sender_of",
    "session_of",
    "teller_of",
    "trace_of_call",
]


_MAX_REPEATED: Final = 4096
"""How much a refusal repeats of what it is about."""


async def in_its_turn(ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Let each session over HTTP have its share of what is scarce; without sessions, each connection."""
    with on_behalf_of("" if ctx.request is None else _session_of(ctx.request)):
        return await call_next(ctx)


def _session_of(request: Any) -> str:
    from rye_mcp.mcp_server.http_traffic import EXCHANGE_KEY

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


def trace_of_call() -> TraceContext | None:
    """The span of this call, which the SDK has begun; without one, what the client sent as `traceparent`."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    from rye_mcp.executor.trace_context import TraceContext

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return TraceContext.read(carrier.get("traceparent"), carrier.get("tracestate"))


def teller_of(context: Any) -> Tell | None:
    """What tells the client how far a call is; None when it did not ask for that."""
    if context is None or "progress_token" not in (context.request_context.meta or {}):
        return None

    async def tell(seconds: float, message: str) -> None:
        await context.report_progress(seconds, None, message)

    return tell


def sender_of(context: Any) -> Callable[[str], Send] | None:
    """What sends the client log messages by a logger, while a call is answered; None when it wants none."""
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

    from rye_mcp.mcp_server.answers import internal
    from rye_mcp.mcp_server.hints import followable

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
    """What an argument of a prompt, or a variable of an address, may go on with."""
    from mcp.types import CompleteResult, Completion, PromptReference

    from rye_mcp.mcp_server.prompts import completions_of_prompt
    from rye_mcp.mcp_server.resources import MAX_COMPLETIONS, completions_of_template

    ref, argument, context = params.ref, params.argument, params.context
    if isinstance(ref, PromptReference):
        values = completions_of_prompt(app, ref.name, argument.name, argument.value)
    else:
        known = (context.arguments if context is not None else None) or {}
        values = completions_of_template(app, str(ref.uri), argument.name, argument.value, known)
    shown = values[:MAX_COMPLETIONS]
    found = Completion(values=shown, total=len(values), has_more=len(values) > len(shown))
    return CompleteResult(completion=found)
