"""Parameters of a tool on a command line: what each word means, by what the tool's schema says."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from rye_mcp.cli._parameters import parse_json_object, parse_parameters

SCHEMA = {
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": ["number", "null"]},
        "verbose": {"type": "boolean"},
        "tags": {"type": "array"},
        "options": {"type": "object"},
        "dry_run": {"type": "boolean"},
        "no-colour": {"type": "string"},
        "anything": {},
    }
}


@pytest.mark.parametrize(
    ("words", "parameters"),
    [
        (["--name", "Ada"], {"name": "Ada"}),
        (["--name=Ada = Lovelace"], {"name": "Ada = Lovelace"}),
        (["--name", "3"], {"name": "3"}),
        (["--name", ""], {"name": ""}),
        (["--name=--count"], {"name": "--count"}),
        (["--count", "3"], {"count": 3}),
        (["--count", "-3"], {"count": -3}),
        (["--ratio", "null"], {"ratio": None}),
        (["--verbose"], {"verbose": True}),
        (["--verbose", "--name", "Ada"], {"verbose": True, "name": "Ada"}),
        (["--verbose", "false"], {"verbose": False}),
        (["--no-verbose"], {"verbose": False}),
        (["--no-colour", "red"], {"no-colour": "red"}),
        (["--dry-run"], {"dry_run": True}),
        (["--tags", "a"], {"tags": ["a"]}),
        (["--tags", "a", "--tags", "b"], {"tags": ["a", "b"]}),
        (["--tags", '["a", "b"]'], {"tags": ["a", "b"]}),
        (["--options", '{"a": 1}'], {"options": {"a": 1}}),
        (["--anything", "[1]"], {"anything": [1]}),
        (["--anything", "plain"], {"anything": "plain"}),
        (["--undeclared", "7"], {"undeclared": 7}),
        (["--undeclared", "x", "--undeclared", "y"], {"undeclared": ["x", "y"]}),
        (["--undeclared"], {"undeclared": True}),
        ([], {}),
    ],
)
def test_a_word_means_what_the_schema_says(words: list[str], parameters: dict[str, Any]) -> None:
    assert parse_parameters(words, SCHEMA) == parameters


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["Ada"], "Ada"),
        (["--"], "--"),
        (["--=Ada"], "--=Ada"),
        (["-n", "Ada"], "-n"),
        (["--name"], "--name"),
        (["--count", "many"], "integer"),
        (
            ["--count", "--name"],
            "found the option '--name'; if that is the value, write --count=V",
        ),
        (["--options", "{"], "object"),
        (["--verbose", "maybe"], "maybe"),
    ],
)
def test_what_cannot_be_understood_is_wrong_use(words: list[str], named: str) -> None:
    with pytest.raises(typer.BadParameter, match=named):
        parse_parameters(words, SCHEMA)


def test_without_a_schema_dashes_are_underscores_and_values_json_or_text() -> None:
    words = ["--dry-run", "--max-count", "3", "--name", "Ada"]
    assert parse_parameters(words, None) == {"dry_run": True, "max_count": 3, "name": "Ada"}


@pytest.mark.parametrize("text", ["", "[1]", "null", "{", "[" * 100_000, '{"a": {"n": 1, "n": 2}}'])
def test_parameters_as_json_are_one_object(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="--params"):
        parse_json_object(text, "--params")
    assert parse_json_object('{"a": 1}', "--params") == {"a": 1}
