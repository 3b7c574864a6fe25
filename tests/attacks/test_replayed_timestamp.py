"""Somebody makes an old signature look new, or brings an old version of a file back with another time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from rye_mcp.trust.sign import sign_content
from tests.trust_world import CONTENT, NOW, World, stopped


def test_the_time_of_a_later_signature_over_the_older_one(world: World) -> None:
    key = world.key()
    older = sign_content(world.file(), key, now=NOW)
    later = sign_content(world.file(CONTENT + b"# fixed\n"), key, now=NOW + timedelta(days=1))
    assert world.verify(world.file(later)).timestamp == "2026-11-19T10:00:00Z"
    replayed = older.replace(b"2026-11-18T10:00:00Z", b"2026-11-19T10:00:00Z")
    stopped(world, "bad_signature", world.file(replayed))


def test_the_signature_of_the_same_content_at_another_time(world: World) -> None:
    key = world.key()
    first, second = (sign_content(world.file(), key, now=NOW + timedelta(seconds=each)) for each in (0, 1))
    value = second.split(b"\n", 1)[0].split(b":")[-2]
    mixed = first.replace(first.split(b"\n", 1)[0].split(b":")[-2], value)
    stopped(world, "bad_signature", replace(world.file(), content=mixed))
