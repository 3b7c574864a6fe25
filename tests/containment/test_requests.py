"""Bad input costs what it must: the request, or the stream when its framing is lost; and never a hang."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.containment.client import PREFIX, Client, StreamEndedError, encode
from tests.containment.command_line import CommandLine
from tests.containment.endings import PATIENCE_S
from tests.containment.processes import family_of, watched

ASSETS = Path(__file__).parents[1] / "assets" / "protocol"
FIXTURES = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(ASSETS.glob("*.json"))}
REFUSED = [name for name, made in FIXTURES.items() if "error" in made]
COSTLY = [name for name in REFUSED if FIXTURES[name]["error_id"] is None]
CHEAP = [name for name in REFUSED if name not in COSTLY]
GARBAGE = {
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a line of JSON": b'{"op": "run", "id": 1, "command": "true"}\n',
    "zeros": bytes(64),
    "a header that is too deep": PREFIX.pack(65536, 0) + b"[" * 65536,
    "an array for a request": PREFIX.pack(2, 0) + b"[]",
}


@pytest.mark.parametrize("name", CHEAP)
def test_a_request_that_cannot_be_carried_out_costs_only_itself(name: str, client: Client) -> None:
    made = FIXTURES[name]
    other = client.start_run("cat", stdin="pipe", id=77)
    client.socket.sendall(bytes.fromhex(made["frame_hex"]))
    error = client.next_for(made["error_id"]).header
    assert (error["event"], error["code"]) == ("error", made["error"])
    assert error["message"]
    client.send("input", b"fine", id=other, eof=True)
    assert client.end_of(other).stdout == b"fine"


@pytest.mark.parametrize("name", [*COSTLY, *GARBAGE])
def test_a_stream_without_framing_is_named_and_ends_every_run(name: str, client: Client) -> None:
    run = client.start_run("sleep", "100", notify=True)
    client.wait_for(run, "started")
    made = FIXTURES.get(name)
    with watched(family_of(client.status()["warden"])) as watch:
        client.socket.sendall(GARBAGE[name] if made is None else bytes.fromhex(made["frame_hex"]))
        since = time.monotonic()
        client.socket.shutdown(socket.SHUT_WR)
        header = client.next_for(None).header
        codes = {"malformed_frame", "frame_too_large"} if made is None else {made["error"]}
        assert (header["event"], header["id"]) == ("error", None)
        assert header["code"] in codes
        with pytest.raises(StreamEndedError):
            client.read()
        assert watch.left_at(since + PATIENCE_S) == []
    assert client.process.wait() == 1


def test_a_header_of_the_largest_size_is_read_and_a_larger_one_is_not(client: Client) -> None:
    limit = 8 * 1024 * 1024
    empty = len(json.dumps({"op": "run", "id": 1, "command": "true", "args": [""]}))
    run = client.start_run("true", "x" * (limit - empty), id=1)
    assert client.end_of(run).error == "argument_too_long"
    client.socket.sendall(PREFIX.pack(limit + 1, 0))
    assert client.next_for(None).header["code"] == "frame_too_large"


def test_a_frame_may_come_byte_by_byte(client: Client) -> None:
    for byte in encode({"op": "run", "id": 5, "command": "cat", "stdin": "data"}, b"payload"):
        client.socket.sendall(bytes([byte]))
    assert client.end_of(5).stdout == b"payload"


def test_an_id_that_is_in_use_is_refused_and_its_first_run_goes_on(client: Client) -> None:
    run = client.start_run("cat", stdin="pipe", id=7)
    client.start_run("echo", "second", id=7)
    assert client.next_for(run).header["code"] == "duplicate_id"
    for op in ("status", "kill"):
        client.send(op, id=7, pid=os.getpid())
        refused = client.next_for(run).header
        assert (refused["event"], refused["code"], refused["stage"]) == ("error", "duplicate_id", op)
    client.send("input", b"first", id=run, eof=True)
    assert client.end_of(run).stdout == b"first"
    assert client.end_of(client.start_run("echo", "third", id=7)).stdout == b"third\n"


def test_the_end_of_the_stream_is_a_good_end(binary: Path) -> None:
    with Client.start(binary) as client:
        client.run("true")
        client.socket.shutdown(socket.SHUT_WR)
        with pytest.raises(StreamEndedError):
            client.read()
        assert client.process.wait() == 0


def test_pipes_serve_as_well_as_a_socket(binary: Path) -> None:
    request = encode({"op": "run", "id": 1, "command": "echo", "args": ["piped"]})
    pipe = subprocess.PIPE
    with subprocess.Popen([binary, "serve"], stdin=pipe, stdout=pipe, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request)
        answer = b""
        while b"piped\n" not in answer:
            answer += process.stdout.read(4096)
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.parametrize("name", ["/dev/null", "a file"])
def test_an_input_that_cannot_be_watched_is_an_error_with_a_name(
    name: str, binary: Path, tmp_path: Path
) -> None:
    (tmp_path / "a file").touch()
    with (tmp_path / name).open("rb") as unwatchable:
        ran = subprocess.run([binary, "serve"], stdin=unwatchable, capture_output=True)
    header = json.loads(ran.stdout[8:])
    assert (header["event"], header["id"], header["code"]) == ("error", None, "stdin_unsupported")
    assert (ran.returncode, b"standard input" in ran.stderr) == (1, True)


def test_an_output_that_cannot_be_watched_is_said_on_standard_error(binary: Path, tmp_path: Path) -> None:
    with (tmp_path / "a file").open("wb") as unwatchable:
        ran = subprocess.run(
            [binary, "serve"], stdin=subprocess.PIPE, stdout=unwatchable, stderr=subprocess.PIPE
        )
    assert (ran.returncode, b"standard output" in ran.stderr) == (1, True)


# --- the command line -----------------------------------------------------------

YEAR_S = 31_536_000
TIMES = ["0", "-1", "-0.5", "nan", "inf", "-inf", "1e300", str(YEAR_S + 1), "soon", ""]


@pytest.mark.parametrize("text", TIMES)
def test_a_timeout_that_is_no_time_is_refused_and_nothing_is_started(
    text: str, command_line: CommandLine, tmp_path: Path
) -> None:
    refused = command_line.call("exec", "--cmd", "touch", f"--arg={tmp_path}/canary", f"--timeout={text}")
    assert (refused.code, refused.stdout) == (2, b"")
    assert "--timeout" in refused.stderr
    assert not (tmp_path / "canary").exists()


def test_every_such_timeout_is_refused_with_a_message_of_its_own(command_line: CommandLine) -> None:
    messages = [command_line.call("exec", "--cmd", "true", f"--timeout={text}").stderr for text in TIMES]
    assert len(set(messages)) == len(TIMES)


@pytest.mark.parametrize("text", ["0.001", "0.5", "1e3", str(YEAR_S)])
def test_any_other_timeout_is_accepted(text: str, command_line: CommandLine) -> None:
    ended = command_line.exec("/bin/sh", "-c", "exit 0", options=[f"--timeout={text}"])
    assert ended["kind"] in {"exited", "timeout"}


@pytest.mark.parametrize(
    ("arguments", "mention"),
    [
        ([], "Usage"),
        (["exec"], "--cmd"),
        (["exec", "--cmd", "true", "--env", "NOVALUE"], "NOVALUE"),
        (["exec", "--cmd", "true", "--bogus"], "--bogus"),
        (["exec", "--cmd", "true", "--stdin", "a", "--stdin-pipe"], "--stdin-pipe"),
        (["exec", "--request", "-", "--cmd", "true"], "--cmd"),
        (["exec", "--request", "file"], "file"),
        (["status"], "--pid"),
        (["status", "--pid", "one"], "one"),
        (["kill", "--pid", "1" * 30], "--pid"),
        (["kill", "--pid", "1", "--grace", "nan"], "--grace"),
        (["kill", "--pid", "1", "--grace", "-1"], "--grace"),
        (["party"], "party"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_with_a_word(
    arguments: list[str], mention: str, command_line: CommandLine
) -> None:
    refused = command_line.call(*arguments)
    assert (refused.code, refused.stdout) == (2, b"")
    assert mention in refused.stderr


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"command": 1},
        {"command": "true", "args": "x"},
        {"command": "true", "args": [1]},
        {"command": "true", "timeout_ms": 0},
        {"command": "true", "timeout_ms": -1},
        {"command": "true", "timeout_ms": 1.5},
        {"command": "true", "timeout_ms": 10**20},
        {"command": "true", "max_output": 1},
        {"command": "true", "party": True},
        {"command": "true", "stdin": "pipe"},
        {"command": "true", "env": {"A": 1}},
        {"command": "true", "input": {"b64": "@"}},
    ],
    ids=str,
)
def test_a_request_in_json_is_read_as_strictly_as_one_in_a_frame(
    fields: dict[str, Any], command_line: CommandLine
) -> None:
    refused = command_line.call("exec", "--request", "-", input=json.dumps(fields).encode())
    assert (refused.code, refused.stdout) == (2, b"")
    assert refused.stderr.startswith("lilux-proc: ")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b'{"command": "true"} more'])
def test_what_is_no_request_in_json_is_refused(text: bytes, command_line: CommandLine) -> None:
    for face in ("exec", "spawn"):
        refused = command_line.call(face, "--request", "-", input=text)
        assert (refused.code, refused.stdout) == (2, b"")
