"""Executions that have to be refused: a code, who says what wrongly, what fixes it, and nothing was run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from rye_mcp.errors import ERRORS
from tests.runtime_workshop import Workshop
from tests.trust_world import World

pytestmark = pytest.mark.anyio

PRIMITIVE = "executor_id: rye/core/primitives/subprocess\n"
TOUCH = 'config: {command: touch, args: ["{project_path}/canary"]}\n'
TAKES_NAME = """\
config_schema:
  type: object
  properties: {name: {type: string}, age: {type: integer}}
  required: [name]
"""
WAITS = """\
#!/bin/sh
# /// rye
# executor_id: binary_runtime
# config_schema: {properties: {pipe: {type: string}}}
# ///
cat "$RYE_PARAM_pipe"
"""


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(World(tmp_path))
    (workshop.project / ".ai").mkdir(parents=True)
    return workshop


@dataclass(frozen=True)
class Case:
    """Signed files, and how the execution of `demo/tool` is refused; `named` stands in what is told."""

    code: str
    named: str
    files: Mapping[str, str]
    parameters: Mapping[str, Any] = field(default_factory=dict)


def tool(text: str, **more: Any) -> dict[str, str]:
    return {"demo/tool.yaml": text, **more}


def runtime(text: str = "", executor: str = "subprocess") -> dict[str, str]:
    return {"runtimes/mine.yaml": f"tool_type: runtime\nexecutor_id: {executor}\n{text}"}


MINE = "executor_id: runtimes/mine\n"

CASES = {
    "an executor that is nowhere": Case("executor_not_found", "runtimes/mine", tool(MINE + TOUCH)),
    "a runtime whose executor is nowhere": Case(
        "executor_not_found", "runtimes/mine", tool(MINE + TOUCH) | runtime(executor="gone")
    ),
    "a circle": Case("executor_cycle", "runtimes/mine", tool(MINE + TOUCH) | runtime(executor="mine")),
    "a chain without end": Case(
        "chain_too_deep",
        "deep/r8",
        tool("executor_id: deep/r0\n" + TOUCH)
        | {
            f"deep/r{number}.yaml": f"tool_type: runtime\nexecutor_id: deep/r{number + 1}\n"
            for number in range(12)
        },
    ),
    "two runtimes of one name": Case(
        "ambiguous_item",
        "b/mine",
        tool("executor_id: mine\n" + TOUCH)
        | {f"{where}/mine.yaml": "tool_type: runtime\nexecutor_id: subprocess\n" for where in "ab"},
    ),
    "two files of one id": Case(
        "ambiguous_item", "tool.py", tool(PRIMITIVE + TOUCH) | {"demo/tool.py": "x = 1\n"}
    ),
    "a tool as executor": Case(
        "chain_invalid",
        "runtimes/mine",
        tool(MINE + TOUCH) | {"runtimes/mine.yaml": "executor_id: subprocess\n"},
    ),
    "no command": Case("invalid_item", "demo/tool", tool(MINE) | runtime()),
    "an empty command": Case("invalid_item", "demo/tool", tool(PRIMITIVE + 'config: {command: " "}\n')),
    "a key that means nothing": Case(
        "invalid_item", "runtimes/mine", tool(MINE + TOUCH) | runtime("config: {comand: x}\n")
    ),
    "a command that is no text": Case(
        "invalid_item", "demo/tool", tool(PRIMITIVE + "config: {command: [touch, canary]}\n")
    ),
    "values that refer to themselves": Case(
        "invalid_item", "demo/tool", tool(PRIMITIVE + 'config: {command: "{command}"}\n')
    ),
    "a primitive that nobody knows": Case(
        "chain_invalid",
        "mine/teleport",
        tool("executor_id: mine/teleport\n" + TOUCH)
        | {"mine/teleport.yaml": "tool_type: primitive\nexecutor_id: null\n"},
    ),
    "a schema that is none": Case(
        "invalid_item",
        "demo/tool",
        tool(PRIMITIVE + TOUCH + "config_schema: {type: nonsense}\n"),
        {"name": 1},
    ),
    "an env_config that is none": Case(
        "invalid_item",
        "runtimes/mine",
        tool(MINE + TOUCH) | runtime("env_config: {interpreter: {type: x}}\n"),
    ),
    "an anchor that is none": Case(
        "invalid_item",
        "runtimes/mine",
        tool(MINE + TOUCH) | runtime("anchor: {mode: sometimes, root: moon}\n"),
    ),
    "a missing parameter": Case("invalid_parameters", "/name", tool(PRIMITIVE + TOUCH + TAKES_NAME)),
    "parameters of wrong types": Case(
        "invalid_parameters", "/age", tool(PRIMITIVE + TOUCH + TAKES_NAME), {"name": 1, "age": "old"}
    ),
    "an unknown parameter": Case(
        "invalid_parameters",
        "nme",
        tool(PRIMITIVE + TOUCH + "config_schema: {type: object, additionalProperties: false}\n"),
        {"nme": "x"},
    ),
    "a value that is no JSON": Case("invalid_parameters", "/x", tool(PRIMITIVE + TOUCH), {"x": float("nan")}),
    "half a character": Case("invalid_parameters", "/x", tool(PRIMITIVE + TOUCH), {"x": "\ud800"}),
    "a NUL in an argument": Case(
        "invalid_parameters",
        "name",
        tool(PRIMITIVE + 'config: {command: touch, args: ["{name}"]}\n' + TAKES_NAME),
        {"name": "canary\0"},
    ),
    "an argument that is too long": Case(
        "invalid_parameters",
        "name",
        tool(PRIMITIVE + 'config: {command: touch, args: ["{name}"]}\n' + TAKES_NAME),
        {"name": "x" * 200_000},
    ),
    "parameters that are too large": Case(
        "invalid_parameters", "16777216", tool(PRIMITIVE + TOUCH), {"x": "x" * (17 << 20)}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_it_is_refused_with_who_says_what_wrongly_and_nothing_runs(
    workshop: Workshop, case: Case
) -> None:
    for path, text in case.files.items():
        workshop.sign(path, text)
    result = await workshop.run("demo/tool", case.parameters)
    told = result.metadata
    assert (result.success, result.code) == (False, case.code), told
    assert case.named in str(told)
    assert result.hint
    assert result.code in ERRORS
    assert len(str(told)) < 10_000
    assert not (workshop.project / "canary").exists()
    assert not (workshop.project / ".ai/lockfiles").exists()


async def test_a_program_that_is_not_there_is_a_failure_that_names_it(workshop: Workshop) -> None:
    tool_id = workshop.sign("demo/tool.yaml", PRIMITIVE + "config: {command: no-such-program}\n")
    result = await workshop.run(tool_id)
    assert (result.success, result.code) == (False, "spawn_failed")
    assert "no-such-program" in (result.error or "")
    assert not (workshop.project / ".ai/lockfiles").exists()


async def test_a_project_that_disappears_while_a_tool_runs_is_no_failure_of_the_run(
    workshop: Workshop, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    tool_id = workshop.sign("demo/wait", WAITS)
    results = []

    async def run() -> None:
        results.append(await workshop.run(tool_id, {"pipe": str(pipe)}))

    def let_it_go() -> None:
        with pipe.open("w") as writer:  # which waits until the tool reads
            shutil.rmtree(workshop.project)
            writer.write("done")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await anyio.to_thread.run_sync(let_it_go)
    (result,) = results
    assert (result.success, result.data) == (True, "done"), (result.error, result.stderr)
    assert not workshop.project.exists()


async def test_a_full_disk_runs_nothing_and_leaves_nothing(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool_id = workshop.sign("demo/tool.yaml", PRIMITIVE + TOUCH)

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    result = await workshop.run(tool_id)
    monkeypatch.undo()
    assert result.code == "write_failed"
    assert not (workshop.project / "canary").exists()
    assert (await workshop.run(tool_id)).success
