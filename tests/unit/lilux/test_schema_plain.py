"""What is quick about schemas is never less strict than what is thorough."""

from __future__ import annotations

from collections import OrderedDict
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from lilux.primitives.errors import ConfigurationError
from lilux.schemas import quick_validator, schema_validator
from lilux.schemas._plain import plainly

NAMES = st.sampled_from(["a", "b", "c"])
SMALL = st.integers(-2, 3)
NUMBERS = SMALL | st.sampled_from([0.5, 1.0, -0.0, 2.5])
SCALARS = st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "a", "bc", "ä"])
VALUES = st.recursive(
    SCALARS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(NAMES, inside, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])


def _schemas(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    sizes = st.integers(0, 3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
        "enum": st.lists(SCALARS, min_size=1, max_size=3),
        "const": SCALARS,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "properties": st.dictionaries(NAMES, inside, max_size=3),
        "additionalProperties": inside,
        "items": inside,
        "not": inside,
        **dict.fromkeys(["minItems", "maxItems", "minLength", "maxLength"], sizes),
        **dict.fromkeys(["minProperties", "maxProperties"], sizes),
        **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], NUMBERS),
        "title": st.just("a title"),
        "uniqueItems": st.booleans(),
    }
    chosen = st.sets(st.sampled_from(sorted(keywords)), max_size=3)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: keywords[name] for name in names}))


SCHEMAS = st.recursive(st.booleans(), _schemas, max_leaves=8)


@pytest.mark.thorough
@settings(max_examples=30 * settings().max_examples)
@given(SCHEMAS, VALUES)
def test_what_plainly_fits_is_found_nothing_wrong_with(schema: Any, value: Any) -> None:
    if plainly(schema)(value):
        assert list(Draft202012Validator(schema).iter_errors(value)) == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (True, {"a": 1}),
        ({}, None),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1, "b": "anything"}),
        ({"properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]}, {"a": None}),
        ({"additionalProperties": False, "properties": {"a": {"enum": ["x", 1]}}}, {"a": "x"}),
        ({"additionalProperties": {"type": "boolean"}, "properties": {"a": True}}, {"a": 1, "b": False}),
        ({"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 9}, "minItems": 1}, [0, 8.5]),
        ({"minLength": 1, "maxLength": 2, "const": "ab"}, "ab"),
        ({"minimum": 3, "exclusiveMaximum": 4}, "no number"),
    ],
)
def test_common_schemas_are_decided_at_once(schema: Any, value: Any) -> None:
    assert plainly(schema)(value)


ODD = st.sampled_from(["string", 7, -1, 1.5, True, None, [], ["a", "a"], {"type": "text"}, [1]])


def _objects(properties: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Schemas of objects, some with defaults, some with a keyword that is spelled wrong."""
    names = ["type", "enum", "required", "items", "minLength", "minimum", "title", "readOnly", "properties"]
    spoilt = st.dictionaries(st.sampled_from(names), ODD, max_size=1)
    defaults = st.dictionaries(NAMES, SCALARS, max_size=2)

    def with_defaults(found: dict[str, Any], wrong: dict[str, Any]) -> dict[str, Any]:
        inside = {
            name: {**(each if isinstance(each, dict) else {}), "default": found[name]}
            if name in found
            else each
            for name, each in properties.items()
        }
        return {"type": "object", "properties": inside, **wrong}

    return st.builds(with_defaults, defaults, spoilt)


@pytest.mark.thorough
@settings(max_examples=10 * settings().max_examples, deadline=None)
@given(
    st.dictionaries(NAMES, SCHEMAS, max_size=3).flatmap(_objects), st.dictionaries(NAMES, VALUES, max_size=3)
)
def test_what_is_examined_quickly_is_examined_alike(schema: Any, value: Any) -> None:
    assert _examined(quick_validator, schema, value) == _examined(schema_validator, schema, value)


def _examined(validator: Any, schema: Any, value: Any) -> Any:
    try:
        return validator.examine(value, schema)
    except ConfigurationError as exc:
        return exc.message, exc.field


class Number(IntEnum):
    """A number that is more than one."""

    ONE = 1


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"required": ["a"]}, OrderedDict(b=1)),
        ({"minimum": 3}, Number.ONE),
        ({"minimum": 3}, Decimal(1)),
        ({"type": "integer"}, 1.0),
        ({"type": "integer"}, True),
        ({"enum": [1]}, True),
        ({"pattern": "a"}, "a"),
        ({"properties": {"a": {"format": "date"}}}, {"a": "no date"}),
        ({"items": [{"type": "string"}]}, [1]),
        ({"$ref": "#/$defs/a", "$defs": {"a": False}}, 1),
        (False, 1),
    ],
)
def test_of_what_is_not_plain_nothing_is_said(schema: Any, value: Any) -> None:
    assert not plainly(schema)(value)
