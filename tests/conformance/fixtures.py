"""What the official conformance suite expects to find at a server, as signed items of a project.

A tool writes to its streams; everything else about it (content blocks, errors, progress, log messages) is
what the server makes of that for every tool. Names are those of the suite.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ["DIRECTIVES", "KNOWLEDGE", "TOOLS", "tool_source"]

_HEAD = '''\
"""{description}"""

__version__ = "1.0.0"
__executor_id__ = "rye/core/runtimes/python_script_runtime"
{metadata}

import json
import sys
import time
from pathlib import Path

params = json.loads(sys.argv[sys.argv.index("--params") + 1])
{code}
'''


def _png() -> bytes:
    """A picture of one red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _wav() -> bytes:
    """A sound of eight samples of silence."""
    body = struct.pack("<4sIHHIIHH4sI", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8, b"data", 8) + b"\x80" * 8
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body


def _resource(name: str, mime_type: str, text: str) -> dict[str, Any]:
    address = f"https://example.org/{name}"
    return {"type": "resource", "resource": {"uri": address, "mimeType": mime_type, "text": text}}


_IMAGE: Final = {"type": "image", "data": base64.b64encode(_png()).decode(), "mimeType": "image/png"}
_AUDIO: Final = {"type": "audio", "data": base64.b64encode(_wav()).decode(), "mimeType": "audio/wav"}

_BLOCKS: Final[Mapping[str, list[dict[str, Any]]]] = MappingProxyType(
    {
        "test_simple_text": [{"type": "text", "text": "This is a simple text response for testing."}],
        "test_image_content": [_IMAGE],
        "test_audio_content": [_AUDIO],
        "test_embedded_resource": [
            _resource("embedded-resource", "text/plain", "This is an embedded resource content.")
        ],
        "test_multiple_content_types": [
            {"type": "text", "text": "Multiple content types test:"},
            _IMAGE,
            _resource("mixed-content-resource", "application/json", '{"test":"data","value":123}'),
        ],
    }
)

_ERROR: Final = 'sys.exit("This tool intentionally returns an error for testing")'

# Three lines, farther apart than the server's pause between two notifications of progress.
_PROGRESS: Final = """\
for percent in (0, 50, 100):
    print(f"{percent} of 100", file=sys.stderr, flush=True)
    time.sleep(0.15)
print("done")"""

_LOGGING: Final = """\
for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
    print(text, file=sys.stderr, flush=True)
    time.sleep(0.05)
print("done")"""

_TOGGLED: Final = """\
there, away = Path(".ai/{place}"), Path("{name}.away")
first, second = (there, away) if there.exists() else (away, there)
first.rename(second)
print("done")"""

_SCHEMA: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

_HEADER_SCHEMA: Final = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}


def _tools() -> Iterator[tuple[str, str, Any]]:
    """Name, code, and schema of the parameters."""
    for name, blocks in _BLOCKS.items():
        yield name, f"print({json.dumps({'content': blocks})!r})", None
    yield "test_error_handling", _ERROR, None
    yield "test_tool_with_progress", _PROGRESS, None
    yield "test_tool_with_logging", _LOGGING, None
    yield "test_logging_tool", _LOGGING, None
    yield "json_schema_2020_12_tool", "print(json.dumps(params))", _SCHEMA
    yield "test_header_parameter", "print(json.dumps(params))", _HEADER_SCHEMA
    yield "test_come_and_go", 'print("here")', None
    toggled = (
        ("test_trigger_tool_change", "tools/test_come_and_go.py"),
        ("test_trigger_prompt_change", "directives/test_come_and_go.md"),
    )
    for name, place in toggled:
        yield name, _TOGGLED.format(place=place, name=name), None


def tool_source(name: str, code: str, schema: Any) -> str:
    """The file of a tool."""
    metadata = f"CONFIG_SCHEMA = {schema!r}" if schema else ""
    return _HEAD.format(description=f"What the suite knows as {name}.", metadata=metadata, code=code)


def _document(name: str, description: str, body: str, inputs: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{inputs}---\n{body}\n"


_ARGUMENTS: Final = """\
inputs:
  type: object
  properties:
    arg1: {type: string, description: First test argument, examples: [test one, test two]}
    arg2: {type: string, description: Second test argument}
  required: [arg1, arg2]
"""

TOOLS: Final[Mapping[str, str]] = MappingProxyType({tool[0]: tool_source(*tool) for tool in _tools()})
"""Name → content of the file."""

DIRECTIVES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "test_simple_prompt": _document(
            "test_simple_prompt", "A prompt.", "This is a simple prompt for testing."
        ),
        "test_prompt_with_arguments": _document(
            "test_prompt_with_arguments",
            "A prompt with arguments.",
            "Prompt with arguments: arg1='{input:arg1}', arg2='{input:arg2}'",
            _ARGUMENTS,
        ),
        "test_come_and_go": _document("test_come_and_go", "Comes and goes.", "Here."),
    }
)
"""Name → content of the file."""

KNOWLEDGE: Final[Mapping[str, str]] = MappingProxyType(
    {"watched": _document("watched", "Something to read.", "Foxes are red.")}
)
"""Name → content of the file."""
