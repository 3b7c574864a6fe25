"""Of a project, only what its person approved, git tracks and the tool may see goes to another machine.

A node that somebody else keeps gets no secret, and no caller chooses the directory in which a tool works.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.trust.approvals import Approvals
from tests.engine_world import (
    MEGABYTE,
    Site,
    approved_repository,
    git,
    lines_of,
    workspace_tool,
    written_to_workers,
)

pytestmark = pytest.mark.anyio

LIST = 'find . -mindepth 1 -not -path "./.ai*" | sort'


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


@pytest.fixture
def distrusting(tmp_path: Path) -> Site:
    """One whose node accepts the server, for some tools, and trusts nobody."""
    made = Site(tmp_path.resolve())
    made.pair.accept("demo/*")
    made.engine(takes=["demo/*", "other/*"])
    return made


async def test_a_file_that_git_does_not_track_a_secret_or_a_link(site: Site, project: Path) -> None:
    outside = site.pair.server.world.root / "outside"
    outside.mkdir()
    (outside / "key").write_text("a secret")
    for name in ("untracked.txt", "ignored.txt", ".env", "deep/.env.local", "gone.txt"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("a secret")
    (project / ".gitignore").write_text("ignored.txt\n")
    (project / "link").symlink_to(outside / "key")
    (project / "dir").mkdir()
    (project / "dir/key").write_text("harmless")
    git(project, "add", "--force", ".env", "deep", "link", ".gitignore", "dir", "gone.txt")
    (project / "gone.txt").unlink()
    (project / "dir/key").unlink()
    (project / "dir").rmdir()
    (project / "dir").symlink_to(outside)  # a directory that git tracks leads elsewhere now
    site.pair.server.sign("demo/list.sh", workspace_tool(LIST, "tree"))
    result = await site.run("demo/list")
    assert lines_of(result) == ["./.gitignore", "./bin", "./bin/run", "./told.txt"]
    [notice] = [each for each in result.notices if each.code == "left_out"]
    for name in (".env", "deep/.env.local", "link", "dir/key"):
        assert name in notice.message


async def test_what_the_policy_of_the_user_hides(site: Site, project: Path) -> None:
    config = site.pair.server.world.user_space / "config/rye.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"isolation:\n  hide: [{project}/bin]\n")
    site.pair.server.sign("demo/list.sh", workspace_tool(LIST, "tree"))
    assert lines_of(await site.run("demo/list")) == ["./told.txt"]


async def test_the_project_of_a_tool_that_may_not_see_it(site: Site, project: Path) -> None:
    wire = written_to_workers(site)
    site.pair.server.sign("demo/list.sh", workspace_tool("echo nothing", "tree", "permissions: {}"))
    assert lines_of(await site.run("demo/list")) == ["nothing"]
    assert wire.stat().st_size < MEGABYTE / 10


async def test_a_project_that_nobody_approved(site: Site, project: Path) -> None:
    Approvals(project, site.pair.server.world.state).approve_project(approved=False)
    site.pair.server.sign("demo/list.sh", workspace_tool(LIST, "tree"))
    with pytest.raises(RyeError) as caught:
        await site.run("demo/list")
    assert caught.value.code == "project_not_approved"
    assert not site.told.exists(), "no worker was started"


@pytest.mark.parametrize(
    ("item_id", "code"), [("other/list", "node_refused"), ("demo/list", "untrusted_key")]
)
async def test_files_for_a_node_that_refuses_the_call(distrusting: Site, item_id: str, code: str) -> None:
    site = distrusting
    approved_repository(site)
    wire = written_to_workers(site)
    site.pair.server.sign(f"{item_id}.sh", workspace_tool(LIST, "tree"))
    with pytest.raises(RyeError) as caught:
        await site.run(item_id)
    assert caught.value.code == code
    assert 0 < wire.stat().st_size < MEGABYTE / 10


async def test_a_directory_that_the_node_does_not_name(site: Site) -> None:
    site.pair.server.sign("demo/list.sh", workspace_tool("pwd", "shared:data"))
    with pytest.raises(RyeError) as caught:
        await site.run("demo/list")
    assert caught.value.code == "node_refused"
    assert "expected a shared directory data in the configuration of this node" in caught.value.message
    assert "shared: {data:" in str(caught.value.hint)
