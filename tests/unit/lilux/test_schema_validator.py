"""Values are compared with a JSON Schema, every error has its place, and nothing takes for ever."""

from __future__ import annotations

import copy
import doctest
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lilux.schemas
from lilux.primitives.errors import ConfigurationError, ValidationError
from lilux.schemas import ValidationResult, examine, schema_validator, validate_parameters
from lilux.schemas._compiled import CACHED_SCHEMAS, LARGE_CHARACTERS, _compile_small, _kept, compile_schema

DEPTH_LIMIT = 64
CATASTROPHE = "^(a|aa)+$"
VICTIM = "a" * 20_000 + "!"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"
NULL: dict[str, Any] = {"type": "null"}
NAMES_ITS_DRAFT = {"$schema": DRAFT_2020_12, "pattern": CATASTROPHE}
KNOWS_A = {"properties": {"a": True}}
CLOSED = {"unevaluatedProperties": False}
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
        }
    },
}


def errors(parameters: Any, schema: Any) -> list[tuple[str, str]]:
    result = validate_parameters(parameters, schema)
    assert result.valid is (not result.errors)
    return [(error.field, error.error) for error in result.errors]


def wrong_schema(schema: Any) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        validate_parameters({}, schema)
    return caught.value


def test_the_public_names_are_those_listed() -> None:
    own = {
        name
        for name, item in vars(schema_validator).items()
        if getattr(item, "__module__", "").endswith("validator") and not name.startswith("_")
    }
    assert own == set(schema_validator.__all__) == set(lilux.schemas.__all__)


# --- what fits, and what does not -----------------------------------------------------


def test_values_that_fit_are_valid_and_have_no_errors() -> None:
    result = validate_parameters({"name": "x"}, {"required": ["name"]})
    assert result == ValidationResult(valid=True, errors=[])


@pytest.mark.parametrize(
    ("schema", "value", "place", "sentence"),
    [
        ({"type": "string"}, 7, "", "expected text, found 7"),
        ({"type": ["string", "null"]}, True, "", "expected text or null, found true"),
        ({"type": "integer"}, 1.5, "", "expected a whole number, found 1.5"),
        ({"type": "object"}, [1], "", "expected an object, found an array"),
        ({"type": "array"}, {}, "", "expected an array, found an object"),
        ({"enum": ["a", 1, None]}, "b", "", 'expected one of "a", 1, null, found "b"'),
        ({"const": {"a": 1}}, 2, "", 'expected {"a": 1}, found 2'),
        ({"minimum": 5}, 3, "", "expected at least 5, found 3"),
        ({"maximum": 5}, 6, "", "expected at most 5, found 6"),
        ({"exclusiveMinimum": 5}, 5, "", "expected more than 5, found 5"),
        ({"exclusiveMaximum": 5}, 5, "", "expected less than 5, found 5"),
        ({"multipleOf": 3}, 7, "", "expected a multiple of 3, found 7"),
        ({"minLength": 3}, "é", "", "expected at least 3 characters, found 1 character"),
        ({"maxLength": 1}, "ab", "", "expected at most 1 character, found 2 characters"),
        ({"pattern": "^a+$"}, "b", "", 'expected text that matches "^a+$", found "b"'),
        ({"format": "date"}, "2026-02-30", "", 'expected text in the format "date", found "2026-02-30"'),
        ({"minItems": 1}, [], "", "expected at least 1 item, found 0 items"),
        ({"maxItems": 1}, [1, 2], "", "expected at most 1 item, found 2 items"),
        ({"uniqueItems": True}, [1, 1.0], "", "expected items that differ from each other, found an array"),
        ({"contains": {"type": "null"}}, [1], "", "expected an item of the kind that the schema asks for"),
        ({"minProperties": 1}, {}, "", "expected at least 1 property, found 0 properties"),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, "", "expected at most 1 property, found 2 properties"),
        ({"required": ["a"]}, {}, "/a", "expected a value, found nothing"),
        (
            {"dependentRequired": {"a": ["b"]}},
            {"a": 1},
            "/b",
            'expected a value, since "a" is given, found nothing',
        ),
        (
            {"properties": {"a": {}, "b": {}}, "additionalProperties": False},
            {"c": 1},
            "/c",
            "expected only a, b here, found 1",
        ),
        ({"additionalProperties": False}, {"c": 1}, "/c", "expected no such property, found 1"),
        ({"additionalProperties": {"type": "null"}}, {"c": 1}, "/c", "expected null, found 1"),
        ({"properties": {"a": True}, "unevaluatedProperties": False}, {"c": 1}, "/c", "expected only a here"),
        ({"unevaluatedProperties": {"type": "null"}}, {"c": 1}, "/c", "expected null, found 1"),
        ({"patternProperties": {"^x": {"type": "null"}}}, {"x1": 1}, "/x1", "expected null, found 1"),
        (
            {"propertyNames": {"maxLength": 1}},
            {"ab": 1},
            "",
            "expected at most 1 character, found 2 characters",
        ),
        ({"properties": {"a": False}}, {"a": 1}, "/a", "expected nothing here, found 1"),
        ({"items": {"type": "null"}}, [None, 1], "/1", "expected null, found 1"),
        ({"prefixItems": [True, {"type": "null"}]}, [1, 2], "/1", "expected null, found 2"),
        ({"prefixItems": [True], "items": False}, [1, 2], "", "expected at most 1 item, found 2 items"),
        ({"unevaluatedItems": False}, [1], "", "expected no further items, found 1 item"),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "items": [True],
                "additionalItems": False,
            },
            [1, 2],
            "",
            "expected no further items, found 2 items",
        ),
        (
            {"not": {"type": "null"}},
            None,
            "",
            "expected something else than what the schema excludes, found null",
        ),
        ({"if": True, "then": {"type": "null"}}, 1, "", "expected null, found 1"),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, "/b", "expected a value, found nothing"),
        (
            {"anyOf": [{"type": "null"}, {"minimum": 5, "type": "number"}]},
            "x",
            "",
            "expected null or a number",
        ),
        ({"anyOf": [{"const": number} for number in range(5)]}, 9, "", "expected one of 5 forms, found 9"),
        (
            {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
            3,
            "",
            "expected exactly one of the forms to fit, found 3",
        ),
        ({"oneOf": [False, False]}, 3, "", "expected nothing here, found 3"),
        (
            {"anyOf": [{"type": "null"}, {"properties": {"k": {"type": "null"}}}]},
            {"k": 1},
            "",
            "expected one of 2 forms (the closest one, at /k: expected null, found 1), found an object",
        ),
        (False, 1, "", "expected nothing here, found 1"),
    ],
)
def test_each_keyword_says_what_it_expected_and_what_it_found(
    schema: Any, value: Any, place: str, sentence: str
) -> None:
    found = errors(value, schema)
    assert [field for field, _ in found] == [place]
    assert sentence in found[0][1]
    if "$schema" in str(schema):
        return  # which stands at the top of a schema, and speaks for all of it
    inside = errors({"a/b~c": value}, {"properties": {"a/b~c": schema}})
    assert [field for field, _ in inside] == [f"/a~1b~0c{place}"]


def test_every_error_is_reported_and_has_its_place() -> None:
    schema = {
        "properties": {"port": {"type": "integer", "maximum": 10}, "tags": {"items": {"type": "string"}}},
        "required": ["name", "id"],
        "additionalProperties": False,
    }
    found = errors({"port": 99, "tags": ["x", 1, "y", 2], "more": 1, "other": 2}, schema)
    assert [field for field, _ in found] == ["/id", "/more", "/name", "/other", "/port", "/tags/1", "/tags/3"]


def test_an_error_is_an_item_with_field_error_and_value() -> None:
    (error,) = validate_parameters({"a": 7}, {"properties": {"a": {"type": "string"}}}).errors
    assert error == ValidationError(field="/a", error="expected text, found 7", value=7)


def test_the_order_does_not_depend_on_the_order_of_names() -> None:
    schema: Any = {
        "additionalProperties": {"type": "null"},
        "properties": {"b": {"type": "null"}, "a": {"type": "null", "const": 3}},
    }
    backwards: Any = {
        "properties": dict(reversed(schema["properties"].items())),
        "additionalProperties": {"type": "null"},
    }
    values = {"b": 1, "a": 1, "d": 1, "c": 1}
    places = [field for field, _ in errors(values, schema)]
    assert places == ["/a", "/a", "/b", "/c", "/d"]
    assert [field for field, _ in errors(dict(reversed(values.items())), backwards)] == places


def test_list_positions_are_ordered_as_numbers() -> None:
    assert [field for field, _ in errors([1] * 12, {"items": {"type": "null"}})] == [
        f"/{n}" for n in range(12)
    ]


def test_the_same_error_is_told_once() -> None:
    assert len(errors(1, {"allOf": [{"type": "null"}] * 3})) == 1


def test_more_errors_than_anybody_reads_are_cut() -> None:
    found = errors([1] * 100_000, {"items": {"type": "null"}})
    assert len(found) == schema_validator.ERRORS_LIMIT + 1
    assert found[-1] == ("", "expected fewer errors, found more than 1000")


@pytest.mark.parametrize(
    ("schema", "value", "valid"),
    [
        (True, {"anything": 1}, True),
        (False, {}, False),
        ({}, None, True),
        ({"type": "integer"}, 1.0, True),
        ({"type": "integer"}, True, False),
        ({"enum": [1]}, True, False),
        ({"enum": [1]}, 1.0, True),
        ({"multipleOf": 0.1}, 0.3, True),
        ({"multipleOf": 0.01}, 4.35, True),
        ({"multipleOf": 0.1}, 0.35, False),
        ({"multipleOf": 1e-8}, 12391239123, True),
        ({"multipleOf": 0.5}, 1e308, True),
        ({"multipleOf": 0.5}, 10**400, True),
        ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}], True),
        ({"uniqueItems": True}, [{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ({"uniqueItems": True}, [[True], [1]], True),
        ({"uniqueItems": False}, [1, 1], True),
        ({"minLength": 2}, "😀", False),
        ({"pattern": "b"}, "abc", True),
        ({"pattern": "^b"}, 7, True),
        ({"format": "date"}, 7, True),
        ({"format": "no-such-format"}, "x", True),
        # unevaluatedProperties sees through everything that applies, and only through that
        ({"allOf": [KNOWS_A], **CLOSED}, {"a": 1}, True),
        ({"anyOf": [{"properties": {"a": NULL}}, True], **CLOSED}, {"a": 1}, False),
        ({"$ref": "#/$defs/x", "$defs": {"x": KNOWS_A}, **CLOSED}, {"a": 1}, True),
        ({"if": {"required": ["a"]}, "then": KNOWS_A, **CLOSED}, {"a": 1}, True),
        ({"if": {"required": ["b"]}, "then": KNOWS_A, **CLOSED}, {"a": 1}, False),
        ({"if": {"properties": {"a": {"const": 2}}}, "else": KNOWS_A, **CLOSED}, {"a": 1}, True),
        ({"if": {"properties": {"a": {"const": 1}}}, **CLOSED}, {"a": 1}, True),
        ({"dependentSchemas": {"a": KNOWS_A}, **CLOSED}, {"a": 1}, True),
        ({"dependentSchemas": {"b": KNOWS_A}, **CLOSED}, {"a": 1}, False),
        ({"patternProperties": {"^x": True}, **CLOSED}, {"x1": 1}, True),
        ({"allOf": [{"additionalProperties": True}], **CLOSED}, {"a": 1}, True),
        ({"not": {**KNOWS_A, "required": ["b"]}, **CLOSED}, {"a": 1}, False),
        ({"additionalProperties": False, "patternProperties": {"^x": True}}, {"x1": 1}, True),
        # the older draft, when a schema says so
        ({"$schema": DRAFT_7, "items": [{"type": "null"}]}, [1], False),
        ({"$schema": DRAFT_7, "dependencies": {"a": ["b"]}}, {"a": 1}, False),
        ({"$schema": DRAFT_2020_12, "type": "null"}, 1, False),
    ],
)
def test_values_fit_by_the_rules_of_the_draft(schema: Any, value: Any, valid: bool) -> None:
    assert validate_parameters(value, schema).valid is valid


# --- schemas that are themselves wrong ------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "field", "words"),
    [
        (None, "schema", "expected a schema (an object, true or false), found NoneType"),
        ([], "schema", "found list"),
        ("object", "schema", "found str"),
        ({"type": "strng"}, "/type", '"string" or an array, found "strng"'),
        ({"properties": {"a": {"minLength": -1}}}, "/properties/a/minLength", "at least 0, found -1"),
        ({"required": "name"}, "/required", "expected an array"),
        ({"properties": []}, "/properties", "expected an object"),
        ({"properties": {"a": 7}}, "/properties/a", "found 7"),
        ({"items": [{}]}, "/items", "found an array"),
        ({"multipleOf": 0}, "/multipleOf", "more than 0"),
        ({"enum": {}}, "/enum", "expected an array"),
        ({"$ref": 7}, "/$ref", "expected text"),
        ({"pattern": "("}, "/pattern", "a regular expression (expected a closing parenthesis at character 2"),
        ({"patternProperties": {"[": True}}, "/patternProperties", "a regular expression"),
        ({"$defs": {"unused": {"pattern": "*"}}}, "/$defs/unused/pattern", "something to repeat"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "/$schema", "draft-03"),
        ({"$schema": 7}, "/$schema", "found 7"),
        ({"$ref": "#/$defs/gone"}, "/$ref", "expected a reference to a place in the schema"),
        ({"properties": {"a": {"$ref": "#nowhere"}}}, "/properties/a/$ref", "found '#nowhere'"),
        ({"$dynamicRef": "#nowhere"}, "/$dynamicRef", "found '#nowhere'"),
        ({"$ref": "#/x", "x": {"type": 7}}, "/$ref/type", "found 7"),
        ({"$ref": "#/x", "x": {"$ref": "http://a.example/"}}, "/$ref/$ref", "found 'http://a.example/'"),
        (
            {"$ref": "#/x", "x": {"properties": {"y": {"$ref": "#/z"}}}, "z": []},
            "/$ref/properties/y/$ref",
            "array",
        ),
        ({"const": float("nan")}, "schema", "a schema that JSON can hold"),
        ({"default": {1, 2}}, "schema", "a schema that JSON can hold"),
        ({"x": "y" * 2_000_000}, "schema", "at most 1048576 characters"),
    ],
)
def test_a_schema_that_is_itself_wrong_is_reported_as_such(schema: Any, field: str, words: str) -> None:
    error = wrong_schema(schema)
    assert error.field == field
    assert words in str(error)


def test_all_issues_of_a_schema_are_reported_at_once() -> None:
    message = str(wrong_schema({"type": 7, "properties": {"a": {"minimum": "x"}, "b": {"pattern": "("}}}))
    assert [
        place for place in ("/type", "/properties/a/minimum", "/properties/b/pattern") if place not in message
    ] == []


def test_a_wrong_schema_is_wrong_whatever_the_values_are() -> None:
    values: list[Any] = [{}, None, float("nan")]
    for value in values:
        with pytest.raises(ConfigurationError):
            validate_parameters(value, {"type": "strng"})


def test_a_schema_that_holds_itself_in_memory_is_wrong() -> None:
    schema: dict[str, Any] = {}
    schema["properties"] = {"a": schema}
    assert "Circular" in str(wrong_schema(schema))


@pytest.mark.parametrize("depth", [DEPTH_LIMIT, 1000, 100_000])
def test_a_schema_that_is_too_deep_is_wrong(depth: int) -> None:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"not": {"not": schema}}
    assert wrong_schema(schema).field == "schema"


# --- references -----------------------------------------------------------------------


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize("scheme", ["http", "https", "file"])
def test_a_remote_reference_is_an_error_and_never_fetched(scheme: str, keyword: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"{scheme}://127.0.0.1:{server.getsockname()[1]}/schema.json"
        schema = {"properties": {"a": {keyword: address}}}
        assert wrong_schema(schema).field == f"/properties/a/{keyword}"
        with pytest.raises(BlockingIOError):  # who had asked would be in the queue by now
            server.accept()


def test_references_to_the_drafts_themselves_are_known() -> None:
    schema = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    assert validate_parameters({"type": "object"}, schema).valid
    assert not validate_parameters({"type": "strng"}, schema).valid


def test_references_by_anchor_and_identifier_are_followed() -> None:
    schema = {
        "$id": "https://example.com/root",
        "properties": {"a": {"$ref": "#name"}, "b": {"$ref": "other"}},
        "$defs": {"x": {"$anchor": "name", "type": "null"}, "y": {"$id": "other", "type": "null"}},
    }
    assert [field for field, _ in errors({"a": 1, "b": 1}, schema)] == ["/a", "/b"]


def test_a_schema_may_refer_to_itself() -> None:
    tree = {"value": 1, "children": [{"value": 2, "children": []}, {"value": "x"}]}
    assert errors(tree, TREE) == [("/children/1/value", 'expected a whole number, found "x"')]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}},
    ],
)
def test_a_reference_back_for_the_same_value_is_an_error_of_the_schema(schema: Any) -> None:
    assert "comes to an end" in str(wrong_schema(schema))


# --- kept validators ----------------------------------------------------------------------


def test_a_schema_is_checked_once_and_known_again_by_its_content() -> None:
    schema = {"properties": {"a": {"type": "string"}}}
    assert compile_schema(schema) is compile_schema(copy.deepcopy(schema))


def test_changing_a_schema_afterwards_does_not_change_what_is_kept() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"type": "string"}}}
    original = copy.deepcopy(schema)
    assert not validate_parameters({"a": 1}, schema).valid
    schema["properties"]["a"]["type"] = "integer"
    assert validate_parameters({"a": 1}, schema).valid
    assert not validate_parameters({"a": 1}, original).valid


def test_true_and_one_are_different_schemas() -> None:
    assert validate_parameters(1, {"const": 1}).valid
    assert not validate_parameters(1, {"const": True}).valid


def test_only_so_many_schemas_are_kept() -> None:
    for number in range(CACHED_SCHEMAS + 20):
        compile_schema({"const": number})
    assert _compile_small.cache_info().currsize == CACHED_SCHEMAS
    assert len(_kept) == CACHED_SCHEMAS
    compile_schema({"const": CACHED_SCHEMAS, "description": "x" * LARGE_CHARACTERS})
    assert max(map(len, _kept)) < LARGE_CHARACTERS


def test_what_plainly_fits_is_asked_before_anything_else_and_never_the_last_word() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["a"]}
    assert compile_schema(schema).fits({"a": 1})
    assert validate_parameters({"a": 1}, schema).valid
    assert [error.field for error in validate_parameters({}, schema).errors] == ["/a"]
    with pytest.raises(ConfigurationError):
        validate_parameters({}, {"type": "objekt"})


# --- anything at all ------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
KEYWORDS = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "required",
        "pattern",
        "format",
        "enum",
        "$ref",
        "anyOf",
        "not",
        "minimum",
        "if",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "multipleOf",
        "uniqueItems",
        "writeOnly",
    ]
)
SCHEMAS = st.recursive(
    st.booleans() | st.sampled_from([{"type": "string"}, {"$ref": "#"}, {"minimum": 3}, {"pattern": "^a"}]),
    lambda inner: st.dictionaries(
        KEYWORDS,
        inner | JSON | st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_size=4,
    ),
    max_leaves=8,
)


@given(JSON, SCHEMAS)
def test_any_value_and_any_schema_give_a_result_or_an_error_of_the_schema(value: Any, schema: Any) -> None:
    before = repr(value)
    try:
        result = validate_parameters(value, schema)
    except ConfigurationError:
        return
    assert result.valid is (not result.errors)
    assert repr(value) == before


def test_the_example_in_the_documentation_is_true() -> None:
    assert doctest.testmod(schema_validator).failed == 0


# --- everything at once ---------------------------------------------------------------


def test_an_examination_fills_compares_and_names_at_once() -> None:
    schema = {
        "properties": {"a": {"default": 1}, "secret": {"items": {"writeOnly": True}}},
        "patternProperties": {"^x-": {}},
    }
    found = examine({"secret": ["s"], "x-1": 0, "other": 0}, schema)
    assert found.values == {"a": 1, "secret": ["s"], "x-1": 0, "other": 0}
    assert not found.errors
    assert found.described == {"a", "secret"}
    assert found.undescribed == {"other"}
    assert found.hidden == {"secret"}
    assert found.hidden_paths == {("secret", 0)}


def test_an_examination_of_what_does_not_fit_has_the_errors_of_a_validation() -> None:
    schema = {"properties": {"a": {"type": "integer"}}, "required": ["b"]}
    assert examine({"a": "x"}, schema).errors == validate_parameters({"a": "x"}, schema).errors


@pytest.mark.parametrize("keyword", ["additionalProperties", "unevaluatedProperties"])
def test_additional_properties_describe_all_others(keyword: str) -> None:
    assert examine({"other": 1}, {keyword: {"type": "integer"}}).undescribed == frozenset()


def test_names_are_found_behind_everything_that_may_apply() -> None:
    schema = {
        "$ref": "#/$defs/a",
        "anyOf": [{"properties": {"b": {}}}, {"allOf": [{"properties": {"c": {}}}]}],
        "if": {"properties": {"d": {}}},
        "dependentSchemas": {"e": {"properties": {"f": {}}}},
        "$defs": {"a": {"properties": {"a": {}}, "oneOf": [{"properties": {"g": {}}}]}},
    }
    assert examine({}, schema).described == {"a", "b", "c", "d", "f", "g"}


def test_a_pattern_of_names_that_takes_too_long_is_no_answer() -> None:
    assert examine({VICTIM: 1}, {"patternProperties": {CATASTROPHE: {}}}).errors
