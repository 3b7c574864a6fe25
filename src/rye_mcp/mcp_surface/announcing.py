"""Tells clients of both eras that what they have listed is not so any more.

A client of 2026 has asked for it (`subscriptions/listen`), and gets it by the bus of the SDK. One of 2025 is
told by its session, which is remembered from when it was initialized; of many only the last `MAX_SESSIONS`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Literal

from rye_mcp.mcp_surface.wishes import is_awaited

if TYPE_CHECKING:
    from mcp.server.subscriptions import SubscriptionBus

__all__ = ["MAX_SESSIONS", "Announcing", "Listed"]

MAX_SESSIONS: Final = 256
"""How many sessions of 2025 are remembered."""

Listed = Literal["tools", "prompts", "resources"]


class Announcing:
    """Who is to be told."""

    def __init__(self, bus: SubscriptionBus) -> None:
        self._bus = bus
        self._sessions: deque[Any] = deque(maxlen=MAX_SESSIONS)

    def remember(self, session: Any) -> None:
        """Tell this session too."""
        self._sessions.append(session)

    async def changed(self, listed: Listed) -> None:
        """The list of these is another one."""
        from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged

        events: dict[Listed, Any] = {
            "tools": ToolsListChanged,
            "prompts": PromptsListChanged,
            "resources": ResourcesListChanged,
        }
        await self._bus.publish(events[listed]())
        for session in tuple(self._sessions):
            tell = {
                "tools": session.send_tool_list_changed,
                "prompts": session.send_prompt_list_changed,
                "resources": session.send_resource_list_changed,
            }
            await tell[listed]()

    async def updated(self, address: str) -> None:
        """What stands at this address is another text."""
        from mcp.shared.subscriptions import ResourceUpdated

        await self._bus.publish(ResourceUpdated(uri=address))
        for session in tuple(self._sessions):
            if is_awaited(session, address):
                await session.send_resource_updated(address)
