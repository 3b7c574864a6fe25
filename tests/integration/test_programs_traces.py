"""The calls of a program are spans below the span of the call that began the program."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.inside_world import Programs, execute
from tests.mcp_world import Workshop, workshop

__all__ = ["workshop"]

SERVER = """
import json, os, secrets, sys
TOLD = sys.argv[1]
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, Tracer, TracerProvider, use_span
from contextlib import contextmanager

class Told(Tracer):
    def start_span(self, name, context=None, **_):
        above = trace.get_current_span(context).get_span_context()
        number = above.trace_id or secrets.randbits(128)
        own = SpanContext(number, secrets.randbits(64), False, TraceFlags(1))
        with open(TOLD, "a") as file:
            file.write(json.dumps([name, own.span_id, above.span_id]) + "\\n")
        return NonRecordingSpan(own)

    @contextmanager
    def start_as_current_span(self, name, context=None, **_):
        with use_span(self.start_span(name, context)) as span:
            yield span

class Provider(TracerProvider):
    def get_tracer(self, *_, **__):
        return Told()

trace.set_tracer_provider(Provider())
from rye_mcp.start import main
sys.argv[1:] = sys.argv[2:]
main()
"""
"""A server with a tracer that writes the name, the span and the span above it, a line each."""

TRACED = "import os\ndef main():\n    return os.environ['TRACEPARENT'].split('-')[2]"
PROGRAM = """
import os
from rye import call
def main():
    return [os.environ["TRACEPARENT"].split("-")[2], call("demo/inner"), call("demo/traced")]
"""
INNER = """
import os
from rye import call
def main():
    return [os.environ["TRACEPARENT"].split("-")[2], call("demo/traced")]
"""


async def test_each_call_is_a_span_below_what_asks_for_it(workshop: Workshop, tmp_path: Path) -> None:
    programs, told = Programs(workshop), tmp_path / "told"
    programs.add("demo/traced", TRACED)
    programs.add("demo/inner", INNER, calls=["demo/traced"])
    programs.add("demo/program", PROGRAM, calls=["demo/inner", "demo/traced"])
    server = StdioServerParameters(
        command=sys.executable,
        args=["-c", SERVER, str(told), "--project", str(workshop.project)],
        env=workshop.person.environment,
    )
    async with Client(stdio_client(server)) as client:
        outer, (inner, below), beside = (await execute(client, "demo/program"))["data"]
    spans = {span: (name, above) for name, span, above in map(json.loads, told.read_text().splitlines())}
    names = {each: spans[int(each, 16)][0] for each in (inner, below, beside)}
    assert list(names.values()) == [
        "tools/call demo/inner",
        "tools/call demo/traced",
        "tools/call demo/traced",
    ]
    above = {each: f"{spans[int(each, 16)][1]:016x}" for each in (inner, below, beside)}
    assert above == {inner: outer, below: inner, beside: outer}
