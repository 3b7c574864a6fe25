"""An agent names one project after the other. Each is kept open and watched; none keeps the next one out."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from rye_mcp.app import App
from rye_mcp.mcp_server import projects
from rye_mcp.mcp_server.projects import Projects
from rye_mcp.mcp_server.rye_server import RyeServer
from tests.mcp_world import facts

FEW = 4

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home/.ai").mkdir(parents=True)
    monkeypatch.setenv("USER_SPACE", str(tmp_path / "home"))
    for name in ("STATE_HOME", "CACHE_HOME"):
        monkeypatch.setenv(f"XDG_{name}", str(tmp_path / name))
    monkeypatch.setattr(projects, "MAX_PROJECTS", FEW)
    monkeypatch.chdir(tmp_path)


def project(place: Path, name: object) -> str:
    (place / f"{name}/.ai").mkdir(parents=True)
    return str(place / f"{name}")


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    return facts(await client.call_tool(tool, arguments))


def held() -> int:
    """How many descriptors and threads this process has."""
    return len(list(Path("/proc/self/fd").iterdir())) + threading.active_count()


async def test_each_is_answered_and_what_is_open_does_not_grow(tmp_path: Path) -> None:
    async with Client(RyeServer(Projects().open)) as client:
        known: list[int] = []
        for number in range(4 * FEW):
            named = project(tmp_path, number)
            found = await call(client, "search", query="bash", limit=1, project_path=named)
            assert (found.get("total"), found["project"]) != (None, named), found
            await call(client, "execute", item_id="rye/bash/bash", project_path=named)
            known.append(held())
        assert max(known) < known[FEW - 1] + 2 * FEW, known


async def test_a_run_that_nobody_waits_for_goes_on(tmp_path: Path) -> None:
    named = project(tmp_path, "first")
    pipe = Path(named) / "pipe"
    os.mkfifo(pipe)
    opened: dict[str, App] = {}

    def open_app(path: Path | None) -> App:
        return opened.setdefault(str(path), Projects().open(path))

    async with Client(RyeServer(open_app)) as client:
        parameters = {"command": f"read line < {pipe}; echo $line"}
        begun = {"item_id": "rye/bash/bash", "parameters": parameters, "async": True}
        run_id = (await call(client, "execute", project_path=named, **begun))["run_id"]
        first = opened[named]
        catalog = first.kept_catalog()
        for number in range(FEW + 2):
            await call(client, "search", query="bash", project_path=project(tmp_path, number))
        assert (await call(client, "execute", run_id=run_id))["status"] == "running"
        assert first.kept_catalog() is catalog, "expected the project of the run open, found it closed"
        pipe.write_text("went on\n")
        while (found := await call(client, "execute", run_id=run_id))["status"] == "running":
            pass
    assert found["status"] == "success", found
    assert "went on" in str(found["data"])
