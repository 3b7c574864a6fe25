"""No secret of a request stands in an error, a repr or a log, not even when the server sends it back."""

from __future__ import annotations

import base64
import logging
from typing import Any

import pytest

from lilux.primitives.errors import ConfigurationError
from lilux.primitives.http_client import HttpClientPrimitive, render
from tests.http_server import Connection, Request, serve

TOKEN, KEY, HEADER, PASSWORD = "t0ken-s3cret", "k3y-s3cret", "h3ader-s3cret", "p4ss-s3cret"
VARIABLE = "v4r s3cret"

CONFIGS: dict[str, dict[str, Any]] = {
    "bearer": {"auth": {"type": "bearer", "token": "${LILUX_TEST_TOKEN}"}},
    "api key": {"auth": {"type": "api_key", "key": "${LILUX_TEST_KEY}"}},
    "header": {"headers": {"X-Mine": "${LILUX_TEST_HEADER}", "Cookie": f"id={HEADER}"}},
    "a part of a header": {"headers": {"X-Mine": "Token ${LILUX_TEST_HEADER}"}},
    "the words of a header": {"headers": {"Authorization": f"Token {TOKEN}", "Cookie": f"a=b; id={HEADER}"}},
    "body": {
        "method": "POST",
        "body": {"a": [{"b": "${LILUX_TEST_KEY}"}, "x=${UNSET:-${LILUX_TEST_TOKEN}}"]},
    },
    "query": {"url": "http://{netloc}/?key=${LILUX_TEST_VARIABLE}"},
    "path": {"url": "http://{netloc}/${LILUX_TEST_VARIABLE}/x"},
    "user name": {"url": f"http://me:{PASSWORD}@{{netloc}}/"},
}
ENCODED_PASSWORD = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
SECRETS = {
    "bearer": [TOKEN],
    "api key": [KEY],
    "header": [HEADER],
    "a part of a header": [HEADER],
    "the words of a header": [TOKEN, HEADER],
    "body": [KEY, TOKEN],
    "query": [VARIABLE, "v4r%20s3cret"],
    "path": [VARIABLE, "v4r%20s3cret"],
    "user name": [PASSWORD, ENCODED_PASSWORD],
}


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in [("TOKEN", TOKEN), ("KEY", KEY), ("HEADER", HEADER), ("VARIABLE", VARIABLE)]:
        monkeypatch.setenv(f"LILUX_TEST_{name}", value)


@pytest.mark.parametrize("kind", ["status", "protocol", "closed"])
@pytest.mark.parametrize("name", CONFIGS)
async def test_a_secret_that_the_server_sends_back_is_not_in_the_error(name: str, kind: str) -> None:
    async def answer(connection: Connection, request: Request) -> None:
        told = " ".join([*SECRETS[name], *request.headers.values(), request.target])
        if kind == "status":
            await connection.reply(f"401 no {told}")
        elif kind == "protocol":
            await connection.send(f"HTTP/1.1 200 OK\r\n{told}\r\n\r\n".encode())
        await connection.close()

    async with serve(answer) as server, HttpClientPrimitive() as http:
        config = {"url": server.url, **CONFIGS[name]}
        spec = render({**config, "url": config["url"].replace("{netloc}", f"{server.host}:{server.port}")})
        result = await http.send(spec)
    sent = (server.requests[0].raw_head + server.requests[0].body).decode()
    assert any(secret in sent for secret in SECRETS[name])
    for text in (str(result.error), repr(result), repr(spec)):
        assert not [secret for secret in SECRETS[name] if secret in text]


@pytest.mark.parametrize(
    ("reason", "shown"), [("abcd ab xd", "*** *** xd"), ("x" * 1000, "x" * 300)], ids=["secrets", "long"]
)
async def test_longer_secrets_are_taken_out_first_and_what_is_left_is_cut(reason: str, shown: str) -> None:
    async def answer(connection: Connection, request: Request) -> None:
        await connection.reply(f"401 {reason}")

    async with serve(answer) as server, HttpClientPrimitive() as http:
        headers = {"X-A": "ab", "X-B": "abcd", "X-C": "a", "X-D": ""}
        result = await http.execute({"url": server.url, "headers": headers})
    assert result.error == f"HTTP 401: {shown}"


@pytest.mark.parametrize(
    "config",
    [
        {"headers": {"X-Mine": f"{HEADER}\r\nX-Evil: 1"}},
        {"headers": {"X-Mine": ["${LILUX_TEST_HEADER}", HEADER]}},
        {"headers": f"X-Mine: {HEADER}"},
        {"auth": {"type": "bearer", "token": f"{TOKEN}\n"}},
        {"auth": {"type": "bearer", "token": [TOKEN]}},
        {"auth": f"bearer {TOKEN}"},
        {"auth": {"type": "bearer", "key": KEY, "token": TOKEN}},
        {"url": f"http://me:{PASSWORD}@/"},
        {"url": f"ftp://me:{PASSWORD}@example.org/"},
        {"url": f"http://me:{PASSWORD}@127.0.0.1/", "auth": {"type": "bearer", "token": TOKEN}},
        {"url": "http://${LILUX_TEST_VARIABLE}/"},
        {"url": "${LILUX_TEST_VARIABLE}/"},
        {"url": "http://127.0.0.1/%${LILUX_TEST_VARIABLE}"},
    ],
)
def test_a_configuration_error_does_not_show_a_secret(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        render({"url": "http://127.0.0.1/", **config})
    assert "s3cret" not in str(caught.value)


async def test_a_host_that_came_from_a_variable_is_not_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LILUX_TEST_HOST", "localhost")
    async with HttpClientPrimitive() as http:
        result = await http.execute({"url": "http://${LILUX_TEST_HOST}:1/"}, {})
    assert result.error == "cannot connect to ***:1: Connection refused"


async def test_the_repr_of_a_result_has_no_body_and_no_headers() -> None:
    async def echo(connection: Connection, request: Request) -> None:
        await connection.reply(body=request.raw_head, headers={"X-Seen": request.headers["x-mine"]})

    async with serve(echo) as server, HttpClientPrimitive() as http:
        result = await http.execute({"url": server.url, "headers": {"X-Mine": HEADER}}, {})
    assert HEADER in result.body
    assert result.headers["x-seen"] == HEADER
    assert HEADER not in repr(result)


async def test_the_error_of_a_sink_is_redacted_too() -> None:
    class Tells:
        async def write(self, event: str) -> None:
            raise OSError(f"cannot send {event} with {TOKEN}")

        async def close(self) -> None: ...

    async def answer(connection: Connection, request: Request) -> None:
        headers = {"Content-Type": "text/event-stream"}
        await connection.reply(body=b"data: 1\n\n", headers=headers)

    async with serve(answer) as server, HttpClientPrimitive() as http:
        config = {"url": server.url, "mode": "stream", "sinks": [Tells()], **CONFIGS["bearer"]}
        result = await http.execute(config, {})
    assert result.failed_sinks == ("Tells.write: OSError: cannot send 1 with ***",)


async def test_the_log_of_httpx_gets_the_origin_only(caplog: pytest.LogCaptureFixture) -> None:
    async def answer(connection: Connection, request: Request) -> None:
        await connection.reply()

    caplog.set_level(logging.INFO, logger="httpx")
    async with serve(answer) as server, HttpClientPrimitive() as http:
        await http.execute({"url": f"{server.url}/{{x}}?y={{x}}"}, {"x": "private"})
    (record,) = [record for record in caplog.records if record.name == "httpx"]
    assert record.getMessage() == f'HTTP Request: GET {server.url} "HTTP/1.1 200 OK"'
    assert server.requests[0].target == "/private?y=private"
