"""`rye` in processes that are forked instead of started: the same command, without waiting for its imports.

A server of one thread has loaded everything that commands load, and has run none of it. For each call it
forks a process, which gets the directory, the environment and the standard streams of the call, and then does
what the installed script does. Nothing is left of a call when it has ended.

What a fork cannot show is tried with the script itself: how Python starts, a terminal of one's own, and
limits that are set before the command begins.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, NoReturn

__all__ = ["MAX_CALL_BYTES", "Ended", "descriptor", "run"]

MAX_CALL_BYTES = 64 * 1024
"""How large arguments and environment may be together."""

LOADED = (
    *("rye_mcp.app", "rye_mcp.executor.primitive_executor", "rye_mcp.verbs.examples", "rye_mcp.verbs.sign"),
    *("lilux.schemas", "lilux.primitives.signing", "anyio._backends._asyncio", "anyio.to_thread"),
    *("email.parser", "html", "platformdirs.unix", "ruamel.yaml", "typer.main"),
)
"""What commands load besides their own modules."""

_STREAMS = 3

Ended = tuple[int, bytes, bytes]
"""The exit code, and what was printed on standard output and standard error."""


def run(
    script: Path, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], given: bytes, timeout_s: int
) -> Ended:
    """Do what `script`, the installed `rye`, does with these arguments."""
    call = {"argv": [str(script), *arguments], "cwd": str(cwd), "env": dict(env), "timeout_s": timeout_s}
    with tempfile.TemporaryFile() as taken, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        taken.write(given)
        taken.seek(0)
        code = _ask(_server(), json.dumps(call).encode(), (taken, out, err), timeout_s)
        return code, _written(out), _written(err)


def descriptor() -> int:
    """The number of the way to the server, for a process that inherits it: see `forked_rye_client`."""
    return _server().fileno()


def _ask(server: socket.socket, call: bytes, streams: Sequence[IO[bytes]], timeout_s: int) -> int:
    assert len(call) <= MAX_CALL_BYTES, "expected a call that fits into one message"
    read_end, write_end = os.pipe()
    try:
        try:
            socket.send_fds(server, [call], [*(stream.fileno() for stream in streams), write_end])
        finally:
            os.close(write_end)
        readable, _, _ = select.select([read_end], [], [], timeout_s)
        assert readable, f"expected an end within {timeout_s} s"
        status = os.read(read_end, 64)
        assert status, "the process was lost"
        return os.waitstatus_to_exitcode(int(status))
    finally:
        os.close(read_end)


def _written(stream: IO[bytes]) -> bytes:
    stream.seek(0)
    return stream.read()


@cache
def _server() -> socket.socket:
    """The way to the server of this test process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,  # what interrupts the tests ends it by closing its channel
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# --- in the server ----------------------------------------------------------------------


def _serve(channel: socket.socket) -> None:
    """Fork for each call, until nobody can make one any more."""
    _load_everything()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        call, descriptors, _, _ = socket.recv_fds(channel, MAX_CALL_BYTES, _STREAMS + 1)
        if not call:
            return
        if os.fork() == 0:
            channel.close()
            _wait_for(json.loads(call), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _load_everything() -> None:
    from rye_mcp.cli.commands import COMMANDS

    for name in (*LOADED, *(place.module for place in COMMANDS.values())):
        importlib.import_module(name)
    gc.freeze()  # a collection in a fork would copy every page that holds an object


def _wait_for(call: dict[str, object], descriptors: Sequence[int]) -> NoReturn:
    """Let a process do it, and say how it ended."""
    *streams, report = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(report)
        _do(call, streams)
    _, status = os.waitpid(pid, 0)
    os.write(report, str(status).encode())
    os._exit(0)


def _do(call: dict[str, object], streams: Sequence[int]) -> NoReturn:
    """Be the command."""
    environment, arguments = call["env"], call["argv"]
    assert isinstance(environment, dict)
    assert isinstance(arguments, list)
    signal.alarm(int(str(call["timeout_s"])))
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(str(call["cwd"]))
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    os._exit(_code_of_main())


def _code_of_main() -> int:
    from rye_mcp.cli import main

    try:
        main()
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException:  # noqa: BLE001 - as Python ends what nobody has caught
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
