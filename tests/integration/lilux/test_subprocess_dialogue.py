"""Talking with a program while it runs: everything arrives, whoever is slow, and nothing outlives it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import anyio
import pytest

from lilux.primitives.errors import ConfigurationError
from lilux.primitives.subprocess import (
    Dialogue,
    Enforced,
    Policy,
    ProcessSpec,
    SubprocessPrimitive,
    SubprocessResult,
)

ECHO = "import sys\nfor line in sys.stdin: sys.stdout.write(line.upper()); sys.stdout.flush()"
FLOOD = "import sys; sys.stdout.write('x' * 3_000_000 + chr(10)); sys.stdout.flush()"
DEAF = "import time; time.sleep(60)"

PREFIXES = sorted({os.path.realpath(place) for place in (sys.prefix, sys.base_prefix)})
"""What the interpreter of the tests consists of."""


class Talk:
    """What a program has said, and how one answers."""

    def __init__(self, code: str, *, takes: bool = True, policy: Policy | None = None) -> None:
        self.said = b""
        self.skipped = 0
        self.heard = anyio.Event()
        self.enforced: Enforced | None = None
        self.dialogue: Dialogue | None = None
        self.result: SubprocessResult | None = None
        self._takes = takes
        self._spec = ProcessSpec(
            command=sys.executable, args=["-c", code], on_output=self.hear, timeout=None, max_output=1024
        )
        if policy is not None:
            self._spec = replace(self._spec, cwd="/", policy=policy, on_started=self.started)

    def hear(self, stream: str, data: bytes, skipped: int) -> None:
        self.said += data
        self.skipped += skipped
        if self._takes and self.dialogue is not None:
            self.dialogue.took(len(data))
        self.heard.set()
        self.heard = anyio.Event()

    def started(self, _pid: int, enforced: Enforced | None) -> None:
        self.enforced = enforced

    def begun(self, dialogue: Dialogue) -> None:
        self.dialogue = dialogue

    async def run(self) -> None:
        self.result = await SubprocessPrimitive().converse(self._spec, self.begun)

    def is_further_than(self, size: int) -> bool:
        return self.result is not None or len(self.said) > size

    async def until(self, is_so: Callable[[], bool]) -> None:
        with anyio.fail_after(20):
            while not is_so():
                heard = self.heard
                if not is_so():
                    with anyio.move_on_after(0.05):
                        await heard.wait()


@pytest.mark.anyio
async def test_a_program_answers_each_line_as_it_is_told() -> None:
    talk = Talk(ECHO)
    async with anyio.create_task_group() as group:
        group.start_soon(talk.run)
        await talk.until(lambda: talk.dialogue is not None)
        assert talk.dialogue is not None
        for word in (b"one\n", b"two\n", b"three\n"):
            before = len(talk.said)
            talk.dialogue.tell(word)
            await talk.until(partial(lambda size: len(talk.said) > size, before))
        talk.dialogue.end_input()
    assert talk.said == b"ONE\nTWO\nTHREE\n"
    assert talk.result is not None
    assert talk.result.success


@pytest.mark.anyio
async def test_what_is_enforced_is_known_while_it_runs() -> None:
    talk = Talk(ECHO, policy=Policy(tier="cell", read=PREFIXES))
    async with anyio.create_task_group() as group:
        group.start_soon(talk.run)
        await talk.until(lambda: talk.dialogue is not None)
        assert talk.dialogue is not None
        talk.dialogue.tell(b"one\n")
        await talk.until(lambda: bool(talk.said))
        enforced = talk.enforced
        talk.dialogue.end_input()
    assert talk.result is not None
    assert enforced is not None
    assert enforced == talk.result.enforced


@pytest.mark.anyio
async def test_more_is_told_than_can_be_under_way_at_once() -> None:
    talk = Talk(ECHO)
    async with anyio.create_task_group() as group:
        group.start_soon(talk.run)
        await talk.until(lambda: talk.dialogue is not None)
        assert talk.dialogue is not None
        talk.dialogue.tell(b"a" * 2_000_000 + b"\n")
        talk.dialogue.end_input()
    assert talk.said == b"A" * 2_000_000 + b"\n"


@pytest.mark.anyio
async def test_every_byte_of_a_flood_reaches_a_slow_reader() -> None:
    talk = Talk(FLOOD, takes=False)
    async with anyio.create_task_group() as group:
        group.start_soon(talk.run)
        await talk.until(lambda: len(talk.said) >= 192 * 1024)
        held = len(talk.said)
        assert talk.dialogue is not None
        while talk.result is None:
            assert len(talk.said) <= held + 256 * 1024  # it waits for whoever listens
            before = len(talk.said)
            talk.dialogue.took(64 * 1024)
            with anyio.move_on_after(0.2):
                await talk.until(partial(talk.is_further_than, before))
            held = len(talk.said)
    assert (len(talk.said), talk.skipped) == (3_000_001, 0)
    assert talk.skipped == 0


@pytest.mark.anyio
async def test_a_program_that_reads_nothing_shows_in_what_is_waiting() -> None:
    talk = Talk(DEAF)
    async with anyio.create_task_group() as group:
        group.start_soon(talk.run)
        await talk.until(lambda: talk.dialogue is not None)
        assert talk.dialogue is not None
        talk.dialogue.tell(b"a" * 1_000_000)
        assert talk.dialogue.waiting >= 1_000_000 - 256 * 1024
        group.cancel_scope.cancel()


@pytest.mark.anyio
async def test_it_ends_with_its_waiter() -> None:
    talk = Talk("import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    async with anyio.create_task_group() as group:
        group.start_soon(talk.run)
        await talk.until(lambda: talk.said.endswith(b"\n"))
        group.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(int(talk.said), 0)


@pytest.mark.anyio
async def test_a_caller_that_does_not_listen_cannot_talk() -> None:
    with pytest.raises(ConfigurationError, match="on_output"):
        await SubprocessPrimitive().converse(ProcessSpec(command="cat"), lambda _: None)
