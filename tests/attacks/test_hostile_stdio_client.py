"""A client over standard input and output that sends what no client should, in both eras of the protocol.

Whatever it is, the answer is the right error of the protocol, and the next call works.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import termios
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_world import Workshop, is_alive
from tests.people import Person
from tests.raw_client import Era, raw_client

ERAS: tuple[Era, ...] = ("2025-11-25", "2026-07-28")

MAX_REFUSAL = 20_000
"""How long a refusal may be, whatever it is about."""

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602


def nested(depth: int) -> bytes:
    """A request that is fine but for its depth."""
    return b'{"jsonrpc": "2.0", "id": 5, "method": "tools/list", "params": {"a": %b%b}}' % (
        b"[" * depth,
        b"]" * depth,
    )


SEARCH = (
    b'{"jsonrpc": "2.0", "id": 5, "method": "tools/call", '
    b'"params": {"name": "search", "arguments": {"query": "%b"}}}'
)

LONG = b"x" * 3_000_000


def with_meta(name: bytes) -> bytes:
    """A request with something long in its metadata."""
    return b'{"jsonrpc": "2.0", "id": 5, "method": "tools/list", "params": {"_meta": {"%b": "%b"}}}' % (
        name,
        LONG,
    )


NO_MESSAGES: dict[str, tuple[bytes, Any, int]] = {
    "open": (b"{", None, PARSE_ERROR),
    "cut": (b'{"jsonrpc": "2.0"', None, PARSE_ERROR),
    "not text": (b"\xff\xfe\x00", None, PARSE_ERROR),
    "not UTF-8": (b'{"jsonrpc": "2.0\xff", "id": 5, "method": "a"}', None, PARSE_ERROR),
    "not UTF-8 in a value": (SEARCH % b"\xff", None, PARSE_ERROR),
    "half a character in UTF-8": (SEARCH % b"\xed\xa0\x80", None, PARSE_ERROR),
    "a longer form than UTF-8 has": (SEARCH % b"\xc0\xae", None, PARSE_ERROR),
    "half a character": (b'{"jsonrpc": "2.0", "id": 5, "method": "\\ud800"}', 5, INVALID_REQUEST),
    "half a character as id": (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "a"}', None, INVALID_REQUEST),
    "deep and open": (b"[" * 100_000, None, PARSE_ERROR),
    "deep": (nested(50_000), None, PARSE_ERROR),
    "rather deep": (nested(300), 5, INVALID_REQUEST),
    "oversized": (b'"%b"' % (b"x" * (33 << 20)), None, PARSE_ERROR),
    "null": (b"null", None, INVALID_REQUEST),
    "null as id": (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', None, INVALID_REQUEST),
    "a fraction as id": (b'{"jsonrpc": "2.0", "id": 5.0, "method": "ping"}', None, INVALID_REQUEST),
    "a list as id": (b'{"jsonrpc": "2.0", "id": [5], "method": "ping"}', None, INVALID_REQUEST),
    "an id whose name is escaped": (
        b'{"jsonrpc": "2.0", "\\u0069d": 5.0, "method": "ping"}',
        None,
        INVALID_REQUEST,
    ),
    "true as id": (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', None, INVALID_REQUEST),
    "digits as id": (b'{"jsonrpc": "2.0", "id": %b, "method": "a"}' % (b"9" * 5000), None, INVALID_REQUEST),
    "a long text as id": (b'{"jsonrpc": "2.0", "id": "%b", "method": "a"}' % LONG, None, INVALID_REQUEST),
    "an id of many bytes": (
        b'{"jsonrpc": "2.0", "id": "%s", "method": "a"}' % ("é" * 513).encode(),
        None,
        INVALID_REQUEST,
    ),
    "an id that loses digits": (
        b'{"jsonrpc": "2.0", "id": %d, "method": "a"}' % (1 << 53),
        None,
        INVALID_REQUEST,
    ),
    "a long method": (b'{"jsonrpc": "2.0", "id": 5, "method": "%b"}' % LONG, 5, INVALID_REQUEST),
    "a long progress token": (with_meta(b"progressToken"), 5, INVALID_REQUEST),
    "a long revision": (with_meta(b"io.modelcontextprotocol/protocolVersion"), 5, INVALID_REQUEST),
    "several": (b'[{"jsonrpc": "2.0", "id": 5, "method": "tools/list"}]', None, INVALID_REQUEST),
    "another protocol": (b'{"id": 5, "method": "tools/list"}', 5, INVALID_REQUEST),
    "a number as method": (b'{"jsonrpc": "2.0", "id": 5, "method": 7}', 5, INVALID_REQUEST),
    "a list as parameters": (b'{"jsonrpc": "2.0", "id": 5, "method": "a", "params": []}', 5, INVALID_REQUEST),
    "half an answer": (b'{"jsonrpc": "2.0", "id": 5, "result": 7}', None, INVALID_REQUEST),
}
"""What is sent, and the id and the code of the answer."""

UNANSWERED = [
    b"",
    b"   ",
    b'{"jsonrpc": "2.0", "method": "notifications/initialized", "params": []}',
    b'{"jsonrpc": "2.0", "method": "no/such"}',
    b'{"jsonrpc": "2.0", "method": "no/such", "params": {"id": 5}}',
    b'{"jsonrpc": "2.0", "id": 77, "result": {}}',
    b'{"jsonrpc": "2.0", "id": 77, "error": {"code": 1, "message": "a"}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}',
    b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}',
]
"""What nobody waits for an answer to."""

WRONG: list[tuple[str, Any, int]] = [
    ("no/such", {}, NO_METHOD),
    ("tools/call", {}, INVALID_PARAMS),
    ("tools/call", {"name": 7, "arguments": {}}, INVALID_PARAMS),
    ("tools/call", {"name": "search", "arguments": [1]}, INVALID_PARAMS),
    ("tools/call", {"name": "search", "arguments": "x"}, INVALID_PARAMS),
    ("tools/call", {"name": "no such tool", "arguments": {}}, INVALID_PARAMS),
    ("tools/list", {"cursor": 7}, INVALID_PARAMS),
    ("resources/read", {"uri": 5}, INVALID_PARAMS),
    ("resources/read", {"uri": f"rye://item/tool/{'x' * 3_000_000}"}, INVALID_PARAMS),
    ("resources/read", {"uri": "rye://item/tool/../../x"}, INVALID_PARAMS),
    ("prompts/get", {"name": "x", "arguments": {"a": 1}}, INVALID_PARAMS),
    ("prompts/get", {"name": "no such"}, INVALID_PARAMS),
    ("completion/complete", {"ref": {}, "argument": 3}, INVALID_PARAMS),
]
"""Method, parameters, and the code of the error."""

WRONG_ARGUMENTS: list[tuple[str, Any, str]] = [
    ("search", {"limit": "many"}, "invalid_parameters"),
    ("search", {"filters": [1]}, "invalid_parameters"),
    ("load", {"item_id": {"a": 1}}, "invalid_parameters"),
    ("execute", {"item_id": 7}, "invalid_parameters"),
    ("execute", {"item_id": "rye/bash/bash", "parameters": [1]}, "invalid_parameters"),
    ("execute", {"item_id": "rye/bash/bash", "timeout": {}}, "invalid_parameters"),
    ("sign", {"item_id": None}, "invalid_parameters"),
    ("search", {"project_path": "/" + "x" * 3_000_000}, "no_project"),
    ("search", {"unheard of": 1}, "unknown_argument"),
]
"""Tool, arguments, and the code of the failure."""

WAIT = """\
import os, time

with open(params["pipe"], "w") as pipe:
    pipe.write(f"{os.getpid()}\\n")
time.sleep(600)
"""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """A project that nobody changes."""
    place = tmp_path_factory.mktemp("hostile")
    person, project = Person("ada", place / "ada"), place / "project"
    project.mkdir()
    person.begin(project)
    workshop = Workshop(person, project)
    workshop.tool("demo/wait", WAIT)
    workshop.tool("demo/large", f"print({'x' * 20_000!r})")
    return workshop


@pytest.mark.first_case
@pytest.mark.parametrize("era", ERAS)
def test_what_is_no_message_is_answered_and_is_no_end(workshop: Workshop, era: Era) -> None:
    with raw_client(workshop.person, workshop.project, era) as client:
        client.begin()
        for name, (sent, number, code) in NO_MESSAGES.items():
            client.send(sent)
            answer = client.receive()
            assert (answer["id"], answer["error"]["code"]) == (number, code), name
            assert len(json.dumps(answer)) < MAX_REFUSAL, name
        client.send(*UNANSWERED)
        client.is_well()
        assert client.end() == 0


@pytest.mark.first_case
@pytest.mark.parametrize("era", ERAS)
def test_wrong_types_are_errors_and_no_end(workshop: Workshop, era: Era) -> None:
    with raw_client(workshop.person, workshop.project, era) as client:
        client.begin()
        for method, params, code in WRONG:
            client.send(client.request(9, method, params))
            answer = client.answer(9)
            assert answer["error"]["code"] == code, method
            assert len(json.dumps(answer)) < MAX_REFUSAL, method
        for tool, arguments, failure in WRONG_ARGUMENTS:
            client.send(client.call(9, tool, arguments))
            result = client.answer(9)["result"]
            assert (result["isError"], result["structuredContent"]["code"]) == (True, failure), tool
            assert len(json.dumps(result)) < MAX_REFUSAL, tool
        client.is_well()


def test_nothing_is_done_before_the_handshake(workshop: Workshop) -> None:
    with raw_client(workshop.person, workshop.project, "2025-11-25") as client:
        for method, params in (("tools/list", {}), ("tools/call", {"name": "search", "arguments": {}})):
            client.send({"jsonrpc": "2.0", "id": 3, "method": method, "params": params})
            assert "error" in client.answer(3)
        client.begin()
        client.is_well()


def test_the_revision_that_needs_batches_is_not_agreed_on(workshop: Workshop) -> None:
    wanted = {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "a", "version": "1"},
    }
    with raw_client(workshop.person, workshop.project, "2025-11-25") as client:
        client.send(client.request(1, "initialize", wanted))
        assert client.answer(1)["result"]["protocolVersion"] == "2024-11-05"
        client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        client.send([client.call(2, "search", {}), client.call(3, "search", {})])
        assert client.receive()["error"]["code"] == INVALID_REQUEST
        client.is_well()


def test_nothing_is_done_without_saying_which_revision(workshop: Workshop) -> None:
    with raw_client(workshop.person, workshop.project, "2026-07-28") as client:
        client.begin()
        bare = {"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {}}
        client.send(bare)
        assert client.answer(3)["error"]["code"] == INVALID_PARAMS
        other = client.request(4, "tools/list")
        other["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "1999-01-01"
        client.send(other)
        assert client.answer(4)["error"]["data"]["supported"] == ["2026-07-28"]
        client.send(client.request(5, "initialize", {"protocolVersion": "2025-11-25"}))
        assert "error" in client.answer(5)
        client.is_well()


@pytest.mark.first_case
@pytest.mark.parametrize("era", ERAS)
def test_of_two_calls_with_one_id_the_first_runs_and_can_be_ended(
    workshop: Workshop, era: Era, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    waiting = {"item_id": "demo/wait", "parameters": {"pipe": str(pipe)}}
    with raw_client(workshop.person, workshop.project, era) as client:
        client.begin()
        client.send(client.call(7, "execute", waiting))
        pid = int(pipe.read_text())
        for same in (7, "7"):
            client.send(client.call(same, "load", {"item_id": "demo/large"}))
            assert client.answer(same)["error"]["code"] == INVALID_REQUEST
        wrong = [{"requestId": each} for each in ([7], {"a": 7}, None, True)]
        for params in wrong:
            client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        client.is_well()
        assert is_alive(pid)
        for same in ("7", 7):
            cancelled = {"method": "notifications/cancelled", "params": {"requestId": same}}
            client.send({"jsonrpc": "2.0", **cancelled})
        _gone(pid)
        client.send(client.call(7, "load", {"item_id": "demo/large"}))
        while "result" not in (answer := client.answer(7)):
            assert "cancel" in answer["error"]["message"].lower(), answer
        client.is_well()


PAGE = 4096
"""The smallest pipe, in which no answer has room."""


def _is_half_full(pipe: int) -> bool:
    """Whether half of a pipe is taken: pages that are not full count less than they take."""
    unread = bytearray(4)
    fcntl.ioctl(pipe, termios.FIONREAD, unread)
    return 2 * int.from_bytes(unread, sys.byteorder) > fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)


def _gone(pid: int) -> None:
    end = time.monotonic() + 20
    while is_alive(pid):
        assert time.monotonic() < end, "expected the end of the tool, found it running"
        time.sleep(0.02)


@pytest.mark.thorough
@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_does_not_read_is_waited_for_and_gets_it_all(workshop: Workshop, era: Era) -> None:
    """Eight million bytes of answers: far more than fits into a pipe."""
    with raw_client(workshop.person, workshop.project, era) as client:
        client.begin()
        calls = [client.call(number, "load", {"item_id": "demo/large"}) for number in range(400)]
        feeding = threading.Thread(target=client.send, args=calls)
        feeding.start()
        feeding.join()  # all of it is taken, though nothing is read
        found = client.answers(400)
        assert Counter(answer["id"] for answer in found) == Counter(range(400))
        client.is_well()


@pytest.mark.thorough
def test_a_client_that_goes_without_reading_is_given_up(workshop: Workshop) -> None:
    with raw_client(workshop.person, workshop.project, "2025-11-25") as client:
        client.begin()
        fcntl.fcntl(client.stdout, fcntl.F_SETPIPE_SZ, PAGE)
        client.send(*(client.call(number, "load", {"item_id": "demo/large"}) for number in range(50)))
        assert client.receive()["id"] in range(50)
        while not _is_half_full(client.stdout.fileno()):  # the rest of that answer has no room
            assert client.process.poll() is None
        client.stdin.close()
        assert client.process.wait(20) == 0


def test_a_client_that_breaks_off_in_the_middle_of_an_answer_is_the_end(
    workshop: Workshop, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with raw_client(workshop.person, workshop.project, "2026-07-28") as client:
        client.begin()
        client.send(client.call(7, "execute", {"item_id": "demo/wait", "parameters": {"pipe": str(pipe)}}))
        pid = int(pipe.read_text())
        client.send(*(client.call(number, "load", {"item_id": "demo/large"}) for number in range(50)))
        assert client.receive()["id"] in range(50)
        client.stdout.close()  # and not its other end
        assert client.process.wait(20) == 0
        assert client.errors() == ""
        _gone(pid)


@pytest.mark.thorough
@pytest.mark.parametrize("era", ERAS)
def test_a_thousand_calls_at_once_are_all_answered(workshop: Workshop, era: Era) -> None:
    arguments = {"item_id": "demo/large"}
    with raw_client(workshop.person, workshop.project, era) as client:
        client.begin()
        client.send(*(client.call(number, "load", arguments) for number in range(1000)))
        found = client.answers(1000)
        assert Counter(answer["id"] for answer in found) == Counter(range(1000))
        assert all(answer["result"]["isError"] is False for answer in found)
        client.is_well()
