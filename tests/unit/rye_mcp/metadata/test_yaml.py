"""YAML as data: what a value means, what is refused, and in which line."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from rye_mcp.metadata import parse_metadata
from tests.metadata_helpers import issues_of, item


def value(text: str) -> Any:
    """What `text` means as a value of a mapping."""
    config = parse_metadata(item(f"config:\n  x: {text}\n", ".yaml")).config
    assert config is not None
    return config["x"]


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("FALSE", False),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("12", 12),
        ("-12", -12),
        ("+12", 12),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("1.10", 1.1),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("-1.5E-2", -0.015),
        ("-x", "-x"),
        (".", "."),
        (".x", ".x"),
        ("1.2.3", "1.2.3"),
        ("12:30:45", "12:30:45"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z"),
        ("0x", "0x"),
        ("0b1", "0b1"),
        ("'12'", "12"),
        ('"null"', "null"),
        ('"a\\tb"', "a\tb"),
        ("[1, two, null]", [1, "two", None]),
        ("{a: 1, 'b': [x]}", {"a": 1, "b": ["x"]}),
        ("|\n    one\n    two\n", "one\ntwo\n"),
        (">-\n    one\n    two\n", "one two"),
        ("=", "="),
        ("<<", "<<"),
    ],
)
def test_a_value_means_what_it_does_in_yaml_1_2(text: str, means: Any) -> None:
    found = value(text)
    assert found == means
    assert type(found) is type(means)


@pytest.mark.parametrize("text", [".inf", "-.INF", ".nan", ".NaN", "9" * 400, "0x" + "f" * 400])
def test_numbers_that_json_does_not_have_are_refused(text: str) -> None:
    (issue,) = issues_of(item(f"config:\n  x: {text}\n", ".yaml"))
    assert issue["line"] == 2


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("a: 1\nb: [\n", 3, "expected YAML"),
        ("a: b: c\n", 1, "expected YAML"),
        ("a: 1\n\tb: 2\n", 2, "expected YAML"),
        ("a: 1\na: 2\n", 2, "expected each key once"),
        ("config:\n  a: 1\n  a: 2\n", 3, "expected each key once"),
        ("config: {a: 1, 'a': 2}\n", 1, "expected each key once"),
        ("- 1\n- 2\n", 1, "expected a mapping"),
        ("just text\n", 1, "expected a mapping"),
        ("x: 1\n---\ny: 2\n", 2, "another one"),
        ("%YAML 1.1\n---\nx: 1\n", 1, "directives"),
        ("%TAG ! tag:x,2000:\n---\nx: 1\n", 1, "directives"),
        ("x: !!python/object/apply:os.system ['id']\n", 1, "the tag"),
        ("x: !!str 5\n", 1, "the tag"),
        ("x: ! 5\n", 1, "the tag"),
        ("x: !env HOME\n", 1, "the tag"),
        ("x: !!map {a: 1}\n", 1, "the tag"),
        ("x: !!binary aGVsbG8=\n", 1, "the tag"),
        ("base: &b {a: 1}\nx:\n  <<: *b\n", 3, "merge key"),
        ("? [a]\n: 1\n", 1, "expected text as a key"),
        ("{a: 1}: 2\n", 1, "expected text as a key"),
        ("x: &a [1]\n*a : 2\n", 2, "expected text as a key"),
        ("true: 1\n", 1, "put it into quotes"),
        ("null: 1\n", 1, "put it into quotes"),
        ("?\n: 1\n", 1, "found nothing"),
        ("x: *nothing\n", 1, "expected an anchor"),
        ("x: &x [*x]\n", 1, "expected an anchor"),
        ("x: &x {a: *x}\n", 1, "expected an anchor"),
        ("y: &x 1\nx: &x [*x]\n", 2, "expected an anchor"),
    ],
)
def test_what_is_more_than_data_is_refused_with_its_line(text: str, line: int, found: str) -> None:
    issues = issues_of(item(text, ".yaml"))
    assert found in issues[0]["message"]
    assert issues[0]["line"] == line


def test_anchors_and_aliases_are_data() -> None:
    metadata = parse_metadata(item("config:\n  a: &a [1]\n  b: *a\n  c: &a 2\n  d: *a\n", ".yml"))
    assert metadata.config == {"a": [1], "b": [1], "c": 2, "d": 2}


def test_an_alias_may_be_a_key_when_it_is_text() -> None:
    assert parse_metadata(item("config:\n  a: &k name\n  *k : 1\n", ".yaml")).config == {
        "a": "name",
        "name": 1,
    }


def test_a_quoted_key_is_text_whatever_it_looks_like() -> None:
    assert parse_metadata(item("config: {'true': 1, '<<': 2, 3: 4}\n", ".yaml")).config == {
        "true": 1,
        "<<": 2,
        "3": 4,
    }


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "null\n", "{}\n"])
def test_an_empty_file_says_nothing(text: str) -> None:
    metadata = parse_metadata(item(text, ".yaml"))
    assert metadata.is_library
    assert metadata.name == "hello"


def test_several_mistakes_are_found_at_once() -> None:
    issues = issues_of(item("a: 1\na: 2\nversion: 1.0\nconfig: !x []\n", ".yaml"))
    assert [issue["line"] for issue in issues] == [2, 3, 4, 4]


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(TEXT, children, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(TEXT, JSON, max_size=4), st.sampled_from([None, 2]))
def test_json_is_yaml(config: dict[str, Any], indent: int | None) -> None:
    text = json.dumps({"output_schema": config}, ensure_ascii=False, indent=indent)
    assert parse_metadata(item(text, ".yaml")).output_schema == config
    assert YAML(typ="safe").load(text) == {"output_schema": config}
