"""What is answered to a line that is no message: by its id when somebody waits for that, else by null.

And of more requests than anybody needs, the last ones are not taken.
"""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse

from rye_mcp.mcp_surface.framing import MAX_RUNNING, framed, refusal_of

NO_JSON, NO_REQUEST, BUSY = -32700, -32600, -32000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class _Wire:
    """A wire whose other end can be read here."""

    def __init__(self) -> None:
        self._sender, self._receiver = anyio.create_memory_object_stream[str](1)

    async def write(self, text: str) -> None:
        await self._sender.send(text)

    async def flush(self) -> None:
        await anyio.lowlevel.checkpoint()

    def close(self) -> None:
        self._sender.close()
        self._receiver.close()

    async def read(self) -> dict[str, Any]:
        with anyio.fail_after(20):
            found: dict[str, Any] = json.loads(await self._receiver.receive())
        return found


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
def test_where_nobody_waits_for_an_answer_there_is_none(line: str) -> None:
    assert refusal_of(line) is None


def request(number: int) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"})


@pytest.mark.anyio
async def test_so_many_requests_run_at_once_and_one_more_when_one_is_answered() -> None:
    sender, lines = anyio.create_memory_object_stream[str](0)
    wire: Any = _Wire()
    anything: Any = lines
    async with framed(anything, wire) as (incoming, outgoing), incoming, outgoing, lines, sender:
        for number in range(MAX_RUNNING):
            await sender.send(request(number))
            await incoming.receive()
        await sender.send(request(MAX_RUNNING))
        refusal = await wire.read()
        assert (refusal["id"], refusal["error"]["code"]) == (MAX_RUNNING, BUSY)
        await outgoing.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=0, result={})))
        assert (await wire.read())["id"] == 0
        await sender.send(request(MAX_RUNNING))
        taken = await incoming.receive()
        assert isinstance(taken, SessionMessage)
        assert getattr(taken.message, "id", None) == MAX_RUNNING
    wire.close()
