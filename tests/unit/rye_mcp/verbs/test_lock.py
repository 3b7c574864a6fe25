"""The verb `lock`: what there is, what it says, whether it fits, and writing it anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rye_mcp.items import SpaceName
from rye_mcp.verbs.lock import (
    LockListRequest,
    LockShowRequest,
    LockUpdateRequest,
    LockUpdateResult,
    LockVerifyRequest,
    lock_list,
    lock_show,
    lock_update,
    lock_verify,
)
from tests.lock_world import ITEM_ID, LockWorld, files_below
from tests.trust_world import refused
from tests.verb_world import RUNTIME, agent, put, tool

HASH = "0" * 64
OTHER = "demo/other"


@pytest.fixture
def lock(tmp_path: Path) -> LockWorld:
    """Two tools that are locked."""
    lock = LockWorld.make(tmp_path)
    put(lock.world, tool(executor="my/runtime"), OTHER, signed=True)
    for item_id in (ITEM_ID, OTHER):
        lock_update(LockUpdateRequest(item_id), lock.context)
    return lock


def updated(lock: LockWorld, item_id: str = ITEM_ID) -> LockUpdateResult:
    return lock_update(LockUpdateRequest(item_id), lock.context)


def states(lock: LockWorld, item_id: str = "*", *, locked: bool = False) -> dict[str, str]:
    """What `verify` says of each tool, while nothing is written."""
    before = files_below(lock.world.project)
    result = lock_verify(LockVerifyRequest(item_id), replace(lock.context, locked=locked))
    assert files_below(lock.world.project) == before
    return {each.item_id: each.state for each in result.tools}


def other_runtime(lock: LockWorld) -> None:
    put(lock.world, RUNTIME + b"description: another\n", "my/runtime", ".yaml", signed=True)


def test_what_update_locks_runs_in_locked_mode(lock: LockWorld) -> None:
    other_runtime(lock)
    refused("lock_mismatch", lambda: lock.run(locked=True))
    [change] = updated(lock).updated[0].changes
    assert (change.element, change.field) == ("my/runtime", "integrity")
    assert lock.run(locked=True).lock.state == "match"


@pytest.mark.parametrize(
    ("before", "state"),
    [(None, "created"), ("match", "unchanged"), ("other", "updated"), ("none", "created")],
)
def test_update_says_what_it_did(lock: LockWorld, before: str | None, state: str) -> None:
    if before is None:
        lock.path.unlink()
    elif before == "other":
        other_runtime(lock)
    elif before == "none":
        lock.path.write_bytes(b"no lockfile")
    assert updated(lock).updated[0].state == state
    assert states(lock, ITEM_ID) == {ITEM_ID: "match"}


def test_update_leaves_what_fits_as_it_is(lock: LockWorld) -> None:
    before = lock.path.stat()
    updated(lock)
    assert lock.path.stat().st_ino == before.st_ino


def test_update_locks_in_the_project_what_the_user_has_locked(lock: LockWorld) -> None:
    place = lock.in_space(SpaceName.USER)
    place.parent.mkdir(parents=True)
    lock.path.rename(place)
    before = place.read_bytes()
    [done] = updated(lock).updated
    assert (done.state, done.path, done.changes) == ("updated", lock.path, ())
    assert place.read_bytes() == before


def test_a_link_in_the_place_of_a_lockfile_is_replaced_and_not_followed(
    lock: LockWorld, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"mine")
    lock.path.unlink()
    lock.path.symlink_to(elsewhere)
    updated(lock)
    assert elsewhere.read_bytes() == b"mine"
    assert not lock.path.is_symlink()


def test_what_would_not_run_is_not_locked(lock: LockWorld) -> None:
    lock.write("print('edited')", signed=False)
    before = files_below(lock.world.project)
    refused("unsigned", lambda: updated(lock))
    assert files_below(lock.world.project) == before


def test_an_agent_moves_no_pin(lock: LockWorld) -> None:
    before = files_below(lock.world.project)
    refused("person_required", lambda: lock_update(LockUpdateRequest(ITEM_ID), agent(lock.world)))
    assert files_below(lock.world.project) == before


def test_without_a_project_nothing_is_locked(lock: LockWorld) -> None:
    spaces = replace(lock.context.spaces, project=None)
    context = replace(lock.context, spaces=spaces, project=None)
    refused("no_project", lambda: lock_update(LockUpdateRequest(ITEM_ID), context))


def test_a_pattern_updates_all_that_are_locked_and_tells_what_cannot_be(lock: LockWorld) -> None:
    other_runtime(lock)
    lock.write("print('edited')", signed=False)
    put(lock.world, tool(executor="my/runtime"), "demo/third", signed=True)
    result = updated(lock, "demo/*")
    assert [each.item_id for each in result.updated] == [OTHER]
    assert [(each.item_id, each.state) for each in result.failed] == [(ITEM_ID, "unsigned")]
    assert result.as_dict()["status"] == "refused"
    assert states(lock) == {ITEM_ID: "unsigned", OTHER: "match"}


def test_verify_says_of_each_tool_whether_it_would_run(lock: LockWorld) -> None:
    assert states(lock) == {ITEM_ID: "match", OTHER: "match"}
    lock.write("print('new')")
    assert states(lock) == {ITEM_ID: "lock_mismatch", OTHER: "match"}
    lock.write(version="2.0.0")
    assert states(lock) == {ITEM_ID: "lock_missing", OTHER: "match"}
    (lock.world.project / ".ai/tools/demo/other.py").unlink()
    assert states(lock, OTHER) == {OTHER: "item_not_found"}
    lock.path.write_bytes(b"{")
    lock.write()
    assert states(lock, ITEM_ID) == {ITEM_ID: "malformed_lockfile"}


def test_verify_names_the_versions_that_are_locked(lock: LockWorld) -> None:
    lock.write(version="2.0.0")
    [found] = lock_verify(LockVerifyRequest(ITEM_ID), lock.context).tools
    assert found.refusal is not None
    assert "1.2.0" in found.refusal.message


@pytest.mark.parametrize(("locked", "state"), [(False, "outdated"), (True, "lock_mismatch")])
def test_verify_tells_an_upgrade_as_the_mode_takes_it(lock: LockWorld, locked: bool, state: str) -> None:
    lock.edit(lambda document: document["registry"].update(version="0.0.1"))
    lock.edit(lambda document: document["resolved_chain"][-1].update(integrity=HASH))
    assert states(lock, ITEM_ID, locked=locked) == {ITEM_ID: state}


def test_the_list_holds_every_lockfile_good_or_not(lock: LockWorld) -> None:
    place = lock.in_space(SpaceName.USER, version="9.0.0")
    place.parent.mkdir(parents=True)
    place.write_bytes(b"{")
    (lock.path.parent / "notes.txt").write_bytes(b"")
    (lock.path.parent / "linked").symlink_to(place.parent)
    found = lock_list(LockListRequest(), lock.context)
    assert [(each.place.item_id, each.place.version, each.place.space.name) for each in found.lockfiles] == [
        (ITEM_ID, "1.2.0", "project"),
        (OTHER, "1.2.0", "project"),
        (ITEM_ID, "9.0.0", "user"),
    ]
    assert [each.get("code") for each in found.as_dict()["lockfiles"]] == [None, None, "malformed_lockfile"]


@pytest.mark.parametrize(("pattern", "count"), [(ITEM_ID, 1), ("demo/o*", 1), ("demo/*", 2), ("x/*", 0)])
def test_the_list_can_be_narrowed_down(lock: LockWorld, pattern: str, count: int) -> None:
    assert len(lock_list(LockListRequest(pattern), lock.context).lockfiles) == count


@pytest.mark.parametrize("pattern", ["../x", "demo/../*", "/etc/*", ""])
def test_what_is_neither_an_id_nor_a_pattern_is_refused(lock: LockWorld, pattern: str) -> None:
    refused("invalid_id", lambda: lock_list(LockListRequest(pattern), lock.context))
    refused("invalid_id", lambda: lock_show(LockShowRequest(pattern, "1.2.0"), lock.context))
    refused("invalid_id", lambda: lock_update(LockUpdateRequest(pattern), lock.context))


def test_a_lockfile_is_shown_with_all_that_it_pins(lock: LockWorld) -> None:
    shown = lock_show(LockShowRequest(ITEM_ID), lock.context).as_dict()
    document = lock.document()
    assert shown["chain"] == document["resolved_chain"]
    assert shown["integrity"] == document["root"]["integrity"]
    assert shown["verified_deps"] == {}
    assert shown["path"] == str(lock.path)


@pytest.mark.parametrize("version", ["3.0.0", "../../x", "1.2.0/../1.2.0"])
def test_a_version_that_is_not_locked_is_not_shown(lock: LockWorld, version: str) -> None:
    code = "lock_missing" if version == "3.0.0" else "invalid_item"
    error = refused(code, lambda: lock_show(LockShowRequest(ITEM_ID, version), lock.context))
    assert error.hint.startswith("rye lock ")
