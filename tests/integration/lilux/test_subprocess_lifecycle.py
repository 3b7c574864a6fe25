"""How runs and their supervisor end: cancelled, lost, with the loop, with the interpreter, beside a fork."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio
from anyio.lowlevel import current_token

from lilux import _supervisor
from lilux._protocol import RunRequest, SupervisorStatus
from lilux.primitives.errors import SupervisorError
from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive, SubprocessResult

ENV = {"PATH": os.environ.get("PATH", os.defpath)}
FAMILY = "sleep 60 & echo $!; trap '' TERM; while :; do sleep 60; done"
"""A program that will not be asked, with a child that it names."""


def is_alive(pid: int) -> bool:
    """True while the process is there, be it only to be fetched."""
    return Path("/proc", str(pid)).exists()


async def status() -> SupervisorStatus:
    """Which processes the supervisor of this loop is."""
    return await _supervisor.supervisor(_supervisor.find_lilux_proc()).status()


class Program:
    """A family that runs: `pids` are its members, once `shown` is set."""

    def __init__(self, script: str = FAMILY) -> None:
        self.pids: list[int] = []
        self.shown = anyio.Event()
        self.spec = ProcessSpec(
            command="/bin/sh",
            args=["-c", script],
            env=ENV,
            timeout=60,
            on_started=lambda pid, _: self.pids.append(pid),
            on_output=self.see,
        )

    def see(self, stream: str, data: bytes, skipped: int) -> None:
        self.pids.append(int(data))
        self.shown.set()

    def survivors(self) -> list[int]:
        return [pid for pid in self.pids if is_alive(pid)]

    async def run(self) -> SubprocessResult:
        return await SubprocessPrimitive().run(self.spec)


async def echo(text: str = "fine") -> str:
    """What a small run prints."""
    return (
        await SubprocessPrimitive().run(ProcessSpec(command="echo", args=[text], env=ENV, timeout=30))
    ).stdout


# --- cancellation ---------------------------------------------------------------


async def test_a_cancelled_run_has_ended_with_its_children_before_the_cancellation_goes_on() -> None:
    program = Program()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(program.run)
        await program.shown.wait()
        tasks.cancel_scope.cancel()
    assert len(program.pids) == 2
    assert program.survivors() == []
    assert (await status()).runs == 0


async def test_a_supervisor_that_somebody_has_stopped_is_ended_when_a_run_is_overdue() -> None:
    """By a tool, say. The tree ends with the supervisor, and the next run finds a new one."""
    path = _supervisor.find_lilux_proc()
    supervisor = _supervisor.Supervisor(path, current_token().native_token, answer_limit_s=0.5)
    stopped = (await supervisor.status()).pid
    pids: list[int] = []
    script = ["-c", "kill -STOP $0; exec sleep 60", str(stopped)]
    request = RunRequest(command="/bin/sh", args=script, env=ENV, timeout_ms=200)
    with pytest.raises(SupervisorError, match="did not answer in time and was ended") as caught:
        await supervisor.run(request, on_started=lambda pid, _: pids.append(pid))
    assert caught.value.code == "lost"
    with anyio.fail_after(10):
        while is_running(stopped) or any(map(is_running, pids)):  # noqa: ASYNC110 - others have to end
            await anyio.sleep(0.01)
    assert (await supervisor.status()).pid != stopped
    supervisor.close()


def is_running(pid: int) -> bool:
    """False for one that has ended, whether it was fetched or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def waiting_for(program: Program) -> asyncio.Task[SubprocessResult]:
    return asyncio.get_running_loop().create_task(program.run())


async def cancel_once(program: Program) -> None:
    task = waiting_for(program)
    await program.shown.wait()
    task.cancel()
    await task


async def cancel_impatiently(program: Program) -> None:
    task = waiting_for(program)
    await program.shown.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    await task


async def time_out(program: Program) -> None:
    async with asyncio.timeout(0.3):
        await program.run()


async def time_out_twice(program: Program) -> None:
    async with asyncio.timeout(0.4):
        async with asyncio.timeout(0.3):
            await program.run()


async def wait_for(program: Program) -> None:
    await asyncio.wait_for(program.run(), 0.3)


async def fail_beside(program: Program) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(program.run())
        await program.shown.wait()
        raise ValueError("a neighbour failed")


WAYS = [
    (cancel_once, asyncio.CancelledError),
    (cancel_impatiently, asyncio.CancelledError),
    (time_out, TimeoutError),
    (time_out_twice, TimeoutError),
    (wait_for, TimeoutError),
    (fail_beside, ExceptionGroup),
]


@pytest.mark.parametrize(("way", "expected"), WAYS)
def test_every_way_to_cancel_in_asyncio_ends_the_run_first(
    way: Callable[[Program], Awaitable[None]], expected: type[BaseException]
) -> None:
    async def main() -> None:
        await echo()
        program = Program()
        with pytest.raises(expected):
            await way(program)
        assert program.survivors() == []
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        assert await echo() == "fine\n"

    asyncio.run(main())


def test_a_timeout_of_trio_ends_the_run_first() -> None:
    async def main() -> None:
        program = Program()
        with trio.move_on_after(1) as scope:
            await program.run()
        assert scope.cancelled_caught
        assert program.survivors() == []

    trio.run(main)


async def test_a_run_that_is_cancelled_at_any_moment_leaves_nothing_running() -> None:
    await echo()
    for delay_ms in range(40):
        with anyio.move_on_after(delay_ms / 10_000):
            await SubprocessPrimitive().run(ProcessSpec(command="/bin/true", env=ENV))
    assert (await status()).runs == 0
    assert await echo() == "fine\n"


def test_a_coroutine_that_is_thrown_away_ends_its_run() -> None:
    async def main() -> None:
        program = Program("echo $$; exec sleep 60")
        await echo()
        coroutine = program.run()
        future = coroutine.send(None)
        assert future is not None
        coroutine.close()
        while (await status()).runs:  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_coroutine_that_is_thrown_away_after_its_loop_says_nothing() -> None:
    loop = asyncio.new_event_loop()
    program = Program("echo $$; exec sleep 60")
    coroutine = program.run()

    async def begin() -> int:
        found = await status()
        coroutine.send(None)
        return found.warden

    warden = loop.run_until_complete(begin())
    loop.close()
    coroutine.close()
    assert asyncio.run(echo()) == "fine\n"
    assert not is_alive(warden)


# --- a supervisor that dies -----------------------------------------------------


async def test_runs_of_a_killed_supervisor_are_lost_and_later_ones_work() -> None:
    first, program = await status(), Program()
    errors: list[SupervisorError] = []

    async def run() -> None:
        with pytest.raises(SupervisorError) as caught:
            await program.run()
        errors.append(caught.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await program.shown.wait()
        os.kill(first.pid, signal.SIGKILL)
    assert [error.code for error in errors] == ["lost"]
    assert await echo() == "fine\n"
    second = await status()
    assert second.pid != first.pid
    while is_alive(first.warden):
        await echo()


async def test_a_supervisor_that_died_between_runs_is_replaced() -> None:
    first = await status()
    os.kill(first.pid, signal.SIGKILL)
    while is_alive(first.pid):  # noqa: ASYNC110 - the kernel sets no events
        await anyio.sleep(0.01)
    with contextlib.suppress(SupervisorError):  # the connection may not know yet
        await echo()
    assert await echo() == "fine\n"
    assert (await status()).pid != first.pid


# --- the end of the loop --------------------------------------------------------

RUNNERS: dict[str, Callable[[Callable[[], Awaitable[Any]]], Any]] = {
    "asyncio": lambda main: asyncio.run(main()),  # type: ignore[arg-type]
    "trio": trio.run,
    "anyio": anyio.run,
}


@pytest.mark.parametrize("runner", RUNNERS)
def test_the_supervisor_ends_with_its_loop(runner: str) -> None:
    async def main() -> SupervisorStatus:
        await echo()
        return await status()

    found = RUNNERS[runner](main)
    assert [pid for pid in (found.pid, found.warden) if is_alive(pid)] == []


@pytest.mark.parametrize("runner", RUNNERS)
def test_what_is_left_running_ends_with_the_loop(runner: str) -> None:
    async def main() -> Program:
        program = Program()

        async def run() -> None:
            await program.run()

        if runner == "trio":
            trio.lowlevel.spawn_system_task(ignore_cancellation, run)
        else:
            background.append(asyncio.get_running_loop().create_task(run()))
        await program.shown.wait()
        return program

    background: list[object] = []
    assert RUNNERS[runner](main).survivors() == []


async def ignore_cancellation(run: Callable[[], Awaitable[None]]) -> None:
    with trio.CancelScope():
        await run()


def test_a_generator_that_runs_something_while_the_loop_ends_still_can() -> None:
    printed: list[str] = []

    async def generate() -> Any:
        try:
            yield
        finally:
            printed.append(await echo("late"))

    async def main() -> None:
        await echo()
        kept.append(generate())
        await anext(kept[0])

    kept: list[Any] = []
    asyncio.run(main())
    assert printed == ["late\n"]


def test_a_loop_that_is_closed_without_ceremony_is_noticed_by_the_next() -> None:
    loop = asyncio.new_event_loop()
    found = loop.run_until_complete(status())
    loop.close()
    assert is_alive(found.warden)
    assert asyncio.run(echo()) == "fine\n"
    assert not is_alive(found.warden)


def test_loops_in_two_threads_do_not_know_each_other() -> None:
    together = threading.Barrier(2, timeout=30)
    found: list[SupervisorStatus] = []

    async def main() -> None:
        found.append(await status())
        await asyncio.to_thread(together.wait)
        assert await echo() == "fine\n"

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.pid for one in found}) == 2
    assert [one for one in found if is_alive(one.pid)] == []


# --- the end of the interpreter, and forks --------------------------------------


def run_script(source: str) -> list[str]:
    """The lines that a script of its own prints, with every warning an error; it must print nothing else."""
    path = os.pathsep.join(item for item in sys.path if item)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", PRELUDE + source],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (ran.stderr, ran.returncode) == ("", 0)
    return ran.stdout.splitlines()


PRELUDE = """
import asyncio, os, sys, threading
from lilux import _supervisor
from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive

async def warden():
    return (await _supervisor.supervisor(_supervisor.find_lilux_proc()).status()).warden

async def echo(text):
    return (await SubprocessPrimitive().execute({"command": "echo", "args": [text]}, {})).stdout
"""

ENDINGS = {
    "asyncio.run": "print(asyncio.run(warden()))",
    "trio.run": "import trio; print(trio.run(warden))",
    "an open loop": "loop = asyncio.new_event_loop(); print(loop.run_until_complete(warden())); loop.close()",
    "a daemon thread": """
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
print(asyncio.run_coroutine_threadsafe(warden(), loop).result(), flush=True)
""",
    "a run that nobody awaits": """
async def main():
    global task
    print(await warden())
    task = asyncio.create_task(SubprocessPrimitive().execute({"command": "sleep", "args": ["60"]}, {}))
    await asyncio.sleep(0)
asyncio.run(main())
""",
}


@pytest.mark.first_case
@pytest.mark.parametrize("ending", ENDINGS)
def test_no_supervisor_outlives_its_interpreter_and_nothing_is_complained_about(ending: str) -> None:
    (line,) = run_script(ENDINGS[ending])
    assert not is_alive(int(line))


def test_a_forked_child_has_a_supervisor_of_its_own_and_leaves_that_of_its_parent_alone() -> None:
    lines = run_script("""
async def main():
    print(await echo("before"), end="", flush=True)
    child = os.fork()
    if child == 0:
        asyncio.set_event_loop(None)
        asyncio._set_running_loop(None)
        print(asyncio.run(echo("child")), end="", flush=True)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(await echo("after"), end="")
asyncio.run(main())
""")
    assert lines == ["before", "child", "0", "after"]


def test_a_fork_between_loops_works_in_both_processes() -> None:
    lines = run_script("""
loop = asyncio.new_event_loop()
print(loop.run_until_complete(echo("before")), end="", flush=True)
child = os.fork()
print(asyncio.run(echo("both")), end="", flush=True)
if child:
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(loop.run_until_complete(echo("after")), end="")
loop.close()
""")
    assert lines == ["before", "both", "both", "0", "after"]


def test_without_free_descriptors_a_start_is_refused_and_later_ones_work() -> None:
    lines = run_script("""
from lilux.primitives.errors import SupervisorError

async def attempt(free):
    filler = fill()
    for descriptor in filler[:free]:
        os.close(descriptor)
    try:
        return (await primitive.run(ProcessSpec(command="true"))).kind
    except SupervisorError as exc:
        return exc.code
    finally:
        for descriptor in filler[free:]:
            os.close(descriptor)

def fill():
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    filler = []
    try:
        while True:
            filler.append(os.dup(0))
    except OSError:
        return filler

async def main():
    print(*[await attempt(free) for free in range(4)])
    print(await echo("later"), end="")

primitive = SubprocessPrimitive()
print(asyncio.run(echo("everything is imported")), end="")
asyncio.run(main())
""")
    refused = "resource_exhausted"
    assert lines == ["everything is imported", f"{refused} {refused} {refused} {refused}", "later"]
