"""Parameters: what fits passes as it is, and everything else is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.executor.configuration.parameters import MAX_BYTES, MAX_DEPTH, Parameters, check_parameters
from rye_mcp.items import ItemFile, ItemType, Space, SpaceName
from rye_mcp.metadata import ItemMetadata

FILE = ItemFile(
    Space(SpaceName.PROJECT, Path("/p/.ai")),
    ItemType.TOOL,
    "demo/tool",
    ".py",
    Path("/p/.ai/tools/demo/tool.py"),
    b"",
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def element(schema: Any = None, **fields: Any) -> ChainElement:
    return ChainElement(FILE, ItemMetadata("tool", config_schema=schema, **fields))


def refusal(values: Any, schema: Any = None, **fields: Any) -> RyeError:
    with pytest.raises(RyeError) as caught:
        check_parameters(element(schema, **fields), values)
    return caught.value


def places(error: RyeError) -> list[str]:
    return [issue["path"] for issue in error.details["issues"]]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


INTACT: dict[str, Any] = {
    "a number beyond 64 bits": 10**60,
    "a number that is not whole": 0.1 + 0.2,
    "a whole float": 1.0,
    "text of every kind": "é 𝄞 \u202e \x00 \x1b[0m \r\n ' \" \\ {tool_path} ${HOME} $(id)",
    "nothing": None,
    "inside each other": {"a": [{"b": [[], {}, None, True]}]},
    "five megabytes": "é" * (5 << 19),
    "no name": {"": {"": 0}},
}


@pytest.mark.parametrize("value", INTACT.values(), ids=INTACT)
@pytest.mark.parametrize("schema", [None, {"properties": {"x": {}}}], ids=["no schema", "a schema"])
def test_what_json_can_hold_arrives_intact(value: Any, schema: Any) -> None:
    checked = check_parameters(element(schema), {"x": value})
    assert checked.values == {"x": value}
    assert json.loads(checked.json) == {"x": value}
    assert type(json.loads(checked.json)["x"]) is type(value)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_whatever_it_is(values: dict[str, Any]) -> None:
    assert json.loads(check_parameters(element({}), values).json) == values


def test_no_parameters_are_an_empty_object() -> None:
    assert check_parameters(element(), None).json == "{}"


def test_defaults_are_filled_in_and_belong_to_the_json() -> None:
    schema = {
        "properties": {
            "count": {"type": "integer", "default": 3},
            "options": {"default": {}, "properties": {"deep": {"default": [1]}}},
        },
        "required": ["count"],
    }
    given_values: dict[str, Any] = {}
    checked = check_parameters(element(schema), given_values)
    assert checked.values == {"count": 3, "options": {"deep": [1]}}
    assert json.loads(checked.json) == checked.values
    assert given_values == {}


def test_every_error_is_reported_with_its_place() -> None:
    schema = {
        "properties": {"a": {"type": "integer"}, "b": {"items": {"type": "string"}}},
        "required": ["c"],
    }
    error = refusal({"a": "x", "b": ["ok", 1]}, schema)
    assert error.code == "invalid_parameters"
    assert places(error) == ["/a", "/b/1", "/c"]
    assert "demo/tool" in error.message
    assert error.where == str(FILE.path)
    assert error.details["item_id"] == "demo/tool"


def test_a_secret_stands_in_no_error_and_in_no_representation() -> None:
    schema = {"properties": {"password": {"type": "string", "minLength": 99, "writeOnly": True}}}
    error = refusal({"password": "s3cr3t-value"}, schema)
    assert "s3cr3t" not in json.dumps(error.as_dict())
    schema["properties"]["password"]["minLength"] = 1
    checked = check_parameters(element(schema), {"password": "s3cr3t-value", "other": "visible"})
    assert checked.secret == {"password"}
    assert "s3cr3t" not in repr(checked)


def test_a_secret_inside_an_object_makes_all_of_it_one() -> None:
    schema = {
        "properties": {"login": {"$ref": "#/$defs/login"}, "user": {"type": "string"}},
        "$defs": {"login": {"properties": {"word": {"writeOnly": True}}}},
    }
    checked = check_parameters(element(schema), {"login": {"word": "x"}, "user": "u"})
    assert checked.secret == {"login"}
    assert checked.secret_paths == {("login", "word")}


OTHERS: list[tuple[Any, bool]] = [
    ({"properties": {"a": {}}}, True),
    ({"properties": {"a": {}}, "additionalProperties": True}, False),
    ({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}, False),
    ({"properties": {"a": {}}, "patternProperties": {"^ot": {}}}, False),
    ({"properties": {"a": {}}, "patternProperties": {"^x": {}}}, True),
    ({"$ref": "#/$defs/d", "$defs": {"d": {"properties": {"other": {}}}}}, False),
    ({"anyOf": [{"properties": {"other": {}}}, {}]}, False),
    (None, True),
]


@pytest.mark.parametrize(("schema", "noticed"), OTHERS)
def test_what_is_not_declared_passes_with_a_notice(schema: Any, noticed: bool) -> None:
    checked = check_parameters(element(schema), {"other": 1})
    assert checked.values == {"other": 1}
    assert [notice.code for notice in checked.notices] == ["undeclared_parameters"] * noticed
    assert all("other" in notice.message for notice in checked.notices)


def test_unless_the_schema_refuses_it() -> None:
    assert places(refusal({"other": 1}, {"properties": {"a": {}}, "additionalProperties": False})) == [
        "/other"
    ]


def test_declared_are_the_names_that_the_schema_speaks_of_given_or_not() -> None:
    schema = {
        "properties": {"a": {}},
        "allOf": [{"properties": {"b": {}}}],
        "then": {"properties": {"c": {}}},
    }
    assert check_parameters(element(schema), {"z": 1}).declared == {"a", "b", "c"}


REFUSED: dict[str, tuple[Any, str]] = {
    "no number": ({"x": float("nan")}, "/x"),
    "infinite": ({"x": [1, float("inf")]}, "/x/1"),
    "a name that is a number": ({"x": {1: 2}}, "/x"),
    "half a character": ({"x": "a\ud800"}, "/x"),
    "half a character in a name": ({"x": [{"\udfff": 1}]}, "/x/0"),
    "bytes": ({"x": b"b"}, "/x"),
    "a list": ([1], ""),
    "a text": ("x", ""),
    "too deep": ({"x": nested(MAX_DEPTH)}, ""),
    "so deep that nobody could look": ({"x": nested(100_000)}, ""),
    "too long": ({"x": "a" * MAX_BYTES}, ""),
    "too long in UTF-8": ({"x": "é" * (MAX_BYTES // 2)}, ""),
}


@pytest.mark.parametrize("schema", [None, {}], ids=["no schema", "a schema"])
@pytest.mark.parametrize(("values", "place"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_object_of_json_within_limits_is_refused(values: Any, place: str, schema: Any) -> None:
    error = refusal(values, schema)
    assert error.code == "invalid_parameters"
    assert places(error)[0].startswith(place)
    json.dumps(error.as_dict()).encode()


@pytest.mark.parametrize("schema", [None, {}], ids=["no schema", "a schema"])
def test_the_limits_themselves_are_fine(schema: Any) -> None:
    frame = len('{"x":""}')
    check_parameters(element(schema), {"x": "a" * (MAX_BYTES - frame)})
    check_parameters(element(schema), {"x": nested(MAX_DEPTH - 1)})


def test_a_wrong_schema_is_the_fault_of_the_item() -> None:
    error = refusal({"a": 1}, {"properties": {"a": {"type": "strin"}}})
    assert error.code == "invalid_item"
    assert error.details["field"] == "config_schema"
    assert "demo/tool" in error.message


# --- a primitive by itself ---

PRIMITIVE: dict[str, Any] = {
    "tool_type": "primitive",
    "declares_executor": True,
    "schema": {
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "integer", "default": 300}},
        "required": ["command"],
    },
}


def primitive(values: Any) -> Parameters:
    fields = {**PRIMITIVE}
    return check_parameters(element(fields.pop("schema"), **fields), values)


def test_a_primitive_takes_a_configuration_and_parameters_for_its_templates() -> None:
    checked = primitive({"config": {"command": "echo"}, "params": {"message": "hello"}})
    assert checked.values == {
        "config": {"command": "echo", "timeout": 300},
        "params": {"message": "hello"},
    }
    assert primitive({"config": {"command": "echo"}}).values["params"] == {}
    schema = {"properties": {"token": {"writeOnly": True}}}
    given = {"config": {"token": "s"}}
    checked = check_parameters(element(schema, tool_type="primitive", declares_executor=True), given)
    assert checked.secret_paths == {("config", "token")}


WRONG: list[tuple[Any, list[str]]] = [
    ({}, ["/config"]),
    ({"command": "echo"}, ["/command", "/config"]),
    ({"config": {"command": "echo"}, "timeout": 3}, ["/timeout"]),
    ({"config": []}, ["/config"]),
    ({"config": {"command": "echo"}, "params": "x"}, ["/params"]),
    ({"config": {"command": 1}}, ["/config/command"]),
    ({"config": {}}, ["/config/command"]),
]


@pytest.mark.parametrize(("values", "expected"), WRONG)
def test_and_nothing_else(values: Any, expected: list[str]) -> None:
    with pytest.raises(RyeError) as caught:
        primitive(values)
    assert caught.value.code == "invalid_parameters"
    assert places(caught.value) == expected
