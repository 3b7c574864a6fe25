"""A draft that a person runs at a terminal: nothing else gets through the gate by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from lilux.primitives.signing import generate_keypair
from rye_mcp.errors import RyeError
from rye_mcp.executor.drafts import DraftExecutor
from rye_mcp.items import ItemFile
from rye_mcp.spaces import Spaces
from rye_mcp.trust import drafts
from rye_mcp.trust.drafts import Draft, as_draft
from rye_mcp.trust.scope import Role
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import revoke
from rye_mcp.trust.verify import Trust, verify_item
from tests.people import Person
from tests.trust_world import World, new_key, refused

TOOL = b"""__executor_id__ = "rye/core/runtimes/python_runtime"


def main(canary):
    open(canary, "w").close()
"""


def trust_of(world: World) -> Trust:
    """What this user trusts, as a command has it."""
    return Trust(
        user_space=world.user_space,
        project=world.project,
        system_space=Spaces.locate().system.root,
        state=world.state,
        environment={},
    )


def draft_of(world: World, file: ItemFile, trust: Trust | None = None) -> Draft:
    """The draft of a file that the gate refuses."""
    trust = trust or trust_of(world)
    with pytest.raises(RyeError) as caught:
        verify_item(file, trust, role=Role.TOOL)
    return as_draft(file, trust, caught.value)


def run(world: World, draft: Draft, canary: Path) -> None:
    async def run_it() -> None:
        executor = DraftExecutor.of_draft(
            draft,
            Spaces.locate(world.project, user=world.user_space.parent),
            project=world.project,
            state=world.state,
            locked=False,
            environment={"PATH": "/usr/bin:/bin"},
        )
        try:
            result = await executor.run(draft.file.item_id, {"canary": str(canary)}, use_lockfile=False)
            assert result.success, result.error
        finally:
            await executor.close()

    anyio.run(run_it)


def test_a_draft_passes_by_its_own_trust_and_no_other(world: World) -> None:
    """Not even by the one that its own was made of, though that keeps its answers."""
    world.key()
    trust = trust_of(world)
    draft = draft_of(world, world.file(TOOL), trust)
    assert verify_item(draft.file, draft.trust, role=Role.TOOL).signer.owner == drafts.DRAFT_OWNER
    refused("untrusted_key", lambda: verify_item(draft.file, trust, role=Role.TOOL))
    refused("untrusted_key", lambda: verify_item(draft.file, world.trust(), role=Role.TOOL))
    again = draft_of(world, world.file(TOOL))
    refused("untrusted_key", lambda: verify_item(draft.file, again.trust, role=Role.TOOL))
    refused("unsigned", lambda: verify_item(draft.source, draft.trust, role=Role.TOOL))


def test_the_trust_of_a_draft_lets_nothing_else_pass(world: World) -> None:
    world.key()
    draft = draft_of(world, world.file(TOOL))
    changed = replace(draft.file, content=draft.file.content + b"\n")
    refused("content_changed", lambda: verify_item(changed, draft.trust, role=Role.TOOL))
    moved = replace(draft.file, item_id="demo/other", path=draft.file.path.with_name("other.py"))
    refused("bad_signature", lambda: verify_item(moved, draft.trust, role=Role.TOOL))
    refused("out_of_scope", lambda: verify_item(draft.file, draft.trust, role=Role.RUNTIME))
    refused("out_of_scope", lambda: verify_item(draft.file, draft.trust, role=Role.PRIMITIVE))
    neighbour = world.file(TOOL, item_id="demo/neighbour")
    refused("unsigned", lambda: verify_item(neighbour, draft.trust, role=Role.TOOL))
    stranger = world.signed(neighbour, new_key())
    refused("untrusted_key", lambda: verify_item(stranger, draft.trust, role=Role.TOOL))


def test_a_revoked_key_is_revoked_for_a_draft_too(world: World) -> None:
    key = world.key()
    draft = draft_of(world, world.file(TOOL))
    world.user_space.mkdir(exist_ok=True)
    revoke(world.user_space, key.public.key_id, "lost")
    own = world.signed(world.file(TOOL, item_id="demo/own"))
    refused("revoked_key", lambda: verify_item(own, draft.trust, role=Role.TOOL))


def test_a_key_is_made_for_each_draft_and_kept_nowhere(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []

    def noted() -> tuple[bytes, bytes]:
        pair = generate_keypair()
        made.append(pair[0])
        return pair

    world.key()
    monkeypatch.setattr(drafts, "generate_keypair", noted)
    before = sorted(path for path in world.root.rglob("*"))
    first, second = (draft_of(world, world.file(TOOL)) for _ in range(2))
    assert len(set(made)) == 2
    assert sorted(path for path in world.root.rglob("*")) == before
    for secret in made:
        assert secret.decode() not in f"{vars(first.trust)}{vars(first.trust.store)}{first}{second}"


def test_what_was_exchanged_after_the_look_does_not_run(world: World, tmp_path: Path) -> None:
    world.key()
    canary = tmp_path / "canary"
    file = world.stored(world.file(TOOL))
    draft = draft_of(world, file)
    file.path.write_bytes(TOOL.replace(b"canary, ", b"canary + '.other', "))
    refused("content_changed", lambda: run(world, draft, canary))
    assert not list(tmp_path.glob("canary*"))
    file.path.write_bytes(TOOL)
    run(world, draft, canary)
    assert canary.exists()


def test_what_somebody_else_has_signed_is_no_draft(world: World) -> None:
    world.key()
    mallory = new_key()
    refused("untrusted_key", lambda: draft_of(world, world.signed(world.file(TOOL), mallory)))
    world.propose(TrustDocument.create(mallory.public, "mallory"))
    refused("untrusted_key", lambda: draft_of(world, world.signed(world.file(TOOL), mallory)))
    two = world.file(b"# rye:signed:x\n" + TOOL)
    refused("malformed_signature", lambda: draft_of(world, two))


def test_without_a_terminal_nothing_runs(tmp_path: Path) -> None:
    leo = Person("leo", tmp_path / "leo")
    project = tmp_path / "project"
    tool = project / ".ai/tools/demo/hello.py"
    tool.parent.mkdir(parents=True)
    tool.write_bytes(TOOL)
    canary = tmp_path / "canary"
    arguments = ("dev", "demo/hello", "--canary", str(canary))
    done = leo.rye(*arguments, cwd=project, given=b"rrr", code=1)
    assert "person_required" in done.err
    assert not canary.exists()
