"""Answers over MCP: structured content, a short text, failures that a model can read, hints to follow."""

from __future__ import annotations

import pytest
from mcp.types import CallToolResult, TextContent

from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.answers import MAX_TEXTS, answer, exposed_answer, followable, refusal, unexpected


@pytest.mark.parametrize(
    ("hint", "followed"),
    [
        ("rye show demo/hello", "load with item_id demo/hello"),
        (
            "look at it: rye show a/b --type knowledge",
            "look at it: load with item_id a/b, item_type knowledge",
        ),
        ("rye explain demo/hello", "execute with item_id demo/hello, dry_run true"),
        ("rye list", "search finds ids, by words for what you want"),
        ("rye run demo/hello --help", "load with item_id demo/hello"),
        ("read its error output, then: rye log show r-1", "read its error output; this was the run r-1"),
        ("look at a.py, then copy it with --overwrite", "look at a.py, then load it with overwrite true"),
    ],
)
def test_what_a_command_looks_up_is_a_call(hint: str, followed: str) -> None:
    assert followable({"code": "a", "hint": hint}) == {"code": "a", "hint": followed}


@pytest.mark.parametrize(
    "hint",
    [
        "rye sign demo/hello",
        "ask a person: rye sign demo/hello --space user",
        "rye trust review",
        "rye show 'what no id is'",
        "rye list 'rye/core/runtimes/*'",
        "rye show demo/hello and something else",
        "",
    ],
)
def test_every_other_hint_stays_as_it_is(hint: str) -> None:
    assert followable({"hint": hint}) == {"hint": hint}


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("untrusted_key", "rye trust review"),
        ("lock_mismatch", "rye lock update demo/hello"),
        ("remote_changed", "rye mcp update notes shows what changed"),
        ("out_of_scope", "read it, and sign it if it is good: rye sign demo/hello"),
        ("tool_failed", "run npm install ms"),
    ],
)
def test_what_only_a_person_can_do_is_addressed_to_one(code: str, hint: str) -> None:
    assert followable({"code": code, "hint": hint}) == {"code": code, "hint": f"ask a person: {hint}"}


def test_each_of_two_ways_is_addressed_by_itself() -> None:
    facts = {"code": "tool_failed", "hint": "let uv install it. Or pip install ms && rye trust project"}
    expected = "let uv install it. Or ask a person: pip install ms && rye trust project"
    assert followable(facts)["hint"] == expected


def test_an_answer_has_such_a_hint_in_its_facts_and_in_its_text() -> None:
    found = refusal(RyeError("invalid_parameters", "expected a name, found none", item_id="demo/hello"))
    assert found.structured_content is not None
    assert found.structured_content["hint"] == "load with item_id demo/hello"
    assert found.content[0].type == "text"
    assert found.content[0].text.endswith("hint: load with item_id demo/hello")


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def test_the_text_of_a_run_is_its_data() -> None:
    result = answer({"status": "success", "item_id": "demo/hello", "data": {"é": [1, None]}})
    assert text(result) == '{"é":[1,null]}'
    assert result.is_error is False
    assert result.structured_content == {
        "status": "success",
        "item_id": "demo/hello",
        "data": {"é": [1, None]},
    }


@pytest.mark.parametrize("name", ["content", "instructions"])
def test_the_text_of_an_item_is_what_it_says(name: str) -> None:
    assert text(answer({"status": "success", name: "Do this."})) == "Do this."


def test_a_failure_is_an_answer_with_its_code_and_its_hint() -> None:
    result = refusal(RyeError("unsigned", "expected a signature, found none", item_id="demo/hello"))
    assert result.is_error is True
    assert text(result) == "unsigned: expected a signature, found none\nhint: rye sign demo/hello"
    assert result.structured_content is not None
    assert result.structured_content["code"] == "unsigned"


def test_a_tool_that_failed_shows_its_data_and_its_error_output() -> None:
    facts = {
        "status": "error",
        "code": "tool_failed",
        "error": "expected exit code 0, found 3",
        "hint": "",
        "data": {"success": False},
        "stderr": "no such file",
    }
    assert text(answer(facts)).splitlines() == [
        "tool_failed: expected exit code 0, found 3",
        '{"success":false}',
        "no such file",
    ]


def test_what_nobody_expected_is_told_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    result = unexpected(KeyError("the secret"))
    assert "the secret" not in result.model_dump_json()
    assert "KeyError" in text(result)
    assert result.is_error is True
    assert "KeyError" in caplog.text


def test_blocks_with_too_much_text_are_data() -> None:
    """What is shown of them is their beginning; all of it is where the text says that it is."""
    data = {"content": [{"type": "text", "text": "\x7f" * (MAX_TEXTS + 1)}]}
    found = answer({"status": "success", "data": data})
    assert found.structured_content is not None
    assert found.structured_content["data"] == data
    assert text(found).endswith("characters in all: the structured content has them")
    promised = {**data, "structuredContent": {"a": 1}}
    native = exposed_answer({"status": "success", "data": promised}, {"type": "object", "required": ["a"]})
    assert native.structured_content == {"a": 1}
    assert text(native).endswith("characters in all: execute returns them as data")
    assert len(text(native)) < 5000
