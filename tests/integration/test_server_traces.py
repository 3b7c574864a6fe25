"""A tool is told which trace its call belongs to, and nothing else comes along that way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mcp_world import Mode, Workshop, facts, workshop  # noqa: F401 - a fixture

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-00"

CODE = """import os
print(json.dumps({name: value for name, value in os.environ.items() if "TRACE" in name or "rye" in name}))"""

CASES: list[tuple[dict[str, Any] | None, dict[str, str]]] = [
    ({"traceparent": PARENT}, {"TRACEPARENT": PARENT}),
    (
        {"traceparent": PARENT, "tracestate": "a=b,c=d"},
        {"TRACEPARENT": PARENT, "TRACESTATE": "a=b,c=d"},
    ),
    ({"traceparent": PARENT, "tracestate": "a=b\nc"}, {"TRACEPARENT": PARENT}),
    ({"traceparent": f"{PARENT}\nX=1", "tracestate": "a=b"}, {"TRACEPARENT": OTHER, "TRACESTATE": "its=own"}),
    ({"TRACEPARENT": PARENT, "RYE_TRACE": "x"}, {"TRACEPARENT": OTHER, "TRACESTATE": "its=own"}),
    ({"traceparent": {"a": [1]}}, {"TRACEPARENT": OTHER, "TRACESTATE": "its=own"}),
    (None, {"TRACEPARENT": OTHER, "TRACESTATE": "its=own"}),
]
"""What the client sends, and what the tool gets. The server itself was started within another trace."""

pytestmark = pytest.mark.anyio


@pytest.mark.first_case
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_trace_of_a_call_reaches_the_tool(
    workshop: Workshop,  # noqa: F811
    mode: Mode,
) -> None:
    workshop.tool("demo/trace", CODE)
    variables = {"TRACEPARENT": OTHER, "TRACESTATE": "its=own"}
    async with workshop.served(mode, "--expose", "demo/*", variables=variables) as client:
        for sent, expected in CASES:
            meta: Any = sent
            found = facts(await client.call_tool("execute", {"item_id": "demo/trace"}, meta=meta))
            assert found["data"] == expected, sent
        traced: Any = {"traceparent": PARENT}
        native = await client.call_tool("demo_trace", {}, meta=traced)
        assert facts(native) == {"TRACEPARENT": PARENT}
