"""What the calls of a program, and of those that it calls, may come to together."""

from __future__ import annotations

import time
from functools import partial

import pytest

from rye_mcp.executor.caller import Caller
from rye_mcp.executor.tree import MAX_OUTPUT_BYTES, Program
from rye_mcp.permissions import Permissions
from tests.trust_world import refused


def program(above: Program | None = None, *, left_s: float | None = None) -> Program:
    return Program(
        run_id="run",
        item_id="demo/inner" if above else "demo/outer",
        calls=frozenset({"demo/*"}),
        limit=10,
        approval=Permissions(),
        caller=Caller(program=above),
        deadline=None if left_s is None else time.monotonic() + left_s,
        identity=str,
    )


def test_all_answers_of_a_tree_have_one_limit() -> None:
    outer = program()
    inner = program(outer)
    inner.answer(MAX_OUTPUT_BYTES - 1)
    outer.answer(1)
    for each in (outer, inner):
        refused("answers_too_long", partial(each.answer, 1))
    program().answer(MAX_OUTPUT_BYTES)


def test_a_call_has_no_more_time_than_the_programs_above_it() -> None:
    outer = program(left_s=60)
    inner = program(outer, left_s=600)
    assert inner.time_left(5) == 5
    for asked in (None, 600):
        left = inner.time_left(asked)
        assert left is not None
        assert 0 < left <= 60
    assert program().time_left(None) is None


@pytest.mark.parametrize("asked", [None, 5])
def test_a_call_after_the_time_of_its_program_is_refused(asked: float | None) -> None:
    late = program(program(left_s=0), left_s=600)
    error = refused("timeout", lambda: late.time_left(asked))
    assert "before the time of demo/outer is over" in error.message
