"""A program gets exactly those descriptors of its host that its spec names, each at its number."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from lilux import _supervisor
from lilux._frames import FrameDecoder, decode_header, encode_frame
from lilux.primitives.errors import ConfigurationError
from lilux.primitives.subprocess import Policy, ProcessSpec, SubprocessPrimitive

NUMBERS = """
import os
found = []
for number in range(256):
    try:
        os.fstat(number)
    except OSError:
        continue
    found.append(number)
print(found)
"""
ANSWER = """
import os, socket, sys
for number in map(int, sys.argv[1:]):
    with socket.socket(fileno=number) as end:
        end.sendall(str(number).encode() + end.recv(100))
"""
LEVELS = {"off": None, "walls": Policy(tier="walls"), "cell": Policy(tier="cell")}

_SERVE = [_supervisor.find_lilux_proc(), "serve"]

Pair = tuple[socket.socket, socket.socket]


def python(source: str, *args: str, **fields: Any) -> ProcessSpec:
    """A few lines of Python that see nothing of the environment."""
    return ProcessSpec(command=sys.executable, args=["-I", "-S", "-c", source, *args], timeout=60, **fields)


@pytest.fixture
def primitive() -> SubprocessPrimitive:
    return SubprocessPrimitive()


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("level", LEVELS)
async def test_a_program_talks_with_its_host_through_a_descriptor(
    primitive: SubprocessPrimitive, pair: Pair, level: str
) -> None:
    ours, theirs = pair
    ours.sendall(b" heard")
    spec = python(ANSWER, "5", descriptors={5: theirs.fileno()}, policy=_seeing_python(level))
    result = await primitive.run(spec)
    assert (result.success, result.stderr) == (True, "")
    assert ours.recv(100) == b"5 heard"
    assert level == "off" or (result.enforced is not None and result.enforced.level == level)


@pytest.mark.parametrize("level", LEVELS)
async def test_it_gets_no_other_descriptor(primitive: SubprocessPrimitive, pair: Pair, level: str) -> None:
    _, theirs = pair
    passed = dict.fromkeys([4, 7, 19], theirs.fileno())
    result = await primitive.run(python(NUMBERS, descriptors=passed, policy=_seeing_python(level)))
    assert result.stdout == "[0, 1, 2, 4, 7, 19]\n"


async def test_each_descriptor_has_its_own_number(primitive: SubprocessPrimitive) -> None:
    pairs = {number: socket.socketpair() for number in (19, 4, 5, 11)}
    for number, (ours, _) in pairs.items():
        ours.sendall(f" {number}".encode())
    passed = {number: theirs.fileno() for number, (_, theirs) in pairs.items()}
    result = await primitive.run(python(ANSWER, *map(str, pairs), descriptors=passed, result_fd=True))
    assert (result.success, result.stderr) == (True, "")
    assert {number: ours.recv(100).decode() for number, (ours, _) in pairs.items()} == {
        number: f"{number} {number}" for number in pairs
    }
    for ours, theirs in pairs.values():
        ours.close()
        theirs.close()


async def test_the_host_sees_the_end_when_the_program_closes_it(
    primitive: SubprocessPrimitive, pair: Pair
) -> None:
    ours, theirs = pair
    ended = anyio.Event()

    async def listen() -> None:
        await anyio.wait_readable(ours)
        assert ours.recv(1) == b""
        ended.set()

    def started(_pid: int, _enforced: object) -> None:
        theirs.close()

    source = "import os, sys; os.close(5); sys.stdin.read()"
    spec = python(source, descriptors={5: theirs.fileno()}, on_started=started, on_output=lambda *_: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)

        def begun(dialogue: Any) -> None:
            tasks.start_soon(_end_input_after, ended, dialogue)

        result = await primitive.converse(spec, begun)
    assert result.success


async def _end_input_after(ended: anyio.Event, dialogue: Any) -> None:
    await ended.wait()  # while the program is still there
    dialogue.end_input()


@pytest.mark.thorough
async def test_a_thousand_runs_leave_no_descriptor_open(primitive: SubprocessPrimitive) -> None:
    passed = os.memfd_create("passed")
    spec = ProcessSpec(command="/bin/true", env={}, timeout=60, descriptors={5: passed, 6: passed})
    await _all_at_once(primitive, spec, 20)
    serve = (await _supervisor.supervisor(_supervisor.find_lilux_proc()).status()).pid
    before = _descriptors_of(os.getpid()), _descriptors_of(serve)
    for _ in range(50):
        await _all_at_once(primitive, spec, 20)
    assert (_descriptors_of(os.getpid()), _descriptors_of(serve)) == before == (1, 0)
    os.close(passed)


async def _all_at_once(primitive: SubprocessPrimitive, spec: ProcessSpec, count: int) -> None:
    async def one() -> None:
        assert (await primitive.run(spec)).success

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(one)


def _descriptors_of(pid: int) -> int:
    """How many descriptors a process has for what was passed on; keepers of a supervisor come and go."""
    links = [os.path.realpath(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    return sum("memfd:passed" in link for link in links)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "standard output": ({"descriptors": {1: 0}}, "expected numbers from 3 to 19 as descriptors, found 1"),
    "beyond the places": ({"descriptors": {20: 0}}, "numbers from 3 to 19"),
    "the place of the result": ({"descriptors": {3: 0}, "result_fd": True}, "numbers from 4 to 19"),
    "no number": ({"descriptors": {"5": 0}}, "numbers from 3 to 19"),
    "negative": ({"descriptors": {5: -1}}, "expected an open descriptor as descriptors[5], found -1"),
    "not open": ({"descriptors": {5: 9999}}, "expected open descriptors, found 9999"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_no_descriptor_is_refused(primitive: SubprocessPrimitive, name: str) -> None:
    fields, message = REFUSED[name]
    with pytest.raises(ConfigurationError, match="descriptors") as refused:
        await primitive.run(ProcessSpec(command="/bin/true", **fields))
    assert message in str(refused.value)


async def test_a_process_that_outlives_its_host_gets_none(primitive: SubprocessPrimitive) -> None:
    with pytest.raises(ConfigurationError, match="no descriptors for a process that outlives"):
        await primitive.start(ProcessSpec(command="/bin/true", descriptors={5: 0}))


def test_a_refused_request_leaves_no_descriptor_to_the_next() -> None:
    ours, theirs = socket.socketpair()
    with ours, subprocess.Popen(_SERVE, stdin=theirs.fileno(), stdout=theirs.fileno()):
        theirs.close()
        one, other = os.memfd_create("one"), os.memfd_create("other")
        refused = _frame(id=1, args="no list", descriptors=[5])
        carried_out = _frame(id=2, args=["-n", "/proc/self/fd/5"], descriptors=[5])
        socket.send_fds(ours, [refused + carried_out], [one, other])
        decoder, closed = FrameDecoder(), b""
        while not closed:
            frames = [(decode_header(header), payload) for header, payload in decoder.feed(ours.recv(65536))]
            closed = b"".join(payload for header, payload in frames if header["event"] == "closed")
        ours.close()
        os.close(one)
        os.close(other)
    assert closed == b"/memfd:other (deleted)"  # here, as the supervisor ends with its input


def _frame(**fields: Any) -> bytes:
    return encode_frame({"op": "run", "command": "/usr/bin/readlink", **fields})


def test_descriptors_that_no_request_names_are_closed_by_the_supervisor() -> None:
    ours, theirs = socket.socketpair()
    canary, passed = socket.socketpair()
    with (
        ours,
        canary,
        subprocess.Popen(_SERVE, stdin=theirs.fileno(), stdout=theirs.fileno()),
    ):
        theirs.close()
        frame = b'{"op":"status","id":1}'
        prefix = len(frame).to_bytes(4, "big") + bytes(4)
        socket.send_fds(ours, [prefix + frame], [passed.fileno()])
        passed.close()
        canary.settimeout(60)
        assert canary.recv(1) == b""
        ours.close()


def _seeing_python(level: str) -> Policy | None:
    policy = LEVELS[level]
    if policy is None:
        return None
    prefixes = {os.path.realpath(sys.executable), sys.base_prefix, sys.prefix}
    return Policy(tier=policy.tier, require=policy.tier, read=sorted(prefixes))
