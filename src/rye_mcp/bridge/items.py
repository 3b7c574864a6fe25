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
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from rye_mcp.bridge.definitions import PARTS, Definition
from rye_mcp.items import is_item_id
from rye_mcp.visible import find_hidden, visible_lines

if TYPE_CHECKING:
    from rye_mcp.metadata import ItemMetadata

__all__ = ["DIRECTORY", "RUNTIMES", "approved_parts", "ids_of", "item_text", "yaml_lines"]

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
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_-]*", re.ASCII)
_NO_TEXT: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"})
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


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
    return "\n".join([head, *_block(kept, 0), ""])


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


# --- YAML, of values that JSON can hold ---


def yaml_lines(value: Mapping[str, Any]) -> Iterator[str]:
    """The lines of YAML that say exactly this."""
    return _block(value, 0)


def _block(value: Mapping[str, Any], depth: int) -> Iterator[str]:
    for name, each in value.items():
        yield from _entry(f"{'  ' * depth}{_key(name)}:", each, depth + 1)


def _entry(head: str, value: Any, depth: int) -> Iterator[str]:
    """A key or a dash, and what stands behind it."""
    if isinstance(value, Mapping) and value:
        yield head
        yield from _block(value, depth)
    elif isinstance(value, list) and value:
        yield head
        for each in value:
            yield from _entry(f"{'  ' * depth}-", each, depth + 1)
    elif isinstance(value, str) and _reads_as_lines(value):
        yield f"{head} |2-" if depth == 1 else f"{head} |-"
        yield from (f"{'  ' * depth}{line}" if line else "" for line in value.split("\n"))
    else:
        yield f"{head} {_scalar(value)}"


def _reads_as_lines(text: str) -> bool:
    """Whether a literal block holds exactly this, for people to read."""
    lines = text.split("\n")
    return (
        len(lines) > 1
        and find_hidden(text) is None
        and all(line == line.rstrip() and line.isprintable() for line in lines)
        and bool(lines[0])
        and not lines[0].startswith(" ")
        and bool(lines[-1])
    )


def _key(name: str) -> str:
    plain = _PLAIN_KEY.fullmatch(name) is not None and name.lower() not in _NO_TEXT and len(name) < 64
    return name if plain else _quoted(name)


def _scalar(value: Any) -> str:
    return _quoted(value) if isinstance(value, str) else json.dumps(value, allow_nan=False)


def _quoted(text: str) -> str:
    return '"' + "".join(map(_character, text)) + '"'


def _character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable() and find_hidden(character) is None:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
