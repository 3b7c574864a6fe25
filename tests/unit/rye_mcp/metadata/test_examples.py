"""The example calls of a tool: their shape is checked when it is signed, and never by a call."""

from __future__ import annotations

from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile
from rye_mcp.metadata import Example, examine, examples_of, parse_metadata
from tests.metadata_helpers import item

LIBRARY = "version: 1.0.0\n"


def issues(file: ItemFile) -> list[dict[str, Any]]:
    """What signing finds; what a call reads has no issue with it."""
    parse_metadata(file)
    with pytest.raises(RyeError) as caught:
        examine(file)
    found: list[dict[str, Any]] = caught.value.details["issues"]
    with pytest.raises(RyeError) as again:
        examples_of(file)
    assert again.value.details["issues"] == found
    return found


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ("5", "examples: expected a list of examples, found a number"),
        ("{parameters: {}}", "examples: expected a list of examples, found a mapping"),
        ("[text]", "examples[0]: expected a mapping with parameters, found text"),
        ("[{}]", "examples[0]: expected parameters, found nothing"),
        ("[{name: Ada}]", "examples[0]: expected parameters, found name"),
        ("[{parameters: []}]", "examples[0].parameters: expected a mapping, found a list"),
        ("[{parameters: {}, description: 1}]", "examples[0].description: expected text, found a number"),
        ("[{parameters: {}, files: [a]}]", "examples[0].files: expected a mapping, found a list"),
        ("[{parameters: {}, files: {a: 1}}]", "examples[0].files.a: expected text, found a number"),
        ("[{parameters: {}}, {parameters: {}, more: 1}]", "examples[1].more: expected only description,"),
        ("[{parameters: {}, expect: {}}]", "examples[0].expect: expected one of data, contains, code, found"),
        ("[{parameters: {}, expect: 5}]", "found a number"),
        ("[{parameters: {}, expect: {data: 1, code: timeout}}]", "expected one of data, contains, code"),
        ("[{parameters: {}, expect: {output: 1}}]", "expected one of data, contains, code, found output"),
        (
            "[{parameters: {}, expect: {code: oops}}]",
            "examples[0].expect.code: expected the code of an error",
        ),
        ("[{parameters: {}, expect: {code: [1]}}]", "examples[0].expect.code: expected the code of an error"),
        (f"[{', '.join(['{parameters: {}}'] * 101)}]", "expected at most 100 examples, found 101"),
    ],
)
def test_what_is_no_example_is_said_with_its_place(examples: str, message: str) -> None:
    found = issues(item(f"{LIBRARY}examples: {examples}\n", ".yaml"))
    assert any(message in issue["message"] for issue in found), found
    assert {(issue["line"], issue["field"]) for issue in found} == {(2, "examples")}
    assert all(issue["column"] >= len("examples: ") for issue in found)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../a", "a/../b", "a/..", "..", ".", "./a", "a//b", "a/", "", "a\\b", "a\\0b"]
)
def test_a_file_of_an_example_stays_below_the_project(path: str) -> None:
    written = path.replace("\\0", "\\u0000") if "\\0" in path else path.replace("\\", "\\\\")
    text = f'{LIBRARY}examples: [{{parameters: {{}}, files: {{"{written}": ""}}}}]\n'
    (issue,) = issues(item(text, ".yaml"))
    assert "expected a path below the project" in issue["message"]


@pytest.mark.parametrize("path", ["a", "a.txt", ".env", "a/.b/c", "...", "..a", "a/b c/ü.txt"])
def test_every_other_path_is_one(path: str) -> None:
    (example,) = examples_of(item(f"EXAMPLES = [{{'parameters': {{}}, 'files': {{{path!r}: 'x'}}}}]\n"))
    assert example.files == {path: "x"}


PLACES = {
    ".py": (
        "x = 'ä'; EXAMPLES = [{'parameters': {}},\n            {'parameters': {'a': 1}, 'expect': 7}]\n",
        2,
        48,
    ),
    ".yaml": ("examples:\n  - parameters: {}\n  - parameters: {}\n    expect: 7\n", 4, 13),
    ".sh": (
        "# /// rye\n# examples:\n#  - parameters: {}\n#  - expect: 7\n#    parameters: {}\n# ///\n",
        4,
        14,
    ),
}


@pytest.mark.parametrize("extension", PLACES)
def test_an_issue_has_the_line_and_the_column_of_the_value(extension: str) -> None:
    text, line, column = PLACES[extension]
    (issue,) = issues(item(text, extension))
    assert (issue["line"], issue["column"]) == (line, column)
    assert text.split("\n")[line - 1][column - 1] == "7"


def test_what_is_missing_is_said_where_it_should_stand() -> None:
    (issue,) = issues(item("x = 'ä'; EXAMPLES = [{'parameters': {}}, {'description': 'Ada'}]\n"))
    assert (issue["line"], issue["column"]) == (1, 42)


def test_examples_are_read_as_they_are_written() -> None:
    text = (
        "EXAMPLES = [\n"
        "    {'parameters': {'a': 1}, 'expect': {'code': 'tool_failed'}},\n"
        "    {'description': 'x', 'parameters': {}, 'files': {'a': 'b'}, 'expect': {'data': None}},\n"
        "    {'parameters': {}},\n"
        "]\n"
    )
    first, second, third = examples_of(item(text))
    assert (first.expect, first.expected_code) == (("code", "tool_failed"), "tool_failed")
    assert second == Example({}, "x", {"a": "b"}, ("data", None))
    assert (third.expect, second.expected_code) == (None, None)
    assert examples_of(item("x = 1\n")) == ()


def test_a_syntax_error_says_in_which_column_it_is() -> None:
    with pytest.raises(RyeError) as caught:
        examine(item("x = 1\ny = (1,\n    2]\n"))
    assert caught.value.where == "/work/project/.ai/tools/demo/hello.py:3:6"
    assert "line 3, column 6: expected Python" in caught.value.message
    with pytest.raises(RyeError) as caught:
        examine(item("a: 1\nb: {c: 1\n", ".yaml"))
    assert caught.value.details["issues"][0]["column"] >= 1
