"""Directives: inputs are checked, and put into verified text once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemType, Space, SpaceName
from rye_mcp.metadata import parse_metadata
from rye_mcp.verbs.execute import check_inputs, instructions

SCHEMA = """\
inputs:
  type: object
  properties:
    count: {type: integer, default: 3}
    secret: {type: string, writeOnly: true, minLength: 100}
  required: [who]
"""


def directive(body: str, front_matter: str = SCHEMA) -> ItemFile:
    root = Path("/project/.ai")
    content = f"---\nname: greet\n{front_matter}---\n{body}".encode()
    return ItemFile(
        Space(SpaceName.PROJECT, root), ItemType.DIRECTIVE, "demo/greet", ".md", root / "greet.md", content
    )


def filled(body: str, inputs: dict[str, Any], front_matter: str = SCHEMA) -> str:
    file = directive(body, front_matter)
    return instructions(file, check_inputs(file, parse_metadata(file), inputs))


def issues(body: str, inputs: dict[str, Any], front_matter: str = SCHEMA) -> list[tuple[str, str]]:
    with pytest.raises(RyeError) as caught:
        filled(body, inputs, front_matter)
    assert caught.value.code == "invalid_parameters"
    return [(issue["path"], issue["message"]) for issue in caught.value.details["issues"]]


@pytest.mark.parametrize(
    ("body", "inputs", "expected"),
    [
        ("Hello {input:who}", {"who": "Ada"}, "Hello Ada"),
        ("{input:count} times", {"who": "Ada"}, "3 times"),
        ("{input:count} times", {"who": "Ada", "count": 4}, "4 times"),
        ("[{input:other?}]", {"who": "Ada"}, "[]"),
        ("[{input:other?}]", {"who": "Ada", "other": "x"}, "[x]"),
        ("[{input:other|all of it}]", {"who": "Ada"}, "[all of it]"),
        ("[{input:other|}]", {"who": "Ada"}, "[]"),
        ("[{input:other|all of it}]", {"who": "Ada", "other": ""}, "[]"),
        ("{input:list}", {"who": "Ada", "list": [1, {"é": None}]}, '[1, {"é": null}]'),
        ("{input:on} {input:none}", {"who": "Ada", "on": True, "none": None}, "true null"),
        ('{who} ${HOME} {"a": 1} {input:}', {"who": "Ada"}, '{who} ${HOME} {"a": 1} {input:}'),
    ],
)
def test_inputs_are_put_in(body: str, inputs: dict[str, Any], expected: str) -> None:
    assert filled(body, inputs) == expected


def test_an_input_that_stands_in_many_places_makes_no_huge_text() -> None:
    (issue,) = issues("{input:who}" * 1000, {"who": "x" * (1 << 20)})
    assert issue[0] == "/who"
    assert "at most" in issue[1]


@given(value=st.text(alphabet=st.sampled_from("{}input:who?|${HOME}\n\\1 \\g<0>é"), max_size=40))
def test_what_an_input_holds_is_never_looked_at_again(value: str) -> None:
    assert filled("<{input:who}|{input:who}>", {"who": value}) == f"<{value}|{value}>"


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    found = issues("{input:must} {input:may?} {input:else|x}", {"count": "many", "secret": "hunter2"})
    assert [field for field, _ in found] == ["/count", "/secret", "/who", "/must"]
    assert "hunter2" not in json.dumps(found)


def test_a_list_of_inputs_says_which_have_to_be_there() -> None:
    names = "inputs: [one, two]\n"
    assert filled("{input:one}{input:two}", {"one": 1, "two": 2, "three": 3}, names) == "12"
    assert [field for field, _ in issues("no placeholder", {"one": 1}, names)] == ["/two"]


def test_a_directive_without_inputs_takes_what_its_text_asks_for() -> None:
    assert filled("Hello {input:who}", {"who": "Ada"}, "") == "Hello Ada"
    assert [field for field, _ in issues("Hello {input:who}", {}, "")] == ["/who"]


def test_a_schema_that_is_wrong_is_the_fault_of_the_item() -> None:
    with pytest.raises(RyeError) as caught:
        filled("text", {}, "inputs: {type: nonsense}\n")
    assert caught.value.code == "invalid_item"
