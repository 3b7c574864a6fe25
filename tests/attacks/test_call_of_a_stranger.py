"""A node runs nothing for a server that its person did not accept, and nothing that they do not trust."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

from lilux._frames import encode_frame
from rye_mcp.errors import RyeError
from rye_mcp.executor.bundle import Bundle
from rye_mcp.nodes.acceptance import accept, forget
from rye_mcp.permissions import Permissions, Requirement
from rye_mcp.runs.log import RunLog
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import revoke
from tests.attacks.test_machine_without_cells import IN_WALLS
from tests.trust_world import refused
from tests.worker_world import COUNTER, Pair, bash_tool

pytestmark = pytest.mark.anyio


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    made = Pair.at(tmp_path.resolve())
    made.server.sign("demo/count.sh", bash_tool(COUNTER))
    return made


async def code_of(pair: Pair, bundle: bytes) -> RyeError:
    """How a call is refused that the worker program is sent; nothing has run."""
    async with pair.linked() as link:
        with pytest.raises(RyeError) as caught:
            await pair.call(link, bundle)
    assert pair.counted == 0
    return caught.value


async def test_a_server_that_nobody_accepted(pair: Pair) -> None:
    pair.trust()
    error = await code_of(pair, await pair.bundle("demo/count"))
    assert error.code == "node_refused"
    assert "rye node accept" in error.message


async def test_a_stranger_in_the_name_of_a_server_that_was_accepted(pair: Pair) -> None:
    pair.accept()
    pair.trust()
    async with pair.wired() as wire:
        wire.submitter = pair.key_of(pair.node)  # some other key
        envelope, _ = await wire.sealed()
        wire.say(encode_frame({**envelope, "key": pair.key_of(pair.server).public.key_id}))
        header, _ = await wire.frame()
    assert (header["op"], header["reason"]) == ("unopened", "forged")


async def test_a_server_that_was_revoked_or_forgotten_after_it_was_accepted(pair: Pair) -> None:
    pair.accept()
    pair.trust()
    key = pair.key_of(pair.server).public
    revoke(pair.node.world.user_space, key.key_id, "stolen")
    bundle = await pair.bundle("demo/count")
    assert (await code_of(pair, bundle)).code == "node_refused"
    document = TrustDocument.create(pair.server.world.key().public, "ada")
    refused(
        "unusable_key",
        lambda: accept(document.data, Path("x"), pair.node.world.state, pair.submitters, ids=["*"]),
    )
    refused("revoked_key", pair.accept)
    forget(key.key_id, pair.node.world.state, pair.submitters)
    assert (await code_of(pair, bundle)).code == "node_refused"


async def test_a_server_that_was_forgotten_while_the_worker_runs(pair: Pair) -> None:
    pair.accept()
    pair.trust()
    bundle = await pair.bundle("demo/count")
    async with pair.linked() as link:
        await pair.call(link, bundle)
        forget(pair.key_of(pair.server).public.key_id, pair.node.world.state, pair.submitters)
        with pytest.raises(RyeError) as caught:
            await pair.call(link, bundle)
    assert caught.value.code == "node_refused"
    assert pair.counted == 1


async def test_a_tool_for_which_the_server_was_not_accepted(pair: Pair) -> None:
    pair.accept("sim/*")
    pair.trust()
    error = await code_of(pair, await pair.bundle("demo/count"))
    assert error.code == "node_refused"
    assert "sim/*" in error.message


async def test_a_tool_whose_signer_the_node_does_not_trust(pair: Pair) -> None:
    pair.accept()
    error = await code_of(pair, await pair.bundle("demo/count"))
    assert error.code == "untrusted_key"
    with RunLog(pair.node.world.state) as log:
        assert [each.code for each in log.list()] == ["untrusted_key"], "the node has it on record"


async def test_a_file_that_was_changed_between_placing_and_running(pair: Pair) -> None:
    pair.accept()
    pair.trust()
    bundle = Bundle.from_bytes(await pair.bundle("demo/count"))
    files = tuple(
        replace(each, content=each.content.replace(b"echo run", b"echo RUN")) for each in bundle.files
    )
    assert files != bundle.files
    assert (await code_of(pair, replace(bundle, files=files).to_bytes())).code == "content_changed"


REMEMBERS = """\
import sys
from lilux import _footprints
_footprints.SETTLED_NS = -10**12  # what has just changed is remembered, too
from rye_mcp.cli import main
sys.argv = ["rye", "worker"]
main()
"""


async def test_what_a_worker_remembers_of_a_call_lets_no_other_one_run(pair: Pair) -> None:
    pair.accept()
    pair.trust()
    data = await pair.bundle("demo/count")
    bundle = Bundle.from_bytes(data)
    files = tuple(
        replace(each, content=each.content.replace(b"echo run", b"echo RUN")) for each in bundle.files
    )
    async with pair.linked(command=[sys.executable, "-P", "-c", REMEMBERS]) as link:
        for _ in range(2):
            assert (await pair.call(link, data)).outcome.success
        with pytest.raises(RyeError) as changed:
            await pair.call(link, replace(bundle, files=files).to_bytes())
        assert (await pair.call(link, data)).outcome.success
        revoke(pair.node.world.user_space, pair.server.world.key().public.key_id, "lost")
        with pytest.raises(RyeError) as revoked:
            await pair.call(link, data)
    assert (changed.value.code, revoked.value.code, pair.counted) == ("content_changed", "revoked_key", 3)


async def test_a_worker_whose_key_the_engine_does_not_name_is_sent_nothing(pair: Pair) -> None:
    pair.accept()
    pair.trust()
    async with pair.linked(nodes=["0" * 64]) as link:
        with pytest.raises(RyeError) as caught:
            await pair.call(link, await pair.bundle("demo/count"))
    assert caught.value.code == "engine_unreachable"
    assert pair.counted == 0


async def test_more_than_the_server_granted(pair: Pair) -> None:
    """The node's user may let the tool do more: the call still does what its server let it do."""
    writes = bash_tool('echo "$(touch "$HOME/mine/here" 2>&1)"', permissions='{write: ["~/mine"]}')
    pair.server.sign("demo/write.sh", writes)
    pair.accept()
    pair.trust()
    bundle = Bundle.from_bytes(await pair.bundle("demo/write"))
    narrow = replace(bundle, permissions=Permissions(require=Requirement.WALLS))
    (pair.node.world.root / "home/mine").mkdir()
    async with pair.linked() as link:
        remote = await pair.call(link, narrow.to_bytes())
        assert not (pair.node.world.root / "home/mine/here").exists()
        await pair.call(link, bundle.to_bytes())
    assert remote.outcome.enforced is not None
    assert remote.outcome.enforced.level != "none"
    assert (pair.node.world.root / "home/mine/here").exists(), "the server may let it do it, too"


@pytest.mark.thorough
async def test_the_project_of_the_worker_is_nobodys(pair: Pair) -> None:
    script = 'touch left-behind; echo "[\\"$(ls -A . | tr -d "\\n")\\"]"'
    pair.server.sign("demo/leave.sh", bash_tool(script, permissions="{project: write}"))
    pair.accept()
    pair.trust()
    bundle = await pair.bundle("demo/leave")
    async with pair.linked() as link:
        first = await pair.call(link, bundle)
        second = await pair.call(link, bundle)
    assert first.outcome.enforced is not None
    assert (first.outcome.enforced.project, first.outcome.enforced.level) == ("none", "cell")
    assert first.outcome.data == second.outcome.data, "a call left something for the next one"


@pytest.mark.thorough
async def test_a_tool_that_does_its_work_inside_of_the_worker(pair: Pair) -> None:
    pair.accept()
    pair.trust()
    async with pair.linked() as link:
        with pytest.raises(RyeError) as caught:
            await pair.call(link, await pair.bundle("rye/process/status"))
    assert caught.value.code == "node_refused"
    assert "program" in caught.value.message


async def test_a_tool_that_calls_others(pair: Pair) -> None:
    """The node would have to decide on calls of tools that nobody has sent it."""
    pair.accept()
    pair.trust()
    bundle = Bundle.from_bytes(await pair.bundle("demo/count"))
    calling = replace(bundle, permissions=Permissions(calls=frozenset({"demo/count"})))
    error = await code_of(pair, calling.to_bytes())
    assert error.code == "node_refused"
    assert "calls no others" in error.message


async def test_a_node_that_cannot_enforce_what_the_tool_requires(pair: Pair) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("this machine has no setpriv")
    script = bash_tool('echo run >> "$COUNTED"', permissions="{require: cell}")
    pair.server.sign("demo/strict.sh", script)
    pair.accept()
    pair.trust()
    rye = str(Path(sysconfig.get_path("scripts"), "rye"))
    async with pair.linked(command=[*map(str, IN_WALLS), rye, "worker"]) as link:
        remote = await pair.call(link, await pair.bundle("demo/strict"))
        assert (await pair.call(link, await pair.bundle("demo/count"))).outcome.success, "others run there"
    assert remote.outcome.code == "isolation_unavailable"
    assert pair.counted == 1
