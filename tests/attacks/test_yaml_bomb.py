"""Attack: YAML that is small and becomes huge, deep, or endless when it is read."""

import time
from pathlib import Path

import pytest

from rye_mcp.items import MAX_ITEM_BYTES, ItemType
from rye_mcp.metadata import parse_metadata
from tests.metadata_helpers import issues_of, item
from tests.space_helpers import CANARY

MIB = MAX_ITEM_BYTES
MAX_ALIASES = 100
LAUGHS = "a0: &a0 [lol]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
)  # fmt: skip
BOMBS = {
    "a billion laughs": LAUGHS,
    "laughs in mappings": "a0: &a0 {x: lol}\n"
    + "".join(f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}\n" for n in range(1, 60)),
    "an alias inside of itself": "a: &a [*a]\n",
    "an alias inside of itself, deeper": "a: &a {b: [{c: *a}]}\n",
    "laughs with few aliases": "a0: &a0 [lol]\n"
    + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 49)),
    "one alias too many": "a: &a 1\nb: [" + "*a," * (MAX_ALIASES + 1) + "]\n",
    "many aliases": "a: &a 1\nb: [" + "*a," * (MIB // 4) + "]\n",
    "many anchors": "b: [" + "".join(f"&a{n} 1," for n in range(MIB // 12)) + "]\n",
    "deep lists": "a: " + "[" * (MIB - 4),
    "deep lists that end": "a: " + "[" * (MIB // 2 - 4) + "]" * (MIB // 2 - 4),
    "deep lists, a line each": "a:\n" + " [\n" * (MIB // 3 - 2),
    "deep mappings": "a: " + "{a: " * (MIB // 4 - 2),
    "deep blocks": "".join(" " * n + "a:\n" for n in range(1400)),
    "deep dashes": "- " * (MIB // 2),
    "deep questions": "? " * (MIB // 2),
    "many values": "- a\n" * (MIB // 4),
    "many keys": "".join(f"k{n}: 1\n" for n in range(MIB // 12)),
    "many documents": "---\n" * (MIB // 4),
    "many tags": "a: " + "!x " * (MIB // 3),
    "the same key": "a: 1\n" * (MIB // 5),
    "a number": "a: " + "9" * (MIB - 4),
    "a hexadecimal number": "a: 0x" + "f" * (MIB - 6),
    "a float": "a: 1e" + "9" * (MIB - 6),
    "an open quote": 'a: "' + "x" * (MIB - 5),
    "merge keys": "a: &a {x: 1}\n" + "b:\n" + "  <<: *a\n" * (MIB // 10),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
@pytest.mark.parametrize("around", ["{}", "---\n{}\n---\n"], ids=["yaml", "markdown"])
def test_a_bomb_is_refused_in_little_time(tmp_path: Path, bomb: str, around: str) -> None:
    canary = tmp_path / "canary"
    canary.write_bytes(CANARY)
    file = item(bomb, ".yaml") if around == "{}" else item(around.format(bomb), ".md", ItemType.KNOWLEDGE)
    if around != "{}" and "---" in bomb:
        return
    begin = time.thread_time()
    issues = issues_of(file)
    assert time.thread_time() - begin < 2
    assert len(str(issues)) < 40_000
    assert canary.read_bytes() == CANARY


@pytest.mark.parametrize(
    "text",
    [
        "# " + "x" * (MIB - 3),
        "\n" * MIB,
        "a: " + "x" * (MIB - 4),
        "a: |\n" + "  x\n" * (MIB // 4 - 2),
        " " * (MIB - 8) + "a: 1",
        "a: " + "x " * (MIB // 2 - 4),
    ],
    ids=["a comment", "blank lines", "a text", "a block", "blanks", "words"],
)
def test_what_is_only_long_is_read_in_little_time(text: str) -> None:
    begin = time.thread_time()
    parse_metadata(item(text, ".yaml"))
    assert time.thread_time() - begin < 2


def test_what_is_within_the_limits_is_read() -> None:
    deep = "config: " + "{a: " * 62 + "1" + "}" * 62
    assert parse_metadata(item(deep, ".yaml")).config
    many = "config:\n  a: [" + "1," * 19_000 + "]\n"
    assert parse_metadata(item(many, ".yaml")).config
    aliases = "config:\n  a: &a [1]\n  b: [" + "*a," * MAX_ALIASES + "]\n"
    assert parse_metadata(item(aliases, ".yaml")).config
