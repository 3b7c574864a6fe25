"""Agents and servers choose how long the server works: by schemas, by values, and by many calls at once."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mcp import Client

from lilux._files import lock, open_directory
from rye_mcp.apart import HANDS, apart
from rye_mcp.errors import RyeError
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.items import ItemType
from rye_mcp.mcp_server.requests import in_its_turn
from rye_mcp.mcp_server.rye_server import RyeServer
from rye_mcp.verbs.execute import Executed, ExecuteRequest, execute
from rye_mcp.verbs.sign import SignRequest, sign
from tests.bridge_world import Bridged
from tests.http_world import http_server, post
from tests.people import Person

TURNS = 20
"""How often others have their turn while a call waits."""

LONGEST_STRETCH_S = 0.15
"""How long the thread of the event loop may work without giving others a turn: half of what a check takes."""

LONGEST_S = 1.5
"""How long the processor may work for one call: several times 0.3 s, of a machine that is slow."""

HARD: Mapping[str, Any] = {
    "type": "object",
    "$ref": "#/$defs/a0",
    "$defs": {
        **{f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(25)},
        "a25": {"minProperties": 1},
    },
}
"""A schema of two kilobytes that asks for a billion comparisons once there is a value."""

TOOL = {
    "name": "hard",
    "version": "1.0.0",
    "description": "Takes for ever to check.",
    "tool_type": "bash",
    "executor_id": "rye/core/runtimes/bash_runtime",
}


@pytest.fixture
def scene(tmp_path: Path) -> Bridged:
    return Bridged(tmp_path)


def tool(scene: Bridged, schema: Mapping[str, Any]) -> None:
    """An agent writes a tool with this schema, and signs it."""
    write(scene, "tools/demo/hard.yaml", said({**TOOL, "config_schema": schema}))
    sign(SignRequest("demo/hard"), scene.app.context())


def write(scene: Bridged, path: str, text: str) -> None:
    file = scene.project / ".ai" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def said(fields: Mapping[str, Any]) -> str:
    """The fields as YAML."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in fields.items())


async def work_for(call: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """How long the event loop worked at most between two turns of others, and the processor in all.

    Both are times of the processor: how busy the machine is, and who waits for whom, does not count.
    """
    stretch, is_over = 0.0, False

    async def look() -> None:
        nonlocal stretch
        before = time.thread_time()
        while not is_over:
            await anyio.sleep(0.001)
            stretch, before = max(stretch, time.thread_time() - before), time.thread_time()

    begun = time.process_time()
    async with anyio.create_task_group() as group:
        group.start_soon(look)
        await anyio.lowlevel.checkpoint()
        await call()
        is_over = True
    return stretch, time.process_time() - begun


async def test_a_schema_of_an_agent_keeps_nobody_waiting(scene: Bridged) -> None:
    tool(scene, HARD)

    async def call() -> None:
        with pytest.raises(RyeError) as refused:
            await execute(ExecuteRequest("demo/hard", parameters={"a": 1}), scene.app.context())
        assert refused.value.code == "invalid_parameters"
        assert "within 0.3 s" in refused.value.message

    async with scene.serving():
        stretch, took = await work_for(call)
    assert stretch < LONGEST_STRETCH_S
    assert took < LONGEST_S


async def test_nor_does_a_schema_of_a_directive(scene: Bridged) -> None:
    write(scene, "directives/demo/hard.md", f"---\n{said({'inputs': HARD})}---\nDo it.\n")
    sign(SignRequest("demo/hard", ItemType.DIRECTIVE), scene.app.context())
    request = ExecuteRequest("demo/hard", ItemType.DIRECTIVE, {"a": 1})

    async def call() -> None:
        with pytest.raises(RyeError, match=r"within 0\.3 s"):
            await execute(request, scene.app.context())

    stretch, took = await work_for(call)
    assert stretch < LONGEST_STRETCH_S
    assert took < LONGEST_S


@pytest.mark.thorough
async def test_nor_does_an_output_schema_of_another_server(scene: Bridged) -> None:
    await scene.add(scene.config(), "hard", "echo")
    async with scene.serving():
        await scene.call("echo", text="it is there")

        async def call() -> None:
            result = await scene.call("hard")
            assert (result.code, "within 0.3 s" in (result.error or "")) == ("tool_failed", True)

        stretch, took = await work_for(call)
    assert stretch < LONGEST_STRETCH_S
    assert took < LONGEST_S


@pytest.mark.thorough
async def test_nor_does_the_making_of_a_schema(scene: Bridged) -> None:
    many = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(4_500)}}
    with pytest.raises(RyeError, match=r"within 0\.3 s"):
        tool(scene, many)
    server = RyeServer(lambda _path: scene.app)

    async with Client(server) as client:

        async def call() -> None:
            result = await client.call_tool("sign", {"item_id": "demo/hard"})
            assert "within 0.3 s" in result.structured_content["error"]

        stretch, took = await work_for(call)
    assert stretch < LONGEST_STRETCH_S
    assert took < 2 * LONGEST_S


async def test_nor_does_a_lock_that_another_process_holds(scene: Bridged) -> None:
    write(scene, "tools/demo/quick.yaml", said({**TOOL, "name": "quick", "config": {"command": "true"}}))
    sign(SignRequest("demo/quick"), scene.app.context())
    answers: list[Executed] = []

    async def call() -> None:
        answers.append(await execute(ExecuteRequest("demo/quick"), scene.app.context()))

    state = scene.place / "state"
    async with scene.serving(), anyio.create_task_group() as group:
        with open_directory(state) as directory, lock(directory):
            group.start_soon(call)  # its first row makes the file of the log, and that asks for the lock
            begun = anyio.current_time()
            for _ in range(TURNS):  # others have their turns; if not, the wait for the lock fails
                await anyio.sleep(0.001)
            await anyio.sleep_until(begun + 0.3)
            assert not answers
    (answer,) = answers
    assert isinstance(answer, ExecutionResult)
    assert (answer.success, answer.notices) == (True, ())


async def test_many_calls_of_one_session_do_not_keep_another_waiting() -> None:
    done: list[str] = []

    def work(name: str) -> None:
        time.sleep(0.02)
        done.append(name)

    async def call(name: str) -> None:
        request = SimpleNamespace(headers={"mcp-session-id": name}, client=("127.0.0.1", 1))
        await in_its_turn(SimpleNamespace(request=request), lambda _: apart(lambda: work(name)))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(call, "hostile")
        await anyio.sleep(0.01)
        await call("honest")
    assert done.index("honest") <= HANDS


def test_a_body_of_two_bytes_for_a_value_is_not_read(tmp_path: Path) -> None:
    ada = Person("ada", tmp_path)
    with http_server(ada, None) as server:
        call = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": [[]] * 1_000_000}}
        assert post(server, call).status_code == 413
        assert post(server, {**call, "params": {"x": "[]," * 300_000}}).status_code != 413
