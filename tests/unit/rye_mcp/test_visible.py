"""Which characters hide: the tables of Unicode, compared with Python's own, and what stays as it is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import unicodedata

import pytest

from rye_mcp.unicode_tables import EMOJI, UNICODE_VERSION, UNSEEN
from rye_mcp.visible import find_hidden, visible, visible_lines
from scripts import unicode_tables

IGNORABLE_THOUGH_NO_FORMAT_CHARACTERS = {
    *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),
}
"""Default_Ignorable_Code_Point is defined by these, by Cf without some, and by what is not assigned yet."""

WHOLE = [
    *("👩‍👩‍👧‍👦", "👩🏽‍🚀", "❤️‍🔥", "🏳️‍🌈", "👁️‍🗨️", "🧑🏻‍❤️‍💋‍🧑🏿", "🏴‍☠️", "🙂‍↔️", "☕️", "☕", "1️⃣", "#️⃣", "©️", "🇩🇪"),
    "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
]
HIDDEN = {
    "two selectors": ("☕\ufe0f\ufe0f", "☕\ufe0f\\ufe0f"),
    "a selector behind a letter": ("a\ufe0f", "a\\ufe0f"),
    "a selector behind a digit": ("1\ufe0f2", "1\\ufe0f2"),
    "a selector behind a skin": ("👩🏽\ufe0f", "👩🏽\\ufe0f"),
    "the other selectors": ("☕\ufe0e\ufe00\U000e0100\U000e01ef", r"☕\ufe0e\ufe00\U000e0100\U000e01ef"),
    "a joiner before a letter": ("👩\u200da", "👩\\u200da"),
    "a joiner behind a letter": ("a\u200d👩", "a\\u200d👩"),
    "two joiners": ("👩\u200d\u200d👩", "👩\\u200d\\u200d👩"),
    "a flag of nowhere": ("🏴\U000e0041\U000e007f", r"🏴\U000e0041\U000e007f"),
    "fillers": ("\u115f\u1160\u3164\uffa0\U00016fe4", r"\u115f\u1160\u3164\uffa0\U00016fe4"),
    "nothing drawn": ("\u2800\u034f\ufffc\U0001d159", r"\u2800\u034f\ufffc\U0001d159"),
    "ends of lines": ("\r\x0b\x0c\x85\u2028\u2029", r"\r\x0b\x0c\x85\u2028\u2029".replace(r"\r", r"\x0d")),
    "half a pair": ("\ud800\udfff", r"\ud800\udfff"),
}


def members(table: str) -> set[int]:
    return {ord(each) for each in re.findall(f"[{table}]", "".join(map(chr, range(sys.maxunicode + 1))))}


def test_what_python_knows_as_a_format_character_is_in_the_table() -> None:
    every = {code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cf"}
    assert every <= members(UNSEEN)


def test_nothing_else_is_in_it_but_what_unicode_calls_ignorable() -> None:
    others = {code for code in members(UNSEEN) if unicodedata.category(chr(code)) not in ("Cf", "Cn")}
    assert others <= IGNORABLE_THOUGH_NO_FORMAT_CHARACTERS <= members(UNSEEN)


def test_an_emoji_is_a_symbol_or_punctuation_of_a_version_that_is_as_new_as_that_of_python() -> None:
    assert {unicodedata.category(chr(code)) for code in members(EMOJI)} <= {
        "So",
        "Sm",
        "Po",
        "Pd",
        "Ll",
        "Cn",
    }
    assert float(UNICODE_VERSION) >= 17


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_the_tables_are_what_their_script_writes() -> None:
    known = ["node", "-p", "process.versions.unicode"]
    version = subprocess.run(known, capture_output=True, text=True, check=True).stdout.strip()
    if version != UNICODE_VERSION:
        pytest.skip(f"needs a Node.js with Unicode {UNICODE_VERSION}, found {version}")
    assert unicode_tables.tables() == unicode_tables.TARGET.read_text(encoding="utf-8")


@pytest.mark.parametrize("emoji", WHOLE)
def test_an_emoji_stays_whole(emoji: str) -> None:
    assert visible(emoji) == visible_lines(f"a{emoji}b")[1:-1] == emoji
    assert find_hidden(emoji) is None


@pytest.mark.parametrize(("text", "shown"), HIDDEN.values(), ids=HIDDEN)
def test_what_hides_is_shown_and_found(text: str, shown: str) -> None:
    assert visible_lines(text) == shown
    first = find_hidden(f"☕️ {text}")
    assert first is not None
    assert visible(f"☕️ {text}"[first]) != f"☕️ {text}"[first]


def test_every_character_of_every_kind_that_hides_is_shown() -> None:
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert visible(character) != character, hex(code)


def test_a_long_text_is_written_out_like_a_short_one() -> None:
    """It is read in pieces, none of which ends within an emoji."""
    for whole in WHOLE:
        text = whole * (40_000 // len(whole))
        assert visible_lines(text) == text
    hiding = "a\u200b\x7f☕\ufe0f\ufe0f\r"
    assert visible_lines(hiding * 10_000) == visible_lines(hiding) * 10_000
