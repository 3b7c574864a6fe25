"""What a schema says is there by default is filled in, into a copy."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lilux.primitives.errors import ConfigurationError, ValidationError
from lilux.schemas import apply_defaults, validate_parameters

TIMEOUT = {"properties": {"timeout": {"type": "integer", "default": 300}}}


@pytest.mark.parametrize(
    ("schema", "given", "filled"),
    [
        (TIMEOUT, {}, {"timeout": 300}),
        (TIMEOUT, {"timeout": 5}, {"timeout": 5}),
        (TIMEOUT, {"timeout": None}, {"timeout": None}),
        (TIMEOUT, {"other": 1}, {"other": 1, "timeout": 300}),
        ({"properties": {"a": {"default": None}}}, {}, {"a": None}),
        ({"properties": {"a": {"default": False}}}, {}, {"a": False}),
        ({"properties": {"a": {}, "b": True}}, {}, {}),
        # objects inside
        ({"properties": {"a": TIMEOUT}}, {"a": {}}, {"a": {"timeout": 300}}),
        ({"properties": {"a": TIMEOUT}}, {}, {}),
        ({"properties": {"a": {"default": {}, **TIMEOUT}}}, {}, {"a": {"timeout": 300}}),
        ({"properties": {"a": {"default": {"timeout": 1}, **TIMEOUT}}}, {}, {"a": {"timeout": 1}}),
        ({"additionalProperties": TIMEOUT}, {"x": {}}, {"x": {"timeout": 300}}),
        (
            {"properties": {"x": {}}, "additionalProperties": TIMEOUT},
            {"x": {}, "y": {}},
            {"x": {}, "y": {"timeout": 300}},
        ),
        ({"patternProperties": {"^x": TIMEOUT}}, {"x": {}, "y": {}}, {"x": {"timeout": 300}, "y": {}}),
        # lists inside
        (
            {"properties": {"l": {"items": TIMEOUT}}},
            {"l": [{}, {"timeout": 1}, 7]},
            {"l": [{"timeout": 300}, {"timeout": 1}, 7]},
        ),
        ({"items": TIMEOUT}, [{}, [{}]], [{"timeout": 300}, [{}]]),
        (
            {"prefixItems": [{}, TIMEOUT], "items": {"properties": {"z": {"default": 0}}}},
            [{}, {}, {}],
            [{}, {"timeout": 300}, {"z": 0}],
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "items": [TIMEOUT],
                "additionalItems": TIMEOUT,
            },
            [{}, {}],
            [{"timeout": 300}] * 2,
        ),
        # behind references and allOf
        ({"$ref": "#/$defs/t", "$defs": {"t": TIMEOUT}}, {}, {"timeout": 300}),
        ({"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"default": 3}}}, {}, {"a": 3}),
        (
            {"properties": {"a": {"$ref": "#/$defs/n", "default": 4}}, "$defs": {"n": {"default": 3}}},
            {},
            {"a": 4},
        ),
        ({"properties": {"a": {"allOf": [{}, {"default": 5}]}}}, {}, {"a": 5}),
        (
            {"allOf": [TIMEOUT, {"properties": {"retries": {"default": 1}}}]},
            {},
            {"timeout": 300, "retries": 1},
        ),
        (
            {"properties": {"next": {"$ref": "#"}, "n": {"default": 0}}},
            {"next": {"next": {}}},
            {"next": {"next": {"n": 0}, "n": 0}, "n": 0},
        ),
        # what only may apply fills in nothing
        ({"anyOf": [TIMEOUT]}, {}, {}),
        ({"oneOf": [TIMEOUT]}, {}, {}),
        ({"if": True, "then": TIMEOUT}, {}, {}),
        ({"dependentSchemas": {"a": TIMEOUT}}, {"a": 1}, {"a": 1}),
        # what is no object or list stays
        (TIMEOUT, None, None),
        (TIMEOUT, "x", "x"),
        (TIMEOUT, [], []),
        ({"default": 3}, None, None),
        (True, {"a": 1}, {"a": 1}),
        (False, {"a": 1}, {"a": 1}),
    ],
)
def test_defaults_are_filled_in(schema: Any, given: Any, filled: Any) -> None:
    before = copy.deepcopy((schema, given))
    assert apply_defaults(given, schema) == filled
    assert (schema, given) == before


def test_the_copy_shares_nothing_with_what_was_given_or_with_the_schema() -> None:
    schema: dict[str, Any] = {"properties": {"list": {"default": [{"deep": []}]}}}
    given: dict[str, Any] = {"mine": [{"deep": []}]}
    first = apply_defaults(given, schema)
    first["list"][0]["deep"].append(1)
    first["mine"][0]["deep"].append(1)
    assert given == {"mine": [{"deep": []}]}
    assert apply_defaults(given, schema) == {"mine": [{"deep": []}], "list": [{"deep": []}]}
    assert schema == {"properties": {"list": {"default": [{"deep": []}]}}}


def test_values_that_were_filled_in_are_then_validated_like_others() -> None:
    schema = {"properties": {"a": {"type": "integer", "default": "x"}}}
    assert [error.field for error in validate_parameters(apply_defaults({}, schema), schema).errors] == ["/a"]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"c": {"$ref": "#", "default": {}}}},
        {"default": {}, "properties": {"c": {"$ref": "#"}}},
        {"properties": {"c": {"default": [{}], "items": {"$ref": "#"}}}},
        {"$ref": "#", "default": 1},
        {"allOf": [{"$ref": "#"}], "properties": {"a": {"default": 1}}},
    ],
)
def test_defaults_that_never_end_are_an_error_of_the_schema(schema: Any) -> None:
    with pytest.raises(ConfigurationError, match="come to an end"):
        apply_defaults({}, schema)


def test_a_default_behind_a_reference_to_itself_does_not_count() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"$ref": "#/properties/a"}, "b": {"default": 1}}}
    assert apply_defaults({}, schema) == {"b": 1}


def test_a_wrong_schema_is_reported_here_too() -> None:
    with pytest.raises(ConfigurationError):
        apply_defaults({}, {"type": "strng"})


def test_what_cannot_be_looked_at_comes_back_as_it_is() -> None:
    value: list[Any] = []
    value.append(value)
    assert apply_defaults(value, TIMEOUT) is value
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"a": deep}
    assert apply_defaults(deep, TIMEOUT) is deep


def test_a_pattern_that_would_take_for_ever_ends_in_time() -> None:
    schema = {"patternProperties": {"^(a|aa)+$": TIMEOUT}}
    with pytest.raises(ValidationError, match="too hard"):
        apply_defaults({"a" * 20_000 + "!": {}}, schema)


def test_defaults_that_multiply_are_an_error_of_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lilux.schemas.schema_validator.VALUES_LIMIT", 1000)
    levels = {
        f"n{level}": {"properties": {name: {"$ref": f"#/$defs/n{level + 1}", "default": {}} for name in "ab"}}
        for level in range(60)
    }
    schema = {"$ref": "#/$defs/n0", "$defs": {**levels, "n60": {}}}
    with pytest.raises(ConfigurationError, match="at most 1000 values"):
        apply_defaults({}, schema)


@pytest.mark.thorough
def test_a_schema_that_grows_without_bound_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lilux.schemas._keywords.TIME_LIMIT_S", 1.5)
    steps = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
    definitions = {**steps, "a40": {}, "unused": {"default": 1}}
    for start in ({"$ref": "#/$defs/a0"}, {"properties": {"x": {"$ref": "#/$defs/a0"}}}):
        with pytest.raises(ValidationError, match=r"within 1\.5 s"):
            apply_defaults({}, {**start, "$defs": definitions})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)


@given(JSON, JSON)
def test_filling_in_twice_is_filling_in_once_and_changes_nothing_that_was_there(
    value: Any, default: Any
) -> None:
    schema = {
        "properties": {
            "a": {"default": default},
            "d": {"default": default, "properties": {"e": {"default": 1}}},
        }
    }
    before = copy.deepcopy(value)
    once = apply_defaults(value, schema)
    assert apply_defaults(once, schema) == once
    assert value == before
    if isinstance(value, dict):
        assert {name: once[name] for name in value} == value
