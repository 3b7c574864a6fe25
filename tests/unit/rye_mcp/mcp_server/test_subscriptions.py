"""Who is told of other lists: each session once, until it ends; nobody waits for one that does not read."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import anyio
import pytest
from anyio.abc import TaskGroup
from mcp.server.subscriptions import InMemorySubscriptionBus

from rye_mcp.mcp_server.subscriptions import Announcer, Work

pytestmark = pytest.mark.both_loops


@dataclass(eq=False)
class Connected:
    """The connection of a session."""

    exit_stack: AsyncExitStack = field(default_factory=AsyncExitStack)


@dataclass(eq=False)
class Told:
    """What a session is asked to send, counted; it takes the next one once it may `go_on`."""

    connection: Connected = field(default_factory=Connected)
    times: int = 0
    go_on: anyio.Event | None = None

    @property
    def _connection(self) -> Connected:
        return self.connection

    async def send_tool_list_changed(self) -> None:
        if self.go_on is not None:
            await self.go_on.wait()
        self.times += 1

    send_prompt_list_changed = send_resource_list_changed = send_tool_list_changed


@pytest.fixture
def deaf_one() -> Told:
    return Told(go_on=anyio.Event())


async def test_each_session_is_told_once_however_often_it_began(deaf_one: Told) -> None:
    ours = Told()
    async with anyio.create_task_group() as group:
        announcing = _announcing(group)
        for session in (deaf_one, *[Told(ours.connection) for _ in range(1000)], ours):
            announcing.remember(session)
        assert len(announcing) == 2


async def test_nobody_waits_for_a_session_that_does_not_read(deaf_one: Told) -> None:
    ours = Told()
    async with anyio.create_task_group() as group:
        announcing = _announcing(group)
        for session in (deaf_one, ours):
            announcing.remember(session)
        for told in range(1, 4):
            with anyio.fail_after(1):
                await announcing.changed("tools")
                await anyio.wait_all_tasks_blocked()
            assert (deaf_one.times, ours.times) == (0, told)
        assert deaf_one.go_on is not None
        deaf_one.go_on.set()
    assert deaf_one.times == 2, "of what it missed it is told once"


async def test_a_session_that_has_ended_is_forgotten() -> None:
    ours = Told()
    async with anyio.create_task_group() as group:
        announcing = _announcing(group)
        announcing.remember(ours)
        await ours.connection.exit_stack.aclose()
        assert len(announcing) == 0
        await announcing.changed("tools")
    assert ours.times == 0


def _announcing(group: TaskGroup) -> Announcer:
    def beside(work: Work) -> None:
        group.start_soon(_awaited, work)

    return Announcer(InMemorySubscriptionBus(), beside)


async def _awaited(work: Work) -> None:
    await work()
