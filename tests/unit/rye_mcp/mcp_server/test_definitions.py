"""Arguments of calls: unknown ones are errors, JSON strings are understood, everything wrong is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lilux.schemas import apply_defaults, validate_parameters
from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.calls import CALLS
from rye_mcp.mcp_server.definitions import DEFINITIONS, check_arguments

EXECUTE = DEFINITIONS["execute"]


def refused(given: dict[str, Any]) -> RyeError:
    with pytest.raises(RyeError) as caught:
        check_arguments(EXECUTE, given)
    return caught.value


def test_defaults_are_filled_in() -> None:
    assert check_arguments(EXECUTE, {"item_id": "demo/hello"}) == {
        "item_id": "demo/hello",
        "item_type": "tool",
        "parameters": {},
        "dry_run": False,
        "async": False,
        "as_handle": False,
        "detail": False,
    }


@pytest.mark.parametrize("name", DEFINITIONS)
def test_defaults_are_those_of_the_schema_and_nobody_shares_them(name: str) -> None:
    definition = DEFINITIONS[name]
    given = dict.fromkeys(definition.required, "demo/hello")
    found = check_arguments(definition, given)
    assert found == apply_defaults(given, definition.input_schema)
    assert not any(
        found[name] is default for name, default in definition.defaults.items() if default in ({}, [])
    )


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("parameters", '{"a": [1, "{}"]}', {"a": [1, "{}"]}),
        ("dry_run", "true", True),
        ("timeout", "2.5", 2.5),
    ],
)
def test_a_json_string_is_understood_where_no_text_is_wanted(name: str, text: str, value: object) -> None:
    assert check_arguments(EXECUTE, {"item_id": "demo/hello", name: text})[name] == value


def test_a_json_string_is_understood_where_one_of_several_types_is_wanted() -> None:
    search = DEFINITIONS["search"]
    assert check_arguments(search, {"fuzzy": "true"})["fuzzy"] is True
    assert check_arguments(search, {"fuzzy": '{"max_distance": 2}'})["fuzzy"] == {"max_distance": 2}


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"params": {}}, "perhaps parameters instead of params"),
        ({"id": "a"}, "perhaps item_id instead of id"),
        (
            {"item-type": "tool", "dryrun": True},
            "perhaps dry_run instead of dryrun, item_type instead of item-type",
        ),
        ({"colour": "red"}, "leave out colour"),
    ],
)
def test_what_may_be_meant_by_an_unknown_argument_is_said(given: dict[str, Any], hint: str) -> None:
    assert refused(given).hint == hint


def test_only_the_first_of_very_many_unknown_arguments_are_compared_with_the_known_ones() -> None:
    assert refused({f"item_id{number}": "a" for number in range(1000)}).hint.count("instead of") == 10


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_argument_says_its_type(name: str) -> None:
    """Where it does not, some models are not given the tool at all, also when `enum` would do."""
    for argument, schema in DEFINITIONS[name].properties.items():
        assert all("type" in each for each in schema.get("anyOf", [schema])), argument


@pytest.mark.parametrize("name", DEFINITIONS)
def test_no_schema_has_several_types_in_one_list(name: str) -> None:
    """Clients that hand schemas on to models with a smaller dialect would refuse the tool."""
    definition = DEFINITIONS[name]
    for schema in _schemas([definition.input_schema, definition.output_schema]):
        assert isinstance(schema.get("type", ""), str), schema


def _schemas(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _schemas(each)


def test_text_stays_text_where_text_is_wanted() -> None:
    assert check_arguments(EXECUTE, {"item_id": '"demo"'})["item_id"] == '"demo"'


def test_an_unknown_argument_is_an_error_that_lists_the_known_ones() -> None:
    error = refused({"item_id": "demo/hello", "nme": 1})
    assert error.code == "unknown_argument"
    assert error.details["known"] == list(EXECUTE.properties)
    assert "nme" in error.message


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"item_id": 1, "item_type": "thing", "timeout": 0}, ["/item_id", "/item_type", "/timeout"]),
        ({"item_id": "x", "parameters": "no JSON"}, ["/parameters"]),
        ({"item_id": "x", "parameters": "[" * 100_000}, ["/parameters"]),
        ({"item_id": "x", "dry_run": "yes"}, ["/dry_run"]),
        ({"item_id": "x", "parameters": None}, ["/parameters"]),
    ],
)
def test_everything_that_is_wrong_is_reported(given: dict[str, Any], paths: list[str]) -> None:
    error = refused(given)
    assert error.code == "invalid_parameters"
    assert sorted(issue["path"] for issue in error.details["issues"]) == paths


def test_every_tool_has_a_call_and_a_schema_that_is_one() -> None:
    assert set(CALLS) == set(DEFINITIONS)
    for definition in DEFINITIONS.values():
        validate_parameters({}, definition.input_schema)
        assert set(definition.required) <= set(definition.properties)
        assert definition.input_schema["additionalProperties"] is False
