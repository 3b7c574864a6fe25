"""What is answered to a line that is no message: by its id when somebody waits for that, else by null."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rye_mcp.mcp_surface.framing import refusal_of

NO_JSON, NO_REQUEST = -32700, -32600


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        ("{", None, NO_JSON),
        ("[" * 100_000 + "]" * 100_000, None, NO_JSON),
        ("null", None, NO_REQUEST),
        ("[]", None, NO_REQUEST),
        ('{"id": 5, "method": "a"}', 5, NO_REQUEST),
        ('{"id": "5", "method": 7}', "5", NO_REQUEST),
        ('{"id": true, "method": "a"}', None, NO_REQUEST),
        ('{"id": 1.5, "method": "a"}', None, NO_REQUEST),
        ('{"id": [1], "method": "a"}', None, NO_REQUEST),
        ('{"id": null, "method": "a"}', None, NO_REQUEST),
        ('{"id": "\\ud800", "method": "a"}', None, NO_REQUEST),
        ('{"id": "\\u001b[2J", "method": "a"}', None, NO_REQUEST),
        ('{"id": 5, "result": 7}', None, NO_REQUEST),
        ('{"id": 5, "error": 7}', None, NO_REQUEST),
        ('{"id": 5}', None, NO_REQUEST),
        ('{"method": 7}', None, NO_REQUEST),
    ],
)
def test_a_line_that_is_no_message_is_refused(line: str, number: Any, code: int) -> None:
    refusal = refusal_of(line)
    assert refusal is not None
    assert (refusal.id, refusal.error.code) == (number, code)
    assert json.loads(refusal.model_dump_json(by_alias=True, exclude_unset=True))["id"] == number


@pytest.mark.parametrize("line", ["", "  \t", '{"method": "notifications/progress", "params": []}'])
def test_where_nobody_waits_for_an_answer_there_is_none(line: str) -> None:
    assert refusal_of(line) is None
