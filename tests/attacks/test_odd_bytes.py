"""Somebody uses bytes that one program reads differently from another."""

from __future__ import annotations

import pytest

from rye_mcp.items import MAX_ITEM_BYTES
from rye_mcp.trust.scope import Role
from rye_mcp.trust.sign import sign_item
from tests.trust_world import CONTENT, World, refused, stopped

ODD = {
    "carriage return": b"print(1)\rimport os\n",
    "line feeds of another system": b"print(1)\r\n",
    "NUL": b"print(1)\0\n",
    "not UTF-8": b"print('\xff')\n",
    "too long for UTF-8": b"print('\xc0\xaf')\n",
    "half a pair": b"print('\xed\xa0\x80')\n",
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_what_is_no_plain_text_is_not_signed(world: World, content: bytes) -> None:
    refused("not_text", lambda: world.signed(world.file(content)))


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_what_is_no_plain_text_is_refused_though_it_be_signed(world: World, content: bytes) -> None:
    error = stopped(world, "not_text", world.signed_by_another_program(world.file(content)))
    assert "in line 2" in error.message


def test_a_byte_order_mark_before_the_signature(world: World) -> None:
    content = b"\xef\xbb\xbf" + world.signed().content
    stopped(world, "not_text", world.file(content))
    refused("not_text", lambda: world.signed(world.file(b"\xef\xbb\xbf" + CONTENT)))


def test_a_byte_order_mark_before_a_shebang(world: World) -> None:
    stopped(world, None, world.file(b"\xef\xbb\xbf" + world.signed(world.file(b"#!/bin/sh\n")).content))


def test_more_than_the_limit(world: World) -> None:
    empty = len(world.signed(world.file(b"")).content)
    largest = world.file(b"x" * (MAX_ITEM_BYTES - empty))
    assert len(world.verify(world.signed(largest)).file.content) == MAX_ITEM_BYTES
    one_more = world.file(largest.content + b"x")
    stopped(world, "too_large", world.signed_by_another_program(one_more))
    world.stored(one_more)
    refused("too_large", lambda: sign_item(one_more, world.key(), world.trust(), role=Role.TOOL))
    assert one_more.path.read_bytes() == one_more.content
