"""Somebody changes a signed file, however little."""

from __future__ import annotations

import pytest

from tests.trust_world import World, stopped

SIGNATURE_LINE = {
    "unsigned",
    "malformed_signature",
    "content_changed",
    "bad_signature",
    "untrusted_key",
    "not_text",
}
CONTENT = {"content_changed", "malformed_signature", "unsigned", "not_text"}


@pytest.mark.each_once
@pytest.mark.parametrize("shebang", [b"", b"#!/usr/bin/env python3\n"], ids=["plain", "shebang"])
@pytest.mark.parametrize("flip", [0x01, 0x20, 0x80, 0xFF], ids=hex)
def test_every_byte_flipped_in_turn(world: World, shebang: bytes, flip: int) -> None:
    file = world.signed(world.file(shebang + b"import os\n"))
    trust = world.trust()
    world.verify(file, trust=trust)
    line = range(len(shebang), file.content.index(b"import os"))
    for position, byte in enumerate(file.content):
        content = file.content[:position] + bytes([byte ^ flip]) + file.content[position + 1 :]
        error = stopped(world, None, world.file(content), trust=trust)
        assert error.code in (SIGNATURE_LINE if position in line else CONTENT), f"byte {position}"


@pytest.mark.parametrize("change", ["append", "prepend", "cut the end", "cut a line", "empty"])
def test_lines_come_and_go(world: World, change: str) -> None:
    content = world.signed().content
    first, second, rest = content.split(b"\n", 2)
    changed, code = {
        "append": (content + b"\n", "content_changed"),
        "prepend": (b"\n" + content, "unsigned"),
        "cut the end": (content[:-1], "content_changed"),
        "cut a line": (first + b"\n" + rest, "content_changed"),
        "empty": (b"", "unsigned"),
    }[change]
    assert second
    stopped(world, code, world.file(changed))
