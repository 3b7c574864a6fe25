"""A bridged server reaches for what its items do not allow it: files of the person, other hosts, hooks."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from lilux.primitives.subprocess import SubprocessPrimitive
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.permissions import UNCONFINED, Access, Host, Permissions
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs import mcp_servers as servers
from rye_mcp.verbs.mcp_servers import ServerPlan
from rye_mcp.verbs.sign import SignRequest, sign
from tests.bridge_world import Bridged

GRASPING = Path(__file__).parents[1] / "grasping_mcp_server.py"
WRITES = Permissions(project=Access.WRITE, read=frozenset({str(GRASPING)}))

pytestmark = pytest.mark.anyio


@pytest.fixture
async def scene(tmp_path: Path) -> Bridged:
    """A person whose home holds secrets, and a project that is a repository."""
    facts = await SubprocessPrimitive().probe()
    if facts.cell is None:
        pytest.skip(f"no cells here: {facts.no_cell}")
    scene = Bridged(tmp_path)
    for place in (
        ".ssh/id_ed25519",
        ".aws/credentials",
        "other/notes.txt",
        "project/.git/config",
        "project/.env",
        "project/.envrc",
        "project/notes.txt",
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(f"canary of {place}")
    return scene


async def bring(scene: Bridged, permissions: Permissions | None, **more: Any) -> None:
    config = {
        "transport": "stdio",
        "server": "grasping",
        "command": sys.executable,
        "args": [str(GRASPING)],
        **more,
    }
    offered = await scene.offered(config)
    context = scene.person
    plan = ServerPlan("grasping", config, allowed=permissions)
    servers.add(plan, offered, context, servers.signing_key(context))


async def reach(scene: Bridged, tool: str, place: object) -> ExecutionResult:
    return await scene.call(tool, name="grasping", place=str(place))


def told(result: ExecutionResult) -> str:
    return "canary" if "canary" in str(result.as_dict(detail=True)) else "nothing"


async def test_it_reads_the_project_and_nothing_of_the_person(scene: Bridged) -> None:
    await bring(scene, WRITES)
    keys = [path for path in scene.place.rglob("*") if path.is_file() and "key" in path.name.lower()]
    assert keys
    async with scene.serving():
        allowed = await reach(scene, "read", scene.project / "notes.txt")
        assert (allowed.success, told(allowed)) == (True, "canary")
        assert allowed.enforced is not None
        assert allowed.enforced.as_dict(detail=False) == {
            "level": "cell",
            "project": "write",
            "net": "none",
        }
        for place in (".ssh/id_ed25519", ".aws/credentials", "other/notes.txt", "project/.env"):
            assert told(await reach(scene, "read", scene.place / place)) == "nothing", place
        for key in keys:
            refused = await reach(scene, "read", key)
            assert (refused.success, refused.code) == (False, "tool_failed"), key
        refused = await reach(scene, "names", scene.place / ".ssh")
    assert refused.hint is not None
    assert "grasping may read and write this project" in refused.hint
    assert "rye mcp update grasping --permissions" in refused.hint


async def test_its_home_is_its_own(scene: Bridged) -> None:
    await bring(scene, WRITES)
    async with scene.serving():
        assert (await reach(scene, "plant", scene.place / ".bashrc")).success
        listed = await reach(scene, "names", scene.place)
    assert "id_ed25519" not in scene.text(listed)
    assert not (scene.place / ".bashrc").exists()


async def test_it_connects_nowhere_else(scene: Bridged) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        here = f"127.0.0.1:{listening.getsockname()[1]}"
        await bring(scene, WRITES)
        async with scene.serving():
            assert not (await reach(scene, "connect", here)).success
        await apply(scene, Permissions(net=frozenset({Host.parse("api.github.com")}), read=WRITES.read))
        async with scene.serving():
            refused = await reach(scene, "connect", here)
            named = await reach(scene, "connect", "example.org:443")
    assert not refused.success
    assert not named.success
    assert refused.enforced is not None
    assert refused.enforced.as_dict(detail=False)["net"] == ["api.github.com:443"]


@pytest.mark.thorough
@pytest.mark.parametrize("place", [".git/hooks/pre-commit", ".git/config", ".ai/tools/evil.py", ".envrc"])
async def test_it_plants_nothing_that_others_run(scene: Bridged, place: str) -> None:
    await bring(scene, WRITES)
    async with scene.serving():
        assert (await reach(scene, "plant", scene.project / "made.txt")).success
        await reach(scene, "plant", scene.project / place)
    assert (scene.project / "made.txt").read_text() == "planted"
    found = scene.project / place
    assert not found.exists() or found.read_text() != "planted"


async def test_a_tool_that_may_do_less_does_not_share_the_program_of_one_that_may_do_more(
    scene: Bridged,
) -> None:
    await bring(scene, WRITES)
    narrow = scene.item("read", name="grasping")
    text = narrow.read_text().replace('project: "write"', 'project: "none"')
    assert 'project: "none"' in text
    narrow.write_text(text)
    sign(SignRequest("mcp/grasping/read"), scene.person)
    async with scene.serving():
        assert (await reach(scene, "names", scene.project)).success
        assert told(await reach(scene, "read", scene.project / "notes.txt")) == "nothing"
        assert (await reach(scene, "names", scene.project)).success


async def test_items_that_are_older_than_permissions_go_on_and_say_how_to_confine(scene: Bridged) -> None:
    await bring(scene, None, env={"MODE": "${MODE:-}"})
    text = scene.item("read", name="grasping").read_text()
    assert "permissions:" in text
    assert "project:" not in text
    async with scene.serving():
        ran = await reach(scene, "read", scene.project / "notes.txt")
    assert ran.success
    assert ran.enforced is not None
    assert ran.enforced.level == "none"
    (notice,) = [each for each in ran.notices if each.code == "not_confined"]
    assert "rye mcp update grasping --project-access" in notice.message


async def test_what_only_an_agent_signed_runs_confined(scene: Bridged) -> None:
    await bring(scene, UNCONFINED)
    item = scene.item("read", name="grasping")
    own = item.with_name("mine.yaml")
    own.write_text("\n".join(line for line in item.read_text().splitlines() if "rye:signed" not in line))
    scene.app.keys.ensure(SignerKind.AGENT, owner="ada")
    sign(SignRequest("mcp/grasping/mine"), scene.app.context(SignerKind.AGENT))
    async with scene.serving():
        for place in (".ssh/id_ed25519", "other/notes.txt"):
            assert told(await reach(scene, "mine", scene.place / place)) == "nothing"


async def apply(scene: Bridged, permissions: Permissions) -> None:
    """What `rye mcp update --permissions` does."""
    known = scene.known("grasping")
    offered = await scene.offered(known.config)
    comparison = servers.compare(known, offered, permissions=permissions)
    assert comparison.permissions == permissions
    context = scene.person
    servers.update(known, comparison, offered, context, servers.signing_key(context))


async def test_a_call_that_fails_says_what_its_server_lacked(scene: Bridged) -> None:
    await bring(scene, WRITES)
    place = "/var/lib"  # every machine has it, and no tool sees it by itself
    async with scene.serving():
        result = await reach(scene, "read", place)
        assert not result.success
        assert result.denied is not None
        assert result.denied.as_dict() == {
            "certain": [],
            "likely": [place],
            "would_need": {"read": [place]},
        }
        assert (await reach(scene, "read", "/nowhere/at-all")).denied is None
        assert (await reach(scene, "read", scene.project / "notes.txt")).denied is None
