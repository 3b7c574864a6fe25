"""Somebody adds a signature line to a signed file, or moves the one that is there."""

from __future__ import annotations

from tests.trust_world import CONTENT, World, new_key, refused, stopped


def test_below_the_first(world: World) -> None:
    signed = world.signed().content
    line = signed.split(b"\n", 1)[0]
    stopped(world, "malformed_signature", world.file(line + b"\n" + signed))


def test_above_the_first(world: World) -> None:
    """The owner of the upper line signed a content that begins with the lower one: it looks twice signed."""
    signed = world.signed().content
    upper = world.signed(key=new_key()).content.split(b"\n", 1)[0]
    stopped(world, "malformed_signature", world.file(upper + b"\n" + signed))


def test_signing_adds_none(world: World) -> None:
    twice = world.signed(world.signed()).content
    assert twice.count(b"rye:signed:") == 1
    assert twice.endswith(CONTENT)


def test_signing_puts_none_above_something_like_it(world: World) -> None:
    file = world.file(b"# not rye:signed: by anybody\n" + CONTENT)
    refused("malformed_signature", lambda: world.signed(file))
    file = world.file(b"#!/bin/sh\n# rye:signed:\n" + CONTENT)
    refused("malformed_signature", lambda: world.signed(file))


def test_moved_above_the_shebang_that_it_belongs_below(world: World) -> None:
    """What was signed is the same in both places; which line runs the file is not."""
    shebang, line, rest = world.signed(world.file(b"#!/bin/sh\n" + CONTENT)).content.split(b"\n", 2)
    stopped(world, "malformed_signature", world.file(b"\n".join([line, shebang, rest])))


def test_moved_down_a_line(world: World) -> None:
    line, rest = world.signed(world.file(b"import os\n" + CONTENT)).content.split(b"\n", 1)
    first, rest = rest.split(b"\n", 1)
    stopped(world, "unsigned", world.file(b"\n".join([first, line, rest])))
