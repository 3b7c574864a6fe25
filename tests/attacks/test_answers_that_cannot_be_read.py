"""Another MCP server answers with what is no JSON, or lists what is no tool: one call fails, or one tool."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rye_mcp.bridge.incoming import answered_request
from tests.bridge_world import Bridged

BROKEN = ("half", "deep", "bytes", "cut")
NOT_FINITE = ("nan", "infinite", "beyond", "hints")


@pytest.fixture
def scene(tmp_path: Path) -> Bridged:
    return Bridged(tmp_path)


async def test_an_answer_that_cannot_be_read_fails_its_call_at_once(scene: Bridged) -> None:
    """Half a character, lists inside each other, no UTF-8, half a message: nobody waits for the limit."""
    await scene.add(scene.config(), "unreadable", "echo")
    async with scene.serving():
        for how in BROKEN:
            begun = time.monotonic()
            found = await scene.call("unreadable", text=how, timeout=20)
            assert time.monotonic() - begun < 10
            assert (found.success, found.code) == (False, "tool_failed"), how
            assert "that can be read" in (found.error or "")
            assert (await scene.call("echo", text="the next call works")).success


async def test_a_number_that_json_cannot_hold_does_not_become_null(scene: Bridged) -> None:
    await scene.add(scene.config(), "unreadable", "echo")
    async with scene.serving():
        for how in NOT_FINITE:
            found = await scene.call("unreadable", text=how, timeout=20)
            assert (found.success, found.code, found.data) == (False, "tool_failed", None), how
            assert "expected a finite number" in (found.error or "")
            assert "$." in (found.error or "")
        assert (await scene.call("echo", text="the next call works")).success


@pytest.mark.thorough
async def test_a_malformed_tool_spoils_no_other_of_its_server(scene: Bridged) -> None:
    written = await scene.add(scene.config("malformed"), "echo", "*")
    assert {"mcp/raw/echo", "mcp/raw/good_one"} <= set(written.item_ids)
    left_out = {each.tool: each.error for each in written.left_out}
    nameless = {name for name in left_out if name.startswith("tools.")}
    assert left_out.keys() - nameless == {"no_schema", "a_list", "not_finite", "beyond", "described"}
    assert len(nameless) == 1
    assert "inputSchema" in left_out["no_schema"].message
    assert "expected a finite number" in left_out["not_finite"].message
    async with scene.serving():
        assert (await scene.call("good_one", text="it works")).success


def test_only_an_answer_names_a_call() -> None:
    """What stands deeper, a request, or what is no object names none."""
    cases = {
        b'{"jsonrpc": "2.0", "id": 7, "result": {"id": 8, "text": "half': 7,
        b'{"result": {"a": [1, {"id": 3}]}, "id": "x-1"}': "x-1",
        b'{"result": ' + b"[" * 90_000 + b"]" * 90_000 + b', "id": 44}': 44,
        b'{"a": "\\"id\\": 4", "id": 5, "error": oops}': 5,
        b'{"id": 1, "method": "a", "params": {"result": 1}}': None,
        b'{"id": 1, "method": "a", "params": {}, "result": 1}': None,
        b'{"id": 1.5, "result": 1}': None,
        b'{"id": [1], "result": 2}': None,
        b'{"id": null, "error": {}}': None,
        b'{"jsonrpc": "1.0", "id": 1}': None,
        b'[{"id": 1, "result": 1}]': None,
        b'{}}{"id": 1, "result": 1}': None,
        b'log: {"id": 1, "result": 1}': None,
    }
    assert {line: answered_request(line) for line in cases} == cases
