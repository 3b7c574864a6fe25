"""Somebody writes another signature line over a file, field by field."""

from __future__ import annotations

import base64
import hashlib

import pytest

from rye_mcp.trust.trust_document import TrustDocument
from tests.trust_world import CONTENT, World, new_key, stopped

ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def fields(world: World) -> list[bytes]:
    """The line `# rye:signed:` and the six parts of its timestamp, hash, signature and fingerprint."""
    return world.signed().content.split(b"\n", 1)[0].split(b":")


def with_line(line: bytes, content: bytes = CONTENT) -> bytes:
    return line + b"\n" + content


TIMESTAMPS = {
    b"2026-11-18T10:00:01Z": "bad_signature",
    b"2026-11-18T10:00:00z": "malformed_signature",
    b"2026-11-18T10:00:00": "malformed_signature",
    b"2026-11-18T10:00:00+00:00": "malformed_signature",
    b"2026-11-18 10:00:00Z": "malformed_signature",
    b"2026-02-30T10:00:00Z": "malformed_signature",
    b"2026-11-18T24:00:00Z": "malformed_signature",
    b"0000-11-18T10:00:00Z": "malformed_signature",
    "２026-11-18T10:00:00Z".encode(): "malformed_signature",  # noqa: RUF001 - a digit of another script
    b"": "malformed_signature",
}


@pytest.mark.parametrize(("timestamp", "code"), TIMESTAMPS.items(), ids=str)
def test_another_time(world: World, timestamp: bytes, code: str) -> None:
    line = world.signed().content.split(b"\n", 1)[0].replace(b"2026-11-18T10:00:00Z", timestamp)
    stopped(world, code, world.file(with_line(line)))


@pytest.mark.parametrize("mend_the_hash", [False, True])
def test_another_content(world: World, mend_the_hash: bool) -> None:
    line = world.signed().content.split(b"\n", 1)[0]
    evil = b"import os\n"
    if mend_the_hash:
        old, new = (hashlib.sha256(content).hexdigest().encode() for content in (CONTENT, evil))
        line = line.replace(old, new)
    stopped(world, "bad_signature" if mend_the_hash else "content_changed", world.file(with_line(line, evil)))


@pytest.mark.parametrize("change", [bytes.upper, lambda field: field[:-1], lambda field: field + b"0"])
@pytest.mark.parametrize("place", [-3, -1], ids=["hash", "fingerprint"])
def test_hexadecimal_digits_in_another_form(world: World, place: int, change: object) -> None:
    assert callable(change)
    parts = fields(world)
    parts[place] = change(parts[place] if parts[place].upper() != parts[place] else parts[place] + b"a")
    stopped(world, "malformed_signature", world.file(with_line(b":".join(parts))))


def test_another_signature(world: World) -> None:
    parts = fields(world)
    parts[-2] = base64.urlsafe_b64encode(bytes(64))
    stopped(world, "bad_signature", world.file(with_line(b":".join(parts))))


def test_the_same_signature_in_other_letters(world: World) -> None:
    """Of the last letter before `==` only two bits count: sixteen letters say the same, and one is right."""
    parts = fields(world)
    decoded = base64.urlsafe_b64decode(parts[-2])
    twins = [
        twin
        for letter in ALPHABET
        if (twin := parts[-2][:-3] + bytes([letter]) + b"==") != parts[-2]
        and base64.urlsafe_b64decode(twin) == decoded
    ]
    assert len(twins) == 15
    for twin in twins:
        stopped(
            world, "malformed_signature", world.file(with_line(b":".join([*parts[:-2], twin, parts[-1]])))
        )


@pytest.mark.parametrize("change", [lambda field: field[:-2], lambda field: field[:-2].ljust(88, b"A")])
def test_a_signature_without_its_padding(world: World, change: object) -> None:
    assert callable(change)
    parts = fields(world)
    parts[-2] = change(parts[-2])
    stopped(world, "malformed_signature", world.file(with_line(b":".join(parts))))


def test_the_fingerprint_of_somebody_else_who_is_trusted(world: World) -> None:
    """The fingerprint says where to look; it is the signature that says who it was."""
    mia = new_key()
    world.trust_key(TrustDocument.create(mia.public, "mia"))
    parts = fields(world)
    parts[-1] = mia.public.fingerprint.encode()
    stopped(world, "bad_signature", world.file(with_line(b":".join(parts))))


def test_a_fingerprint_that_nobody_has(world: World) -> None:
    parts = fields(world)
    parts[-1] = b"0" * 16
    error = stopped(world, "untrusted_key", world.file(with_line(b":".join(parts))))
    assert "rye sign demo/hello" in (error.hint or "")


def test_a_line_of_a_thousand_bytes(world: World) -> None:
    line = world.signed().content.split(b"\n", 1)[0]
    error = stopped(world, "malformed_signature", world.file(with_line(line + b" " * 1000)))
    assert "expected at most 512 bytes" in error.message
