"""Spans and metrics of a server reach a collector over HTTP, as protobuf, and hold nothing that is secret."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from anyio import to_thread
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from tests.collector_world import Collector, collector
from tests.http_world import connected, http_server
from tests.inside_world import Programs, execute
from tests.mcp_world import Workshop, workshop

__all__ = ["workshop"]

VALUE = "a-value-that-nobody-may-see"
OPEN = """
import os
def main(value, fifo):
    with open(fifo) as file:
        file.read()
    return [value, os.environ.get("OTEL_EXPORTER_OTLP_HEADERS")]
"""
OUTER = """
from rye import call
def main():
    return call("demo/echo", {})
"""


@pytest.fixture
def collecting() -> Iterator[Collector]:
    with collector() as found:
        yield found


@pytest.fixture
def programs(workshop: Workshop) -> Programs:
    found = Programs(workshop)
    found.add("demo/failing", "def main(**_):\n    raise SystemExit(3)")
    found.add("demo/outer", OUTER, calls=["demo/echo"])
    return found


async def test_calls_are_counted_and_spans_are_below_what_asked(
    programs: Programs, collecting: Collector
) -> None:
    workshop = programs.workshop
    person, project = workshop.person, workshop.project
    with http_server(person, project, installed=True, variables=collecting.variables) as server:
        async with connected(server, "http", "auto") as client:
            await execute(client, "demo/outer")
            await execute(client, "demo/echo", value=VALUE)
            await execute(client, "demo/failing", value=VALUE)
            await execute(client, f"demo/{VALUE}")
            await client.call_tool("search", {"query": VALUE})
        collecting.wait_until(lambda: collecting.total("mcp.server.operation.duration") == 5)
        collecting.wait_until(lambda: len(calls_in(collecting)) == 6)
        assert server.ended() == 0
    calls = "mcp.server.operation.duration"
    assert {facts["gen_ai.tool.name"] for facts, _ in collecting.points(calls)} == {"execute", "search"}
    codes = sorted(facts.get("error.type", "") for facts, _ in collecting.points(calls))
    assert codes == ["", "", "item_not_found", "tool_failed"]
    runs = {
        (facts.get("rye.item"), facts["rye.inner"], facts.get("error.type")): point.as_int
        for facts, point in collecting.points("rye.runs")
    }
    assert runs == {
        ("demo/outer", False, None): 1,
        ("demo/echo", True, None): 1,
        ("demo/echo", False, None): 1,
        ("demo/failing", False, "tool_failed"): 1,
        (None, False, "item_not_found"): 1,
    }
    assert sum(point.count for _, point in collecting.points("rye.run.duration")) == 4
    spans = {span.span_id: span for span in collecting.spans}
    [inner] = [span for span in spans.values() if span.name == "tools/call demo/echo"]
    assert spans[inner.parent_span_id].name == "tools/call execute"
    assert spans[inner.parent_span_id].trace_id == inner.trace_id
    assert collecting.services == {"rye-mcp"}
    assert set(collecting.headers) == {"open-sesame"}
    assert VALUE.encode() not in collecting.raw


def calls_in(found: Collector) -> list[str]:
    return [span.name for span in found.spans if span.name.startswith("tools/call")]


@pytest.mark.thorough
async def test_a_message_that_the_protocol_refuses_is_a_span_without_what_it_said(
    programs: Programs, collecting: Collector
) -> None:
    workshop = programs.workshop
    refused: list[Callable[[Client], Awaitable[object]]] = [
        lambda client: client.read_resource(f"rye://runs/{VALUE}/stdout"),
        lambda client: client.get_prompt(VALUE, {"word": VALUE}),
        lambda client: client.call_tool(VALUE, {"word": VALUE}),
    ]
    variables = collecting.variables
    with http_server(workshop.person, workshop.project, installed=True, variables=variables) as server:
        async with connected(server, "http", "auto") as client:
            for ask in refused:
                with pytest.raises(MCPError, match=VALUE):
                    await ask(client)
            await execute(client, "demo/echo", value=VALUE)
        collecting.wait_until(lambda: "tools/call execute" in calls_in(collecting))
        assert server.ended() == 0
    failed = {span.name for span in collecting.spans if span.status.code == 2}
    assert failed == {"resources/read", "prompts/get", "tools/call"}
    assert VALUE.encode() not in collecting.raw


async def test_a_run_is_in_flight_until_it_is_over(
    programs: Programs, collecting: Collector, tmp_path: Path
) -> None:
    workshop = programs.workshop
    programs.add("demo/open", OPEN, project="write")
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "rye_mcp", "--project", str(workshop.project)],
        env=workshop.person.environment | collecting.variables,
    )
    fifo = workshop.project / "fifo"
    os.mkfifo(fifo)
    async with Client(stdio_client(server)) as client:
        asked = {"item_id": "demo/open", "parameters": {"value": VALUE, "fifo": str(fifo)}, "async": True}
        await client.call_tool("execute", asked)
        collecting.wait_until(lambda: active(collecting) == [1])
        await to_thread.run_sync(fifo.write_text, "go on")
        collecting.wait_until(lambda: active(collecting) == [0])
        collecting.wait_until(lambda: collecting.points("rye.run.duration") != [])
    assert VALUE.encode() not in collecting.raw


def active(found: Collector) -> list[int]:
    return [point.as_int for _, point in found.points("rye.runs.active")]


@pytest.mark.thorough
async def test_a_server_ends_though_its_collector_never_answers(workshop: Workshop) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="pip install --group dev")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        person, project = workshop.person, workshop.project
        with http_server(person, project, installed=True, variables=variables) as server:
            async with connected(server, "http", "auto") as client:
                await client.call_tool("search", {"query": "echo"})
            assert server.ended() == 0
        silent.settimeout(10)
        silent.accept()[0].close()  # it was asked


def test_without_the_extra_a_server_says_what_to_install(workshop: Workshop) -> None:
    script = (
        "import sys; sys.modules['opentelemetry.sdk.metrics'] = None\n"
        "from rye_mcp.start import main; sys.exit(main())"
    )
    environment = workshop.person.environment | {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    ran = subprocess.run(
        [sys.executable, "-c", script, "--project", workshop.project],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0
    assert "pip install 'rye-mcp[otel]'" in ran.stderr
