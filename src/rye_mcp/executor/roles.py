"""What an item is for a chain, told from the very bytes that are verified.

The gate (`rye_mcp.trust.verify`) asks for the role of an item and knows nothing of metadata; this is where
both meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rye_mcp.items import ItemFile
from rye_mcp.metadata import ItemMetadata, parse_metadata
from rye_mcp.trust.scope import Role

__all__ = ["MetadataRole", "role_in_metadata"]


@dataclass(frozen=True, slots=True)
class MetadataRole:
    """Tells the role of one item from its bytes. Two for one item are equal, so that answers are kept."""

    file: ItemFile = field(compare=False, repr=False)
    item_id: str
    extension: str

    @classmethod
    def of(cls, file: ItemFile) -> MetadataRole:
        """What tells the role of this item."""
        return cls(file, file.item_id, file.extension)

    def __call__(self, content: bytes) -> Role:
        """The role that these bytes claim; RyeError `invalid_item` when they make no sense."""
        same = content is self.file.content
        file = self.file if same else replace(self.file, content=content)
        return role_in_metadata(parse_metadata(file))


def role_in_metadata(metadata: ItemMetadata) -> Role:
    """What a tool with this metadata is for a chain."""
    if metadata.is_primitive:
        return Role.PRIMITIVE
    return Role.RUNTIME if metadata.is_runtime else Role.TOOL
