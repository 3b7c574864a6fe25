"""Hints: what looks something up is a call that an agent can make; what a person decides stays a command."""

from __future__ import annotations

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.mcp_surface.answers import refusal
from rye_mcp.mcp_surface.hints import followable


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
