"""A lockfile pins what each element declares, so that a mismatch says in words what a tool may do now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rye_mcp.executor.lock.pins import Pins, differences, only_the_root_differs
from tests.lock_world import LockWorld
from tests.trust_world import refused
from tests.verb_world import put, tool

READS = {"project": "read"}
SENDS = {"project": "read", "net": ["example.org"]}


@pytest.fixture
def lock(tmp_path: Path) -> LockWorld:
    return LockWorld.make(tmp_path)


def write(lock: LockWorld, permissions: Any) -> None:
    said = b"" if permissions is None else f"PERMISSIONS = {permissions!r}\n".encode()
    put(lock.world, tool(executor="my/runtime") + said, signed=True)


def locked_and_found(lock: LockWorld, locked: Any, found: Any) -> dict[str, Any]:
    write(lock, locked)
    lock.run()
    write(lock, found)
    error = refused("lock_mismatch", lock.run)
    said = [each for each in error.details["differences"] if each["field"] == "permissions"]
    assert all(each in error.message for each in said[0]["added"]) if said else True
    return said[0] if said else {}


def test_they_are_written_as_metadata_has_them(lock: LockWorld) -> None:
    write(lock, SENDS)
    lock.run()
    first, *others = lock.document()["resolved_chain"]
    assert first["permissions"] == SENDS
    assert all("permissions" not in each for each in others)
    assert lock.run().lock.state == "match"


@pytest.mark.parametrize(
    ("locked", "found", "added"),
    [
        (READS, SENDS, ["may reach example.org:443"]),
        (SENDS, READS, []),
        (READS, None, ["may do whatever you can: it is not confined"]),
        ("unconfined", READS, []),
    ],
)
def test_a_mismatch_says_what_was_added(lock: LockWorld, locked: Any, found: Any, added: list[str]) -> None:
    assert locked_and_found(lock, locked, found)["added"] == added


def test_a_lockfile_without_them_pins_none(lock: LockWorld) -> None:
    """Older lockfiles say nothing of permissions."""
    write(lock, READS)
    lock.run()
    lock.edit(lambda document: document["resolved_chain"][0].pop("permissions"))
    assert lock.run().lock.state == "match"


@pytest.mark.parametrize("value", ["anything", {"project": "all"}, 1, None, [["\x1b[2J"]]])
def test_an_invalid_value_is_not_repeated(lock: LockWorld, value: Any) -> None:
    write(lock, READS)
    lock.run()
    lock.edit(lambda document: document["resolved_chain"][0].update(permissions=value))
    error = refused("lock_mismatch", lock.run)
    [found] = error.details["differences"]
    assert found["locked"] == "an invalid value"
    assert "\x1b" not in error.message


@pytest.mark.parametrize(("found", "added"), [(SENDS, ["may reach example.org:443"]), ({}, [])])
def test_an_agent_moves_no_pins_of_what_it_has_widened(lock: LockWorld, found: Any, added: list[str]) -> None:
    write(lock, READS)
    locked = Pins.of_chain(lock.valid())
    write(lock, found)
    now = Pins.of_chain(lock.valid())
    assert only_the_root_differs(locked, now) is not bool(added)
    [said] = [each for each in differences(locked, now) if each.field == "permissions"]
    assert list(said.added) == added
