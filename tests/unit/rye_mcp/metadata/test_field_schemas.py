"""The JSON Schemas for editors say what the checks say of every value; all that is shipped fits them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import rye_mcp
from lilux.schemas import validate_parameters
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.metadata import (
    PYTHON_NAMES,
    SCHEMA_KINDS,
    TOOL_TYPES,
    Warm,
    examine,
    metadata_schema,
    parse_metadata,
)
from rye_mcp.permissions import Permissions
from tests.metadata_helpers import FIELDS, item

SYSTEM = Path(rye_mcp.__file__).parent / ".ai"
TEMPLATES = Path(rye_mcp.__file__).parent / "templates"

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
FIELD_SCHEMAS = metadata_schema("tool")["properties"]

ANYTHING: list[Any] = [
    *("", " ", "x", "a\nb", "ü" * 4096, "x" * 4097, 0, 1.5, True, False, [], ["a"], [1], ["a", None], {}),
    *({"a": 1}, {"required": ["a"]}, {"required": "a"}, {"properties": {}}, {"properties": []}, ["a", ["b"]]),
    *({"env": ["A_TOKEN"]}, {"env": ["1"]}, {"env": "A"}, {"env": []}, {"env": ["A" * 129]}, {"net": True}),
    *(
        "unconfined",
        {"net": "any"},
        {"net": ["*.a.org:80"]},
        {"net": ["a"]},
        {"uses": ["cache"]},
        {"uses": ["x"]},
    ),
    *({"project": "read", "require": "cell"}, {"project": "all"}, {"read": ["/srv"]}, {"read": ["srv"]}),
    *({"write": ["~/a"]}, {"calls": ["demo/*"]}, {"calls": ["*"]}, {"secrets": ["A"]}, {"env": ["A", "A"]}),
    *({"name": "pdf", "script": "a.py"}, {"script": "a.py"}, {"name": "PDF", "script": "a"}, {"script": ""}),
    *({"title": "x"}, {"title": 1}, {"title": "x" * 4097}, *({hint: True} for hint in HINTS)),
    *({hint: "yes"} for hint in HINTS),
    *({"min_version": "1.0"}, {"max_version": "one"}, {"min_version": None}, {"max_version": 1}),
    *TOOL_TYPES,
    *({"prepare": "python"}, {"prepare": "python", "keep": 16, "seconds": 600}, {"prepare": "cold"}),
    *(
        {"prepare": "python", "preload": names}
        for names in ([], ["numpy", "a.b_c"], ["a b"], ["../a"], "a", [1])
    ),
    *(
        {"keep": 1},
        *({"prepare": "python", name: value} for name in ("keep", "seconds") for value in (0, True, 601)),
    ),
    {"prepare": "python", "preload": ["json"]},
    *(
        {"cpu": 2},
        {"cpu": 0.5},
        {"cpu": 0},
        {"cpu": True},
        {"cpu": 1025},
        {"gpu": 1},
        {"gpu": 0},
        {"gpu": 1.5},
    ),
    *({"memory": "4GiB"}, {"memory": "4"}, {"memory": 4}, {"cpu": 1, "disk": 1}, {"required": True}, "none"),
    *({"labels": {"a": "b"}}, {"labels": {"a": 1}}, {"labels": "a"}, {"required": "yes"}, "tree", "shared:x"),
    *("demo/hello", "/a", "a/", "a//b", "../a", "a" * 65, "a" * 64, "__pycache__", "a/__pycache__/b"),
    *("a__pycache__", "/".join("a" * 8), "/".join("a" * 9), "-a", "a.b", "ä"),
    *("1", "1.0", "1.2.3", "0.0.0", "1.0.0-beta.1", "2026.1", "1!2.0+local", "1.0rc1", "1.0.dev1", "1.0-1"),
    *("latest", " 1.0", "1.0\n", "1.0/../x", "v1.0", "1.0RC1", "1.0.post2.dev3", "1.0a", "1.0-", "1..0"),
    *("1.0+a.b-c_d", "1.0+", "1" * 64, "1" * 65, "1.0-preview-1", "1.0.rev", "1.0a1b2", "!1", "1.0c1"),
]


def fits(value: Any, schema: Any) -> bool:
    return validate_parameters(value, schema).valid


def passes(name: str, value: Any) -> bool:
    """Whether the check of a field finds nothing wrong with a value."""
    try:
        parse_metadata(item(f"{name}: {json.dumps(value)}\n", ".yaml"))
    except RyeError as error:
        begins = tuple(f"{name}{each}" for each in (": ", ".", "["))
        return not any(issue["message"].startswith(begins) for issue in error.details["issues"])
    return True


def test_there_is_a_schema_for_every_field_of_the_table() -> None:
    assert set(FIELD_SCHEMAS) == {*FIELDS, "examples"}
    assert {*FIELDS, "examples", "author"} == set(PYTHON_NAMES.values())


@pytest.mark.parametrize("name", FIELDS)
def test_a_schema_accepts_what_the_check_accepts(name: str) -> None:
    for value in ANYTHING:
        accepted = fits({"x": value}, {"properties": {"x": FIELD_SCHEMAS[name]}})
        assert accepted is passes(name, value), (name, value)


def test_the_values_are_such_that_every_field_has_both() -> None:
    for name in FIELDS:
        assert {passes(name, value) for value in ANYTHING} == {True, False}, name


def said_in(path: Path) -> dict[str, Any]:
    """What a file says about itself, as it would stand in YAML."""
    name = path.name.removesuffix(".txt")
    extension = name[name.rindex(".") :] if "." in name else ""
    content = path.read_text(encoding="utf-8").replace("@NAME@", "hello")
    metadata = parse_metadata(item(content, extension, type_of(path)))
    said = {name: getattr(metadata, name) for name in FIELDS} | {"tags": list(metadata.tags)}
    said |= {name: value.canonical() for name, value in said.items() if isinstance(value, Permissions)}
    if isinstance(warm := said["warm"], Warm):
        said["warm"] = {**asdict(warm), "preload": list(warm.preload)}
    without = {name for name, value in said.items() if value is None}
    if metadata.declares_executor:
        without -= {"executor_id"}
    return {name: value for name, value in said.items() if name not in without} | dict(metadata.extra)


def type_of(path: Path) -> ItemType:
    if not path.name.removesuffix(".txt").endswith(".md"):
        return ItemType.TOOL
    return ItemType.KNOWLEDGE if "knowledge" in str(path) else ItemType.DIRECTIVE


def kind_of(path: Path, said: dict[str, Any]) -> str:
    tool_type = said.get("tool_type")
    return str(tool_type if tool_type in ("runtime", "primitive") else type_of(path))


def shipped() -> list[Path]:
    below = [*SYSTEM.rglob("*"), *TEMPLATES.iterdir()]
    return [path for path in below if path.is_file() and path.suffix not in (".json", ".pyc", ".in")]


def test_everything_that_is_shipped_fits() -> None:
    """As few as the files beside tools that say nothing about themselves: those fit everything."""
    seen = set()
    for path in shipped():
        said = said_in(path)
        kind = kind_of(path, said)
        seen.add(kind)
        found = validate_parameters(said, metadata_schema(kind))
        assert found.valid, (path, [str(error) for error in found.errors])
    assert seen == set(SCHEMA_KINDS)


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("tool", {"version": 1.0}),
    ("tool", {"tool_type": "spell"}),
    ("tool", {"tool_type": "http", "executor_id": None}),
    ("runtime", {"tool_type": "runtime"}),
    ("primitive", {"tool_type": "primitive", "executor_id": "a/b"}),
    ("primitive", {"tool_type": "primitive"}),
    ("tool", {"examples": [{"name": "Ada"}]}),
    ("tool", {"examples": [{"parameters": {}, "expect": {}}]}),
    ("tool", {"examples": [{"parameters": {}, "expect": {"data": 1, "code": "timeout"}}]}),
    ("tool", {"examples": [{"parameters": {}, "expect": {"code": "oops"}}]}),
    ("tool", {"examples": [{"parameters": {}, "more": 1}]}),
    ("directive", {"executor_id": "a/b"}),
    ("knowledge", {"permissions": {}}),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_would_not_be_signed_does_not_fit(number: int) -> None:
    kind, values = WRONG[number]
    assert not fits(values, metadata_schema(kind))
    file_type = ItemType(kind) if kind in ("directive", "knowledge") else ItemType.TOOL
    text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in values.items())
    content = f"---\n{text}---\n" if file_type is not ItemType.TOOL else text
    with pytest.raises(RyeError):
        examine(item(content, ".yaml" if file_type is ItemType.TOOL else ".md", file_type))


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "executor_id"])
def test_nothing_is_the_same_as_null(name: str) -> None:
    assert fits({name: None}, metadata_schema("tool"))
    if name != "tool_type":
        parse_metadata(item(f"{name}: null\n", ".yaml"))


def test_fields_of_tools_alone_are_forbidden_in_texts_even_as_null() -> None:
    refused = set()
    for name in FIELDS:
        try:
            parse_metadata(item(f"---\n{name}: null\n---\n", ".md", ItemType.DIRECTIVE))
        except RyeError:
            refused.add(name)
        assert fits({name: None}, metadata_schema("directive")) is (name not in refused), name
    assert {"tool_type", "executor_id"} < refused < set(FIELDS)


def test_there_is_no_schema_of_anything_else() -> None:
    with pytest.raises(ValueError, match="expected one of tool, "):
        metadata_schema("spell")
