"""A result crosses the wire as it is, and nothing else is taken for one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lilux.primitives.subprocess import Usage
from rye_mcp.errors import RyeError
from rye_mcp.executor.elsewhere import ON_NODE, on_node
from rye_mcp.executor.job.enforcement import Enforcement
from rye_mcp.executor.job.outcomes import Cut, Exit, Outcome, Runtime
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.nodes.outcomes import decode_refusal, decode_result, encode_refusal, encode_result
from rye_mcp.notices import Notice
from rye_mcp.permissions import Permissions
from rye_mcp.permissions.denials import Denial
from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.results import Kept

FULL = Outcome(
    success=False,
    data={"rows": [1, None, "\ud800", 1 << 80]},
    exit=Exit("exited", 3),
    duration_ms=1.5,
    code="tool_failed",
    error="expected 0, found 3",
    hint="look at it",
    stdout="beside",
    stderr="oh",
    usage=Usage(1.0, 2.0, 3),
    notices=(Notice("chain_warning", "mind"),),
    enforced=Enforcement("cell", "kernel", "none", ("a:1",), "private", ("pids",), ("x",), ("y",), "why"),
    runtime=Runtime("first_call"),
    denied=Denial(("/a",), ("/b",), Permissions(read=frozenset({"/a"})), ("note",)),
)


def crossed(outcome: Outcome, **options: Any) -> Any:
    result = ExecutionResult.of(outcome, item_id="demo/x", run_id=new_run_id(), **options)
    return decode_result(encode_result(result))


def test_a_result_arrives_as_it_was() -> None:
    remote = crossed(FULL, receipt="a" * 64, sealed=True)
    hint, notices = f"{ON_NODE}{FULL.hint}", tuple(map(on_node, FULL.notices))
    assert remote.outcome == replace(FULL, hint=hint, notices=notices), "words of a node say that they are"
    assert (remote.receipt, remote.sealed) == ("a" * 64, True)


def test_a_success_without_anything_arrives_too() -> None:
    outcome = Outcome(True, None, Exit("http", status_code=200), 0.0)
    assert crossed(outcome).outcome == outcome


def test_what_stays_on_the_node_is_named_and_no_handle_of_it_arrives() -> None:
    cut = Outcome(True, None, Exit("exited", 0), 0.0, cuts=(Cut("stdout", 9, 4, 9),))
    remote = crossed(cut, kept=(Kept("a" * 64, "plot.png", 3, "image/png", ""),))
    assert remote.outcome.cuts == (Cut("stdout", 9, 4, 0),)
    assert [each.code for each in remote.outcome.notices] == ["kept_on_node"]
    assert "plot.png" in remote.outcome.notices[0].message


def test_a_code_of_another_version_is_a_refusal_of_the_node() -> None:
    told = {"code": "of_tomorrow", "error": "expected, found", "hint": "do it"}
    refusal = decode_refusal(json.dumps(told).encode())
    assert (refusal.code, refusal.message) == ("node_refused", "expected, found")
    same = decode_refusal(encode_refusal(RyeError("untrusted_key", "expected a, found b", hint="h")))
    assert (same.code, same.hint) == ("untrusted_key", "on the node: h")


WHOLE = json.loads(
    encode_result(ExecutionResult.of(FULL, item_id="demo/x", run_id=new_run_id(), receipt="a" * 64))
)
BAD = {
    "success": True,  # with a code
    "exit": {"kind": "running", "return_code": None, "signal": None, "status_code": None},
    "run_id": "../../etc",
    "receipt": "x",
    "enforced": {"level": "all"},
    "kept": [1],
    "more": 1,
    "cuts": [{"stream": "stdin", "total": 1, "omitted": 1}],
    "denied": {"certain": [], "likely": [], "would_need": {"net": 5}, "notes": []},
}


@pytest.mark.parametrize("field", BAD)
def test_what_no_node_of_ours_says_is_refused(field: str) -> None:
    with pytest.raises(RyeError) as caught:
        decode_result(json.dumps({**WHOLE, field: BAD[field]}).encode())
    assert caught.value.code == "lost"


@pytest.mark.parametrize("field", sorted(WHOLE))
def test_no_field_may_be_missing(field: str) -> None:
    with pytest.raises(RyeError):
        decode_result(json.dumps({name: value for name, value in WHOLE.items() if name != field}).encode())


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_do_anything_but_be_refused(data: bytes) -> None:
    for decode in (decode_result, decode_refusal):
        with pytest.raises(RyeError):
            decode(data)


def test_values_inside_of_each_other_without_end_are_refused() -> None:
    with pytest.raises(RyeError):
        decode_result(b"[" * 100_000)
