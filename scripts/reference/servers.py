"""What the MCP server offers: its tools with their arguments, its resources."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from rye_mcp.mcp_server.definitions import DEFINITIONS, Definition
from rye_mcp.mcp_server.exposed_items import TEMPLATES
from scripts.reference.tables import cell, code, table

__all__ = ["PARTS"]


def _tools() -> str:
    return "\n\n".join(_tool(each) for each in DEFINITIONS.values())


def _tool(tool: Definition) -> str:
    arguments = [
        (code(name), cell(_type(schema)), _default(name, schema, tool), cell(schema.get("description", "")))
        for name, schema in tool.properties.items()
    ]
    hints = ", ".join(f"`{name}: {json.dumps(value)}`" for name, value in tool.hints.items())
    answer = ", ".join(code(name) for name in tool.output)
    return "\n\n".join(
        [
            f"## {tool.name}",
            tool.description,
            table(("argument", "type", "default", "meaning"), arguments),
            f"Answers with {answer}. Annotations: {hints}.",
        ]
    )


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(code(str(each)) for each in schema["enum"])
    kind = schema.get("type", "anything")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _default(name: str, schema: Mapping[str, Any], tool: Definition) -> str:
    if name in tool.required:
        return "required"
    return code(json.dumps(schema["default"])) if "default" in schema else ""


def _resources() -> str:
    rows = [(code(each.uri_template), cell(each.description or "")) for each in TEMPLATES]
    return table(("address", "what"), rows)


PARTS: Final[Mapping[str, Callable[[], str]]] = {"mcp-tools": _tools, "mcp-resources": _resources}
