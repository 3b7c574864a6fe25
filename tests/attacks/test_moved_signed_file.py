"""Somebody takes a file that is validly signed and puts it where another item is expected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rye_mcp.items import ItemType
from tests.trust_world import World, stopped


@pytest.mark.parametrize("item_id", ["demo/other", "hello", "demo/hello/hello", "Demo/hello", "demo/hello2"])
def test_over_another_id(world: World, item_id: str) -> None:
    content = world.signed().content
    stopped(world, "bad_signature", world.file(content, item_id=item_id))


@pytest.mark.parametrize("extension", [".sh", ".yaml", ".rb", ""])
def test_to_another_extension_with_the_same_comments(world: World, extension: str) -> None:
    content = world.signed().content
    stopped(world, "bad_signature", world.file(content, extension=extension))


@pytest.mark.parametrize("extension", [".js", ".sql"])
def test_to_another_extension_with_other_comments(world: World, extension: str) -> None:
    content = world.signed().content
    stopped(world, "malformed_signature", world.file(content, extension=extension))


def test_to_another_type(world: World) -> None:
    file = world.file(b"Do as you are told.\n", item_type=ItemType.KNOWLEDGE, extension=".md")
    content = world.signed(file).content
    moved = world.file(content, item_type=ItemType.DIRECTIVE, extension=".md")
    stopped(world, "bad_signature", moved)


def test_with_an_invalid_id(world: World) -> None:
    """A name that could write a line of its own into the statement is no name."""
    file = world.signed()
    for item_id in ("demo/hello\nitem-ext: .sh", "../hello", "/demo/hello", "demo//hello"):
        stopped(world, "invalid_id", replace(file, item_id=item_id))
