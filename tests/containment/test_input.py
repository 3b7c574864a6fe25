"""Standard input reaches the tool whole, never blocks anybody, and is never more than was credited."""

from __future__ import annotations

import hashlib
import json
import os
import select
from pathlib import Path

import pytest

from tests.containment.client import INPUT_WINDOW, MAX_PAYLOAD, Client
from tests.containment.command_line import CommandLine

TEN_MB = os.urandom(1 << 16) * 160
DIGEST = hashlib.sha256(TEN_MB).hexdigest()


def test_ten_megabytes_reach_a_program_that_reads(client: Client, command_line: CommandLine) -> None:
    run = client.start_run("sha256sum", stdin="pipe")
    assert client.feed(run, TEN_MB).stdout.decode().split()[0] == DIGEST
    answer = command_line.request("exec", command="/usr/bin/wc", args=["-c"], input="é" * (len(TEN_MB) // 2))
    assert int(answer["stdout"]) == len(TEN_MB)


@pytest.mark.parametrize("script", ["exit 4", "exec <&-; exit 4", "head -c 1 >/dev/null; exit 4"])
def test_ten_megabytes_do_not_disturb_a_program_that_never_reads(
    script: str, client: Client, command_line: CommandLine
) -> None:
    run = client.start_run("/bin/sh", "-c", script, stdin="pipe")
    assert client.feed(run, TEN_MB).result["return_code"] == 4
    answer = command_line.request("exec", command="/bin/sh", args=["-c", script], input="x" * len(TEN_MB))
    assert (answer["return_code"], answer["kind"]) == (4, "exited")


def test_a_program_that_never_reads_and_lives_on_blocks_nobody(client: Client, fifo: Path) -> None:
    run = client.start_run("/bin/sh", "-c", 'read -r _ <"$1"; exit 4', "sh", fifo, stdin="pipe")
    for _ in range(INPUT_WINDOW // MAX_PAYLOAD):
        client.send("input", bytes(MAX_PAYLOAD), id=run)
    assert client.run("cat", payload=b"others", stdin="data").stdout == b"others"
    fifo.write_text("\n")
    assert client.end_of(run).result["return_code"] == 4


def test_a_supervisor_does_not_spin_when_a_tool_has_closed_its_input(client: Client, fifo: Path) -> None:
    script = 'exec <&-; echo > "$1"; read -r _ <"$1"'
    run = client.start_run("/bin/sh", "-c", script, "sh", fifo, stdin="pipe")
    fifo.read_text()
    serve = client.status()["pid"]
    before = cpu_of(serve)
    assert not select.select([client.socket], [], [], 0.3)[0]
    assert cpu_of(serve) - before < 0.1, "it was busy although nothing happened"
    fifo.write_text("\n")
    client.end_of(run)


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_input_comes_in_pieces_and_answers_in_between(client: Client) -> None:
    run = client.start_run("cat", stdin="pipe", stream={"credit": 1000, "interval_ms": 0}, payload=b"one")
    for piece in (b"two", b"three", b""):
        assert client.wait_for(run, "output").payload
        client.send("input", piece, id=run, eof=not piece)
    assert client.end_of(run).stdout == b"onetwothree"


def test_more_input_than_was_credited_ends_the_run_and_no_other(client: Client) -> None:
    other = client.start_run("cat", stdin="pipe")
    run = client.start_run("sleep", "100", stdin="pipe", notify=True)
    tool = client.wait_for(run, "started").header["pid"]
    for _ in range(2 * INPUT_WINDOW // MAX_PAYLOAD + 2):
        client.send("input", bytes(MAX_PAYLOAD), id=run)
    assert client.end_of(run).error == "input_overrun"
    assert not Path(f"/proc/{tool}").exists()
    client.send("input", b"fine", id=other, eof=True)
    assert client.end_of(other).stdout == b"fine"


def test_input_after_its_end_ends_the_run_with_a_reason(client: Client) -> None:
    run = client.start_run("sleep", "100", stdin="pipe")
    client.send("input", b"x", id=run, eof=True)
    client.send("input", b"y", id=run)
    assert client.end_of(run).error == "invalid_request"


def test_input_for_a_run_without_any_ends_the_run_with_a_reason(client: Client) -> None:
    run = client.start_run("sleep", "100")
    client.send("input", b"x", id=run)
    assert client.end_of(run).error == "invalid_request"


def test_input_and_cancel_and_credit_for_a_run_that_is_over_are_ignored(client: Client) -> None:
    run = client.start_run("true", stdin="pipe")
    client.end_of(run)
    client.send("input", id=run)
    client.send("cancel", id=run)
    client.send("credit", id=run, bytes=1)
    assert client.run("echo", "fine").stdout == b"fine\n"
    assert not client.has_more_for(run)


def test_the_command_line_gives_the_tool_nothing_a_text_or_its_own_input(command_line: CommandLine) -> None:
    cases = [([], b""), (["--stdin", "a text"], b"a text"), (["--stdin-pipe"], b"from the pipe")]
    for options, expected in cases:
        answer = command_line.call("exec", "--cmd", "cat", *options, input=b"from the pipe").json
        assert answer["stdout"].encode() == expected


def test_a_request_on_standard_input_is_not_the_input_of_the_tool(command_line: CommandLine) -> None:
    fields = json.dumps({"command": "/bin/cat"}).encode()
    assert command_line.call("exec", "--request", "-", input=fields).json["stdout"] == ""
