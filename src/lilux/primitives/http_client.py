"""Ask over HTTP: one request and its answer, or a stream of server-sent events.

What the network did is a result, whatever it was: an HttpResult with an `error` and a stable `error_code`
(`lilux._http.exchange` lists them). What the caller did wrong is a ConfigurationError, before anything is
sent. No `error` and no `repr` holds a token, a key, the value of a configured header, a part of the URL that
came from a variable, or one of four characters or more that stands in the body.

| in | is |
| --- | --- |
| `timeout` | the limit of one attempt as a whole, from its first look-up to its last byte, in both modes |
| the environment | where `${VAR}` comes from, and which certificates to trust; no proxy is ever used |
| a host that a parameter names | has public addresses only, or is refused, unless `allow_private_hosts` |
| `body` of the result | parsed JSON, text, base64 or a list of events: `encoding` says which |
| stream mode | delivers to `sinks`, and to the result when there is a ReturnSink or no sink at all |
| a retry in stream mode | only until the first event was delivered |

`lilux._http.spec` says what a configuration may hold, `lilux._http.url` how values get into a URL.

    async with HttpClientPrimitive() as http:
        result = await http.execute({"url": "https://example.org/users/{id}"}, {"id": 7})
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from types import TracebackType
from typing import Any, Self

from lilux._dataclasses import dataclass
from lilux._http.address import AddressGuard
from lilux._http.body import Encoding
from lilux._http.clients import Clients
from lilux._http.events import Fanout, ReturnSink, ServerSentEvent, Sink
from lilux._http.exchange import ERROR_CODES, FAILURES, Exchange, failure_of, is_success, redact
from lilux._http.retry import Clock, RetryPolicy, SystemClock, delay_after_failure, delay_after_status
from lilux._http.spec import CONFIG_KEYS, HttpSpec, render

__all__ = [
    "CONFIG_KEYS",
    "ERROR_CODES",
    "AddressGuard",
    "Clock",
    "HttpClientPrimitive",
    "HttpResult",
    "HttpSpec",
    "RetryPolicy",
    "ReturnSink",
    "ServerSentEvent",
    "Sink",
    "SystemClock",
    "execute",
    "render",
]


@dataclass(frozen=True, slots=True)
class HttpResult:
    """The result of a request.

    `success` is true for a status from 200 up to 400 whose answer came whole. `status_code` is 0 when there
    was no answer. The names of `headers` are in lower case. `error` is `HTTP {code}: {reason}` for a status,
    else a sentence; `error_code` is stable. `encoding` says what `body` is: `json`, `text`, `lossy` (text
    with U+FFFD for what was none), `base64` or `events`. `notices` is what else should be known.
    `failed_sinks` names the sinks that raised, each with its error. `duration_ms` includes all attempts and
    the waits between them. `url` is the address that answered, after redirects: it may hold what was secret.
    """

    success: bool
    status_code: int
    body: Any = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    duration_ms: int
    error: str | None = None
    stream_events_count: int | None = None
    stream_destinations: list[str] | None = None
    error_code: str | None = None
    attempts: int = 1
    encoding: Encoding = "text"
    notices: tuple[str, ...] = ()
    failed_sinks: tuple[str, ...] = ()
    url: str | None = field(default=None, repr=False)


class HttpClientPrimitive:
    """All requests over HTTP. An instance keeps its connections, for each event loop its own."""

    def __init__(
        self,
        *,
        ssl_context: ssl.SSLContext | None = None,
        guard: AddressGuard | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clients = Clients(ssl_context)
        self._guard = guard or AddressGuard()
        self._clock = clock or SystemClock()

    async def execute(self, config: Mapping[str, Any], params: Mapping[str, Any] | None = None) -> HttpResult:
        """Fill the templates of a configuration and send what comes out."""
        return await self.send(render(config, params))

    async def send(self, spec: HttpSpec) -> HttpResult:
        """Send exactly this, as often as its retries allow."""
        begun = time.perf_counter()
        fanout = Fanout(spec.sinks) if spec.mode == "stream" else None
        try:
            exchange, attempts = await self._attempts(spec, fanout)
        finally:
            if fanout is not None:
                await fanout.close()
        duration_ms = round((time.perf_counter() - begun) * 1000)
        return _result(spec, exchange, fanout, attempts, duration_ms)

    async def close(self) -> None:
        """Close the connections of this event loop. The next request opens new ones."""
        await self._clients.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _attempts(self, spec: HttpSpec, fanout: Fanout | None) -> tuple[Exchange, int]:
        attempt = 0
        while True:
            exchange = await self._attempt(spec, fanout)
            attempt += 1
            delivered = fanout is not None and fanout.count > 0
            delay = self._delay(spec.retry, attempt - 1, exchange)
            if delay is None or delivered or attempt >= spec.retry.max_attempts:
                return exchange, attempt
            await self._clock.sleep(delay)

    async def _attempt(self, spec: HttpSpec, fanout: Fanout | None) -> Exchange:
        exchange = Exchange(spec, await self._clients.of_this_loop(), self._guard, fanout)
        try:
            await exchange.run()
        except FAILURES as exc:
            exchange.failure = failure_of(exc, spec, exchange.place)
        return exchange

    def _delay(self, policy: RetryPolicy, attempt: int, exchange: Exchange) -> float | None:
        """Seconds until the next attempt; None when this one was the last."""
        if exchange.failure is not None:
            return delay_after_failure(policy, attempt) if exchange.failure.is_retried else None
        if exchange.status in policy.on_status:
            return delay_after_status(policy, attempt, exchange.headers.get("retry-after"), self._clock)
        return None


async def execute(config: Mapping[str, Any], params: Mapping[str, Any] | None = None) -> HttpResult:
    """Fill the templates of a configuration and send it, with an instance that is made when it is needed."""
    return await _shared().execute(config, params)


@cache
def _shared() -> HttpClientPrimitive:
    return HttpClientPrimitive()


def _result(
    spec: HttpSpec, exchange: Exchange, fanout: Fanout | None, attempts: int, duration_ms: int
) -> HttpResult:
    error, error_code = _error(spec, exchange)
    body, encoding, notices = _body(exchange, fanout)
    return HttpResult(
        success=error is None,
        status_code=exchange.status,
        body=body,
        headers=exchange.headers,
        duration_ms=duration_ms,
        error=error,
        stream_events_count=None if fanout is None else fanout.count,
        stream_destinations=None if fanout is None else fanout.destinations,
        error_code=error_code,
        attempts=attempts,
        encoding=encoding,
        notices=notices,
        failed_sinks=() if fanout is None else tuple(redact(each, spec.secrets) for each in fanout.failed),
        url=exchange.url,
    )


def _error(spec: HttpSpec, exchange: Exchange) -> tuple[str | None, str | None]:
    if exchange.failure is not None:
        return exchange.failure.message, exchange.failure.code
    if is_success(exchange.status):
        return None, None
    reason = redact(exchange.reason, spec.secrets)
    return f"HTTP {exchange.status}: {reason}", "http_status"


def _body(exchange: Exchange, fanout: Fanout | None) -> tuple[Any, Encoding, tuple[str, ...]]:
    if exchange.body is not None:
        return exchange.body.value, exchange.body.encoding, (*exchange.notices, *exchange.body.notices)
    kept = None if fanout is None else fanout.kept
    if kept is None:
        return None, "text", tuple(exchange.notices)
    if kept.dropped:
        exchange.notices.append(f"{kept.dropped} more events were not kept for the result")
    return kept.get_events(), "events", tuple(exchange.notices)
