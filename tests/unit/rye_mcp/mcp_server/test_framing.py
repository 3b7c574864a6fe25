"""What is answered to a line that is no message: by its id when somebody waits for that, else by null.

And of more requests than anybody needs, the last ones are not taken.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse

from rye_mcp.mcp_server.framing import MAX_RUNNING, Incoming, Outgoing, framed, refusal_of
from rye_mcp.mcp_server.stdio import Lines, Wire

NO_JSON, NO_REQUEST, BUSY = -32700, -32600, -32000
LARGE = "x" * 500_000
"""More than a pipe holds."""


class _Client:
    """The other end of a wire: it reads when it is told to, and as much as that."""

    def __init__(self) -> None:
        self._descriptor, self._other = os.pipe()
        self.wire = Wire(self._other)
        self._lines = Lines(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self._descriptor, self._other):
            with suppress(OSError):
                os.close(descriptor)

    async def read(self) -> dict[str, Any]:
        with anyio.fail_after(20):
            found: dict[str, Any] = json.loads(await anext(self._lines))
        return found

    def leave(self) -> None:
        os.close(self._descriptor)


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        ("{", None, NO_JSON),
        ("[" * 100_000 + "]" * 100_000, None, NO_JSON),
        ("null", None, NO_REQUEST),
        ("[]", None, NO_REQUEST),
        ('{"id": 5, "method": "a"}', 5, NO_REQUEST),
        ('{"id": "5", "method": 7}', "5", NO_REQUEST),
        ('{"id": true, "method": "a"}', None, NO_REQUEST),
        ('{"id": 1.5, "method": "a"}', None, NO_REQUEST),
        ('{"id": [1], "method": "a"}', None, NO_REQUEST),
        ('{"id": null, "method": "a"}', None, NO_REQUEST),
        ('{"id": "\\ud800", "method": "a"}', None, NO_REQUEST),
        ('{"id": "\\u001b[2J", "method": "a"}', None, NO_REQUEST),
        ('{"id": 5, "result": 7}', None, NO_REQUEST),
        ('{"id": 5, "error": 7}', None, NO_REQUEST),
        ('{"id": 5}', None, NO_REQUEST),
        ('{"method": 7}', None, NO_REQUEST),
        ('{"id": 5, "method": "a", "params": [' + "9" * 5000 + "]}", 5, NO_REQUEST),
        ('{"id": ' + "9" * 5000 + ', "method": "a"}', None, NO_REQUEST),
    ],
)
def test_a_line_that_is_no_message_is_refused(line: str, number: Any, code: int) -> None:
    refusal = refusal_of(line)
    assert refusal is not None
    assert (refusal.id, refusal.error.code) == (number, code)
    assert json.loads(refusal.model_dump_json(by_alias=True, exclude_unset=True))["id"] == number


@pytest.mark.parametrize("line", ["", "  \t", '{"method": "notifications/progress", "params": []}'])
def test_no_answer_is_sent_that_nobody_waits_for(line: str) -> None:
    assert refusal_of(line) is None


def request(number: int) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"})


def answer(number: int, text: str = "") -> SessionMessage:
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=number, result={"text": text}))


@pytest.fixture
def client() -> Iterator[_Client]:
    with _Client() as client:
        yield client


@asynccontextmanager
async def served(client: _Client) -> AsyncIterator[tuple[Any, Incoming, Outgoing]]:
    """What the client sends, and what a server gets of it."""
    sender, lines = anyio.create_memory_object_stream[str](8)
    anything: Any = lines
    with sender, lines:
        async with framed(anything, client.wire) as (incoming, outgoing):
            yield sender, incoming, outgoing


@pytest.mark.anyio
async def test_so_many_requests_run_at_once_and_one_more_when_one_is_answered(client: _Client) -> None:
    async with served(client) as (sender, incoming, outgoing):
        for number in range(MAX_RUNNING):
            await sender.send(request(number))
            await incoming.receive()
        async with anyio.create_task_group() as group:
            await sender.send(request(MAX_RUNNING))
            await sender.send(request(MAX_RUNNING))
            taken: list[SessionMessage | Exception] = []

            async def take() -> None:
                taken.append(await incoming.receive())

            # The first one is refused while it is waited for, and the second comes after an answer.
            group.start_soon(take)
            refusal = await client.read()
            assert (refusal["id"], refusal["error"]["code"]) == (MAX_RUNNING, BUSY)
            refusal = await client.read()
            assert (refusal["id"], refusal["error"]["code"]) == (MAX_RUNNING, BUSY)
            await outgoing.send(answer(0))
            assert (await client.read())["id"] == 0
            await sender.send(request(MAX_RUNNING))
        assert isinstance(taken[0], SessionMessage)
        assert getattr(taken[0].message, "id", None) == MAX_RUNNING


@pytest.mark.anyio
async def test_a_sender_that_is_given_up_leaves_no_half_of_a_line(client: _Client) -> None:
    async with served(client) as (_, _, outgoing):
        with anyio.move_on_after(0.05) as scope:
            await outgoing.send(answer(1, LARGE))
        assert scope.cancelled_caught
        async with anyio.create_task_group() as group:
            for number in (2, 3, 4):
                group.start_soon(outgoing.send, answer(number, LARGE))
            found = [await client.read() for _ in range(4)]
    assert [each["id"] for each in found] == [1, 2, 3, 4]
    assert {each["result"]["text"] for each in found} == {LARGE}


@pytest.mark.anyio
async def test_a_caller_that_comes_when_there_is_room_waits_for_earlier_ones(
    client: _Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = client.wire.take
    late: list[SessionMessage] = []

    def notice(data: memoryview) -> memoryview:
        rest = take(data)
        if late and not rest:
            group.start_soon(outgoing.send, late.pop())
        return rest

    monkeypatch.setattr(client.wire, "take", notice)
    async with served(client) as (_, _, outgoing), anyio.create_task_group() as group:
        for number in (1, 2):
            group.start_soon(outgoing.send, answer(number, LARGE))
        await anyio.wait_all_tasks_blocked()
        late.append(answer(3))
        assert [(await client.read())["id"] for _ in range(3)] == [1, 2, 3]


@pytest.mark.anyio
async def test_what_was_not_taken_at_once_is_given_out_before_the_end(client: _Client) -> None:
    found: list[dict[str, Any]] = []

    async def read() -> None:
        found.append(await client.read())

    async with anyio.create_task_group() as group, served(client) as (_, _, outgoing):
        with anyio.move_on_after(0.05):
            await outgoing.send(answer(1, LARGE))
        group.start_soon(read)
    assert [each["id"] for each in found] == [1]


@pytest.mark.anyio
@pytest.mark.parametrize("is_waiting", [False, True], ids=["before an answer", "while it gets one"])
async def test_the_task_of_a_client_that_leaves_is_ended(client: _Client, is_waiting: bool) -> None:
    reached: list[str] = []
    with anyio.fail_after(20):
        async with served(client) as (_, _, outgoing):
            async with anyio.create_task_group() as group:
                if is_waiting:
                    group.start_soon(outgoing.send, answer(1, LARGE))
                    await anyio.wait_all_tasks_blocked()
                client.leave()
            with pytest.raises((anyio.BrokenResourceError, anyio.ClosedResourceError)):
                await outgoing.send(answer(2))
            await anyio.sleep_forever()
            reached.append("the end")
    assert reached == []


@pytest.mark.anyio
async def test_nothing_is_read_and_nothing_given_out_after_the_end(client: _Client) -> None:
    async with served(client) as (sender, incoming, outgoing):
        await sender.send(request(1))
        await incoming.aclose()
        await outgoing.aclose()
        with pytest.raises(anyio.EndOfStream):
            await incoming.receive()
        with pytest.raises(anyio.ClosedResourceError):
            await outgoing.send(answer(1))


@pytest.mark.anyio
async def test_a_client_that_reads_no_more_at_its_end_is_given_up(
    client: _Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rye_mcp.mcp_server.framing.GIVE_UP_S", 0.1)
    with anyio.fail_after(20):
        async with served(client) as (sender, incoming, outgoing):
            sender.close()
            with pytest.raises(anyio.EndOfStream):
                await incoming.receive()
            await outgoing.send(answer(1, LARGE))


@pytest.mark.anyio
@pytest.mark.parametrize("has_left", [False, True], ids=["closed", "gone"])
async def test_where_nobody_gets_the_refusal_of_a_line_no_more_is_read(
    client: _Client, has_left: bool
) -> None:
    reached: list[str] = []
    with anyio.fail_after(20):
        async with served(client) as (sender, incoming, outgoing):
            if has_left:
                client.leave()
            else:
                await outgoing.aclose()
            await sender.send("nonsense")
            with pytest.raises(anyio.EndOfStream):
                await incoming.receive()
            reached.append("the end of what comes in")
    assert reached


@pytest.mark.anyio
@pytest.mark.parametrize("line", ["", "x"], ids=["blank", "refused"])
async def test_others_go_on_while_lines_are_passed_over(client: _Client, line: str) -> None:
    given = 0

    class _Flood:
        def __aiter__(self) -> Self:
            return self

        async def __anext__(self) -> str:
            nonlocal given
            given += 1
            if given > 100:
                raise StopAsyncIteration
            return line

    seen: list[int] = []

    async def look() -> None:
        while given <= 100:
            seen.append(given)
            await anyio.lowlevel.checkpoint()

    anything: Any = _Flood()
    with anyio.fail_after(20):
        async with framed(anything, client.wire) as (incoming, _), anyio.create_task_group() as group:
            group.start_soon(look)
            with pytest.raises(anyio.EndOfStream):
                await incoming.receive()
    assert len(seen) > 50
