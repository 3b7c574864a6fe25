"""A program chooses how long its lines and their answers are; other calls go on while these are read."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from rye_mcp.apart import HANDS, apart, on_behalf_of
from rye_mcp.errors import RyeError
from rye_mcp.inside.messages import MAX_LINE_BYTES, Request, read_request
from rye_mcp.inside.service import serving

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


def line(**more: Any) -> bytes:
    return json.dumps({"id": 1, "call": "demo/echo", **more}).encode()


def test_a_line_has_as_many_values_as_a_message_of_a_client() -> None:
    most = line(parameters={"n": [0] * 249_990})
    assert len(read_request(most).parameters["n"]) == 249_990
    long_text = line(parameters={"n": "," * 1_000_000})
    assert len(read_request(long_text).parameters["n"]) == 1_000_000
    many = line(parameters={"n": [[]] * 300_000})
    assert len(many) < MAX_LINE_BYTES
    with pytest.raises(RyeError) as caught:
        read_request(many)
    assert caught.value.code == "malformed_call"
    assert "at most 250000 values" in caught.value.message


@asynccontextmanager
async def no_turns() -> AsyncIterator[threading.Event]:
    """Other sessions have all turns, until the event is set."""
    free = threading.Event()

    async def hold(whose: str) -> None:
        with on_behalf_of(whose):
            await apart(free.wait)

    async with anyio.create_task_group() as group:
        for number in range(HANDS):
            group.start_soon(hold, f"session {number}")
        await anyio.wait_all_tasks_blocked()
        try:
            yield free
        finally:
            free.set()


class Program:
    """The end of a program: what it asks for, and what it is answered."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._socket.setblocking(False)
        self._heard = b""

    def ask(self, data: bytes) -> None:
        assert self._socket.send(data + b"\n") == len(data) + 1

    def hears_nothing(self) -> bool:
        try:
            self._heard += self._socket.recv(1)
        except BlockingIOError:
            return True
        return False

    async def answer(self) -> Any:
        while b"\n" not in self._heard:
            await anyio.wait_readable(self._socket)
            self._heard += self._socket.recv(1 << 20)
        found, _, self._heard = self._heard.partition(b"\n")
        return json.loads(found)["result"]["data"]

    def close(self) -> None:
        self._socket.close()


@asynccontextmanager
async def programs(data: Any) -> AsyncIterator[tuple[Program, Program]]:
    """Two programs, to which every call is answered with this, or with nothing if it is short."""

    async def answered(request: Request) -> Mapping[str, Any]:
        return {"data": data if request.parameters else None}

    async with serving(answered, lambda _: None) as first, serving(answered, lambda _: None) as second:
        made = Program(first), Program(second)
        try:
            yield made
        finally:
            for each in made:
                each.close()


@pytest.mark.parametrize(
    ("parameters", "data"),
    [({"text": "x" * 20_000}, 1), ({"n": 1}, [0] * 5_000)],
    ids=["a long line", "a long answer"],
)
async def test_what_is_long_is_read_and_written_when_it_is_the_turn_of_its_session(
    parameters: dict[str, Any], data: Any
) -> None:
    async with programs(data) as (long, short):
        async with no_turns() as free:
            long.ask(line(parameters=parameters))
            for _ in range(3):  # by then, the event loop has looked at what the other one has asked
                short.ask(line())
                assert await short.answer() is None
            assert long.hears_nothing()
            free.set()
        assert await long.answer() == data
