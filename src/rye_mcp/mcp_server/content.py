"""What a model gets to see: text in which nothing hides, data as it is, and the content blocks of a tool.

Rules:

- All text that is shown (text blocks, and every text about an item, a server or an error) is made visible.
- Data is exact: what a run returned or wrote is in structured content character for character. Only half of a
  surrogate pair, which UTF-8 cannot hold, is written as an escape. docs/results.md says which is which.
- A tool that returns `{"content": […]}`, and perhaps `structuredContent`, has returned content blocks of MCP.
  They pass through when every one of them is valid: pictures and sounds in base64 with a type of theirs, and
  addresses of the web, and texts of at most `MAX_TEXTS` characters together. Otherwise the data is data like
  every other. What only rye-mcp says (`rye_mcp.marks`) stands in none of them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mcp.types import CallToolResult

from rye_mcp.errors import printable
from rye_mcp.marks import without_marks
from rye_mcp.visible import visible_lines, with_texts

if TYPE_CHECKING:
    from mcp.types import ContentBlock

__all__ = ["blocks_in", "exact", "is_long", "seen", "structured", "summary"]

MAX_BLOCKS: Final = 100
"""How many blocks one answer may have."""

MAX_TEXTS: Final = 1 << 20
"""How many characters the texts of all blocks have together, before what hides in them is written out."""

MAX_SUMMARY: Final = 64 << 10
"""How many characters of a block are repeated in the structured content."""

_KEYS: Final = frozenset({"content", "structuredContent"})
_IN_BASE64: Final = frozenset({"data", "blob"})
_SCHEMES: Final = ("https://", "http://")


def seen(value: Any) -> Any:
    """A copy in which every text can be seen."""
    return with_texts(value, visible_lines)


def exact(value: Any) -> Any:
    """A copy with every text as it is."""
    return with_texts(value, lambda text: text if text.isascii() else printable(text))


def structured(facts: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as structured content: what a run returned or wrote is exact, all other text is visible."""
    data = {"data", "content"} if "stream" in facts else {"data"}
    return {name: exact(value) if name in data else seen(value) for name, value in facts.items()}


def blocks_in(data: Any) -> list[ContentBlock] | None:
    """The content blocks that a tool has returned; None when its data is something else."""
    if not _says_blocks(data) or is_long(data):
        return None
    try:
        valid = CallToolResult.model_validate({"content": list(map(_seen_block, data["content"]))}).content
    except ValueError:
        return None
    return valid if all(map(_is_sound, valid)) else None


def is_long(data: Any) -> bool:
    """Whether the texts of content blocks are too long to be shown: their visible form is longer still."""
    return _says_blocks(data) and _characters(data["content"]) > MAX_TEXTS


def _says_blocks(data: Any) -> bool:
    if not isinstance(data, dict) or "content" not in data or data.keys() - _KEYS:
        return False
    blocks = data["content"]
    return isinstance(blocks, list) and 0 < len(blocks) <= MAX_BLOCKS


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(str(name)) + _characters(value[name]) for name in value.keys() - _IN_BASE64)
    return sum(map(_characters, value)) if isinstance(value, list | tuple) else 0


def summary(blocks: list[ContentBlock]) -> list[dict[str, Any]]:
    """What the blocks are, without what is in them."""
    return [_summary(block) for block in blocks]


def _summary(block: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": block.type}
    for name in ("text", "uri"):
        value = getattr(block, name, None)
        if value is not None and len(str(value)) <= MAX_SUMMARY:
            facts[name] = value
        elif value is not None:
            facts["characters"] = len(str(value))
    if getattr(block, "mime_type", None):
        facts["mimeType"] = block.mime_type
    if isinstance(getattr(block, "data", None), str):
        facts["bytes"] = len(block.data) * 3 // 4
    return facts


def _seen_block(block: Any) -> Any:
    """A block with its texts to be seen; what is in base64 is left alone, as it is checked anyway."""
    if not isinstance(block, dict):
        return block
    shown = {name: value if name in _IN_BASE64 else seen(value) for name, value in block.items()}
    return without_marks(shown)


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
