"""How many projects one server opens for those who name them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from rye_mcp.app import App, Settings
from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.projects import MAX_PROJECTS, OpenProjects

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(
    place: Path, closed: list[App] | None = None
) -> AsyncIterator[tuple[OpenProjects, list[Path | None]]]:
    """The parts, and what was opened for them; `closed` is told which were closed."""
    asked: list[Path | None] = []

    def open_app(path: Path | None) -> App:
        asked.append(path)
        user = place / "user"
        return App.open(Settings.find(project=path, user_directory=user, state=user, cache=user))

    apps = OpenProjects(open_app, lambda app: None if closed is None else closed.append(app))
    try:
        yield apps, asked
    finally:
        await apps.close()


def projects_in(place: Path, count: int) -> list[str]:
    projects = [place / str(number) for number in range(count)]
    for project in projects:
        (project / ".ai").mkdir(parents=True)
    return list(map(str, projects))


def replace(project: str) -> None:
    """Put another directory in the place of a project."""
    Path(project).rename(f"{project} of before")
    (Path(project) / ".ai").mkdir(parents=True)


async def used(apps: OpenProjects, project: str) -> App:
    async with apps.using(project) as app:
        return app


async def test_of_projects_without_end_the_one_that_nobody_has_used_for_longest_is_closed(
    tmp_path: Path,
) -> None:
    closed: list[App] = []
    first, second, *others = projects_in(tmp_path, MAX_PROJECTS + 2)
    async with opened(tmp_path / "ada", closed) as (apps, _):
        own = apps.named_at_start()
        app = {project: await used(apps, project) for project in (first, second, *others[:-2])}
        assert await used(apps, first) is app[first]
        for project in others[-2:]:
            await used(apps, project)
        assert closed == [app[second], app[others[0]]]
        assert await used(apps, first) is app[first]
        assert apps.named_at_start() is own


async def test_what_is_in_use_is_not_closed_and_one_more_is_refused(tmp_path: Path) -> None:
    closed: list[App] = []
    *fine, idle, last = projects_in(tmp_path, MAX_PROJECTS + 1)
    async with opened(tmp_path / "ada", closed) as (apps, _), AsyncExitStack() as calls:
        for each in fine:
            await calls.enter_async_context(apps.using(each))
        run = apps.keeping(apps.named(idle))
        with run:
            with pytest.raises(RyeError) as refused:
                await used(apps, last)
            assert (refused.value.code, refused.value.where, closed) == ("no_project", last, [])
        await used(apps, last)
        assert [str(app.settings.project) for app in closed] == [idle]


async def test_what_stood_at_a_path_before_is_closed_when_its_calls_have_ended(tmp_path: Path) -> None:
    closed: list[App] = []
    [project] = projects_in(tmp_path, 1)
    async with opened(tmp_path / "ada", closed) as (apps, _):
        async with apps.using(project) as before:
            replace(project)
            assert await used(apps, project) is not before
            assert closed == []
        await used(apps, project)
        assert closed == [before]


async def test_when_a_project_appears_all_callers_get_the_same_parts_and_those_of_before_stay_for_their_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[App] = []
    found: list[App] = []
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    async with opened(tmp_path / "ada", closed) as (apps, _):

        async def call() -> None:
            async with apps.using(None) as app:
                await anyio.lowlevel.checkpoint()
                found.append(app)

        async with apps.using(None) as before:
            assert before.spaces.project is None
            (here / ".ai").mkdir()
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(call)
            assert (len(set(map(id, found))), closed) == (1, [])
            assert found[0].settings.project == here
        await call()
        assert (found[-1] is found[0], closed) == (True, [before])


async def test_however_its_path_is_written_a_project_is_opened_once(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".ai").mkdir(parents=True)
    async with opened(tmp_path / "ada") as (apps, asked):
        forms = [f"{project}", f"{project}/", f"{tmp_path}//project/./"]
        assert len({id(apps.named(each)) for each in forms}) == 1
        assert asked == [project]
