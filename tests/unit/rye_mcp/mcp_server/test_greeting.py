"""Only what the SDK would answer in exactly this way is answered before it is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.mcp_server import greeting
from rye_mcp.mcp_server.greeting import Greeting, answer_to

PLAIN: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}},
        "clientInfo": {"name": "a client", "version": "1", "title": "A client"},
    },
}


def changed(**params: Any) -> dict[str, Any]:
    return {**PLAIN, "params": {**PLAIN["params"], **params}}


def line(message: object) -> bytes:
    return json.dumps(message).encode()


@pytest.mark.parametrize("number", [0, 7, (1 << 53) - 1, "", "a-b"])
def test_a_plain_request_is_answered_under_its_id(number: object) -> None:
    answer = answer_to(line({**PLAIN, "id": number}))
    assert answer is not None
    assert answer["id"] == number
    assert answer["result"]["protocolVersion"] == "2025-06-18"


@pytest.mark.parametrize(
    "message",
    [
        [PLAIN],
        "initialize",
        {**PLAIN, "id": True},
        {**PLAIN, "id": None},
        {**PLAIN, "id": 1.0},
        {**PLAIN, "id": -1},
        {**PLAIN, "id": 1 << 53},
        {**PLAIN, "id": "x" * 65},
        {**PLAIN, "id": "\u2028"},
        {**PLAIN, "jsonrpc": "1.0"},
        {**PLAIN, "method": "ping"},
        {**PLAIN, "more": 1},
        {name: value for name, value in PLAIN.items() if name != "id"},
        {**PLAIN, "params": None},
        changed(_meta={}),
        changed(protocolVersion="2026-07-28"),
        changed(protocolVersion=["2025-06-18"]),
        changed(clientInfo={"name": "a client"}),
        changed(clientInfo={"name": "a client", "version": 1}),
        changed(clientInfo="a client"),
        changed(capabilities={"experimental": {}}),
        changed(capabilities={"extensions": {}}),
        changed(capabilities={"roots": True}),
        changed(capabilities={"roots": {"listChanged": "yes"}}),
        changed(capabilities={"roots": {"more": True}}),
        changed(capabilities={"sampling": {"tools": True}}),
        changed(capabilities={"elicitation": {"form": False}}),
        changed(capabilities={"elicitation": []}),
        changed(capabilities=[]),
        changed(clientInfo={"name": "\ud800", "version": "1"}),
    ],
    ids=repr,
)
def test_anything_else_is_left_to_the_sdk(message: object) -> None:
    assert answer_to(line(message)) is None


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b"\xff", b"[" * 100_000),
        *(
            json.dumps(PLAIN).encode(encoding)
            for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-8-sig")
        ),
        line(PLAIN).replace(b"a client", "\ud800".encode("utf-8", "surrogatepass")),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_no_json_is_left_to_the_sdk(text: bytes) -> None:
    assert answer_to(text) is None


def test_an_answer_that_cannot_be_written_is_left_to_the_sdk() -> None:
    """As for a client that goes away in this very moment: a poll says nothing of what `/dev/full` takes."""
    script = "from rye_mcp.mcp_server.greeting import greet\nraise SystemExit(repr(greet().answer))"
    words = [sys.executable, "-c", script]
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            words, input=line(PLAIN) + b"\n", stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert ran.stderr == b"None\n"


def test_another_sdk_answers_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greeting, "KNOWN_SDK", "0.0")
    assert answer_to(line(PLAIN)) is None


def test_the_answer_of_the_sdk_is_dropped_once_and_only_if_it_is_the_same() -> None:
    given = answer_to(line(PLAIN))
    assert given is not None
    same, other = json.dumps(given), json.dumps({**given, "result": {}})
    to_another = json.dumps({**given, "id": 2})
    of_server = json.dumps({**PLAIN, "id": 1})
    greeted = Greeting(answer=given)
    found = [greeted.is_repeated_by(each) for each in (to_another, of_server, same, same)]
    assert found == [False, False, True, False]
    differs = Greeting(answer=given)
    assert [differs.is_repeated_by(each) for each in (other, same)] == [False, False]
    assert not Greeting(b"taken").is_repeated_by(same)
