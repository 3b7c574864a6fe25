"""Retries and time limits. The clock is the test's own, so that nobody waits."""

from __future__ import annotations

import email.utils
from typing import Any

import anyio
import pytest

from lilux.primitives.http_client import HttpClientPrimitive, HttpResult
from tests.http_server import Connection, Handler, Request, Server, serve

NOW = 1_800_000_000.0


class Clock:
    """Does not wait, and remembers how long it would have."""

    def __init__(self, chance: float = 0.0) -> None:
        self.waits: list[float] = []
        self._chance = chance

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def time(self) -> float:
        return NOW

    def random(self) -> float:
        return self._chance


def fail_first(times: int, *, status: str | None = None, headers: dict[str, str] | None = None) -> Handler:
    """A handler that closes the connection, or gives a status, so many times before it answers."""
    left = times

    async def answer(connection: Connection, request: Request) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            await connection.reply(body=b"at last")
        elif status is None:
            await connection.close()
        else:
            await connection.reply(status, headers=headers)

    return answer


async def retried(
    handler: Handler, retry: dict[str, Any], *, chance: float = 0.0, **config: Any
) -> tuple[HttpResult, list[float], Server]:
    clock = Clock(chance)
    async with serve(handler) as server, HttpClientPrimitive(clock=clock) as http:
        result = await http.execute({"url": server.url, "retry": retry, **config}, {})
    return result, clock.waits, server


async def test_exponential_backoff_uses_two_to_the_attempt_seconds() -> None:
    result, waits, _ = await retried(fail_first(9), {"max_attempts": 6, "backoff": "exponential"})
    assert waits == [1, 2, 4, 8, 16]
    assert (result.success, result.attempts) == (False, 6)


async def test_exponential_is_the_default_and_linear_grows_by_a_second() -> None:
    assert (await retried(fail_first(9), {"max_attempts": 4}))[1] == [1, 2, 4]
    assert (await retried(fail_first(9), {"max_attempts": 4, "backoff": "linear"}))[1] == [1, 2, 3]


async def test_there_are_no_retries_unless_asked_for() -> None:
    result, waits, server = await retried(fail_first(1), {})
    assert (result.success, result.attempts, waits, len(server.requests)) == (False, 1, [], 1)


async def test_the_first_answer_ends_the_retries() -> None:
    result, waits, server = await retried(fail_first(2), {"max_attempts": 5})
    assert (result.body, result.attempts, waits, len(server.requests)) == ("at last", 3, [1, 2], 3)


async def test_a_retry_repeats_the_request_and_its_body() -> None:
    _, _, server = await retried(fail_first(1), {"max_attempts": 2}, method="POST", body={"a": 1})
    assert [request.body for request in server.requests] == [b'{"a":1}', b'{"a":1}']


async def test_a_timeout_is_retried() -> None:
    async def hang(connection: Connection, request: Request) -> None:
        await anyio.sleep_forever()

    result, waits, server = await retried(hang, {"max_attempts": 3}, timeout=0.2)
    assert (result.error_code, result.attempts, waits, len(server.requests)) == ("timeout", 3, [1, 2], 3)
    assert result.error == "no complete answer within 0.2 seconds"


async def test_a_refused_connection_is_retried() -> None:
    async with serve(fail_first(0)) as server:
        url = server.url
    clock = Clock()
    async with HttpClientPrimitive(clock=clock) as http:
        result = await http.execute({"url": url, "retry": {"max_attempts": 3}}, {})
    assert (result.error_code, result.attempts, clock.waits) == ("connect_failed", 3, [1, 2])
    assert (result.status_code, result.body) == (0, None)
    assert result.error == f"cannot connect to {url.removeprefix('http://')}: Connection refused"


async def test_a_broken_answer_is_retried() -> None:
    async def half(connection: Connection, request: Request) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        await connection.close()

    result, waits, _ = await retried(half, {"max_attempts": 2})
    assert (result.error_code, result.status_code, waits) == ("protocol_error", 200, [1])


async def test_no_status_is_retried_by_default() -> None:
    result, waits, _ = await retried(fail_first(1, status="503 Busy"), {"max_attempts": 3})
    assert (result.error, result.attempts, waits) == ("HTTP 503: Busy", 1, [])


async def test_the_statuses_of_on_status_are_retried() -> None:
    retry = {"max_attempts": 3, "on_status": [429, 503]}
    result, waits, _ = await retried(fail_first(2, status="503 Busy"), retry)
    assert (result.body, result.attempts, waits) == ("at last", 3, [1, 2])
    result, waits, _ = await retried(fail_first(2, status="502 Bad"), retry)
    assert (result.error, waits) == ("HTTP 502: Bad", [])


async def test_the_last_answer_is_the_result_when_no_attempt_is_left() -> None:
    retry = {"max_attempts": 2, "on_status": [429]}
    result, waits, _ = await retried(fail_first(9, status="429 Slow down"), retry)
    assert (result.error, result.status_code, result.attempts, waits) == (
        "HTTP 429: Slow down",
        429,
        2,
        [1],
    )


@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [
        ("7", 7),
        ("0", 0),
        ("3600", 60),
        (email.utils.formatdate(NOW + 9, usegmt=True), 9),
        (email.utils.formatdate(NOW + 90_000, usegmt=True), 60),
        (email.utils.formatdate(NOW - 9, usegmt=True), 0),
        ("soon", 1),
        ("-5", 1),
        ("1.5", 1),
        ("Fri, 99 Foo 2026 99:99:99 GMT", 1),
        ("٣", 1),
    ],
)
async def test_retry_after_is_honoured_in_seconds_and_as_a_date_and_capped(
    retry_after: str, wait: float
) -> None:
    handler = fail_first(1, status="429 Slow down", headers={"Retry-After": retry_after})
    _, waits, _ = await retried(handler, {"max_attempts": 2, "on_status": [429]})
    assert waits == [wait]


async def test_waits_after_a_status_have_jitter_and_others_have_none() -> None:
    retry = {"max_attempts": 2, "on_status": [429]}
    handler = fail_first(1, status="429 Slow down", headers={"Retry-After": "8"})
    assert (await retried(handler, retry, chance=0.5))[1] == [9]
    assert (await retried(fail_first(1, status="429 Slow down"), retry, chance=0.5))[1] == [1.125]
    assert (await retried(fail_first(1), retry, chance=0.5))[1] == [1]


async def test_retry_after_means_nothing_where_the_status_is_not_retried() -> None:
    handler = fail_first(1, status="503 Busy", headers={"Retry-After": "1"})
    assert (await retried(handler, {"max_attempts": 3}))[1] == []


@pytest.mark.parametrize("kind", ["too large", "redirect loop"])
async def test_what_would_fail_again_is_not_retried(kind: str) -> None:
    async def answer(connection: Connection, request: Request) -> None:
        if kind == "too large":
            await connection.reply(body=b"x" * 100)
        else:
            await connection.reply("302 Found", headers={"Location": "/"})

    config = {"max_response_bytes": 10, "follow_redirects": True}
    result, waits, _ = await retried(answer, {"max_attempts": 5}, **config)
    assert (result.success, result.attempts, waits) == (False, 1, [])


async def test_the_timeout_is_for_the_whole_attempt_however_often_something_comes() -> None:
    async def drip(connection: Connection, request: Request) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            await connection.send(b"x")
            await anyio.sleep(0.02)

    async with serve(drip) as server, HttpClientPrimitive() as http:
        with anyio.fail_after(10):
            result = await http.execute({"url": server.url, "timeout": 0.5}, {})
    assert (result.error_code, result.status_code, result.body) == ("timeout", 200, None)
    assert 450 <= result.duration_ms < 8000


async def test_a_timeout_of_30_seconds_is_the_default() -> None:
    from lilux.primitives.http_client import render

    assert render({"url": "http://example.org"}).timeout == 30


async def test_cancelling_ends_a_wait_between_attempts() -> None:
    async with serve(fail_first(9)) as server, HttpClientPrimitive() as http:
        with anyio.move_on_after(0.1) as limit:
            await http.execute({"url": server.url, "retry": {"max_attempts": 3}}, {})
    assert limit.cancelled_caught
