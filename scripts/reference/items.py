"""What is in the system space, and which files are items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from rye_mcp.items import COMMENT_STYLES, EXTENSIONS, ItemType, SpaceName
from rye_mcp.metadata import ItemMetadata, parse_metadata
from rye_mcp.spaces import Spaces
from scripts.reference.tables import cell, code, explained, table

__all__ = ["PARTS", "system_items"]

_PARAMETERS: Final = {
    "bash_runtime": ("on standard input, plain ones as `RYE_PARAM_name`", "what it prints"),
    "binary_runtime": ("on standard input, plain ones as `RYE_PARAM_name`", "what it prints"),
    "http_runtime": ("in the templates of `config`", "the body of the answer"),
    "mcp_http_runtime": ("as the arguments of the tool of the other server", "what that server answers"),
    "mcp_stdio_runtime": ("as the arguments of the tool of the other server", "what that server answers"),
    "node_runtime": ("`execute(params, context)`", "what it returns"),
    "perl_runtime": ("`execute($params)`", "what it returns"),
    "python_function_runtime": ("`execute(params, project_path)`", "what it returns"),
    "python_runtime": ("`main(**params)`, else `execute`", "what it returns"),
    "python_script_runtime": ("`--params JSON --project-path DIRECTORY`", "what it prints"),
    "ruby_runtime": ("`execute(params)`", "what it returns"),
    "uv_script_runtime": ("`--params JSON --project-path DIRECTORY`", "what it prints"),
}
"""How parameters arrive and what the result is: what a runner's code does, in words."""


def system_items(item_type: ItemType) -> Iterator[tuple[str, ItemMetadata]]:
    """The items of the system space, with what they say about themselves."""
    spaces = Spaces.locate()
    for place in spaces.list(SpaceName.SYSTEM, item_type).items:
        metadata = parse_metadata(spaces.read(place))
        if item_type is not ItemType.TOOL or not metadata.is_library:
            yield place.item_id, metadata


def _runtimes() -> Iterator[tuple[str, ItemMetadata]]:
    return ((item_id, each) for item_id, each in system_items(ItemType.TOOL) if each.is_runtime)


def _runtime_table() -> str:
    found = {item_id.rpartition("/")[2]: each for item_id, each in _runtimes()}
    words = {name: " → ".join(each) for name, each in _PARAMETERS.items() if name in found}
    rows = [
        (code(name), cell(found[name].description), *(cell(each) for each in said.split(" → ")))
        for name, said in explained(found, words, what="runtime")
    ]
    ids = "All are below `rye/core/runtimes/`; the last name is enough: `executor_id: node_runtime`."
    return f"{ids}\n\n{table(('runtime', 'what it does', 'parameters', 'result'), rows)}"


def _runtime_details() -> str:
    """Each runtime with what is started, where the interpreter comes from, and its limits."""
    return "\n\n".join(_details(item_id, each) for item_id, each in _runtimes())


def _details(item_id: str, runtime: ItemMetadata) -> str:
    config, environment = runtime.config or {}, runtime.env_config or {}
    rows = [
        ("id", code(item_id)),
        ("executor", code(runtime.executor_id or "")),
        ("interpreter", _interpreter(environment.get("interpreter", {}))),
        (
            "starts",
            code(" ".join([config["command"], *config.get("args", [])])) if "command" in config else "",
        ),
        ("standard input", code(config.get("input_data", ""))),
        (
            "variables",
            ", ".join(code(f"{name}={value}") for name, value in environment.get("env", {}).items()),
        ),
        ("time limit", f"{config['timeout']} s" if "timeout" in config else ""),
        ("several files", _markers(runtime.anchor or {})),
        (
            "has to be signed",
            ", ".join(code(each) for each in (runtime.verify_deps or {}).get("extensions", [])),
        ),
    ]
    said = [row for row in rows if row[1]]
    return f"## {item_id.rpartition('/')[2]}\n\n{runtime.description}\n\n{table(('', ''), said)}"


def _interpreter(found: Mapping[str, Any]) -> str:
    if not found:
        return ""
    places = found.get("search") or found.get("search_paths") or found.get("venv_path") or found.get("binary")
    shown = ", ".join(places) if isinstance(places, list) else places
    fallback = f", else {code(found['fallback'])}" if "fallback" in found else ""
    return f"`{found['type']}`: {code(str(shown))}{fallback}; its path is in {code(found['var'])}"


def _markers(anchor: Mapping[str, Any]) -> str:
    markers = anchor.get("markers_any", [])
    return f"where there is {' or '.join(code(each) for each in markers)}" if markers else ""


def _primitives() -> str:
    return "\n\n".join(
        _primitive(item_id, each) for item_id, each in system_items(ItemType.TOOL) if each.is_primitive
    )


def _primitive(item_id: str, primitive: ItemMetadata) -> str:
    schema = primitive.config_schema or {}
    rows = [
        (
            code(name),
            "required" if name in schema.get("required", ()) else code(repr(each.get("default"))),
            cell(each.get("description", "")),
        )
        for name, each in schema.get("properties", {}).items()
    ]
    heading = f"## {item_id.rpartition('/')[2]}\n\n`{item_id}`: {primitive.description}"
    return f"{heading}\n\n{table(('key', 'default', 'meaning'), rows)}"


def _system_items() -> str:
    return "\n\n".join(_of_type(item_type) for item_type in ItemType)


def _of_type(item_type: ItemType) -> str:
    rows = [
        (code(item_id), cell(each.description))
        for item_id, each in system_items(item_type)
        if not (each.is_runtime or each.is_primitive)
    ]
    return f"## {item_type.directory.capitalize()}\n\n{table(('item', 'what it is for'), rows)}"


def _extensions() -> str:
    rows = [
        (item_type.value, f"`{item_type.directory}/`", " ".join(map(_extension, EXTENSIONS[item_type])))
        for item_type in ItemType
    ]
    styles = sorted(extension for extension in COMMENT_STYLES if extension)
    note = f"A file without extension begins with `#!`. Comments are known for {' '.join(map(code, styles))}."
    return f"{table(('type', 'directory', 'extensions'), rows)}\n\n{note}"


def _extension(extension: str) -> str:
    return code(extension) if extension else "none"


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "runtimes": _runtime_table,
    "runtime-details": _runtime_details,
    "primitives": _primitives,
    "system-items": _system_items,
    "extensions": _extensions,
}
