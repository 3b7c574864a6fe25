"""What a request tells beside its arguments: who sent it, and whether they want to hear of its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rye_mcp.mcp_surface.progress import Tell

__all__ = ["client_of", "teller_of"]


def client_of(context: Any) -> str | None:
    """The program that the client says it is, with its version; None when it does not say."""
    params = None if context is None else context.session.client_params
    if params is None:
        return None
    return f"{params.client_info.name} {params.client_info.version}".strip()


def teller_of(context: Any) -> Tell | None:
    """What tells the client how far a call is; None when it did not ask for that."""
    if context is None or "progress_token" not in (context.request_context.meta or {}):
        return None

    async def tell(seconds: float, message: str) -> None:
        await context.report_progress(seconds, None, message)

    return tell
