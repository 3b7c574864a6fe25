"""What lists of MCP show of an item, and how long that may be: an item with more is not signed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from rye_mcp.metadata._fields import ItemMetadata
from rye_mcp.visible import visible_lines, with_texts

__all__ = ["MAX_LISTED_BYTES", "arguments_of", "problem_of_listing"]

MAX_LISTED_BYTES: Final = 400_000
"""How long all of it may be as JSON in ASCII, as it is shown. A page of a list has room for more."""


def arguments_of(metadata: ItemMetadata) -> dict[str, Mapping[str, Any]]:
    """The inputs of a directive: name → schema."""
    inputs = metadata.inputs
    if not isinstance(inputs, Mapping):
        return {each: {} for each in inputs or ()}
    properties = inputs.get("properties", {})
    return {each: schema if isinstance(schema, Mapping) else {} for each, schema in properties.items()}


def problem_of_listing(metadata: ItemMetadata) -> str | None:
    """What is wrong with an item that no list has room for."""
    title = str((metadata.annotations or {}).get("title") or metadata.name)
    arguments = [
        {"name": name, "description": schema.get("description"), "required": False}
        for name, schema in arguments_of(metadata).items()
    ]
    shown = [title, title, metadata.description or title, metadata.config_schema, metadata.output_schema]
    found = len(json.dumps(with_texts([*shown, arguments], visible_lines), default=str))
    if found <= MAX_LISTED_BYTES:
        return None
    return f"expected a description and schemas of at most {MAX_LISTED_BYTES} bytes together, found {found}"
