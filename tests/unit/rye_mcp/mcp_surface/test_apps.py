"""How many projects one server opens for those who name them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rye_mcp.app import App, Settings
from rye_mcp.errors import RyeError
from rye_mcp.mcp_surface.apps import MAX_PROJECTS, Apps

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def opened(place: Path) -> AsyncIterator[tuple[Apps, list[Path | None]]]:
    """The parts, and what was opened for them."""
    asked: list[Path | None] = []

    def open_app(path: Path | None) -> App:
        asked.append(path)
        user = place / "user"
        return App.open(Settings.find(project=path, user_directory=user, state=user, cache=user))

    apps = Apps(open_app)
    try:
        yield apps, asked
    finally:
        await apps.close()


async def test_of_projects_without_end_the_first_ones_are_opened(tmp_path: Path) -> None:
    projects = [tmp_path / str(number) for number in range(MAX_PROJECTS + 1)]
    for project in projects:
        (project / ".ai").mkdir(parents=True)
    async with opened(tmp_path / "ada") as (apps, _):
        apps.named_at_start()
        *fine, last = projects
        first = [apps.named(str(each)) for each in fine]
        with pytest.raises(RyeError) as refused:
            apps.named(str(last))
        assert (refused.value.code, refused.value.where) == ("no_project", str(last))
        assert [apps.named(str(each)) for each in fine] == first


async def test_however_its_path_is_written_a_project_is_opened_once(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".ai").mkdir(parents=True)
    async with opened(tmp_path / "ada") as (apps, asked):
        forms = [f"{project}", f"{project}/", f"{tmp_path}//project/./"]
        assert len({id(apps.named(each)) for each in forms}) == 1
        assert asked == [project]
