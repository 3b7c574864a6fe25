"""The log of a real server: lines of JSON, each with the call that it belongs to, and without any value."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from tests.http_world import TOKEN, http_server, post
from tests.mcp_world import SERVER, Mode, Workshop, facts, python_tool, workshop  # noqa: F401 - a fixture

SECRET = "hunter2-hunter2"

pytestmark = pytest.mark.anyio


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_each_call_is_a_line_without_any_value(
    workshop: Workshop,  # noqa: F811
    mode: Mode,
    tmp_path: Path,
) -> None:
    workshop.tool("demo/greet", "print(json.dumps({'status': params['word'], 'code': params['word']}))")
    workshop.write("demo/unsigned", python_tool("print('{}')"))
    parameters = workshop.parameters("--expose", "demo/*", "--log-level", "info", GITHUB_TOKEN=SECRET)
    with (tmp_path / "log").open("w+") as log:
        async with Client(stdio_client(parameters, errlog=log), mode=mode) as client:
            await client.list_tools()
            call = {"item_id": "demo/greet", "parameters": {"word": SECRET}}
            run_id = facts(await client.call_tool("execute", call))["run_id"]
            secrets = {"word": SECRET, "item_id": SECRET, "run_id": SECRET}  # parameters of the tool's own
            await client.call_tool("demo_greet", secrets)
            with pytest.raises(MCPError):
                await client.call_tool("demo_gone", secrets)
            await client.call_tool("execute", {"item_id": "demo/unsigned", "parameters": {"word": SECRET}})
            await client.call_tool("execute", {"item_id": "demo/greet", SECRET[:7]: SECRET})
            begun = facts(await client.call_tool("execute", call | {"async": True}))["run_id"]
            await client.call_tool("execute", {"run_id": begun, "action": "cancel"})
        log.seek(0)
        text = log.read()
    assert SECRET not in text
    found = lines_of(text)
    vanished = [each for each in found if each["event"] == "a tool is not offered"]
    assert [(each["item"], each["code"], each["level"]) for each in vanished] == [
        ("demo/unsigned", "unsigned", "warning")
    ]
    calls = [each for each in found if each["event"] == "called"]
    assert [(each["tool"], each.get("item"), each["outcome"]) for each in calls] == [
        ("execute", "demo/greet", "success"),
        ("demo_greet", "demo/greet", "success"),
        ("demo_gone", None, "unknown_argument"),
        ("execute", "demo/unsigned", "unsigned"),
        ("execute", "demo/greet", "unknown_argument"),
        ("execute", "demo/greet", "running"),
        ("execute", calls[-1].get("item"), calls[-1]["outcome"]),
    ]
    assert calls[0]["run"] == run_id
    assert calls[1]["run"] not in (None, run_id)
    assert len({each["request"] for each in calls}) == len(calls)
    assert all(each["level"] == "info" and each["ms"] > 0 for each in calls)
    [over] = [each for each in found if each["event"] == "a run is over"]
    assert (over["run"], over["request"]) == (begun, calls[-2]["request"])


@pytest.mark.thorough
def test_what_is_no_message_is_a_short_line_at_most(workshop: Workshop) -> None:  # noqa: F811
    noise = (
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "'
        + SECRET.encode()
        + b'"}}\n'
    )
    noise += b"\xff\xfe" + SECRET.encode() + b"\n[[[[\n" + b'{"' + SECRET.encode() * 100_000 + b"\n"
    done = subprocess.run(
        [SERVER],
        input=noise * 3,
        cwd=workshop.project,
        env=workshop.person.environment | {"RYE_LOG": "debug"},
        capture_output=True,
        timeout=30,
        check=True,
    )
    text = done.stderr.decode()
    lines_of(text)
    assert SECRET not in text
    assert len(text) < 20_000


def test_what_strangers_send_over_http_is_told_without_their_words(workshop: Workshop) -> None:  # noqa: F811
    person = replace(workshop.person, more={"RYE_LOG": "debug"})
    begin = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": SECRET, "version": "1"},
    }
    with http_server(person, workshop.project) as server:
        post(server, {"jsonrpc": "2.0", "id": 1, "method": SECRET}, Host=f"{SECRET}.example")
        post(server, {"jsonrpc": "2.0", "id": 1, "method": SECRET}, Origin=f"https://{SECRET}.example")
        post(server, f'{{"{SECRET}": [[['.encode())
        post(server, b"{}", path=f"/messages/?session_id={SECRET}")
        began = post(server, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin})
        session = began.headers["mcp-session-id"]
        server.ended()
        text = server.errors.read_text()
    usage, lines = text.splitlines()[:3], text.splitlines()[3:]
    assert usage[0].startswith("rye-mcp: listening on")
    assert {line["event"] for line in map(json.loads, lines)} >= {
        "Invalid Host header",
        "Invalid Origin header",
    }
    for hidden in (SECRET, TOKEN, session):
        assert hidden not in text
