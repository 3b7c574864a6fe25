"""A tool of another server as an item: its id, and the YAML that a person signs.

Rules:

- The item holds what was approved: description, schemas and hints stand in the fields that every tool has.
  `definition` is the hash of exactly what the server said. Where a field of ours cannot be exactly that, the
  server's own words stand under `approved`, so that a later difference can be shown.
- Nothing hides in the text: what cannot be seen is written as an escape.
- The same tools get the same ids, in whatever order they are listed. A name that is no id, or that differs
  from another one in case alone, gets a suffix made of the name.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from rye_mcp.bridge.definitions import PARTS, Definition
from rye_mcp.items import is_item_id
from rye_mcp.metadata import yaml_lines
from rye_mcp.visible import visible_lines

if TYPE_CHECKING:
    from rye_mcp.metadata import ItemMetadata

__all__ = ["DIRECTORY", "RUNTIMES", "approved_parts", "ids_of", "item_text"]

DIRECTORY: Final = "mcp"
"""Where in a space the tools of other servers are: `mcp/<server>/<tool>`."""

RUNTIMES: Final[Mapping[str, str]] = {
    "stdio": "rye/core/runtimes/mcp_stdio_runtime",
    "http": "rye/core/runtimes/mcp_http_runtime",
}
"""Transport → the runtime of its tools."""

APPROVED: Final = "approved"
"""The field with what the server said, where no other field has exactly that."""

_FIELDS: Final[Mapping[str, str]] = {
    "description": "description",
    "inputSchema": "config_schema",
    "outputSchema": "output_schema",
    "annotations": "annotations",
}
"""A part of a definition → the field of an item that is for it."""

_MAX_DESCRIPTION: Final = 4096
_MAX_STEM: Final = 50


# --- ids ---


def ids_of(server: str, names: Iterable[str]) -> dict[str, str]:
    """The id of each tool of a server."""
    known = sorted(names)
    segments = {name: _segment(name) for name in known}
    often = Counter(segment.lower() for segment in segments.values())
    for name, segment in segments.items():
        if segment != name or often[segment.lower()] > 1:
            segments[name] = f"{segment[:_MAX_STEM]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return {name: f"{DIRECTORY}/{server}/{segment}" for name, segment in segments.items()}


def _segment(name: str) -> str:
    replaced = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    if not replaced[:1].isalnum() or not replaced.isascii():
        replaced = f"_{replaced}"
    # What follows a dot would be read as the extension of a file.
    segment = replaced.replace(".", "_")[:64]
    return segment if is_item_id(segment) else "tool"


# --- the text of an item ---


def item_text(definition: Definition, config: Mapping[str, Any], variables: Iterable[str]) -> str:
    """The YAML of one tool; `config` says where its server is, `variables` what of ours it may see."""
    parts = definition.parts
    description = visible_lines(str(parts.get("description", "")))[:_MAX_DESCRIPTION]
    annotations = dict(parts.get("annotations", {}))
    if "title" not in annotations and "title" in parts:
        annotations["title"] = visible_lines(str(parts["title"]))[:_MAX_DESCRIPTION]
    fields: dict[str, Any] = {
        "name": visible_lines(definition.name).replace("\n", " ").strip() or "tool",
        "version": "1.0.0",
        "description": description,
        "category": f"{DIRECTORY}/{config['server']}",
        "tags": [DIRECTORY, config["server"]],
        "tool_type": "mcp",
        "executor_id": RUNTIMES[config["transport"]],
        "annotations": annotations or None,
        "permissions": {"env": sorted(set(variables))} if variables else None,
        "config": {
            **{name: value for name, value in config.items() if name != "transport" and value},
            "tool": definition.name,
            "definition": definition.digest,
        },
        "config_schema": parts.get("inputSchema", {}),
        "output_schema": parts.get("outputSchema"),
    }
    fields[APPROVED] = _otherwise(parts, fields) or None
    kept = {name: value for name, value in fields.items() if value is not None}
    head = f"# Brought in by `rye mcp add {config['server']}`: definition pins what the server said of it."
    return "\n".join([head, *yaml_lines(kept), ""])


def approved_parts(metadata: ItemMetadata, tool: str) -> dict[str, Any]:
    """What a server said of a tool when it was approved, as far as the item tells it."""
    known: dict[str, Any] = {"name": tool}
    known |= {part: getattr(metadata, field) or None for part, field in _FIELDS.items()}
    stated = metadata.extra.get(APPROVED)
    if isinstance(stated, Mapping):
        known |= {part: stated[part] for part in PARTS if part in stated}
    return {part: value for part, value in known.items() if value is not None}


def _otherwise(parts: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The parts that the item's own fields do not hold exactly."""
    shown = {part: fields[field] or None for part, field in _FIELDS.items()}
    return {part: parts.get(part) for part in PARTS[1:] if parts.get(part) != shown.get(part)}
