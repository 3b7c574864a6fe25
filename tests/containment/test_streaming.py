"""Output as it comes, within what the client can take, and whole streams in files."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from tests.containment.client import TERMINAL, Client, Ended, Frame
from tests.containment.command_line import CommandLine

KIB = 1024
MIB = 1 << 20
CUT = 1024
COUNT = 'i=0; while [ $i -lt "$1" ]; do echo "line $i"; i=$((i+1)); done'


def streamed(ended: Ended, stream: str) -> tuple[bytes, int]:
    """What came of a stream, and how much of it was left out."""
    frames = [frame for frame in ended.events("output") if frame.header["stream"] == stream]
    return b"".join(frame.payload for frame in frames), sum(frame.header["skipped"] for frame in frames)


def test_with_credit_for_all_of_it_everything_comes_in_order(client: Client) -> None:
    script = "echo one; echo two >&2; echo three >&3; echo four"
    stream = {"credit": MIB, "interval_ms": 0}
    ended = client.shell(script, result_fd=True, stream=stream, notify=True)
    frames = ended.events("output")
    assert [frame.header["seq"] for frame in frames] == list(range(len(frames)))
    for name in ("stdout", "stderr", "result"):
        assert streamed(ended, name) == (ended.streams[name], 0)
    assert ended.streams == {"stdout": b"one\nfour\n", "stderr": b"two\n", "result": b"three\n"}
    order = [frame.event for frame in ended.frames if frame.event != "output"]
    assert order == ["started", "exited", "closed"]
    assert ended.frames[0].event == "started"


def test_the_first_output_comes_at_once_and_the_rest_in_few_pieces(client: Client, fifo: Path) -> None:
    script = f'echo first; read -r _ <"$2"; {COUNT}'
    since = time.monotonic()
    run = client.start_run(
        "/bin/sh", "-c", script, "sh", 2000, fifo, stream={"credit": MIB, "interval_ms": 300}
    )
    first = client.next_for(run)
    assert (first.payload, first.at - since < 0.3) == (b"first\n", True)
    fifo.write_text("\n")
    ended = client.end_of(run)
    elapsed = ended.last.at - first.at
    assert first.payload + streamed(ended, "stdout")[0] == ended.stdout
    assert len(ended.events("output")) <= 2 + elapsed / 0.3


@pytest.mark.parametrize("credit", [0, 1, 10, KIB])
def test_no_more_comes_than_was_credited(credit: int, client: Client) -> None:
    ended = client.shell(COUNT, 1000, stream={"credit": credit, "interval_ms": 0})
    came, skipped = streamed(ended, "stdout")
    assert came == ended.stdout[:credit]
    assert skipped == 0
    assert len(ended.stdout) == ended.result["stdout"]["total"] > KIB


def test_credit_lets_more_come_and_what_was_missed_meanwhile_is_counted(client: Client, fifo: Path) -> None:
    size = 300 * KIB
    script = 'head -c "$1" /dev/zero | tr "\\0" a; echo > "$2"; read -r _; echo end'
    run = client.start_run(
        "/bin/sh", "-c", script, "sh", size, fifo, stdin="pipe", stream={"credit": 1, "interval_ms": 0}
    )
    fifo.read_text()
    frames: list[Frame] = []
    while sum(len(frame.payload) for frame in frames) < 64 * KIB:
        client.send("credit", id=run, bytes=10 * KIB)
        frames.append(client.next_for(run))
    client.send("credit", id=run, bytes=MIB)
    client.send("input", b"\n", id=run)
    ended = client.end_of(run)
    whole = Ended([*frames, *ended.frames], ended.streams)
    came, skipped = streamed(whole, "stdout")
    assert (len(came) + skipped, came[-4:]) == (size + 4, b"end\n")
    assert skipped > 0
    assert [frame.header["seq"] for frame in whole.events("output")] == list(
        range(len(whole.events("output")))
    )


def test_a_flood_is_streamed_as_far_as_the_client_takes_it(client: Client) -> None:
    size, credit = 8 * MIB, 256 * KIB
    run = client.start_run("head", "-c", size, "/dev/zero", stream={"credit": credit, "interval_ms": 0})
    frames = [client.next_for(run)]
    while frames[-1].event not in TERMINAL:
        if frames[-1].event == "output":
            client.send("credit", id=run, bytes=len(frames[-1].payload))
        frames.append(client.next_for(run))
    came, skipped = streamed(Ended(frames), "stdout")
    assert credit < len(came) <= len(came) + skipped <= size
    assert frames[-1].header["result"]["stdout"]["total"] == size


# --- spool ----------------------------------------------------------------------


def spooled(client: Client, tmp_path: Path, script: str, *args: Any, **fields: Any) -> Ended:
    spool = {"dir": str(tmp_path), **fields.pop("spool", {})}
    return client.shell(script, *args, spool=spool, max_output=CUT, **fields)


@pytest.mark.parametrize("size", [0, 1, CUT - 1, CUT])
def test_a_stream_that_is_kept_whole_needs_no_file(size: int, client: Client, tmp_path: Path) -> None:
    ended = spooled(client, tmp_path, 'head -c "$1" /dev/zero', size)
    assert (ended.result["stdout"]["spooled"], ended.result["stdout"]["lost"]) == (0, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [CUT + 1, 2 * CUT, 70 * KIB, MIB + 7])
@pytest.mark.parametrize("stream", ["stdout", "stderr", "result"])
def test_a_longer_stream_is_written_whole_to_a_file_of_its_owner(
    size: int, stream: str, client: Client, tmp_path: Path
) -> None:
    whole = os.urandom(size)
    (tmp_path / "source").write_bytes(whole)
    number = {"stdout": 1, "stderr": 2, "result": 3}[stream]
    (tmp_path / "spool").mkdir()
    ended = spooled(client, tmp_path / "spool", f'cat "$1" >&{number}', tmp_path / "source", result_fd=True)
    (file,) = (tmp_path / "spool").iterdir()
    assert (file.name, file.read_bytes()) == (stream, whole)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    counts = ended.result[stream]
    assert (counts["spooled"], counts["lost"], counts["total"]) == (size, 0, size)
    head = whole[: counts["head"]]
    assert ended.streams[stream] == head + whole[len(whole) - (counts["kept"] - counts["head"]) :]


def test_what_does_not_fit_the_file_is_counted_as_lost(client: Client, tmp_path: Path) -> None:
    ended = spooled(client, tmp_path, 'head -c "$1" /dev/zero', 100 * KIB, spool={"max_bytes": 10 * KIB})
    counts = ended.result["stdout"]
    assert (counts["spooled"], counts["lost"]) == (10 * KIB, 90 * KIB)
    assert (tmp_path / "stdout").stat().st_size == 10 * KIB


@pytest.mark.parametrize("obstacle", ["a file", "a link", "a dangling link", "a directory"])
def test_nothing_that_is_there_is_followed_or_overwritten(
    obstacle: str, client: Client, tmp_path: Path
) -> None:
    directory, victim = tmp_path / "spool", tmp_path / "victim"
    directory.mkdir()
    victim.write_text("precious")
    place = directory / "stdout"
    match obstacle:
        case "a file":
            place.write_text("precious")
        case "a link":
            place.symlink_to(victim)
        case "a dangling link":
            place.symlink_to(tmp_path / "created")
        case "a directory":
            place.mkdir()
    counts = spooled(client, directory, 'head -c "$1" /dev/zero', 10 * KIB).result["stdout"]
    assert (counts["total"], counts["spooled"], counts["lost"]) == (10 * KIB, 0, 10 * KIB)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "created").exists()
    assert place.read_text() == "precious" if obstacle in {"a file", "a link"} else True


def test_a_spool_directory_that_is_not_there_is_known_before_anything_is_started(
    client: Client, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    ended = client.run("touch", canary, spool={"dir": str(tmp_path / "nowhere")})
    assert (ended.error, canary.exists()) == ("spool_failed", False)


def test_the_command_line_spools_too(command_line: CommandLine, tmp_path: Path) -> None:
    fields = {"command": "/bin/sh", "args": ["-c", "head -c 10000 /dev/zero"], "max_output": CUT}
    answer = command_line.request("exec", spool={"dir": str(tmp_path)}, **fields)
    assert answer["output"]["stdout"]["spooled"] == (tmp_path / "stdout").stat().st_size == 10_000
