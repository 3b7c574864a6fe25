"""Every field has a type, and every mistake in one is said with the field and its line."""

from typing import Any

import pytest

from rye_mcp.metadata import TOOL_TYPES, examine, parse_metadata
from tests.metadata_helpers import issues_of, item


def yaml(**fields: Any) -> str:
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


@pytest.mark.parametrize(
    "version", ["1", "1.0", "1.2.3", "0.0.0", "1.0.0-beta.1", "2026.1", "1!2.0+local", "1.0rc1"]
)
def test_a_version_is_what_packaging_takes(version: str) -> None:
    assert parse_metadata(item(yaml(version=f'"{version}"'), ".yaml")).version == version


@pytest.mark.parametrize(
    "version",
    [
        '""',
        '"latest"',
        '" 1.0"',
        '"1.0\\n"',
        '"1.0/../x"',
        "1.0",
        "1",
        "[1]",
        "true",
        '"' + "1." * 100 + '1"',
        '"\u0661.\u0662"',
    ],
)
def test_anything_else_is_no_version(version: str) -> None:
    (issue,) = issues_of(item(yaml(version=version), ".yaml"))
    assert (issue["field"], issue["line"]) == ("version", 1)


def test_a_version_without_quotes_says_what_to_do() -> None:
    (issue,) = issues_of(item(yaml(version="1.10"), ".yaml"))
    assert "put it into quotes" in issue["message"] or "found a number" in issue["message"]


@pytest.mark.parametrize("tool_type", TOOL_TYPES)
def test_every_tool_type_is_taken(tool_type: str) -> None:
    fields = {"executor_id": "null" if tool_type == "primitive" else "a/b"}
    if tool_type == "engine":
        fields = {"config": "{via: loopback, nodes: [], takes: []}"}
    assert parse_metadata(item(yaml(tool_type=tool_type, **fields), ".yaml")).tool_type == tool_type


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": "5"}, "name"),
        ({"name": "' '"}, "name"),
        ({"name": "x" * 5000}, "name"),
        ({"description": "[]"}, "description"),
        ({"category": "1"}, "category"),
        ({"tool_type": "magic"}, "tool_type"),
        ({"tool_type": "3"}, "tool_type"),
        ({"executor_id": "../x"}, "executor_id"),
        ({"executor_id": "[a]"}, "executor_id"),
        ({"executor_id": "null"}, "executor_id"),
        ({"executor_id": "null", "tool_type": "runtime"}, "executor_id"),
        ({"tool_type": "runtime"}, "executor_id"),
        ({"tool_type": "primitive"}, "executor_id"),
        ({"tool_type": "primitive", "executor_id": "a/b"}, "executor_id"),
        ({"config": "[]"}, "config"),
        ({"config_schema": "true"}, "config_schema"),
        ({"output_schema": "text"}, "output_schema"),
        ({"env_config": "1"}, "env_config"),
        ({"anchor": "true"}, "anchor"),
        ({"verify_deps": "[a]"}, "verify_deps"),
        ({"child_constraints": "[]"}, "child_constraints"),
        ({"child_constraints": "{min_version: new}"}, "child_constraints"),
        ({"child_constraints": "{max_version: 1.0}"}, "child_constraints"),
        ({"inputs": "text"}, "inputs"),
        ({"inputs": "[1]"}, "inputs"),
        ({"inputs": "{required: 5}"}, "inputs"),
        ({"inputs": "{required: [[a]]}"}, "inputs"),
        ({"outputs": "{properties: [a]}"}, "outputs"),
        ({"outputs": "[a, null]"}, "outputs"),
        ({"annotations": "[]"}, "annotations"),
        ({"annotations": "{readOnlyHint: 'yes'}"}, "annotations"),
        ({"annotations": "{title: 5}"}, "annotations"),
        ({"permissions": "[env]"}, "permissions"),
        ({"permissions": "{network: true}"}, "permissions"),
        ({"permissions": "{env: [A], file: [b]}"}, "permissions"),
        ({"permissions": "{env: A}"}, "permissions"),
        ({"permissions": "{env: [1]}"}, "permissions"),
        ({"permissions": "{env: ['*']}"}, "permissions"),
        ({"permissions": "{env: ['A=B']}"}, "permissions"),
        ({"permissions": "{env: null}"}, "permissions"),
        ({"tags": "a"}, "tags"),
        ({"tags": "[null]"}, "tags"),
    ],
    ids=str,
)
def test_a_field_of_the_wrong_kind_is_an_issue(fields: dict[str, str], wrong: str) -> None:
    (issue,) = issues_of(item(yaml(**fields), ".yaml"))
    assert issue["field"] == wrong
    assert 1 <= issue["line"] <= len(fields)


def test_what_is_null_is_as_if_it_were_not_there() -> None:
    metadata = parse_metadata(item("config: null\nversion: ~\ntags:\npermissions:\n", ".yaml"))
    assert (metadata.config, metadata.version, metadata.tags, metadata.permitted_env) == (
        None,
        "0.0.0",
        (),
        (),
    )


def test_what_is_not_known_is_kept() -> None:
    assert parse_metadata(item("homepage: x\nexamples: [1]\n", ".yaml")).extra == {
        "homepage": "x",
        "examples": [1],
    }


def test_an_empty_mapping_is_not_none() -> None:
    assert parse_metadata(item("config: {}\n", ".yaml")).config == {}


@pytest.mark.parametrize("name", ["config_schema", "output_schema", "inputs", "outputs"])
@pytest.mark.parametrize("schema", ["{type: nonsense}", "{$ref: 'https://example.com/x'}", "{pattern: '('}"])
def test_a_wrong_schema_is_found_when_it_is_signed(name: str, schema: str) -> None:
    file = item(f"version: 1\n{name}: {schema}\n", ".yaml")
    assert [issue["field"] for issue in issues_of(file)] == ["version"]
    issues = issues_of(file, thorough=True)
    assert [(issue["field"], issue["line"]) for issue in issues] == [("version", 1), (name, 2)]


def test_a_schema_that_is_right_is_nothing_to_talk_about() -> None:
    metadata = examine(item("inputs: [a, b]\nconfig_schema: {type: object, required: [a]}\n", ".yaml"))
    assert metadata.config_schema == {"type": "object", "required": ["a"]}


def test_more_issues_than_anybody_reads_are_cut_short() -> None:
    text = "config:\n" + "  a: 1\n" * 1000
    issues = issues_of(item(text, ".yaml"))
    assert len(issues) == 51
    assert "others" in "".join(issue["message"] for issue in issues)
