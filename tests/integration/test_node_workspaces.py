"""A tool works on the files of its project, or in a directory of the node, where a signed engine leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.trust.approvals import Approvals
from tests.engine_world import (
    MEGABYTE,
    Site,
    approved_repository,
    lines_of,
    workspace_tool,
    written_to_workers,
)

pytestmark = pytest.mark.anyio

LIST = 'find . -mindepth 1 -not -path "./.ai*" | sort; cat told.txt 2> /dev/null; echo more >> told.txt'


@pytest.fixture
def project(site: Site) -> Path:
    return approved_repository(site)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path.resolve())
    made.pair.accept("demo/*")
    made.pair.trust()
    made.engine()
    return made


@pytest.mark.parametrize("permissions", [(), ("permissions: {project: write}",)], ids=["free", "confined"])
async def test_the_files_that_git_tracks_come_along_and_what_is_written_there_stays_there(
    site: Site, project: Path, permissions: tuple[str, ...]
) -> None:
    site.pair.server.sign("demo/list.sh", workspace_tool(f"{LIST}; bin/run", "tree", *permissions))
    async with site.executor() as executor:
        for _ in range(2):
            result = await executor.run("demo/list")
            assert lines_of(result) == ["./bin", "./bin/run", "./told.txt", "told", "ran"]
            assert result.as_dict()["node"]["engine"] == "gpu1"
            assert (result.sealed, "nobody signed" in result.metadata["why_not_sealed"]) == (False, True)
    assert (project / "told.txt").read_text() == "told\n"


async def test_a_file_goes_to_a_worker_once_and_again_when_it_has_changed(site: Site, project: Path) -> None:
    wire = written_to_workers(site)
    site.pair.server.sign("demo/size.sh", workspace_tool("wc -c < large", "tree"))
    sent = []
    async with site.executor() as executor:
        for change in (b"", b"", b"!"):
            with (project / "large").open("ab") as large:
                large.write(change)
            assert lines_of(await executor.run("demo/size")) == [str((project / "large").stat().st_size)]
            sent.append(wire.stat().st_size)
    assert sent[0] > MEGABYTE
    assert sent[1] - sent[0] < MEGABYTE / 10
    assert sent[2] - sent[1] > MEGABYTE


async def test_a_project_without_a_repository_has_no_files_to_send(site: Site) -> None:
    project = site.pair.server.world.project
    Approvals(project, site.pair.server.world.state).approve_project()
    site.pair.server.sign("demo/list.sh", workspace_tool(LIST, "tree"))
    with pytest.raises(RyeError) as caught:
        await site.run("demo/list")
    assert caught.value.code == "workspace_unavailable"


async def test_a_shared_directory_is_the_one_that_the_node_names(site: Site, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "set.csv").write_text("1,2")
    config = site.pair.node.world.user_space / "config/rye.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"shared:\n  data: {data}\n")
    for name, access, script in (
        ("list", "write", "ls -A; echo left > left.txt; pwd"),
        ("read", "read", "echo x > other.txt"),
    ):
        text = workspace_tool(script, "shared:data", f"permissions: {{project: {access}}}")
        site.pair.server.sign(f"demo/{name}.sh", text)
    async with site.executor() as executor:
        result = await executor.run("demo/list")
        assert lines_of(result) == ["set.csv", str(data)]
        assert (result.sealed, (data / "left.txt").read_text()) == (False, "left\n")
        assert not (await executor.run("demo/read")).success
    assert sorted(each.name for each in data.iterdir()) == ["left.txt", "set.csv"]


async def test_a_tool_with_a_shared_directory_runs_on_an_engine_or_not_at_all(site: Site) -> None:
    site.engine(takes=["other/*"])
    site.pair.server.sign("demo/list.sh", workspace_tool("pwd", "shared:data"))
    with pytest.raises(RyeError) as caught:
        await site.run("demo/list")
    assert caught.value.code == "no_fitting_node"
