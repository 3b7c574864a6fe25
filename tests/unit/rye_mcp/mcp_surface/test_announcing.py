"""Who is told of other lists: of sessions without end, the last ones."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from mcp.server.subscriptions import InMemorySubscriptionBus

from rye_mcp.mcp_surface.announcing import MAX_SESSIONS, Announcing

pytestmark = pytest.mark.anyio


@dataclass(eq=False)
class Told:
    """What a session is asked to send, counted."""

    times: int = 0

    async def send_tool_list_changed(self) -> None:
        self.times += 1

    send_prompt_list_changed = send_resource_list_changed = send_tool_list_changed


async def test_of_sessions_without_end_the_last_ones_are_told() -> None:
    announcing = Announcing(InMemorySubscriptionBus())
    sessions = [Told() for _ in range(MAX_SESSIONS + 1)]
    for session in sessions:
        announcing.remember(session)
    await announcing.changed("tools")
    assert [session.times for session in sessions] == [0, *[1] * MAX_SESSIONS]
