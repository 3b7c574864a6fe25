"""Tells clients of both eras that what they have listed is not so any more.

Rules:

- A client of 2026 has asked for it (`subscriptions/listen`), and gets it by the bus of the SDK. One of 2025
  is told by its session, which is remembered once, from when it was initialized until it ends.
- Nobody waits for a client that does not read. What a session is to be told is kept for it alone, each notice
  once, and sent beside everything else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

from rye_mcp.mcp_server.wishes import is_awaited

if TYPE_CHECKING:
    from mcp.server.subscriptions import SubscriptionBus

__all__ = ["Announcing", "Listed", "Work"]

Listed = Literal["tools", "prompts", "resources"]

Work = Callable[[], Awaitable[None]]
"""What is begun, and waited for by nobody."""


class _Told:
    """A session, and what it has not been told yet: a list, or an address."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self._pending: dict[tuple[str, str], None] = {}
        self._is_telling = False

    def add(self, kind: str, about: str, beside: Callable[[Work], None]) -> None:
        """Tell it this too; `beside` begins work that nobody waits for."""
        self._pending[kind, about] = None
        if not self._is_telling:
            self._is_telling = True
            beside(self._tell)

    def forget(self) -> None:
        """Tell it nothing more."""
        self._pending.clear()

    async def _tell(self) -> None:
        send = {
            "tools": self.session.send_tool_list_changed,
            "prompts": self.session.send_prompt_list_changed,
            "resources": self.session.send_resource_list_changed,
        }
        try:
            while self._pending:
                kind, about = next(iter(self._pending))
                del self._pending[kind, about]
                await (self.session.send_resource_updated(about) if about else send[kind]())
        finally:
            self._is_telling = False


class Announcing:
    """Who is to be told; `beside` begins work that nobody waits for."""

    def __init__(self, bus: SubscriptionBus, beside: Callable[[Work], None]) -> None:
        self._bus = bus
        self._beside = beside
        self._told: dict[Any, _Told] = {}

    def __len__(self) -> int:
        return len(self._told)

    def remember(self, session: Any) -> None:
        """Tell this session too, until it ends. The SDK has an object for each of its requests."""
        connection = session._connection
        if connection not in self._told:
            self._told[connection] = _Told(session)
            connection.exit_stack.callback(self._forget, connection)

    async def changed(self, listed: Listed) -> None:
        """The list of these is another one."""
        from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged

        events: dict[Listed, Any] = {
            "tools": ToolsListChanged,
            "prompts": PromptsListChanged,
            "resources": ResourcesListChanged,
        }
        await self._bus.publish(events[listed]())
        for each in self._told.values():
            each.add(listed, "", self._beside)

    async def updated(self, address: str) -> None:
        """What stands at this address is another text."""
        from mcp.shared.subscriptions import ResourceUpdated

        await self._bus.publish(ResourceUpdated(uri=address))
        for each in self._told.values():
            if is_awaited(each.session, address):
                each.add("updated", address, self._beside)

    def _forget(self, connection: Any) -> None:
        self._told.pop(connection).forget()
