"""`rye-mcp` in processes that are forked instead of started: the same server, without its imports.

A process of one thread has loaded everything that the server loads, and has run none of it. A test that wants
a server starts `command`, a client that hands over its directory, environment and standard streams, passes
signals on, and ends as the server does. If the client is killed, so is the server.

What a fork cannot show is tried with the script itself: how long it takes to start, and which processes are
below it.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["MAX_CALL_BYTES", "command"]

MAX_CALL_BYTES = 64 * 1024
"""How large arguments and environment may be together."""

PACKAGES = ("rye_mcp.mcp_server", "rye_mcp.executor", "rye_mcp.verbs", "rye_mcp.catalog", "rye_mcp.runs")
LOADED = (
    *("rye_mcp.server", "rye_mcp.app", "lilux.schemas", "lilux.primitives.signing"),
    *("anyio._backends._asyncio", "email.parser", "platformdirs.unix", "ruamel.yaml"),
    *("uvicorn.protocols.http.h11_impl", "watchfiles"),
)
"""What the server loads, sooner or later."""

_CLIENT = Path(__file__).with_name("forked_server_client.py")
_STREAMS = 3


def command() -> list[str]:
    """The program that is a server, and its first arguments; those of the server follow."""
    return [sys.executable, "-I", "-S", str(_CLIENT), _address()]


@cache
def _address() -> str:
    """Where the process of this test process listens."""
    directory = tempfile.mkdtemp(prefix="forked-")
    address = f"{directory}/socket"
    lifeline, ours = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(64)
        process = subprocess.Popen(
            [sys.executable, __file__, str(listener.fileno()), str(lifeline)],
            pass_fds=[listener.fileno(), lifeline],
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,  # what interrupts the tests ends it by closing its lifeline
        )
    os.close(lifeline)

    def end() -> None:
        os.close(ours)
        process.wait()
        shutil.rmtree(directory)

    atexit.register(end)
    return address


# --- in the process that has everything loaded ------------------------------------------


def _serve(listener: socket.socket, lifeline: int) -> None:
    """Fork for each client, until the tests have ended."""
    _load_everything()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener.fileno(), lifeline], [], [])
        if lifeline in ready:
            return
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                listener.close()
                os.close(lifeline)
                _wait_for(connection)


def _load_everything() -> None:
    for package in PACKAGES:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            importlib.import_module(f"{package}.{module.name}")
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()  # a collection in a fork would copy every page that holds an object


def _wait_for(connection: socket.socket) -> NoReturn:
    """Let a process be the server, and end it with its client; say which one it is, and how it ended."""
    call, streams, _, _ = socket.recv_fds(connection, MAX_CALL_BYTES, _STREAMS)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _be_the_server(json.loads(call), streams)
    for stream in streams:
        os.close(stream)
    server = os.pidfd_open(pid)
    with suppress(BrokenPipeError):  # a client that was killed wants no answer
        connection.send(str(pid).encode())
    ended, _, _ = select.select([server, connection.fileno()], [], [])
    if server not in ended:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        connection.send(str(status).encode())
    os._exit(0)


def _be_the_server(call: dict[str, Any], streams: list[int]) -> NoReturn:
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(call["cwd"])
    os.environ.clear()
    os.environ.update(call["env"])
    sys.argv = ["rye-mcp", *call["arguments"]]
    os._exit(_code_of_main())


def _code_of_main() -> int:
    from rye_mcp.server import main

    try:
        return main()
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException:  # noqa: BLE001 - as Python ends what nobody has caught
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
