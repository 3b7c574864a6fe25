"""A client lists a tool, a person approves it by its name, and then the file becomes another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts

pytestmark = pytest.mark.anyio


def edited(path: Path, canary: Path) -> None:
    path.write_text(path.read_text() + f"open({str(canary)!r}, 'w')\n")


def unsigned(path: Path, canary: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]) + f"open({str(canary)!r}, 'w')\n")


def linked(path: Path, canary: Path) -> None:
    other = path.with_name("other.txt")
    other.write_text(path.read_text())
    path.unlink()
    path.symlink_to(other)


def twin(path: Path, canary: Path) -> None:
    path.with_suffix(".sh").write_text(f"touch {canary}\n")


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (edited, "content_changed"),
        (unsigned, "unsigned"),
        (linked, "unsafe_path"),
        (twin, "ambiguous_item"),
    ],
    ids=["edited", "unsigned", "linked", "twin"],
)
async def test_what_was_listed_is_verified_again_when_it_is_called(
    workshop: Workshop, mode: Mode, change: Callable[[Path, Path], None], code: str
) -> None:
    path, canary = workshop.tool("demo/hello", "print(1)"), workshop.project / "canary"
    async with workshop.served(mode, "--expose", "demo/*") as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert "demo_hello" in listed
        change(path, canary)
        assert facts(await client.call_tool("demo_hello", {}))["code"] == code
        listed = {tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools}
        assert "demo_hello" not in listed
    assert not canary.exists()


async def test_what_is_exposed_is_no_way_around_a_space_above(workshop: Workshop, mode: Mode) -> None:
    """An unsigned file with the id of a system tool hides it; the system's is not offered in its place."""
    async with workshop.served(mode, "--expose", "rye/bash/*") as client:
        assert "rye_bash_bash" in {tool.name for tool in (await client.list_tools()).tools}
        workshop.write("rye/bash/bash", "import json\n")
        listed = {tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools}
        assert "rye_bash_bash" not in listed
