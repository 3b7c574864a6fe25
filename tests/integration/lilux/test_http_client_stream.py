"""Streams of server-sent events, and the sinks that they go to."""

from __future__ import annotations

import gzip
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from lilux.primitives.errors import ConfigurationError
from lilux.primitives.http_client import (
    HttpClientPrimitive,
    HttpResult,
    ReturnSink,
    ServerSentEvent,
    SystemClock,
)
from tests.http_server import Connection, Handler, Request, serve

EVENT_STREAM = {"Content-Type": "text/event-stream", "Content-Length": "-", "Transfer-Encoding": "chunked"}


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream_of(*pieces: bytes, headers: dict[str, str] | None = None) -> Handler:
    """A handler that sends these pieces, one chunk each."""

    async def answer(connection: Connection, request: Request) -> None:
        await connection.reply(headers=EVENT_STREAM | (headers or {}))
        for piece in pieces:
            await connection.send(chunk(piece))
            await anyio.lowlevel.checkpoint()
        await connection.send(b"0\r\n\r\n")

    return answer


async def read(handler: Handler, *sinks: Any, **config: Any) -> HttpResult:
    async with serve(handler) as server, HttpClientPrimitive() as http:
        settings = {"url": server.url, "mode": "stream", "sinks": list(sinks), "timeout": 20, **config}
        return await http.execute(settings, {})


class Recorder:
    """A sink that keeps what it gets, and how it was called."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.closed = 0

    async def write(self, event: str) -> None:
        self.events.append(event)

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.closed += 1


class Slow(Recorder):
    """A sink that takes its time, more for the first events than for the last."""

    async def write(self, event: str) -> None:
        await anyio.sleep(0.02 / (1 + len(self.events)))
        await super().write(event)


class Broken(Recorder):
    """A sink that takes one event and no more."""

    async def write(self, event: str) -> None:
        if self.events:
            raise OSError("the disk is full")
        await super().write(event)


class NoWait(SystemClock):
    """A clock for the impatient."""

    async def sleep(self, seconds: float) -> None:
        await anyio.lowlevel.checkpoint()


async def test_data_lines_are_dispatched_to_sinks() -> None:
    sink = Recorder()
    result = await read(stream_of(b"data: one\n\ndata: two\n\n"), sink)
    assert sink.events == ["one", "two"]
    assert (result.success, result.status_code, result.body) == (True, 200, None)


async def test_every_sink_gets_every_event_and_the_result_counts_and_names_them() -> None:
    first, second, kept = Recorder(), Slow(), ReturnSink()
    result = await read(stream_of(*(b"data: %d\n\n" % n for n in range(5))), first, second, kept)
    assert first.events == second.events == kept.get_events() == ["0", "1", "2", "3", "4"]
    assert result.stream_events_count == 5
    assert result.stream_destinations == ["Recorder", "Slow", "ReturnSink"]


async def test_a_return_sink_buffers_the_events_into_the_result() -> None:
    result = await read(stream_of(b"data: 1\n\n", b"data: 2\n\n"), ReturnSink())
    assert (result.body, result.encoding) == (["1", "2"], "events")


async def test_without_a_sink_the_events_are_in_the_result_too() -> None:
    result = await read(stream_of(b"data: 1\n\n"))
    assert (result.body, result.stream_events_count, result.stream_destinations) == (["1"], 1, [])


async def test_an_event_has_a_kind_an_id_and_a_time_to_wait() -> None:
    sink = Recorder()
    await read(stream_of(b"event: tick\nid: 7\nretry: 100\ndata: a\ndata: b\n\n"), sink)
    (event,) = sink.events
    assert isinstance(event, ServerSentEvent)
    assert (event, event.event, event.id, event.retry) == ("a\nb", "tick", "7", 100)


async def test_pieces_may_end_anywhere() -> None:
    data = "\ufeff: comment\r\ndata: é€😀\r\n\r\nid: 1\rdata: x\r\rdata: y\n\n".encode()
    pieces = [data[position : position + 1] for position in range(len(data))]
    result = await read(stream_of(*pieces))
    assert result.body == ["é€😀", "x", "y"]


async def test_the_mode_may_be_a_parameter_and_sinks_too_when_called_directly() -> None:
    sink = Recorder()
    async with serve(stream_of(b"data: 1\n\n")) as server, HttpClientPrimitive() as http:
        params = {"mode": "stream", "__sinks": [sink]}
        result = await http.execute({"url": server.url}, params)
        plain = await http.execute({"url": server.url, "mode": "sync"}, params)
    assert (result.stream_destinations, sink.events, sink.closed) == (["Recorder"], ["1"], 1)
    assert (plain.body, plain.stream_events_count) == ("data: 1\n\n", None)


async def test_a_parameter_called_mode_with_an_unknown_value_is_just_a_parameter() -> None:
    async with serve(stream_of(b"data: 1\n\n")) as server, HttpClientPrimitive() as http:
        result = await http.execute({"url": server.url + "/{mode}"}, {"mode": "fast"})
    assert (result.stream_events_count, server.requests[0].target) == (None, "/fast")


async def test_sinks_are_called_at_the_same_time() -> None:
    met = anyio.Event()

    class Waits(Recorder):
        async def write(self, event: str) -> None:
            await met.wait()
            await super().write(event)

    class Comes(Recorder):
        async def write(self, event: str) -> None:
            await super().write(event)
            met.set()

    waits, comes = Waits(), Comes()
    await read(stream_of(b"data: 1\n\n"), waits, comes)
    assert waits.events == comes.events == ["1"]


async def test_events_arrive_as_they_come() -> None:
    arrived = anyio.Event()

    async def answer(connection: Connection, request: Request) -> None:
        await connection.reply(headers=EVENT_STREAM)
        await connection.send(chunk(b"data: first\n\n"))
        await arrived.wait()  # else this test hangs
        await connection.send(chunk(b"data: second\n\n") + b"0\r\n\r\n")

    class Tells(Recorder):
        async def write(self, event: str) -> None:
            await super().write(event)
            arrived.set()

    sink = Tells()
    await read(answer, sink)
    assert sink.events == ["first", "second"]


async def test_one_failing_sink_does_not_stop_the_others_and_is_named() -> None:
    broken, healthy = Broken(), Recorder()
    result = await read(stream_of(b"data: 1\n\ndata: 2\n\ndata: 3\n\n"), broken, healthy)
    assert (broken.events, healthy.events) == (["1"], ["1", "2", "3"])
    assert (result.success, result.stream_events_count) == (True, 3)
    assert result.failed_sinks == ("Broken.write: OSError: the disk is full",)


async def test_the_stream_ends_when_every_sink_has_failed() -> None:
    async def endless(connection: Connection, request: Request) -> None:
        await connection.reply(headers=EVENT_STREAM)
        while True:
            await connection.send(chunk(b"data: x\n\n"))

    result = await read(endless, Broken(), Broken())
    assert (result.success, result.error_code, result.stream_events_count) == (False, "sinks_failed", 2)
    assert len(result.failed_sinks) == 2


async def test_every_sink_is_closed_once_and_one_that_cannot_be_is_named() -> None:
    class Stuck(Recorder):
        async def close(self) -> None:
            raise RuntimeError("stuck")

    sink = Recorder()
    result = await read(stream_of(b"data: 1\n\n"), sink, Stuck())
    assert (sink.closed, result.failed_sinks) == (1, ("Stuck.close: RuntimeError: stuck",))


@pytest.mark.parametrize("how", ["refused", "cancelled", "status"])
async def test_sinks_are_closed_however_the_stream_ends(how: str) -> None:
    async def answer(connection: Connection, request: Request) -> None:
        if how == "refused":
            await connection.close()
        elif how == "status":
            await connection.reply("500 Oops")
        else:
            await anyio.sleep_forever()

    sink = Recorder()
    with anyio.move_on_after(0.2):
        await read(answer, sink)
    assert sink.closed == 1


async def test_a_failure_is_read_as_a_body() -> None:
    async def answer(connection: Connection, request: Request) -> None:
        await connection.json(b'{"why": "no"}', "401 Unauthorized")

    sink = Recorder()
    result = await read(answer, sink)
    assert (result.error, result.body) == ("HTTP 401: Unauthorized", {"why": "no"})
    assert (result.stream_events_count, result.stream_destinations, sink.events) == (0, ["Recorder"], [])


async def test_what_is_no_stream_of_events_is_read_as_a_body_with_a_notice() -> None:
    async def answer(connection: Connection, request: Request) -> None:
        await connection.json(b'{"data": 1}')

    result = await read(answer)
    assert (result.success, result.body, result.encoding) == (True, {"data": 1}, "json")
    assert result.notices == ("expected text/event-stream, found application/json: it was read as a body",)


async def test_a_stream_needs_no_content_type() -> None:
    headers = {"Content-Type": "-"}
    assert (await read(stream_of(b"data: 1\n\n", headers=headers))).body == ["1"]


async def test_a_packed_stream_is_unpacked() -> None:
    packed = gzip.compress(b"data: 1\n\ndata: 2\n\n")
    result = await read(stream_of(packed[:9], packed[9:], headers={"Content-Encoding": "gzip"}))
    assert result.body == ["1", "2"]


async def test_a_stream_asks_for_events_that_nobody_packs() -> None:
    async with serve(stream_of()) as server, HttpClientPrimitive() as http:
        await http.execute({"url": server.url, "mode": "stream"}, {})
    headers = server.requests[0].headers
    assert (headers["accept"], headers["accept-encoding"]) == ("text/event-stream", "identity")


async def test_a_stream_may_be_asked_for_with_a_body() -> None:
    async with serve(stream_of(b"data: 1\n\n")) as server, HttpClientPrimitive() as http:
        config = {"url": server.url, "mode": "stream", "method": "POST", "body": {"stream": True}}
        assert (await http.execute(config, {})).body == ["1"]
    assert server.requests[0].body == b'{"stream":true}'


async def test_an_unfinished_event_is_left_out_and_said_so() -> None:
    result = await read(stream_of(b"data: 1\n\ndata: half"))
    assert (result.body, result.success) == (["1"], True)
    assert result.notices == ("the stream ended in the middle of an event, which was left out",)


async def test_the_events_kept_for_the_result_are_limited() -> None:
    sink = ReturnSink(max_events=2)
    result = await read(stream_of(b"data: x\n\n" * 5), sink)
    assert (result.body, sink.dropped, result.stream_events_count) == (["x", "x"], 3, 5)
    assert result.notices == ("3 more events were not kept for the result",)


async def test_an_endless_stream_ends_at_the_limit_of_bytes() -> None:
    async def endless(connection: Connection, request: Request) -> None:
        await connection.reply(headers=EVENT_STREAM)
        while True:
            await connection.send(chunk(b"data: x\n\n" * 100))

    result = await read(endless, max_response_bytes=10_000)
    assert (result.success, result.error_code) == (False, "response_too_large")
    assert result.body == ["x"] * (result.stream_events_count or 0)
    assert 1000 <= len(result.body) <= 1112


async def test_an_endless_event_ends_at_the_limit_of_bytes() -> None:
    async def endless(connection: Connection, request: Request) -> None:
        await connection.reply(headers=EVENT_STREAM)
        while True:
            await connection.send(chunk(b"data: " + b"x" * 1000 + b"\n"))

    result = await read(endless, max_response_bytes=10_000)
    assert (result.error_code, result.body) == ("response_too_large", [])


async def test_an_endless_stream_ends_at_its_time_and_keeps_what_came() -> None:
    async def endless(connection: Connection, request: Request) -> None:
        await connection.reply(headers=EVENT_STREAM)
        await connection.send(chunk(b"data: 1\n\n"))
        while True:
            await connection.send(chunk(b": still here\n"))
            await anyio.sleep(0.02)

    result = await read(endless, timeout=0.7)
    assert (result.error_code, result.status_code) == ("timeout", 200)
    assert (result.body, result.stream_events_count) == (["1"], 1)


async def test_a_sink_that_hangs_ends_with_the_time() -> None:
    class Hangs(Recorder):
        async def write(self, event: str) -> None:
            await anyio.sleep_forever()

    sink = Hangs()
    result = await read(stream_of(b"data: 1\n\n"), sink, timeout=0.2)
    assert (result.error_code, sink.closed) == ("timeout", 1)


async def test_a_stream_is_tried_again_only_until_an_event_was_delivered() -> None:
    attempts = 0

    async def answer(connection: Connection, request: Request) -> None:
        nonlocal attempts
        attempts += 1
        if attempts > 1:
            await connection.reply(headers=EVENT_STREAM)
            await connection.send(chunk(b"data: 1\n\n"))
        await connection.close()

    sink = Recorder()
    async with serve(answer) as server, HttpClientPrimitive(clock=NoWait()) as http:
        config = {"url": server.url, "mode": "stream", "sinks": [sink], "retry": {"max_attempts": 5}}
        result = await http.execute(config, {})
    assert (attempts, result.attempts, sink.events, sink.closed) == (2, 2, ["1"], 1)
    assert (result.success, result.error_code) == (False, "protocol_error")


@pytest.mark.parametrize("sink", [object(), "ReturnSink", ReturnSink, None, 7])
async def test_what_is_no_sink_is_refused(sink: object) -> None:
    async with HttpClientPrimitive() as http:
        with pytest.raises(ConfigurationError) as caught:
            await http.execute({"url": "http://127.0.0.1/", "mode": "stream", "sinks": [sink]}, {})
    assert caught.value.field == "sinks[0]"
