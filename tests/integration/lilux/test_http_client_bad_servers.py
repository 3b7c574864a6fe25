"""Servers that misbehave: every time a documented result, within time, and nothing is left open."""

from __future__ import annotations

import contextlib
import gc
import gzip
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from lilux.primitives.http_client import HttpClientPrimitive, HttpResult
from tests.http_server import Connection, Handler, Request, serve

OK = b"HTTP/1.1 200 OK\r\n"


async def ask(handler: Handler, **config: Any) -> HttpResult:
    async with serve(handler) as server:
        async with HttpClientPrimitive() as http:
            with anyio.fail_after(30):
                result = await http.execute({"url": server.url, "timeout": 20, **config}, {})
        with anyio.fail_after(5):
            await server.all_closed.wait()
    return result


def sends(*pieces: bytes, then_close: bool = True) -> Handler:
    async def answer(connection: Connection, request: Request) -> None:
        for piece in pieces:
            await connection.send(piece)
        if then_close:
            await connection.close()
        while True:
            await connection.stream.receive()

    return answer


def endless(beginning: bytes, piece: bytes) -> Handler:
    async def answer(connection: Connection, request: Request) -> None:
        await connection.send(beginning)
        while True:
            await connection.send(piece)

    return answer


@pytest.mark.parametrize(
    ("name", "handler"),
    [
        ("closes at once", sends()),
        ("closes in the status line", sends(b"HTTP/1.1 20")),
        ("closes in the headers", sends(OK + b"Content-Length: 5\r\n")),
        ("closes in the body", sends(OK + b"Content-Length: 5\r\n\r\nab")),
        ("half a chunk", sends(OK + b"Transfer-Encoding: chunked\r\n\r\n10\r\nabc")),
        ("no last chunk", sends(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")),
        ("a chunk without a size", sends(OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n")),
        ("no HTTP", sends(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")),
        ("HTTP/0.9", sends(b"<html>hello</html>")),
        ("binary", sends(bytes(range(256)) * 10)),
        ("two lengths", sends(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab")),
        ("a length that is none", sends(OK + b"Content-Length: -1\r\n\r\n")),
        ("a header without a colon", sends(OK + b"what is this\r\n\r\n")),
        ("an endless status line", endless(b"HTTP/1.1 200 ", b"x" * 4096)),
        ("an endless header", endless(OK + b"X-Long: ", b"x" * 4096)),
        ("endless headers", endless(OK, b"X-Many: x\r\n" * 400)),
        ("an endless size of a chunk", endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0" * 4096)),
        ("endless trailers", endless(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 400)),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else "",
)
async def test_what_is_no_whole_http_is_a_protocol_error(name: str, handler: Handler) -> None:
    result = await ask(handler)
    assert (result.success, result.error_code, result.body) == (False, "protocol_error", None)
    assert str(result.error).startswith("the answer is no whole HTTP: ")
    assert len(str(result.error)) < 400


@contextlib.asynccontextmanager
async def raw_server(serve_one: Callable[[SocketStream], Awaitable[None]]) -> AsyncIterator[str]:
    """The host and port of a server that need not read a whole request."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve_one)
        yield f"127.0.0.1:{listener.extra(SocketAttribute.local_port)}"  # noqa: S610 - of anyio, not of Django
        group.cancel_scope.cancel()


HANGING = {
    "says nothing": (sends(then_close=False), 0),
    "half a header": (sends(OK + b"X-A: ", then_close=False), 0),
    "half a body": (sends(OK + b"Content-Length: 5\r\n\r\nab", then_close=False), 200),
    "half a chunk": (sends(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", then_close=False), 200),
}


async def test_a_server_that_hangs_is_a_timeout() -> None:
    """All of them at the same time, as each takes its time."""
    found = {}

    async def ask_one(name: str, handler: Handler) -> None:
        result = await ask(handler, timeout=1)
        found[name] = (result.success, result.error_code, result.error, result.status_code)

    begun = time.monotonic()
    async with anyio.create_task_group() as group:
        for name, (handler, _) in HANGING.items():
            group.start_soon(ask_one, name, handler)
    assert time.monotonic() - begun < 10
    assert found == {
        name: (False, "timeout", "no complete answer within 1 seconds", status)
        for name, (_, status) in HANGING.items()
    }


@pytest.mark.parametrize("ends", ["its time is up", "it is cancelled"])
async def test_a_handshake_that_hangs_leaves_no_connection_open(ends: str) -> None:
    """Right away, not when somebody collects garbage."""
    begun, over = anyio.Event(), anyio.Event()

    async def mute(stream: SocketStream) -> None:
        async with stream:
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    await stream.receive()
                    begun.set()
        over.set()

    async with raw_server(mute) as address, HttpClientPrimitive() as http:
        await http.execute({"url": "https://127.0.0.1:1/"}, {})  # which loads whom to trust
        gc.disable()
        try:
            async with anyio.create_task_group() as group:
                limit = 20 if ends == "it is cancelled" else 1
                group.start_soon(http.execute, {"url": f"https://{address}/", "timeout": limit})
                await begun.wait()
                if ends == "it is cancelled":
                    group.cancel_scope.cancel()
            with anyio.fail_after(5):
                await over.wait()
        finally:
            gc.enable()


@pytest.mark.thorough
async def test_a_server_that_reads_no_body_to_its_end_leaves_nothing_half_done() -> None:
    """An iterator over the body that nobody closes would be complained about when it is collected."""

    async def slam(stream: SocketStream) -> None:
        async with stream:
            await stream.receive(100)

    async with raw_server(slam) as address, HttpClientPrimitive() as http:
        config = {"url": f"http://{address}/", "method": "POST", "body": "x" * 5_000_000}
        result = await http.execute(config, {})
        gc.collect()
    assert result.error_code in {"connection_lost", "protocol_error"}


async def test_an_answer_that_never_begins_is_a_timeout() -> None:
    result = await ask(endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100), timeout=0.2)
    assert (result.success, result.error_code, result.status_code) == (False, "timeout", 0)
    assert result.error == "no complete answer within 0.2 seconds"


async def test_a_body_without_an_end_is_too_large() -> None:
    result = await ask(endless(OK + b"\r\n", b"x" * 65536), max_response_bytes=1_000_000)
    assert (result.error_code, result.status_code, result.body) == ("response_too_large", 200, None)
    assert result.error == "the answer is longer than 1000000 bytes"


async def test_an_announced_length_that_is_too_large_is_not_waited_for() -> None:
    answer = sends(OK + b"Content-Length: 9999999999999999999\r\n\r\n", then_close=False)
    result = await ask(answer)
    assert result.error_code == "response_too_large"
    assert result.duration_ms < 10_000


@pytest.mark.parametrize(("size", "fits"), [(1000, True), (1001, False)])
@pytest.mark.parametrize("packed", [False, True])
async def test_exactly_max_response_bytes_fit(size: int, fits: bool, packed: bool) -> None:
    async def answer(connection: Connection, request: Request) -> None:
        body = b"x" * size
        headers = {"Content-Encoding": "gzip"} if packed else {}
        await connection.reply(body=gzip.compress(body) if packed else body, headers=headers)

    result = await ask(answer, max_response_bytes=1000)
    assert (result.success, result.body) == ((True, "x" * 1000) if fits else (False, None))


async def test_the_limit_is_10_mib_by_default() -> None:
    limit = 10 * 1024 * 1024

    async def answer(connection: Connection, request: Request) -> None:
        await connection.reply(body=b"x" * (limit + (request.method == "POST")))

    assert len((await ask(answer)).body) == limit
    assert (await ask(answer, method="POST")).error_code == "response_too_large"


def bomb(size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    block = bytes(1024 * 1024)
    return b"".join(packer.compress(block) for _ in range(size // len(block))) + packer.flush()


@pytest.mark.parametrize("mode", ["sync", "stream"])
async def test_a_gzip_bomb_costs_no_more_than_the_limit(mode: str) -> None:
    packed = bomb(32 * 1024 * 1024)

    async def answer(connection: Connection, request: Request) -> None:
        await connection.reply(body=packed, headers={"Content-Encoding": "gzip"})

    async with serve(answer) as server, HttpClientPrimitive() as http:
        config = {"url": server.url, "max_response_bytes": 4_000_000, "mode": mode}
        await http.execute({**config, "max_response_bytes": 10}, {})
        tracemalloc.start()
        try:
            result = await http.execute(config, {})
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert result.error_code == "response_too_large"
    assert peak < 12_000_000


async def test_bombs_inside_each_other_stay_packed() -> None:
    """Two encodings multiply; they were not asked for."""
    packed = gzip.compress(gzip.compress(b"x" * 100_000))

    async def answer(connection: Connection, request: Request) -> None:
        await connection.reply(body=packed, headers={"Content-Encoding": "gzip, gzip"})

    result = await ask(answer)
    assert (result.success, result.encoding) == (True, "base64")
    assert result.notices == ("the body is still packed: its content encoding is gzip, gzip",)


async def test_an_endless_gzip_of_nothing_ends_at_the_limit() -> None:
    nothing = gzip.compress(b"")
    result = await ask(
        endless(OK + b"Content-Encoding: gzip\r\n\r\n", nothing * 100), max_response_bytes=100_000
    )
    assert result.error_code == "response_too_large"


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b"this is no gzip"),
        ("gzip", gzip.compress(b"x" * 1000)[:-9]),
        ("gzip", b"\x1f"),
        ("deflate", b"\x78\x9c broken"),
        ("gzip", gzip.compress(b"hello")[:-8] + b"\0" * 8),
    ],
    ids=["no gzip", "cut off", "one byte", "no deflate", "wrong sum"],
)
async def test_a_body_that_does_not_unpack_is_a_broken_body(coding: str, body: bytes) -> None:
    async def answer(connection: Connection, request: Request) -> None:
        await connection.reply(body=body, headers={"Content-Encoding": coding})

    result = await ask(answer)
    assert (result.success, result.error_code, result.status_code) == (False, "broken_body", 200)


@pytest.mark.parametrize(
    ("body", "content_type", "expected", "encoding", "notice"),
    [
        (b'{"a": ', "application/json", '{"a": ', "text", "no valid JSON"),
        (b'{"a": NaN}', "application/json", '{"a": NaN}', "text", "NaN is no number"),
        (b"[" * 100_000, "application/json", "[" * 100_000, "text", "no valid JSON"),
        (b"1" * 10_000, "application/json", "1" * 10_000, "text", "no valid JSON"),
        (b'"\\ud800"', "application/json", '"\\ud800"', "text", "no valid JSON"),
        (b"caf\xe9", "text/plain; charset=utf-8", "caf\ufffd", "lossy", "not utf-8"),
        (b"caf\xe9", "text/plain", "caf\ufffd", "lossy", "not utf-8"),
        (b"caf\xe9", "text/plain; charset=latin-1", "café", "text", None),
        (b"caf\xe9", "text/plain; charset=klingon", "caf\ufffd", "lossy", "charset 'klingon' is not known"),
        (b'{"a": "\xe9"}', "application/json", {"a": "\ufffd"}, "json", "not utf-8"),
        ('"é"'.encode("utf-16"), "application/json", "é", "json", None),
        (b"a\0b", "text/plain", "a\0b", "text", None),
        (b"a\0b", "application/x-unknown", "YQBi", "base64", None),
    ],
    ids=lambda value: "",
)
async def test_a_body_that_is_not_what_it_says_is_read_as_well_as_it_can_be(
    body: bytes, content_type: str, expected: object, encoding: str, notice: str | None
) -> None:
    async def answer(connection: Connection, request: Request) -> None:
        await connection.reply(body=body, headers={"Content-Type": content_type})

    result = await ask(answer)
    assert (result.success, result.body, result.encoding) == (True, expected, encoding)
    assert (notice or "") in "".join(result.notices)
    assert bool(result.notices) == bool(notice)


async def test_an_upgrade_that_nobody_asked_for_is_a_failure() -> None:
    result = await ask(sends(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nraw"))
    assert (result.success, result.error_code) == (False, "protocol_error")


async def test_a_connection_that_the_server_has_closed_meanwhile_is_not_used_again() -> None:
    async def once(connection: Connection, request: Request) -> None:
        await connection.reply(body=b"bye")
        await connection.close()

    async with serve(once) as server, HttpClientPrimitive() as http:
        for _ in range(5):
            assert (await http.execute({"url": server.url}, {})).body == "bye"
            await server.all_closed.wait()
    assert server.connections == 5
