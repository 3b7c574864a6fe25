"""How a refusal is told: to people line by line, to programs as one object."""

from __future__ import annotations

import json

import pytest

from rye_mcp.cli._printing import report
from rye_mcp.errors import RyeError
from rye_mcp.visible import visible, visible_lines


def test_people_see_the_code_the_message_the_place_and_the_hint(capsys: pytest.CaptureFixture[str]) -> None:
    report(RyeError("unsigned", "expected a signature, found none", where="/a/b", item_id="demo/x y"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "rye: unsigned: expected a signature, found none",
        "  where: /a/b",
        "  hint:  rye sign 'demo/x y'",
    ]


def test_every_issue_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    issues = [{"message": "expected text", "line": 3}, {"message": "expected a version"}]
    report(RyeError("invalid_item", "all of it", hint="fix it", issues=issues))
    assert capsys.readouterr().err.splitlines() == [
        "rye: invalid_item: What the item says about itself is wrong.",
        "  line 3: expected text",
        "  expected a version",
        "  hint:  fix it",
    ]


def test_programs_get_one_object_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    error = RyeError("unsigned", "expected a signature, found none")
    report(error, as_json=True)
    captured = capsys.readouterr()
    assert json.loads(captured.out) == error.as_dict()
    assert captured.err == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, ü and 漢字", "plain text, ü and 漢字"),
        ("two\nlines\tof it", "two\\nlines\\tof it"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("over\rwritten\x08", "over\\x0dwritten\\x08"),
        ("\x9b31m", "\\x9b31m"),
        ("turned\u202eround", "turned\\u202eround"),
        ("hid\u200bden\ufeff", "hid\\u200bden\\ufeff"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("half \udce4", "half \\udce4"),
    ],
)
def test_nothing_reaches_a_terminal_that_it_would_obey_or_hide(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_the_lines_of_a_file_stay_lines() -> None:
    assert visible_lines("plain\n\tlines\x1b[2J\n") == "plain\n\tlines\\x1b[2J\n"
