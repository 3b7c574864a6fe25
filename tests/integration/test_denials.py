"""A confined tool that fails is told what it lacked: names for certain, paths likely."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lilux.primitives.subprocess import SubprocessPrimitive
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from tests.runtime_workshop import Workshop
from tests.trust_world import World

pytestmark = pytest.mark.anyio

TOOL = '''\
"""Looks somewhere."""

import os
import socket

__tool_type__ = "python"
__executor_id__ = "python_function_runtime"
__version__ = "1.0.0"
PERMISSIONS = {permissions}
CONFIG_SCHEMA = {{"type": "object"}}


def execute(params, project_path):
    {work}
'''

THERE = "/var/lib"
"""Every machine has it, and no tool sees it by itself."""


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    found = Workshop(World(tmp_path.resolve()))
    (found.project / ".ai").mkdir(parents=True)
    return found


async def found(workshop: Workshop, permissions: str, work: str) -> dict[str, Any]:
    """The result of a tool that does this."""
    world = workshop.world
    source = TOOL.format(permissions=permissions, work=work)
    file = world.file(source.encode(), item_id="demo/looks", extension=".py")
    world.stored(world.signed(file, world.key()))
    executor = PrimitiveExecutor(
        workshop.project,
        user_space=world.user_space.parent,
        state=world.state,
        environment={"PATH": os.environ["PATH"], "HOME": str(world.root / "home")},
    )
    try:
        return (await executor.execute("demo/looks", {})).as_dict()
    finally:
        await executor.close()


@pytest.fixture(autouse=True)
async def cells() -> None:
    if (await SubprocessPrimitive().probe()).cell is None:
        pytest.skip("no cells can be made here")


async def test_a_name_that_is_refused_is_certain_even_if_the_tool_goes_on(workshop: Workshop) -> None:
    work = """try:
        socket.gethostbyname("refused.example.org")
    except OSError:
        return "went on"
"""
    result = await found(workshop, '{"net": ["allowed.example.org"]}', work)
    assert (result["status"], result["data"]) == ("success", "went on")
    assert result["denial_suspected"] == {
        "certain": ["refused.example.org"],
        "likely": [],
        "would_need": {"net": ["refused.example.org"]},
    }


async def test_a_hidden_path_in_the_last_lines_is_likely(workshop: Workshop) -> None:
    result = await found(workshop, "{}", f'return os.listdir("{THERE}")')
    assert result["status"] == "error"
    assert result["denial_suspected"] == {
        "certain": [],
        "likely": [THERE],
        "would_need": {"read": [THERE]},
    }


async def test_what_was_not_denied_is_not_suspected(workshop: Workshop) -> None:
    result = await found(workshop, "{}", 'raise ValueError("/srv/absent and /usr/bin/env")')
    assert result["status"] == "error"
    assert "denial_suspected" not in result
