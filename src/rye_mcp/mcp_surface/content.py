"""What a model gets to see: text in which nothing hides, and the content blocks that a tool returns.

Rules:

- Control sequences, bidirectional and invisible characters in anything that comes from files or tools are
  written as escapes, in structured content as in text. What a run wrote, to the byte, is in its output.
- A tool that returns `{"content": […]}`, and perhaps `structuredContent`, has returned content blocks of MCP.
  They pass through when every one of them is valid: pictures and sounds in base64 with a type of theirs, and
  addresses that are of the web or ours. Otherwise the data is data like every other.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mcp.types import CallToolResult

from rye_mcp.visible import visible_lines

if TYPE_CHECKING:
    from mcp.types import ContentBlock

__all__ = ["blocks_in", "seen", "summary"]

MAX_BLOCKS: Final = 100
"""How many blocks one answer may have."""

_KEYS: Final = frozenset({"content", "structuredContent"})
_SCHEMES: Final = ("https://", "http://", "rye://")


def seen(value: Any) -> Any:
    """A copy in which every text can be seen."""
    if isinstance(value, str):
        return visible_lines(value)
    if isinstance(value, Mapping):
        return {visible_lines(str(name)): seen(each) for name, each in value.items()}
    return [seen(each) for each in value] if isinstance(value, list | tuple) else value


def blocks_in(data: Any) -> list[ContentBlock] | None:
    """The content blocks that a tool has returned; None when its data is something else."""
    if not isinstance(data, dict) or "content" not in data or data.keys() - _KEYS:
        return None
    blocks = data["content"]
    if not isinstance(blocks, list) or not 0 < len(blocks) <= MAX_BLOCKS:
        return None
    try:
        valid = CallToolResult.model_validate({"content": [_seen_block(block) for block in blocks]}).content
    except ValueError:
        return None
    return valid if all(map(_is_sound, valid)) else None


def summary(blocks: list[ContentBlock]) -> list[dict[str, Any]]:
    """What the blocks are, without what is in them."""
    return [_summary(block) for block in blocks]


def _summary(block: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": block.type}
    for name in ("text", "uri"):
        if getattr(block, name, None) is not None:
            facts[name] = getattr(block, name)
    if getattr(block, "mime_type", None):
        facts["mimeType"] = block.mime_type
    if isinstance(getattr(block, "data", None), str):
        facts["bytes"] = len(block.data) * 3 // 4
    return facts


def _seen_block(block: Any) -> Any:
    """A block with its texts to be seen; what is in base64 is left alone, as it is checked anyway."""
    if not isinstance(block, dict):
        return block
    return {name: value if name in ("data", "blob") else seen(value) for name, value in block.items()}


def _is_sound(block: Any) -> bool:
    match block.type:
        case "text":
            return True
        case "image" | "audio":
            return block.mime_type.startswith(f"{block.type}/") and _is_base64(block.data)
        case "resource_link":
            return str(block.uri).startswith(_SCHEMES)
        case "resource":
            blob = getattr(block.resource, "blob", None)
            return str(block.resource.uri).startswith(_SCHEMES) and (blob is None or _is_base64(blob))
        case _:
            return False


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
