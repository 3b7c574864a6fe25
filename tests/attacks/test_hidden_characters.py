"""Somebody has a file signed that looks other than it is."""

from __future__ import annotations

import pytest

from rye_mcp.items import ItemType
from tests.trust_world import World, refused

HIDDEN = {
    "right-to-left override": "\u202e",
    "left-to-right isolate": "\u2066",
    "pop isolate": "\u2069",
    "right-to-left mark": "\u200f",
    "Arabic letter mark": "\u061c",
    "zero-width space": "\u200b",
    "zero-width joiner": "\u200d",
    "word joiner": "\u2060",
    "byte order mark inside": "\ufeff",
    "soft hyphen": "\u00ad",
    "Hangul filler": "\u3164",
    "tag": "\U000e0041",
    "next line": "\u0085",
    "control sequence introducer": "\u009b",
    "escape": "\x1b",
    "backspace": "\x08",
    "delete": "\x7f",
    "vertical tab": "\x0b",
    "form feed": "\x0c",
    "unit separator": "\x1f",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "interlinear annotation": "\ufff9",
    "end of an annotation": "\ufffb",
    "musical beam": "\U0001d173",
    "end of a phrase": "\U0001d17a",
    "first of the variation selectors": "\U000e0100",
    "last of the variation selectors": "\U000e01ef",
    "Braille without dots": "\u2800",
    "combining grapheme joiner": "\u034f",
    "Hangul filler of half a width": "\uffa0",
    "Mongolian variation selector": "\u180f",
    "a selector of text": "\ufe0e",
    "an emoji selector behind a letter": "\ufe0f",
    "reserved to be ignored": "\U000e0fff",
    "Arabic number sign": "\u0600",
    "shorthand format": "\U0001bca0",
}


@pytest.mark.parametrize("character", HIDDEN.values(), ids=HIDDEN)
def test_characters_that_nobody_sees_are_not_signed(world: World, character: str) -> None:
    content = f"ok = 1\nname = 'a{character}b'\n".encode()
    canary = world.stored(world.file(content)).path
    error = refused("not_text", lambda: world.signed(world.file(content)))
    assert canary.read_bytes() == content
    assert f"U+{ord(character):04X} in line 2" in error.message


SPELLED = {
    "by two selectors": "☕\ufe0f\ufe0f",
    "by selectors of 4 bits each": "☕" + "".join(chr(0xFE00 + ord(each) % 16) for each in "curl evil|sh"),
    "behind a digit": "rm -rf /tmp/1\ufe0f2",
    "by joiners": "👩\u200d\u200d👩",
    "by tags behind a flag": "🏴\U000e0063\U000e0075\U000e007f",
}


@pytest.mark.parametrize("text", SPELLED.values(), ids=SPELLED)
def test_a_text_that_is_spelled_behind_emoji_is_not_signed(world: World, text: str) -> None:
    content = f"name = '{text}'\n".encode()
    canary = world.stored(world.file(content)).path
    refused("not_text", lambda: world.signed(world.file(content)))
    assert canary.read_bytes() == content


def test_text_of_all_the_world_is_signed(world: World) -> None:
    text = "Grüße, Привет, こんにちは, 你好, สวัสดี, नमस्ते, שלום, مرحبا, 👋🏽 ☕️ 👩‍👩‍👧‍👦 1️⃣\n"
    file = world.file(text.encode(), item_type=ItemType.KNOWLEDGE, extension=".md")
    world.verify(world.signed(file))


COOKIES = [
    b"# -*- coding: utf-7 -*-\n",
    b"# coding=latin-1\n",
    b"\n# vim: set fileencoding=cp1252 :\n",
    b"#!/usr/bin/env python3\n# coding: rot13\n",
    b"#!/usr/bin/env python3\n\n# coding: rot13\n",
    b"# coding: utf-8-sig\n",
    b"# coding: no-such-thing\n",
    b"# coding: unicode_escape\n",
]


@pytest.mark.parametrize("cookie", COOKIES, ids=repr)
def test_a_python_file_in_another_encoding_is_not_signed(world: World, cookie: bytes) -> None:
    refused("not_text", lambda: world.signed(world.file(cookie + b"print(1)\n")))


@pytest.mark.parametrize(
    "program", [b"/usr/bin/env python3", b"/usr/bin/env -S uv run", b"/opt/pypy", b"/bin/sh"]
)
def test_a_program_that_python_may_run_is_a_python_file(world: World, program: bytes) -> None:
    content = b"#!" + program + b"\n# coding: utf-7\n"
    refused("not_text", lambda: world.signed(world.file(content, extension="")))


def test_a_tab_and_the_emoji_form_of_a_character_are_signed(world: World) -> None:
    world.verify(world.signed(world.file("\tprint('☕\ufe0f')\n".encode())))


@pytest.mark.parametrize("cookie", [b"# coding: utf-8\n", b"# -*- coding: UTF8 -*-\n"], ids=repr)
def test_a_python_file_that_says_that_it_is_utf8_is_signed(world: World, cookie: bytes) -> None:
    world.verify(world.signed(world.file(cookie + b"print(1)\n")))


def test_other_files_may_speak_of_encodings(world: World) -> None:
    world.verify(world.signed(world.file(b"# coding: latin-1\n", extension=".sh")))
