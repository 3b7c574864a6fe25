"""Values of any shape are validated, or refused, and nothing takes for ever."""

from __future__ import annotations

import copy
import threading
import time
from typing import Any

import pytest

from lilux.primitives.errors import ConfigurationError
from lilux.schemas import validate_parameters
from lilux.schemas._keywords import current

DEPTH_LIMIT = 64
"""How many objects and lists of a value may stand inside each other."""

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


# --- values of any shape ----------------------------------------------------------------


def tree(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"value": "wrong"}
    for _ in range(levels):
        value = {"value": 1, "children": [value]}
    return value


def test_deep_values_are_checked_down_to_their_end() -> None:
    levels = DEPTH_LIMIT // 2 - 1
    assert errors(tree(levels), TREE) == [
        ("/children/0" * levels + "/value", 'expected a whole number, found "wrong"')
    ]


@pytest.mark.parametrize("levels", [DEPTH_LIMIT // 2 + 1, 1000, 50_000])
def test_values_that_are_too_deep_are_an_error_and_no_recursion_error(levels: int) -> None:
    assert errors(tree(levels), TREE) == [
        ("", f"expected at most {DEPTH_LIMIT} objects and lists inside each other, found more")
    ]


def test_a_value_that_holds_itself_is_an_error() -> None:
    value: list[Any] = [1]
    value.append(value)
    assert "inside each other" in errors(value, {})[0][1]


@pytest.mark.timeout(20)
def test_a_value_that_unfolds_without_end_is_an_error() -> None:
    value: list[Any] = [1]
    for _ in range(50):
        value = [value, value]
    assert errors(value, {"type": "array"}) == [("", "expected at most 1000000 values, found more")]


@pytest.mark.parametrize(
    ("value", "place", "words"),
    [
        (float("nan"), "/a/0", "a finite number"),
        (float("-inf"), "/a/0", "a finite number"),
        pytest.param(10**5000, "/a/0", "less than 4000 digits", id="digits"),
        ({1: 2}, "/a/0", "names are text"),
    ],
)
def test_what_json_cannot_hold_is_an_error_whatever_the_schema_says(
    value: Any, place: str, words: str
) -> None:
    found = errors({"a": [value]}, {"properties": {"a": {"items": {"minimum": 0, "maximum": 1}}}})
    assert [field for field, _ in found] == [place]
    assert words in found[0][1]


def test_nothing_that_is_given_is_changed() -> None:
    values, schema = {"a": [1, {"b": 2}]}, {"properties": {"a": {"type": "string", "default": "x"}}}
    before = copy.deepcopy((values, schema))
    validate_parameters(values, schema)
    assert (values, schema) == before


# --- within time ------------------------------------------------------------------------


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"a": {"pattern": CATASTROPHE}}}, {"a": VICTIM}),
        ({"properties": {"a": {"not": {"pattern": CATASTROPHE}}}}, {"a": VICTIM}),
        ({"items": {"pattern": CATASTROPHE}}, [VICTIM] * 100),
        ({"patternProperties": {CATASTROPHE: False}}, {VICTIM: 1}),
        ({"patternProperties": {CATASTROPHE: True}, "additionalProperties": False}, {VICTIM: 1}),
        (
            {"allOf": [{"patternProperties": {CATASTROPHE: True}}], "unevaluatedProperties": False},
            {VICTIM: 1},
        ),
        ({"propertyNames": {"pattern": CATASTROPHE}}, {VICTIM: 1}),
        # a part that names its draft, and the metaschema, know the same keywords
        ({"$schema": DRAFT_2020_12, "$ref": "#/$defs/a", "$defs": {"a": NAMES_ITS_DRAFT}}, VICTIM),
        ({"$schema": DRAFT_7, "not": {"pattern": CATASTROPHE}}, VICTIM),
    ],
)
def test_a_pattern_that_would_take_for_ever_ends_in_time_and_never_as_valid(
    monkeypatch: pytest.MonkeyPatch, schema: Any, value: Any
) -> None:
    monkeypatch.setattr("lilux.schemas._keywords.PATTERN_LIMIT_S", 0.1)
    validate_parameters(None, schema)
    started = time.process_time()
    found = errors(value, schema)
    assert time.process_time() - started < 2
    assert "too hard for '^(a|aa)+$'" in found[0][1]
    assert VICTIM[:100] not in repr(found)


def test_an_error_of_time_has_the_place_of_the_value() -> None:
    schema = {"properties": {"a": {"items": {"pattern": CATASTROPHE}}}}
    assert errors({"a": ["x", VICTIM, VICTIM]}, schema)[0][0] == "/a/1"


def test_all_patterns_of_a_validation_share_their_time() -> None:
    """Each of these takes milliseconds, and they are many."""
    found = errors([" " * 1500 + "x"] * 1000, {"items": {"pattern": r"\s+$"}})
    assert "all patterns can be tried within 0.25 s" in found[0][1]


def test_nothing_is_left_of_a_validation() -> None:
    validate_parameters("x", {"pattern": "x"})
    with pytest.raises(LookupError):
        current()


@pytest.mark.thorough
def test_a_schema_that_grows_without_bound_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lilux.schemas._keywords.TIME_LIMIT_S", 0.3)
    steps = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
    schema = {"$ref": "#/$defs/a0", "$defs": {**steps, "a40": {"type": "string"}}}
    started = time.process_time()
    found = errors("x", schema)
    assert time.process_time() - started < 3
    assert found == [("", "expected a value that can be checked within 0.3 s")]


def test_a_schema_that_cannot_be_checked_in_time_is_an_error_of_the_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lilux.schemas._keywords.TIME_LIMIT_S", 0)
    with pytest.raises(ConfigurationError, match="cannot check the schema"):
        validate_parameters({}, {"description": "not seen by any other test"})


def test_many_references_to_one_place_are_followed_once() -> None:
    place = {f"k{number}": {"type": "string"} for number in range(300)}
    schema = {
        "anyOf": [{"$ref": "#/unknown"} for _ in range(300)],
        "unknown": {"properties": place},
    }
    started = time.process_time()
    validate_parameters({}, schema)
    assert time.process_time() - started < 3


def test_many_items_are_compared_in_time() -> None:
    started = time.process_time()
    assert validate_parameters([{"n": number} for number in range(10_000)], {"uniqueItems": True}).valid
    assert time.process_time() - started < 1


def test_every_validation_has_time_of_its_own() -> None:
    schema = {"properties": {"a": {"pattern": CATASTROPHE}}}
    assert not validate_parameters({"a": VICTIM}, schema).valid
    assert validate_parameters({"a": "aaa"}, schema).valid


@pytest.mark.thorough
def test_threads_do_not_share_their_time() -> None:
    schema = {"properties": {"a": {"pattern": CATASTROPHE}}}
    valid: list[bool] = []
    threads = [
        threading.Thread(
            target=lambda text=text: valid.append(validate_parameters({"a": text}, schema).valid)
        )
        for text in ("aaa", VICTIM, "aa", VICTIM)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(valid) == [False, False, True, True]
