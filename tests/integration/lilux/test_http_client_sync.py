"""One request, one answer: what the specification promises about it, against a real server."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from lilux.primitives.errors import ConfigurationError
from lilux.primitives.http_client import HttpClientPrimitive, HttpResult, execute
from tests.http_server import Connection, Request, serve


async def echo(connection: Connection, request: Request) -> None:
    """Say what was asked."""
    told = {
        "method": request.method,
        "target": request.target,
        "headers": request.headers,
        "body": request.body.decode(),
    }
    await connection.json(json.dumps(told).encode())


async def ask(config: dict[str, Any], params: dict[str, Any] | None = None) -> HttpResult:
    async with HttpClientPrimitive() as http:
        return await http.execute(config, params or {})


async def asked(config: dict[str, Any], params: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the server has seen of a request with this configuration; its `url` is a path."""
    async with serve(echo) as server:
        result = await ask({**config, "url": server.url + config.get("url", "/")}, params)
    assert result.success, result.error
    told: dict[str, Any] = result.body
    return told


# --- the request ----------------------------------------------------------------


async def test_the_mode_is_sync_and_the_method_get_by_default() -> None:
    told = await asked({"url": "/a"})
    assert (told["method"], told["target"], told["body"]) == ("GET", "/a", "")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "post"])
async def test_a_method_is_sent(method: str) -> None:
    assert (await asked({"method": method}))["method"] == method.upper()


async def test_the_url_supports_param_templating() -> None:
    config = {"url": "/users/{id}/notes?q={q}&page={page}"}
    told = await asked(config, {"id": "a/b ?#%", "q": "x&y=z+1", "page": 2})
    assert told["target"] == "/users/a%2Fb%20%3F%23%25/notes?q=x%26y%3Dz%2B1&page=2"


async def test_request_headers_are_sent_and_templated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LILUX_TEST_TENANT", "acme")
    told = await asked(
        {"headers": {"X-Tenant": "${LILUX_TEST_TENANT}", "X-Name": "{name}", "X-None": "${UNSET_:-d}"}},
        {"name": "Zoë"},
    )
    seen = told["headers"]
    assert (seen["x-tenant"], seen["x-none"]) == ("acme", "d")
    assert seen["x-name"].encode("latin-1").decode() == "Zoë"


async def test_headers_that_say_who_lilux_is_can_be_replaced() -> None:
    assert (await asked({}))["headers"]["user-agent"] == "lilux"
    told = await asked({"headers": {"user-agent": "mine", "accept": "text/csv"}})
    assert (told["headers"]["user-agent"], told["headers"]["accept"]) == ("mine", "text/csv")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_the_body_is_json_serialized_for_post_put_and_patch(method: str) -> None:
    body = {"text": "é", "list": [1, None, True]}
    told = await asked({"method": method, "body": body})
    assert json.loads(told["body"]) == body
    assert told["headers"]["content-type"] == "application/json"


async def test_the_body_is_templated_recursively_and_a_lone_placeholder_keeps_its_type() -> None:
    body = {"a": ["{n}", {"b": "n is {n}"}], "c": "{list}"}
    told = await asked({"method": "POST", "body": body}, {"n": 7, "list": [1, 2]})
    assert json.loads(told["body"]) == {"a": [7, {"b": "n is 7"}], "c": [1, 2]}


async def test_a_value_in_a_body_is_never_a_template() -> None:
    body = {"a": "{x}", "b": "x={x}"}
    told = await asked({"method": "POST", "body": body}, {"x": "{y} ${HOME}", "y": "WRONG"})
    assert json.loads(told["body"]) == {"a": "{y} ${HOME}", "b": "x={y} ${HOME}"}


@pytest.mark.parametrize(
    ("body", "headers", "sent", "content_type"),
    [
        ("text", {}, b'"text"', "application/json"),
        (
            "a=1&b=2",
            {"Content-Type": "application/x-www-form-urlencoded"},
            b"a=1&b=2",
            "application/x-www-form-urlencoded",
        ),
        ("text", {"Content-Type": "application/json"}, b'"text"', "application/json"),
        ({"a": 1}, {"content-type": "application/vnd.api+json"}, b'{"a":1}', "application/vnd.api+json"),
        (0, {}, b"0", "application/json"),
        (False, {}, b"false", "application/json"),
        ([], {}, b"[]", "application/json"),
    ],
)
async def test_a_body_is_json_unless_it_is_text_of_another_type(
    body: object, headers: dict[str, str], sent: bytes, content_type: str
) -> None:
    told = await asked({"method": "POST", "body": body, "headers": headers})
    assert told["body"].encode() == sent
    assert told["headers"]["content-type"] == content_type


async def test_no_body_is_sent_for_none() -> None:
    told = await asked({"method": "POST", "body": None})
    assert (told["body"], told["headers"]["content-length"]) == ("", "0")
    assert "content-type" not in told["headers"]


async def test_a_body_that_a_parameter_leaves_empty_is_none() -> None:
    for method in ("POST", "GET"):
        told = await asked({"method": method, "body": "{body}"}, {"body": None})
        assert (told["body"], "content-type" in told["headers"]) == ("", False)


async def test_a_delete_may_have_a_body() -> None:
    assert (await asked({"method": "DELETE", "body": {"a": 1}}))["body"] == '{"a":1}'


# --- authentication -------------------------------------------------------------


async def test_bearer_authentication_sends_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LILUX_TEST_KEY", "s3cret")
    told = await asked({"auth": {"type": "bearer", "token": "${LILUX_TEST_KEY}"}})
    assert told["headers"]["authorization"] == "Bearer s3cret"


async def test_api_key_authentication_sends_the_key_as_x_api_key_by_default() -> None:
    told = await asked({"auth": {"type": "api_key", "key": "${UNSET_:-k}"}})
    assert told["headers"]["x-api-key"] == "k"


async def test_the_header_of_an_api_key_can_be_named() -> None:
    told = await asked({"auth": {"type": "api_key", "key": "k", "header": "X-Token"}})
    assert told["headers"]["x-token"] == "k"
    assert "x-api-key" not in told["headers"]


async def test_the_user_name_of_a_url_is_sent_as_basic_authentication() -> None:
    async with serve(echo) as server:
        url = f"http://me:p%40ss@{server.host}:{server.port}/"
        result = await ask({"url": url})
    assert base64.b64decode(result.body["headers"]["authorization"].split()[1]) == b"me:p@ss"


# --- the result -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "success"),
    [
        ("200 OK", True),
        ("204 No Content", True),
        ("302 Found", True),
        ("399 Nearly", True),
        ("400 Bad Request", False),
        ("404 Not Found", False),
        ("500 Oops", False),
    ],
)
async def test_success_is_a_status_from_200_up_to_400(status: str, success: bool) -> None:
    async def answer(connection: Connection, request: Request) -> None:
        await connection.reply(status)

    async with serve(answer) as server:
        result = await ask({"url": server.url})
    code, reason = status.split(" ", 1)
    assert (result.success, result.status_code) == (success, int(code))
    assert result.error == (None if success else f"HTTP {code}: {reason}")
    assert result.error_code == (None if success else "http_status")


async def test_the_reason_is_the_usual_one_when_the_server_gives_none() -> None:
    async def answer(connection: Connection, request: Request) -> None:
        await connection.send(b"HTTP/1.1 418 \r\nContent-Length: 0\r\n\r\n")

    async with serve(answer) as server:
        assert (await ask({"url": server.url})).error == "HTTP 418: I'm a teapot"


async def test_the_body_is_parsed_json_or_raw_text_and_the_headers_are_there() -> None:
    async def answer(connection: Connection, request: Request) -> None:
        if request.target == "/json":
            await connection.json(b'{"a": [1, "\xc3\xa9"]}')
        else:
            await connection.reply(body=b'{"a": 1}', headers={"Content-Type": "text/plain", "X-A": "b"})

    async with serve(answer) as server:
        parsed = await ask({"url": f"{server.url}/json"})
        raw = await ask({"url": f"{server.url}/text"})
    assert (parsed.body, parsed.encoding) == ({"a": [1, "é"]}, "json")
    assert (raw.body, raw.encoding) == ('{"a": 1}', "text")
    assert (raw.headers["x-a"], raw.headers["content-type"]) == ("b", "text/plain")


async def test_a_failure_has_its_body_too() -> None:
    async def answer(connection: Connection, request: Request) -> None:
        await connection.json(b'{"why": "no"}', "422 Unprocessable Content")

    async with serve(answer) as server:
        result = await ask({"url": server.url})
    assert (result.body, result.error) == ({"why": "no"}, "HTTP 422: Unprocessable Content")


async def test_a_sync_result_has_no_stream_fields_and_a_duration_in_whole_milliseconds() -> None:
    async with serve(echo) as server:
        result = await ask({"url": server.url})
    assert (result.stream_events_count, result.stream_destinations) == (None, None)
    assert isinstance(result.duration_ms, int)
    assert 0 <= result.duration_ms < 60_000


async def test_a_head_request_has_headers_and_no_body() -> None:
    async def answer(connection: Connection, request: Request) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")

    async with serve(answer) as server:
        result = await ask({"url": server.url, "method": "HEAD"})
    assert (result.success, result.body) == (True, "")
    assert result.headers["content-length"] == "99999999999"


async def test_binary_is_base64() -> None:
    async def answer(connection: Connection, request: Request) -> None:
        await connection.reply(body=b"\x89PNG\r\n\x00\xff", headers={"Content-Type": "image/png"})

    async with serve(answer) as server:
        result = await ask({"url": server.url})
    assert (base64.b64decode(result.body), result.encoding) == (b"\x89PNG\r\n\x00\xff", "base64")


@pytest.mark.parametrize(
    "location", ["/new", "http://example.org/", "http://no:port/", "http://[no address]/"]
)
async def test_a_location_is_in_the_headers_when_redirects_are_off(location: str) -> None:
    async def answer(connection: Connection, request: Request) -> None:
        await connection.reply("302 Found", headers={"Location": location})

    async with serve(answer) as server:
        result = await ask({"url": server.url})
    assert (result.status_code, result.headers["location"]) == (302, location)


# --- the module -----------------------------------------------------------------


async def test_execute_of_the_module_delegates_to_a_shared_instance() -> None:
    async with serve(echo) as server:
        first = await execute({"url": server.url + "/{x}"}, {"x": 1})
        second = await execute({"url": server.url})
    assert (first.body["target"], second.body["target"]) == ("/1", "/")
    assert [request.connection for request in server.requests] == [1, 1]


async def test_execute_is_send_of_render() -> None:
    from lilux.primitives.http_client import render

    async with serve(echo) as server, HttpClientPrimitive() as http:
        config, params = {"url": server.url + "/{x}"}, {"x": "{x}"}
        sent = await http.send(render(config, params))
        executed = await http.execute(config, params)
    assert sent.body == executed.body


async def test_what_is_wrong_is_refused_before_anything_is_sent() -> None:
    async with serve(echo) as server, HttpClientPrimitive() as http:
        with pytest.raises(ConfigurationError) as caught:
            await http.execute({"url": server.url, "timeout": float("nan")}, {})
    assert (caught.value.field, server.requests) == ("timeout", [])
