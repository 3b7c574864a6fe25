"""What tests of `rye/file-system/*` share: a project, and one executor for all calls of a test."""

from __future__ import annotations

import ast
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import rye_mcp
from lilux.schemas import validate_parameters
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.executor.results import ExecutionResult
from tests.trust_world import World

__all__ = ["TOOLS", "Desk", "at_desk", "names_below", "only_python"]

TOOLS = Path(rye_mcp.__file__).parent / ".ai/tools/rye/file-system"


@dataclass
class Desk:
    """A project, and the tools of the file system in it."""

    project: Path
    outside: Path
    state: Path
    _executor: PrimitiveExecutor

    async def run(self, tool: str, **parameters: Any) -> ExecutionResult:
        """What comes of a call, also when it is refused."""
        return await self._executor.execute(f"rye/file-system/{tool}", parameters)

    async def ask(self, tool: str, **parameters: Any) -> Any:
        """The data of a call that succeeds."""
        result = await self.run(tool, **parameters)
        assert result.success, (result.code, result.error, result.data, result.stderr)
        assert not [notice for notice in result.notices if notice.code == "chain_warning"], result.notices
        assert not validate_parameters(result.data, promised(tool)).errors
        return result.data

    async def refusal(self, tool: str, **parameters: Any) -> str:
        """Why the tool refuses; every refusal has a hint, and nothing on standard error."""
        result = await self.run(tool, **parameters)
        assert (result.code, result.stderr) == ("tool_failed", ""), (result.code, result.error, result.stderr)
        assert result.data["success"] is False
        assert result.data["error"].startswith(("expected", "edit ", "pattern: expected")), result.data
        assert result.data.keys() == {"success", "error", "hint"}
        return str(result.data["error"])

    def write(self, relative: str, content: str | bytes = "") -> Path:
        """A file of the project."""
        path = self.project / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


@cache
def promised(tool: str) -> dict[str, Any]:
    """The schema of what a tool answers, and nothing beyond it."""
    for statement in ast.parse((TOOLS / f"{tool}.py").read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "OUTPUT_SCHEMA":
            schema: dict[str, Any] = ast.literal_eval(statement.value)
            return schema | {"additionalProperties": False}
    raise AssertionError(f"{tool} says nothing about its output")


@asynccontextmanager
async def at_desk(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *, state: Path | None = None, lifted: bool = False
) -> AsyncIterator[Desk]:
    """A desk in a directory; its tools keep their files below `state`, and run unconfined if `lifted`."""
    world = World(directory)
    if lifted:
        world.lift("rye/file-system/*")
    (world.project / ".ai").mkdir(parents=True, exist_ok=True)
    outside = directory / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "secret.txt").write_text("secret\n")
    state = state or directory / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    executor = PrimitiveExecutor(world.project, user_space=world.user_space.parent, state=world.state)
    try:
        yield Desk(world.project, outside, state, executor)
    finally:
        await executor.close()


def only_python(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH with nothing but Python on it."""
    programs = directory / "programs"
    programs.mkdir()
    (programs / "python3").symlink_to(
        shutil.which("python3", path=Path(sys.executable).parent) or sys.executable
    )
    monkeypatch.setenv("PATH", str(programs))


def names_below(directory: Path) -> list[str]:
    """Every path below a directory, but for `.ai`."""
    found = [
        os.path.relpath(os.path.join(at, name), directory)  # noqa: PTH118 - names that are no text
        for at, directories, files in os.walk(directory)
        for name in (*directories, *files)
    ]
    return sorted(name for name in found if name.split("/")[0] != ".ai")
