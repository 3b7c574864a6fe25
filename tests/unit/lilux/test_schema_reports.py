"""What errors of a schema validation show of the values, and what they must not show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lilux.primitives.errors import ValidationError
from lilux.schemas import validate_parameters

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NULL: dict[str, Any] = {"type": "null"}


# --- values are shown in short, or not at all -----------------------------------------


def test_long_values_are_cut_in_sentence_and_value() -> None:
    (error,) = validate_parameters({"a": "x" * 10_000}, {"properties": {"a": {"const": "y" * 10_000}}}).errors
    assert len(error.error) < 300
    assert error.value == "x" * 200 + "… (10000 characters)"


def test_large_values_are_shown_in_part() -> None:
    large = {"list": [{"deep": {"deeper": {"deepest": 1}}}] * 100, **{f"k{n}": n for n in range(100)}}
    (error,) = validate_parameters(large, {"type": "null"}).errors
    assert len(json.dumps(error.value)) < 1000
    assert error.value["…"] == "… 91 more"
    assert error.value["list"][-1] == "… 90 more"
    assert error.value["list"][0] == {"deep": "{…}"}


def test_long_names_and_numbers_are_cut_too() -> None:
    (error,) = validate_parameters({"x" * 10_000: 10**3000}, {"additionalProperties": {"maximum": 5}}).errors
    assert len(error.field) < 300
    assert len(error.error) < 300
    assert len(str(error.value)) < 300


def test_what_is_no_json_is_shown_by_its_kind() -> None:
    (error,) = validate_parameters({"a": b"raw" * 1000}, {"properties": {"a": {"type": "string"}}}).errors
    assert error == ValidationError("/a", "expected text, found bytes", "<bytes>")


SECRET = "hunter2-s3cret"
HIDE: dict[str, Any] = {"writeOnly": True}
PW = {"pw": SECRET}
DEEP = {"deep": PW}
LIST = {"list": [SECRET]}
PW_SCHEMA = {**HIDE, **NULL}
SELF = {"$ref": "#/$defs/t"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"pw": {"type": "integer", **HIDE}}}, PW),
        ({"properties": {"pw": {**HIDE, "const": "x"}}}, PW),
        (
            {
                "properties": {
                    "pw": {**HIDE, "minLength": 100, "pattern": "^x", "format": "date", "enum": [1]}
                }
            },
            PW,
        ),
        ({"properties": {"pw": HIDE}, "maxProperties": 0}, PW),
        ({"properties": {"pw": HIDE}, "required": ["other"], "not": {}}, PW),
        ({"properties": {"pw": HIDE}, "allOf": [{"properties": {"pw": NULL}}]}, PW),
        ({"properties": {"pw": {"$ref": "#/$defs/pw", **NULL}}, "$defs": {"pw": HIDE}}, PW),
        ({"properties": {"pw": {**NULL, "allOf": [HIDE]}}}, PW),
        ({"properties": {"pw": {"anyOf": [{**NULL, **HIDE}, {"type": "integer"}]}}}, PW),
        ({"properties": {"pw": {"oneOf": [HIDE, True]}}}, PW),
        ({"anyOf": [{"properties": {"pw": {**HIDE, **NULL}}}, NULL]}, PW),
        # marked by a part that does not apply, or was given up early
        ({"if": {**NULL, "properties": {"pw": HIDE}}, "properties": {"pw": NULL}}, PW),
        ({"not": {"required": ["x"], "properties": {"pw": HIDE}}, "properties": {"pw": NULL}}, PW),
        ({"properties": {"pw": {"if": {**NULL, **HIDE}, "const": "x"}}}, PW),
        ({"patternProperties": {"^p": HIDE}, "additionalProperties": False, **NULL}, PW),
        ({"additionalProperties": {**HIDE, **NULL}}, PW),
        ({"unevaluatedProperties": {**HIDE, **NULL}}, PW),
        ({"dependentSchemas": {"pw": {"properties": {"pw": {**NULL, **HIDE}}}}}, PW),
        ({**NULL, **HIDE}, PW),
        ({"properties": {"deep": {**HIDE, "properties": {"pw": NULL}}}, "maxProperties": 0}, DEEP),
        ({"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"pw": PW_SCHEMA, "deep": SELF}}}}, DEEP),
        ({"properties": {"list": {"items": {**NULL, **HIDE}}}, "maxProperties": 0}, LIST),
        ({"properties": {"list": {"prefixItems": [{**NULL, **HIDE}]}}, "maxProperties": 0}, LIST),
        ({"properties": {"list": {"contains": {**NULL, **HIDE}}}, "maxProperties": 0}, LIST),
        ({"$schema": DRAFT_7, "properties": {"list": {"items": [PW_SCHEMA]}}}, LIST),
    ],
)
def test_values_marked_write_only_never_appear_in_errors(schema: Any, value: Any) -> None:
    result = validate_parameters(value, schema)
    assert not result.valid
    assert "hunter2" not in repr(result)


def test_what_is_not_marked_is_shown_beside_it() -> None:
    schema = {"properties": {"pw": HIDE, "user": {"type": "null"}}, "maxProperties": 0}
    whole, user = validate_parameters({"pw": SECRET, "user": "ada"}, schema).errors
    assert whole.value == {"pw": None, "user": "ada"}
    assert user.error == 'expected null, found "ada"'


def test_where_there_is_too_much_to_look_at_everything_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lilux.schemas.schema_validator.WALK_LIMIT", 3)
    schema = {"additionalProperties": {"items": {"type": "null", **HIDE}}}
    result = validate_parameters({"a": [SECRET], "b": [SECRET], "c": [SECRET]}, schema)
    assert not result.valid
    assert SECRET not in repr(result)
