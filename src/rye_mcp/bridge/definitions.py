"""The definition of a tool by its server, the item that a person signs for it, and later changes to it.

The hash of a definition is over all that a model or a client may be shown of a tool. Where a field of an item
cannot be exactly what the server said, the server's own words stand under `approved`. Agents hear only which
parts have changed; people get a diff in which nothing hides.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.items import is_item_id
from rye_mcp.metadata import yaml_lines
from rye_mcp.visible import visible_lines

if TYPE_CHECKING:
    from rye_mcp.metadata import ItemMetadata
    from rye_mcp.permissions import Permissions

__all__ = [
    "DIRECTORY",
    "PARTS",
    "RUNTIMES",
    "Definition",
    "approved_parts",
    "changes",
    "difference",
    "ids_of",
    "item_text",
    "patterns_of",
    "whole",
]

PARTS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""The parts of a definition, by their names in MCP."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a tool by its server. `digest` is the hash that a person's signature pins.

    `problem` says why no item can hold it; such a definition has a name and no hash, so that none is pinned.
    """

    parts: Mapping[str, Any] = field(repr=False)
    digest: str
    problem: str | None = None

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Definition:
        """Out of an entry of `tools/list`; ValueError for what no JSON document can hold."""
        parts = {name: said[name] for name in PARTS if said.get(name) is not None}
        return cls(parts, hashlib.sha256(_canonical(parts)).hexdigest())

    @classmethod
    def malformed(cls, name: str, problem: str) -> Definition:
        """Return a definition for an invalid entry, with its problem."""
        return cls({"name": name}, "", problem)

    @property
    def name(self) -> str:
        """The name of the tool on its server."""
        return str(self.parts["name"])


def changes(approved: Mapping[str, Any], found: Definition) -> dict[str, Any]:
    """Return which parts differ from the approved ones, with their sizes but without their content."""
    return {
        name: {
            "approved_characters": len(_shown(approved.get(name))),
            "found_characters": len(_shown(found.parts.get(name))),
        }
        for name in PARTS
        if approved.get(name) != found.parts.get(name)
    }


def difference(approved: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """The lines of a diff, all of them: a person is asked to sign what it shows."""
    lines = difflib.unified_diff(_lines(approved), _lines(found), "approved", "now", lineterm="", n=2)
    return [visible_lines(line) for line in lines]


def whole(found: Mapping[str, Any]) -> list[str]:
    """The lines of all that is said of a tool which nobody has approved yet."""
    return [visible_lines(line) for line in _lines(found)]


def _lines(parts: Mapping[str, Any]) -> list[str]:
    return [line for name in PARTS if parts.get(name) is not None for line in _part(name, parts[name])]


def _part(name: str, value: Any) -> Iterator[str]:
    yield f"{name}:"
    yield from (f"  {line}" for line in _shown(value).split("\n"))


def _canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode()


def _shown(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


DIRECTORY: Final = "mcp"
"""Where in a space the tools of other servers are: `mcp/<server>/<tool>`."""

RUNTIMES: Final[Mapping[str, str]] = {
    "stdio": "rye/core/runtimes/mcp_stdio_runtime",
    "http": "rye/core/runtimes/mcp_http_runtime",
}
"""Transport → the runtime of its tools."""

APPROVED: Final = "approved"
"""The field with what the server said, where no other field has exactly that."""

ONLY: Final = "only"
"""The field with the patterns of names that the tools of a server were chosen by."""

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


def item_text(
    definition: Definition,
    config: Mapping[str, Any],
    permissions: Permissions | None,
    *,
    only: Iterable[str] = (),
) -> str:
    """The YAML of one tool; `config` says where its server is, `permissions` what that may do.

    `only` are the patterns that it was chosen by: those of an update that names none.
    """
    server, parts = config["server"], definition.parts
    fields: dict[str, Any] = {
        "name": visible_lines(definition.name).replace("\n", " ").strip() or "tool",
        "version": "1.0.0",
        "description": _text(parts.get("description", "")),
        "category": f"{DIRECTORY}/{server}",
        "tags": [DIRECTORY, server],
        "tool_type": "mcp",
        "executor_id": RUNTIMES[config["transport"]],
        "annotations": _annotations(parts) or None,
        "permissions": None if permissions is None else permissions.canonical(),
        "config": {
            **{name: value for name, value in config.items() if name != "transport" and value},
            "tool": definition.name,
            "definition": definition.digest,
        },
        "config_schema": parts.get("inputSchema", {}),
        "output_schema": parts.get("outputSchema"),
    }
    fields[APPROVED] = _otherwise(parts, fields) or None
    fields[ONLY] = list(only) or None
    kept = {name: value for name, value in fields.items() if value is not None}
    head = f"# Brought in by `rye mcp add {server}`: definition pins what the server said of it."
    return "\n".join([head, *yaml_lines(kept), ""])


def _text(value: Any) -> str:
    return visible_lines(str(value))[:_MAX_DESCRIPTION]


def _annotations(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations of a definition; a title of the tool itself counts if they have none."""
    annotations = dict(parts.get("annotations", {}))
    if "title" not in annotations and "title" in parts:
        annotations["title"] = _text(parts["title"])
    return annotations


def patterns_of(metadata: ItemMetadata) -> tuple[str, ...]:
    """The patterns that a tool was chosen by."""
    said = metadata.extra.get(ONLY)
    return tuple(each for each in said if isinstance(each, str)) if isinstance(said, list | tuple) else ()


def approved_parts(metadata: ItemMetadata, tool: str) -> dict[str, Any]:
    """Return the definition of a tool that was approved, as far as the item records it."""
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
