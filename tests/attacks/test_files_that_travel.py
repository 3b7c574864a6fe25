"""Of a project, only what its person approved, git tracks and the tool may see goes to another machine.

A node that somebody else keeps gets no secret, and no caller chooses the directory in which a tool works.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import struct
import sys
from pathlib import Path

import anyio
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.workspace import ProjectTree, tracked_files
from rye_mcp.nodes.trees import Listed, write_tree
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


DEEP = """python3 - <<'END'
import os
for _ in range(1500):
    os.mkdir("a")
    os.chdir("a")
END
mkdir --mode=0 locked
pwd"""


async def test_what_a_tool_makes_of_its_directory_neither_stays_on_the_node_nor_loses_its_result(
    site: Site, project: Path
) -> None:
    site.pair.server.sign("demo/deep.sh", workspace_tool(DEEP, "tree"))
    async with site.executor() as executor:
        [directory] = lines_of(await executor.run("demo/deep"))
        assert "/trees/" in directory
        assert await anyio.to_thread.run_sync(os.path.lexists, directory) is False, "the worker goes on"


async def test_a_project_of_empty_files_does_not_wait_for_them(site: Site, project: Path) -> None:
    git(project, "rm", "--quiet", "-r", "--cached", ".")
    (project / "empty").touch()
    git(project, "add", "empty")
    site.pair.server.sign("demo/list.sh", workspace_tool(LIST, "tree"))
    with anyio.fail_after(30):
        assert lines_of(await site.run("demo/list")) == ["./empty"]


async def test_a_file_takes_no_more_room_than_it_is_listed_with(tmp_path: Path) -> None:
    """What is kept already could be written under any number of names that each claim to be empty."""
    content = b"x" * 1000
    digest = hashlib.sha256(content).hexdigest()
    sizes = [1000, *[0] * 9]
    listed = [Listed(f"f{number}", size, digest, executable=False) for number, size in enumerate(sizes)]
    with pytest.raises(RyeError) as caught:
        write_tree(tmp_path, listed, {digest: content})
    assert caught.value.code == "content_changed"
    assert os.listdir(tmp_path) == ["f0"]  # noqa: PTH208 - names alone


GREEDY = """\
import os
from pathlib import Path
from lilux._frames import FrameDecoder, decode_header, encode_frame
from rye_mcp.nodes.messages import Incoming, message
from rye_mcp.nodes.seal import Instance
from rye_mcp.nodes.submitters import Submitters
from rye_mcp.receipts.runner import RunnerKeys

state, got = Path({state!r}), 0
key = RunnerKeys(state).ready({{}})
instance = Instance.begin(key, Submitters(state, lambda: {{}}).key, package="1")
os.write(1, encode_frame(instance.hello()))
frames, incoming = FrameDecoder(), Incoming(limit=1 << 26)
while data := os.read(0, 65536):
    for raw, payload in frames.feed(data):
        header = decode_header(raw)
        if header["op"] == "call":
            _, channel = instance.open(header)
            continue
        for heard, body in incoming.feed(channel.open(header["n"], payload)):
            got += len(body) if heard["op"] == "blobs" else 0
            Path({told!r}).write_text(str(got))
            if heard["op"] == "tree":
                for each in channel.seal(message({{"op": "wants"}}, {wanted!r})):
                    told = {{"op": "sealed", "run": channel.run_id, "n": each.number}}
                    os.write(1, encode_frame(told, each.data))
"""


@pytest.mark.parametrize("wanted", [b"[0,0]", b"[" + b" " * 1000 + b"0]"], ids=["twice", "at length"])
async def test_a_node_that_wants_a_file_again_and_again_gets_none(
    site: Site, project: Path, tmp_path: Path, wanted: bytes
) -> None:
    node, told = tmp_path / "node.py", tmp_path / "told"
    state = str(site.pair.node.world.state)
    node.write_text(GREEDY.format(state=state, told=str(told), wanted=wanted))
    (site.bin / "ssh").write_text(f"#!/bin/sh\nexec {shlex.join([sys.executable, str(node)])}\n")
    site.pair.server.sign("demo/list.sh", workspace_tool(LIST, "tree"))
    assert (await site.run("demo/list")).code == "lost"
    assert told.read_text() == "0"


def index_of(name: str) -> bytes:
    """An index of git with one file of any name. Git itself makes none such."""
    encoded = name.encode()
    entry = (
        struct.pack(">10I", *[0] * 6, 0o100644, 0, 0, 5)
        + bytes(20)
        + struct.pack(">H", len(encoded))
        + encoded
    )
    data = b"DIRC" + struct.pack(">II", 2, 1) + entry + bytes(8 - len(entry) % 8)
    return data + hashlib.sha1(data, usedforsecurity=False).digest()


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "bin/../../outside",
        ".git/config",
        "bin/../.git/config",
        "//told.txt",
        "./told.txt",
        "/outside",
    ],
)
async def test_an_index_that_leads_out_of_the_project_or_to_gits_own_files(
    site: Site, project: Path, name: str
) -> None:
    (project.parent / "outside").write_text("a secret")
    (project / ".git/index").write_bytes(index_of("told.txt"))
    assert [each.relative for each in tracked_files(project).files] == ["told.txt"]
    (project / ".git/index").write_bytes(index_of(name))
    assert tracked_files(project) == ProjectTree(left_out=(name,))
