"""A trace is passed on in its one form, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, use_span

from rye_mcp.executor.caller import TraceContext
from rye_mcp.mcp_server.requests import trace_of_call

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE = "rojo=00f067aa0ba902b7,congo@x=t61r cWkg"


@pytest.mark.parametrize(
    "parent",
    [
        *(None, 7, "", PARENT.upper(), f" {PARENT}", f"{PARENT}\n", f"{PARENT}-more", PARENT[:-1]),
        *("ff" + PARENT[2:], "01" + PARENT[2:]),
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        PARENT.replace("0af7", "\u0660af7"),
        f"{PARENT}\nLD_PRELOAD=/tmp/x",
        PARENT.replace("-01", "-0\0"),
    ],
)
def test_what_is_malformed_is_dropped(parent: Any) -> None:
    assert TraceContext.read(parent, STATE) is None


@pytest.mark.parametrize(
    "state",
    [
        *(
            None,
            7,
            "",
            "a",
            "=b",
            "A=b",
            "a=b=c",
            "a=\n",
            "a=b\nLD_PRELOAD=/tmp/x",
            "a=\u00e9",
            "a=b,,c=d",
            "a=b\0",
        ),
        "a=" + "b" * 511,
        ",".join(f"a{number}=b" for number in range(33)),
    ],
)
def test_a_state_that_is_malformed_is_left_out(state: Any) -> None:
    found = TraceContext.read(PARENT, state)
    assert found is not None
    assert found.variables() == {"TRACEPARENT": PARENT}


def test_what_is_sound_is_two_variables() -> None:
    found = TraceContext.read(PARENT, STATE)
    assert found is not None
    assert found.variables() == {"TRACEPARENT": PARENT, "TRACESTATE": STATE}


def test_the_span_of_the_server_is_what_a_tool_is_told() -> None:
    assert trace_of_call() is None
    span = SpanContext(
        int("a" * 32, 16), int("b" * 16, 16), is_remote=False, trace_flags=TraceFlags(1),
        trace_state=TraceState([("x", "y")]),
    )  # fmt: skip
    with use_span(NonRecordingSpan(span)):
        assert trace_of_call() == TraceContext(f"00-{'a' * 32}-{'b' * 16}-01", "x=y")
