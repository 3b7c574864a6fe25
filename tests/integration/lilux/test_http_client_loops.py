"""One instance in many event loops, and what is left when a loop ends: nothing."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import current_token

from lilux.primitives.http_client import HttpClientPrimitive, execute
from tests.http_server import Server, greet, serve


def in_new_loop(function: Any, backend: str) -> None:
    anyio.run(function, backend=backend)


def with_server(test: Any) -> None:
    """Run a test beside a server that has an event loop of its own."""
    ready, done = threading.Event(), threading.Event()
    servers: list[Server] = []

    async def run() -> None:
        async with serve(greet) as server:
            servers.append(server)
            ready.set()
            await anyio.to_thread.run_sync(done.wait)

    thread = threading.Thread(target=anyio.run, args=(run,))
    thread.start()
    try:
        assert ready.wait(10)
        test(servers[0])
    finally:
        done.set()
        thread.join()


def test_one_instance_serves_one_event_loop_after_another() -> None:
    loops: list[weakref.ref[object]] = []

    def run(server: Server) -> None:
        http = HttpClientPrimitive()

        async def ask() -> None:
            loops.append(weakref.ref(current_token().native_token))
            for _ in range(2):
                assert (await http.execute({"url": server.url}, {})).body == "hello"

        for backend in ("asyncio", "trio", "asyncio", "trio"):
            in_new_loop(ask, backend)
        assert server.connections == 4

    with_server(run)
    gc.collect()
    assert [each() for each in loops] == [None] * 4


def test_one_instance_serves_two_event_loops_at_once() -> None:
    http = HttpClientPrimitive()

    def run(server: Server) -> None:
        both = threading.Barrier(2)

        async def ask() -> None:
            for _ in range(20):
                assert (await http.execute({"url": server.url}, {})).body == "hello"
            await anyio.to_thread.run_sync(both.wait)

        threads = [
            threading.Thread(target=in_new_loop, args=(ask, backend)) for backend in ("asyncio", "trio")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(server.requests), server.connections) == (40, 2)

    with_server(run)


@pytest.mark.thorough
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_end_of_the_loop_closes_what_nobody_has_closed(backend: str) -> None:
    def run(server: Server) -> None:
        async def ask() -> None:
            await execute({"url": server.url})
            await HttpClientPrimitive().execute({"url": server.url}, {})  # nobody keeps it
            gc.collect()

        in_new_loop(ask, backend)
        gc.collect()  # a socket that was left open would warn here

    with_server(run)


SCRIPT = """
import anyio, sys
from lilux.primitives.http_client import execute
anyio.run(execute, {"url": sys.argv[1]}, backend=sys.argv[2])
"""


@pytest.mark.thorough
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_program_that_closes_nothing_ends_without_a_word(backend: str) -> None:
    def run(server: Server) -> None:
        command = [sys.executable, "-X", "dev", "-W", "error", "-c", SCRIPT, server.url, backend]
        ended = subprocess.run(command, capture_output=True, check=True, timeout=50)
        assert "Warning" not in ended.stderr.decode()
        assert len(server.requests) == 1

    with_server(run)


CERTIFICATES_SCRIPT = """
import anyio, sys
from lilux.primitives.errors import ConfigurationError
from lilux.primitives.http_client import execute
try:
    anyio.run(execute, {"url": "https://127.0.0.1:1"})
except ConfigurationError as error:
    sys.exit(0 if "SSL_CERT_FILE" in str(error) else str(error))
sys.exit("no error")
"""


@pytest.mark.thorough
async def test_certificates_that_cannot_be_read_are_a_wrong_configuration(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for path in (tmp_path / "missing", tmp_path / "empty"):
        environment = {**os.environ, "SSL_CERT_FILE": str(path)}
        await anyio.run_process([sys.executable, "-c", CERTIFICATES_SCRIPT], env=environment)


RUDE_SCRIPT = """
import asyncio, gc, sys, weakref
from lilux.primitives.http_client import execute
loops = []
for _ in range(3):
    loop = asyncio.new_event_loop()
    loops.append(weakref.ref(loop))
    assert loop.run_until_complete(execute({"url": sys.argv[1]})).body == "hello"
    loop.close()
del loop
gc.collect()
assert [each() is None for each in loops] == [True, True, False]
"""


def test_a_loop_that_was_closed_without_a_word_is_forgotten_by_the_next() -> None:
    def run(server: Server) -> None:
        subprocess.run([sys.executable, "-c", RUDE_SCRIPT, server.url], check=True, timeout=50)
        assert server.connections == 3

    with_server(run)


async def test_importing_a_process_does_not_import_http() -> None:
    script = "import sys, lilux.primitives.subprocess; sys.exit('httpx' in sys.modules)"
    await anyio.run_process([sys.executable, "-c", script])
