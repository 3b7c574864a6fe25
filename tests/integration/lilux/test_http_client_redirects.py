"""Redirects: off unless asked for, and nothing that was configured leaves its origin."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lilux.primitives.http_client import HttpClientPrimitive, HttpResult
from tests.http_server import Connection, Request, Server, client_tls, serve, server_tls

MAX_REDIRECTS = 20
"""As docs/lilux.md says."""

SECRETS = {
    "headers": {"X-Secret": "header-secret", "Cookie": "cookie-secret"},
    "auth": {"type": "bearer", "token": "token-secret"},
}


async def recording(connection: Connection, request: Request) -> None:
    await connection.reply(body=b"arrived")


@asynccontextmanager
async def redirecting(location: str, status: str = "302 Found") -> AsyncIterator[Server]:
    """A server that redirects `/` and answers everything else."""

    async def answer(connection: Connection, request: Request) -> None:
        if request.target == "/":
            await connection.reply(status, headers={"Location": location})
        else:
            await connection.reply(body=b"arrived", headers={"Retry-After": "0"})

    async with serve(answer) as server:
        yield server


async def follow(url: str, **config: Any) -> HttpResult:
    async with HttpClientPrimitive(ssl_context=client_tls()) as http:
        return await http.execute(
            {"url": url, "follow_redirects": True, "allow_private_hosts": True, **config}, {}
        )


async def test_redirects_are_off_by_default() -> None:
    async with redirecting("/new") as server, HttpClientPrimitive() as http:
        result = await http.execute({"url": server.url}, {})
    assert (result.status_code, result.headers["location"], len(server.requests)) == (302, "/new", 1)


@pytest.mark.parametrize("location", ["/new", "new", "?x=1", "//{netloc}/new", "http://{netloc}/new#part"])
async def test_a_redirect_is_followed_when_asked_for(location: str) -> None:
    async with serve(recording) as target:
        netloc = f"{target.host}:{target.port}"
        async with redirecting(location.replace("{netloc}", netloc)) as server:
            result = await follow(server.url)
    assert (result.body, result.success) == ("arrived", True)


async def test_the_address_that_answered_is_told_but_stands_in_no_repr() -> None:
    async with redirecting("/new?a=b c") as server:
        result = await follow(server.url)
        assert result.url == f"{server.url}/new?a=b%20c"
        assert "/new" not in repr(result)
    refused = await follow("http://127.0.0.1:1/")
    assert (refused.status_code, refused.url) == (0, None)


async def test_auth_and_headers_are_sent_again_to_the_same_origin() -> None:
    async with redirecting("/new") as server:
        await follow(server.url, **SECRETS)
    assert server.requests[1].headers["x-secret"] == "header-secret"
    assert server.requests[1].headers["authorization"] == "Bearer token-secret"


@pytest.mark.parametrize(
    "identity",
    [
        SECRETS,
        {"auth": {"type": "api_key", "key": "key-secret"}},
        {"auth": {"type": "api_key", "key": "key-secret", "header": "X-Mine"}},
        {"headers": {"User-Agent": "agent-secret", "Accept": "accept-secret"}},
    ],
)
async def test_nothing_configured_crosses_to_another_origin(identity: dict[str, Any]) -> None:
    async with serve(recording) as target, redirecting(f"{target.url}/new") as server:
        result = await follow(server.url, **identity)
    assert result.body == "arrived"
    assert b"secret" in server.requests[0].raw_head
    assert b"secret" not in target.requests[0].raw_head
    assert target.requests[0].headers["user-agent"] == "lilux"


async def test_the_user_name_of_the_url_does_not_cross_either() -> None:
    async with serve(recording) as target, redirecting(f"{target.url}/new") as server:
        await follow(f"http://me:secret@{server.host}:{server.port}/")
    assert "authorization" in server.requests[0].headers
    assert "authorization" not in target.requests[0].headers


async def test_what_did_not_cross_does_not_come_back() -> None:
    async def back(connection: Connection, request: Request) -> None:
        await connection.reply("302 Found", headers={"Location": f"{home}/new"})

    async with serve(back) as target, redirecting(f"{target.url}/x") as server:
        home = server.url
        result = await follow(server.url, **SECRETS)
    assert result.body == "arrived"
    assert b"secret" not in server.requests[1].raw_head


async def test_nothing_goes_to_a_second_page_of_the_other_origin() -> None:
    async with redirecting("/new") as target, redirecting(f"{target.url}/") as server:
        result = await follow(server.url, **SECRETS)
    assert (result.body, [request.target for request in target.requests]) == ("arrived", ["/", "/new"])
    assert not [request for request in target.requests if b"secret" in request.raw_head]


async def test_another_scheme_is_another_origin() -> None:
    tls = server_tls("127.0.0.1")
    async with serve(recording, tls=tls) as target, redirecting(f"{target.url}/new") as server:
        result = await follow(server.url, **SECRETS)
    assert result.body == "arrived"
    assert b"secret" not in target.requests[0].raw_head


async def test_a_user_name_in_a_location_is_ignored() -> None:
    async with (
        serve(recording) as target,
        redirecting(f"http://you:there@{target.host}:{target.port}/new") as server,
    ):
        await follow(server.url)
    assert "authorization" not in target.requests[0].headers


@pytest.mark.parametrize(
    ("status", "method", "then", "with_body"),
    [
        ("301 Moved", "POST", "GET", False),
        ("301 Moved", "PUT", "PUT", True),
        ("302 Found", "POST", "GET", False),
        ("302 Found", "PUT", "GET", False),
        ("302 Found", "HEAD", "HEAD", False),
        ("303 See Other", "PUT", "GET", False),
        ("307 Temporary", "POST", "POST", True),
        ("308 Permanent", "PATCH", "PATCH", True),
    ],
)
async def test_a_redirect_changes_the_method_as_browsers_do(
    status: str, method: str, then: str, with_body: bool
) -> None:
    body = {} if method == "HEAD" else {"body": {"a": 1}}
    async with redirecting("/new", status) as server:
        await follow(server.url, method=method, **body)
    second = server.requests[1]
    assert (second.method, second.body) == (then, b'{"a":1}' if with_body else b"")
    assert ("content-type" in second.headers) == with_body


async def test_a_body_does_not_cross_to_another_origin() -> None:
    async with serve(recording) as target, redirecting(f"{target.url}/new", "307 Temporary") as server:
        result = await follow(server.url, method="POST", body={"secret": 1})
    assert (result.error_code, target.requests) == ("redirect_refused", [])
    assert result.error == "the redirect is not followed: it would carry the body to another origin"


@pytest.mark.parametrize(
    "location",
    ["ftp://example.org/", "http://", "http://[oops/", "javascript:alert(1)", "http://a b/", "http://h:x/"],
)
async def test_a_location_that_is_no_address_of_http_is_refused(location: str) -> None:
    async with redirecting(location) as server:
        result = await follow(server.url)
    assert (result.success, result.error_code) == (False, "redirect_refused")


async def test_a_redirect_without_a_location_is_the_answer() -> None:
    async def answer(connection: Connection, request: Request) -> None:
        await connection.reply("302 Found", b"nowhere")

    async with serve(answer) as server:
        result = await follow(server.url)
    assert (result.status_code, result.body) == (302, "nowhere")


async def test_a_redirect_without_end_is_ended() -> None:
    async def around(connection: Connection, request: Request) -> None:
        await connection.reply("302 Found", headers={"Location": f"{request.target}x"})

    async with serve(around) as server:
        result = await follow(server.url)
    assert (result.error_code, len(server.requests)) == ("redirect_refused", 1 + MAX_REDIRECTS)


@pytest.mark.parametrize("host", ["127.0.0.2", "localhost", "2130706434", "0x7f.2", "127.2"])
async def test_each_hop_to_another_host_is_checked(host: str) -> None:
    """The first host is the configuration's, and may be private; where its answer leads may not."""
    async with (
        serve(recording, host="127.0.0.2") as target,
        redirecting(f"http://{host}:{target.port}/") as server,
        HttpClientPrimitive() as http,
    ):
        result = await http.execute({"url": server.url, "follow_redirects": True}, {})
    assert (result.error_code, target.requests) == ("host_refused", [])
    assert str(result.error).startswith(f"{host}:{target.port} is not public (loopback)")


async def test_a_hop_to_the_same_host_is_as_trusted_as_the_first() -> None:
    async with (
        serve(recording) as target,
        redirecting(f"{target.url}/new") as server,
        HttpClientPrimitive() as http,
    ):
        result = await http.execute({"url": server.url, "follow_redirects": True}, {})
    assert result.body == "arrived"


async def test_a_retry_starts_at_the_first_hop() -> None:
    async with redirecting("/new", "302 Found") as server:
        result = await follow(server.url, retry={"max_attempts": 2, "on_status": [200]}, timeout=20)
    assert result.attempts == 2
    assert [request.target for request in server.requests] == ["/", "/new", "/", "/new"]
