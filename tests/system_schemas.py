"""Every JSON Schema that the package brings along: of its items, of its MCP tools, and those for editors."""

from __future__ import annotations

from typing import Any, Final

from rye_mcp.items import ItemType, SpaceName
from rye_mcp.mcp_server.definitions import DEFINITIONS
from rye_mcp.metadata import SCHEMA_KINDS, metadata_schema, parse_metadata
from rye_mcp.spaces import Spaces

__all__ = ["schemas_of_the_package"]

_OF_ITEMS: Final = ("config_schema", "output_schema", "inputs", "outputs")


def schemas_of_the_package() -> dict[str, Any]:
    """Each schema, by what it is of."""
    found: dict[str, Any] = {f"editors: {kind}": metadata_schema(kind) for kind in SCHEMA_KINDS}
    for name, definition in DEFINITIONS.items():
        found[f"{name}: arguments"] = definition.input_schema
        found[f"{name}: result"] = definition.output_schema
    spaces = Spaces.locate()
    for place in (place for each in ItemType for place in spaces.list(SpaceName.SYSTEM, each).items):
        metadata = parse_metadata(spaces.read(place))
        schemas = {name: getattr(metadata, name) for name in _OF_ITEMS}
        found |= {
            f"{place.item_id}: {name}": each for name, each in schemas.items() if isinstance(each, dict)
        }
    return found
