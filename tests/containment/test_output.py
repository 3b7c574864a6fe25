"""What a tool writes is kept, counted and never waited for, whatever it does with its descriptors."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from tests.containment.client import Client
from tests.containment.command_line import CommandLine
from tests.containment.processes import memory_of, peak_of, watched

DRAIN_S = 0.5
SLACK_S = 2.0
MIB = 1 << 20
SMALL = 2 * MIB
"""What a supervisor may grow by beside the output that it keeps."""


def test_a_tool_that_has_closed_its_output_lives_on(client: Client, fifo: Path) -> None:
    script = 'echo early; exec >&- 2>&-; echo > "$1"; read -r answer; [ "$answer" = go ] && exit 5'
    run = client.start_run("/bin/sh", "-c", script, "sh", fifo, stdin="pipe")
    fifo.read_text()
    assert client.ask("status", run=run).header["state"] == "running"
    client.send("input", b"go\n", id=run)
    ended = client.end_of(run)
    assert (ended.result["return_code"], ended.stdout) == (5, b"early\n")


def test_a_child_that_holds_the_output_is_waited_for_a_while_and_then_killed(client: Client) -> None:
    since = time.monotonic()
    run = client.start_run("/bin/sh", "-c", "sleep 100 & echo $!; echo kept >&2; exit 3", notify=True)
    exited = client.wait_for(run, "exited")
    ended = client.end_of(run)
    assert (exited.header["return_code"], ended.result["return_code"]) == (3, 3)
    assert ended.last.at - exited.at > DRAIN_S / 2
    assert DRAIN_S <= ended.last.at - since < DRAIN_S + SLACK_S
    assert ended.stderr == b"kept\n"
    assert not Path(f"/proc/{int(ended.stdout)}").exists()


def test_a_child_that_writes_forever_does_not_hold_up_the_result(command_line: CommandLine) -> None:
    since = time.monotonic()
    ended = command_line.exec("/bin/sh", "-c", "echo first; yes & exit 3")
    assert time.monotonic() - since < DRAIN_S + SLACK_S
    assert (ended["return_code"], ended["stdout"][:6]) == (3, "first\n")


def test_a_tool_that_ends_without_children_is_not_waited_for(client: Client) -> None:
    since = time.monotonic()
    for _ in range(5):
        assert client.shell("sleep 100 >/dev/null 2>&1 & exit 3").result["return_code"] == 3
    assert time.monotonic() - since < 5 * DRAIN_S


def test_a_flood_takes_no_more_memory_than_is_kept_and_disturbs_nobody(client: Client) -> None:
    size = 1024 * MIB
    client.run("true")
    status = client.status()
    pids = [status["warden"], status["pid"]]
    before, peak_before = memory_of(pids), peak_of(pids)
    run = client.start_run(
        "/bin/sh", "-c", 'head -c "$1" /dev/zero & head -c "$1" /dev/zero >&2; wait; exit 7', "sh", size
    )
    times = []
    while client.ask("status", run=run).header["state"] == "running":
        since = time.monotonic()
        assert client.run("echo", "meanwhile").stdout == b"meanwhile\n"
        times.append(time.monotonic() - since)
    ended = client.end_of(run)
    assert ended.result["return_code"] == 7
    for stream in ("stdout", "stderr"):
        counts = ended.result[stream]
        assert (counts["total"], counts["kept"], counts["omitted"]) == (size, MIB, size - MIB)
        assert ended.streams[stream] == bytes(MIB)
    assert len(times) > 1
    assert sorted(times)[len(times) // 2] < SLACK_S
    assert peak_of(pids) - peak_before <= 2 * MIB + SMALL
    assert memory_of(pids) - before <= 2 * MIB + SMALL


CUT = 1024
HALF = CUT // 2


@pytest.mark.parametrize("size", [0, 1, HALF, CUT - 1, CUT, CUT + 1, CUT + HALF, 3 * CUT, 100 * CUT])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_beginning_and_the_end_are_kept_and_the_rest_is_counted(
    size: int, stream: str, client: Client, tmp_path: Path
) -> None:
    written = bytes(range(32, 127)) * (size // 95 + 1)
    written = written[:size]
    (tmp_path / "text").write_bytes(written)
    command = f"cat '{tmp_path}/text' {'>&2' if stream == 'stderr' else ''}"
    ended = client.shell(command, max_output=CUT)
    counts, omitted = ended.result[stream], max(0, size - CUT)
    assert (counts["total"], counts["omitted"], counts["kept"]) == (size, omitted, size - omitted)
    assert ended.result["truncated"] == (omitted > 0)
    kept = written if not omitted else written[:HALF] + written[-HALF:]
    assert ended.streams[stream] == kept
    assert counts["head"] == (HALF if omitted else size)


@pytest.mark.parametrize("shift", range(4))
def test_a_character_is_never_torn_where_something_is_left_out(
    shift: int, client: Client, tmp_path: Path
) -> None:
    text = "x" * shift + "ż€😀" * 1000
    (tmp_path / "text").write_text(text, encoding="utf-8")
    ended = client.run("cat", tmp_path / "text", max_output=CUT)
    counts = ended.result["stdout"]
    head, tail = ended.stdout[: counts["head"]].decode(), ended.stdout[counts["head"] :].decode()
    assert text.startswith(head)
    assert text.endswith(tail)
    assert counts["omitted"] == counts["total"] - len(ended.stdout)
    assert CUT - 6 <= counts["kept"] <= CUT


def test_what_is_left_out_is_marked_for_people(command_line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("€" * 1000)
    fields = {"command": "/bin/cat", "args": [str(tmp_path / "text")], "max_output": CUT}
    answer = command_line.request("exec", **fields)
    omitted = answer["output"]["stdout"]["omitted"]
    head, tail = answer["stdout"].split(f"\n[… {omitted} bytes omitted …]\n")
    assert {*head, *tail} == {"€"}
    assert answer["encoding"]["stdout"] == "utf-8"


def test_a_character_that_comes_in_two_pieces_stays_whole(client: Client) -> None:
    script = r"printf '\342\202'; read -r _; printf '\254'"
    run = client.start_run("/bin/sh", "-c", script, stdin="pipe", stream={"credit": 100, "interval_ms": 0})
    assert client.wait_for(run, "output").payload == b"\xe2\x82"
    client.send("input", b"\n", id=run)
    assert client.end_of(run).stdout.decode() == "€"


@pytest.mark.parametrize(
    ("octal", "raw", "text", "encoding"),
    [
        (r"\377", b"\xff", "\ufffd", "lossy"),
        (r"\000", b"\x00", "\x00", "utf-8"),
        (r"\342\202", b"\xe2\x82", "\ufffd", "lossy"),
        (r"a\000b\377c\n", b"a\x00b\xffc\n", "a\x00b\ufffdc\n", "lossy"),
        (r"\033[31m\r\n", b"\x1b[31m\r\n", "\x1b[31m\r\n", "utf-8"),
    ],
)
def test_bytes_that_are_no_text_are_kept_as_they_are(
    octal: str, raw: bytes, text: str, encoding: str, client: Client, command_line: CommandLine
) -> None:
    assert client.run("printf", octal).stdout == raw
    answer = command_line.exec("printf", octal)
    assert (answer["stdout"], answer["encoding"]["stdout"]) == (text, encoding)


def test_a_tool_has_its_three_descriptors_and_no_other(client: Client) -> None:
    script = "readlink /proc/$$/fd/0; ls /proc/$$/fd; :"
    assert client.shell(script).stdout.split() == [b"/dev/null", b"0", b"1", b"2"]
    assert client.shell(script, result_fd=True).stdout.split() == [b"/dev/null", b"0", b"1", b"2", b"3"]


def test_descriptors_that_the_supervisor_was_given_do_not_reach_the_tool(
    command_line: CommandLine, tmp_path: Path
) -> None:
    descriptor = os.open(tmp_path / "open", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(descriptor, True)
    answer = command_line.exec("/bin/sh", "-c", "ls /proc/$$/fd; :")
    os.close(descriptor)
    assert answer["stdout"].split() == ["0", "1", "2"]


def test_descriptor_three_is_captured_when_it_is_asked_for(client: Client) -> None:
    ended = client.shell("echo out; echo err >&2; echo result >&3", result_fd=True)
    assert ended.streams == {"stdout": b"out\n", "stderr": b"err\n", "result": b"result\n"}
    assert [ended.result[name]["sha256"] for name in ended.streams] == [None, None, None]
    ended = client.shell("echo result >&3")
    assert ended.result["result"] is None
    assert ended.result["return_code"] != 0


def test_every_stream_is_hashed_whole_when_digests_are_asked_for(client: Client) -> None:
    script = "head -c 1000000 /dev/zero; echo err >&2; echo result >&3"
    written = {"stdout": bytes(1_000_000), "stderr": b"err\n", "result": b"result\n"}
    ended = client.shell(script, result_fd=True, digests=True, max_output=1024)
    assert ended.result["stdout"]["omitted"] == 1_000_000 - 1024
    assert {name: ended.result[name]["sha256"] for name in written} == {
        name: hashlib.sha256(data).hexdigest() for name, data in written.items()
    }


def test_a_reader_who_holds_the_output_is_not_a_writer(client: Client, fifo: Path) -> None:
    """A stopped child keeps the pipe open and writes nothing: it is killed with the rest."""
    run = client.start_run("/bin/sh", "-c", 'sleep 100 & kill -STOP $!; echo $! > "$1"; exit 0', "sh", fifo)
    with watched([int(fifo.read_text())]) as watch:
        assert client.end_of(run).result["kind"] == "exited"
        assert watch.left_at(time.monotonic()) == []
