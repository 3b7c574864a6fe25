"""What tests of metadata share: an item made of bytes, and the issues that are found in it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemType, Space, SpaceName, relative_path
from rye_mcp.metadata import ItemMetadata, examine, parse_metadata

__all__ = ["FIELDS", "issues_of", "item", "messages_of"]

FIELDS = tuple(each.name for each in fields(ItemMetadata) if each.name not in {"declares_executor", "extra"})
"""What the metadata of an item consists of."""

_SPACE = Space(SpaceName.PROJECT, Path("/work/project/.ai"))


def item(
    content: str | bytes,
    extension: str = ".py",
    item_type: ItemType = ItemType.TOOL,
    item_id: str = "demo/hello",
) -> ItemFile:
    """An item with this content, as if it had been read."""
    data = content.encode() if isinstance(content, str) else content
    path = _SPACE.root / relative_path(item_type, item_id, extension)
    return ItemFile(_SPACE, item_type, item_id, extension, path, data)


def issues_of(file: ItemFile, *, thorough: bool = False) -> list[dict[str, Any]]:
    """Everything that is wrong with an item's metadata; it is a mistake of the test when nothing is."""
    with pytest.raises(RyeError) as caught:
        (examine if thorough else parse_metadata)(file)
    assert caught.value.code == "invalid_item"
    assert len(caught.value.message) < 2000
    issues: list[dict[str, Any]] = caught.value.details["issues"]
    assert issues
    return issues


def messages_of(file: ItemFile, *, thorough: bool = False) -> str:
    """The messages of all issues, one a line."""
    return "\n".join(issue["message"] for issue in issues_of(file, thorough=thorough))
