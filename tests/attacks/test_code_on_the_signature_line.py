"""Somebody puts code where nobody looks: on the line that is not part of what was signed."""

from __future__ import annotations

import pytest

from rye_mcp.items import ItemType
from tests.trust_world import CONTENT, World, refused, stopped

BEFORE = [b"import os; os.system('id') # ", b" ", b"\t", b"\x0c", b"\xc2\xa0", b"#", b"\\\n"]
AFTER = [
    b" ",
    b"; import os",
    b"\x0b",
    b"\x0c",
    b"\x1c",
    b"\xe2\x80\xa8import os",
    b"\xe2\x80\xa9",
    b"\xc2\x85x",
]


@pytest.mark.parametrize("before", BEFORE, ids=repr)
def test_before_the_comment(world: World, before: bytes) -> None:
    content = before + world.signed().content
    error = stopped(world, None, world.file(content))
    assert error.code == ("unsigned" if b"\n" in before else "malformed_signature")


@pytest.mark.parametrize("after", AFTER, ids=repr)
def test_after_the_comment(world: World, after: bytes) -> None:
    line, content = world.signed().content.split(b"\n", 1)
    stopped(world, "malformed_signature", world.file(line + after + b"\n" + content))


@pytest.mark.parametrize("after", [b" <script>", b"-->", b" --> evil <!-- x -->"], ids=repr)
def test_after_the_comment_of_markup(world: World, after: bytes) -> None:
    file = world.file(b"Text.\n", item_type=ItemType.DIRECTIVE, extension=".md")
    line, content = world.signed(file).content.split(b"\n", 1)
    mutated = world.file(line + after + b"\n" + content, item_type=ItemType.DIRECTIVE, extension=".md")
    stopped(world, "malformed_signature", mutated)


def test_on_a_line_that_does_not_end(world: World) -> None:
    line = world.signed(world.file(b"")).content
    stopped(world, "malformed_signature", world.file(line.removesuffix(b"\n")))


def test_signing_does_not_throw_away_what_is_on_that_line(world: World) -> None:
    line, content = world.signed().content.split(b"\n", 1)
    file = world.file(b"import os # " + line + b"\n" + content)
    refused("malformed_signature", lambda: world.signed(file))


def test_the_comment_of_another_language(world: World) -> None:
    """In SQL, `# ` begins no comment: what follows it there is code."""
    line = world.signed().content.split(b"\n", 1)[0]
    stopped(world, "malformed_signature", world.file(line + b"\n" + CONTENT, extension=".sql"))
