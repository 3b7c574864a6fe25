"""Every example of `docs/results.md` runs, and its result is what the page says."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive
from rye_mcp.executor.job.decoding import MAX_DEPTH
from rye_mcp.executor.job.outcomes import MAX_STDERR_CHARACTERS
from rye_mcp.executor.results import ExecutionResult, read_process
from rye_mcp.runs.ids import StreamName, new_run_id
from rye_mcp.runs.log import MAX_KEPT_REFUSALS, MAX_KEPT_ROWS
from rye_mcp.runs.outputs import MAX_AGE, MAX_LENGTH, MAX_RUN_BYTES, MAX_TOTAL_BYTES, SEARCH_LIMIT_S

pytestmark = pytest.mark.both_loops

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results.md"
EXAMPLE = re.compile(
    r"^### (.+?)\n(?:(?!^#).)*?^```sh\n(.*?)^```\n\n^```json\n(.*?)^```", re.MULTILINE | re.DOTALL
)


def examples() -> list[tuple[str, str, dict[str, Any]]]:
    text = PAGE.read_text(encoding="utf-8")
    return [(heading, script, json.loads(result)) for heading, script, result in EXAMPLE.findall(text)]


def test_every_block_of_the_page_is_an_example() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(examples()) == text.count("\n```sh\n") == text.count("\n```json\n") > 5


@pytest.mark.parametrize(("_heading", "script", "expected"), examples(), ids=[each[0] for each in examples()])
async def test_an_example_has_the_result_that_the_page_says(
    _heading: str, script: str, expected: dict[str, Any]
) -> None:
    env = {"PATH": os.environ["PATH"], "RYE_RESULT_FD": "3"}
    spec = ProcessSpec(command="/bin/sh", args=["-c", script], env=env, result_fd=True)
    outcome = read_process(await SubprocessPrimitive().run(spec))
    found = ExecutionResult.of(outcome, item_id="demo/hello", run_id=new_run_id()).as_dict()
    assert {name: found[name] for name in expected} == expected
    assert ("code" in expected) == ("code" in found)


def test_the_page_has_the_limits_of_the_code() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"at most {MAX_DEPTH} lists and objects" in text
    assert f"({MAX_STDERR_CHARACTERS >> 10} Ki characters)" in text
    assert f"up to {MAX_RUN_BYTES >> 20} MiB a run" in text
    assert f"at most {MAX_TOTAL_BYTES >> 20} MiB for all runs" in text
    assert f"up to {MAX_LENGTH >> 20} MiB" in text
    assert (
        f"The last {MAX_KEPT_ROWS:,} rows are kept, and of refused calls the last {MAX_KEPT_REFUSALS:,}"
        in text
    )
    assert (MAX_AGE.days, SEARCH_LIMIT_S) == (7, 2)
    assert "for seven days" in text
    assert "longer than two seconds" in text
    assert all(f"`{stream}`" in text for stream in get_args(StreamName))
