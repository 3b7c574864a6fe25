"""A configuration becomes a request, or is refused with the field that is wrong."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lilux.primitives import http_client
from lilux.primitives.errors import ConfigurationError
from lilux.primitives.http_client import CONFIG_KEYS, HttpSpec, render

URL = "https://example.org/"
ENV = {"TOKEN": "t0ken", "EMPTY": "", "BREAK": "a\nb"}


def rendered(config: dict[str, Any], **params: Any) -> HttpSpec:
    return render({"url": URL, **config}, params, env=ENV)


def headers_of(spec: HttpSpec) -> dict[str, str]:
    return dict(spec.headers)


def test_what_is_not_given_has_the_value_of_the_specification() -> None:
    spec = rendered({})
    assert (spec.method, spec.mode, spec.timeout, spec.body) == ("GET", "sync", 30, None)
    assert (spec.retry.max_attempts, spec.retry.backoff, spec.retry.on_status) == (
        1,
        "exponential",
        frozenset(),
    )
    assert (spec.follow_redirects, spec.allow_private_hosts, spec.sinks) == (False, False, ())
    assert spec.max_response_bytes == 10 * 1024 * 1024
    assert headers_of(spec) == {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "User-Agent": "lilux"}


def test_a_url_is_required() -> None:
    with pytest.raises(ConfigurationError, match=r"^expected text as url, found nothing$") as caught:
        render({}, {})
    assert caught.value.field == "url"


def test_none_is_not_given() -> None:
    assert rendered(dict.fromkeys(CONFIG_KEYS - {"url"})) == rendered({})
    assert render({"url": URL}, None, env={}) == rendered({})


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"url": None}, "url"),
        ({"url": 7}, "url"),
        ({"url": ""}, "url"),
        ({"url": "/path"}, "url"),
        ({"url": "https://"}, "url"),
        ({"url": "ftp://example.org/"}, "url"),
        ({"metod": "GET"}, "metod"),
        ({"method": 7}, "method"),
        ({"method": ""}, "method"),
        ({"method": "GET /"}, "method"),
        ({"method": "CONNECT"}, "method"),
        ({"method": "connect"}, "method"),
        ({"mode": "async"}, "mode"),
        ({"mode": 1}, "mode"),
        ({"mode": ["sync"]}, "mode"),
        ({"headers": []}, "headers"),
        ({"headers": {1: "x"}}, "headers"),
        ({"headers": {"X-A": 1}}, "headers.X-A"),
        ({"headers": {"X A": "x"}}, "headers"),
        ({"headers": {"": "x"}}, "headers"),
        ({"headers": {"X-A:": "x"}}, "headers"),
        ({"headers": {"Ä": "x"}}, "headers"),
        ({"headers": {"X-A": "a\r\nX-B: b"}}, "headers.X-A"),
        ({"headers": {"X-A": "a\n"}}, "headers.X-A"),
        ({"headers": {"X-A": "a\rb"}}, "headers.X-A"),
        ({"headers": {"X-A": "a\0b"}}, "headers.X-A"),
        ({"headers": {"X-A": "a\x7fb"}}, "headers.X-A"),
        ({"headers": {"X-A": "{break}"}}, "headers.X-A"),
        ({"headers": {"X-A": "${BREAK}"}}, "headers.X-A"),
        ({"headers": {"X-A": "\ud800"}}, "headers.X-A"),
        ({"headers": {"X-A": "a", "x-a": "b"}}, "headers.x-a"),
        ({"headers": {"Host": "other"}}, "headers.Host"),
        ({"headers": {"content-length": "1"}}, "headers.content-length"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "headers.Transfer-Encoding"),
        ({"headers": {"Connection": "close"}}, "headers.Connection"),
        ({"headers": {"Upgrade": "h2c"}}, "headers.Upgrade"),
        ({"body": 1}, "body"),
        ({"method": "HEAD", "body": 1}, "body"),
        ({"method": "TRACE", "body": 1}, "body"),
        ({"method": "POST", "body": math.nan}, "body"),
        ({"method": "POST", "body": {"a": {1, 2}}}, "body"),
        ({"method": "POST", "body": b"bytes"}, "body"),
        ({"method": "POST", "body": "\ud800"}, "body"),
        ({"method": "POST", "body": "x{bytes}"}, "{bytes}"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": math.nan}, "timeout"),
        ({"timeout": math.inf}, "timeout"),
        ({"timeout": 10**400}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": "30"}, "timeout"),
        ({"retry": []}, "retry"),
        ({"retry": {"attempts": 3}}, "retry.attempts"),
        ({"retry": {"max_attempts": 0}}, "retry.max_attempts"),
        ({"retry": {"max_attempts": 1.5}}, "retry.max_attempts"),
        ({"retry": {"max_attempts": True}}, "retry.max_attempts"),
        ({"retry": {"backoff": "quadratic"}}, "retry.backoff"),
        ({"retry": {"backoff": ["linear"]}}, "retry.backoff"),
        ({"retry": {"on_status": 503}}, "retry.on_status"),
        ({"retry": {"on_status": "503"}}, "retry.on_status"),
        ({"retry": {"on_status": [503, 99]}}, "retry.on_status[1]"),
        ({"retry": {"on_status": [600]}}, "retry.on_status[0]"),
        ({"retry": {"on_status": ["503"]}}, "retry.on_status[0]"),
        ({"retry": {"on_status": [True]}}, "retry.on_status[0]"),
        ({"auth": "bearer"}, "auth"),
        ({"auth": {"token": "t"}}, "auth.type"),
        ({"auth": {"type": "basic", "token": "t"}}, "auth.type"),
        ({"auth": {"type": ["bearer"], "token": "t"}}, "auth.type"),
        ({"auth": {"type": "bearer"}}, "auth.token"),
        ({"auth": {"type": "bearer", "token": 7}}, "auth.token"),
        ({"auth": {"type": "bearer", "token": ""}}, "auth.token"),
        ({"auth": {"type": "bearer", "token": " "}}, "auth.token"),
        ({"auth": {"type": "bearer", "token": "${EMPTY}"}}, "auth.token"),
        ({"auth": {"type": "bearer", "token": "${UNSET}"}}, "auth.token"),
        ({"auth": {"type": "bearer", "token": "${BREAK}"}}, "auth.token"),
        ({"auth": {"type": "bearer", "token": "t", "key": "k"}}, "auth.key"),
        ({"auth": {"type": "bearer", "token": "t", "header": "X"}}, "auth.header"),
        ({"auth": {"type": "api_key"}}, "auth.key"),
        ({"auth": {"type": "api_key", "token": "t"}}, "auth.token"),
        ({"auth": {"type": "api_key", "key": "{none}"}}, "auth.key"),
        ({"auth": {"type": "api_key", "key": "k", "header": ""}}, "auth.header"),
        ({"auth": {"type": "api_key", "key": "k", "header": "X A"}}, "auth.header"),
        ({"auth": {"type": "api_key", "key": "k", "header": "Host"}}, "auth.header"),
        (
            {"auth": {"type": "bearer", "token": "t"}, "headers": {"authorization": "x"}},
            "headers.Authorization",
        ),
        ({"auth": {"type": "api_key", "key": "k"}, "headers": {"X-Api-Key": "x"}}, "headers.X-API-Key"),
        ({"url": "https://u:p@h/", "auth": {"type": "bearer", "token": "t"}}, "headers.Authorization"),
        ({"follow_redirects": "yes"}, "follow_redirects"),
        ({"follow_redirects": 1}, "follow_redirects"),
        ({"allow_private_hosts": "false"}, "allow_private_hosts"),
        ({"max_response_bytes": 0}, "max_response_bytes"),
        ({"max_response_bytes": 1.5}, "max_response_bytes"),
        ({"max_response_bytes": True}, "max_response_bytes"),
        ({"sinks": "ReturnSink"}, "sinks"),
        ({"sinks": {"a": 1}}, "sinks"),
    ],
)
def test_a_wrong_configuration_is_refused_with_its_field(config: dict[str, Any], field: str) -> None:
    params = {"break": "a\r\nb", "none": None, "bytes": b"x"}
    with pytest.raises(ConfigurationError) as caught:
        rendered(config, **params)
    assert caught.value.field == field
    assert "expected" in str(caught.value)


def test_a_body_that_is_too_deep_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ConfigurationError, match="expected a value that JSON can hold") as caught:
        rendered({"method": "POST", "body": "{deep}"}, deep=deep)
    assert caught.value.field == "body"


@pytest.mark.parametrize("config", [None, [], "https://example.org", 7, {1: 2}])
def test_a_configuration_is_an_object(config: Any) -> None:
    with pytest.raises(ConfigurationError, match="found"):
        render(config, {})


def test_parameters_are_an_object() -> None:
    with pytest.raises(ConfigurationError) as caught:
        render({"url": URL}, [("a", 1)])  # type: ignore[arg-type]
    assert caught.value.field == "params"


def test_all_unknown_keys_are_named_and_the_known_ones_too() -> None:
    with pytest.raises(ConfigurationError, match=r"expected only .*url in config, found metod, tiemout$"):
        rendered({"metod": "GET", "tiemout": 1})


def test_a_secret_that_is_missing_says_which_variable_to_set() -> None:
    message = r"^expected a secret as auth\.token, found nothing: is \$\{UNSET\} set\?$"
    with pytest.raises(ConfigurationError, match=message):
        rendered({"auth": {"type": "bearer", "token": "${UNSET}"}})


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        ({"type": "bearer", "token": "${TOKEN}"}, "Authorization", "Bearer t0ken"),
        ({"type": "bearer", "token": "${UNSET:-d}"}, "Authorization", "Bearer d"),
        ({"type": "bearer", "token": "{t}"}, "Authorization", "Bearer param"),
        ({"type": "api_key", "key": "${TOKEN}"}, "X-API-Key", "t0ken"),
        ({"type": "api_key", "key": "k", "header": "Authorization"}, "Authorization", "k"),
        ({"type": "api_key", "key": "k", "header": "${UNSET:-X-Mine}"}, "X-Mine", "k"),
    ],
)
def test_authentication_is_a_header(auth: dict[str, str], header: str, value: str) -> None:
    assert headers_of(rendered({"auth": auth}, t="param"))[header] == value


def test_a_header_may_be_empty_and_loses_the_space_around_it() -> None:
    headers = headers_of(rendered({"headers": {"X-A": "", "X-B": " b\t", "X-C": "a\tb"}}))
    assert (headers["X-A"], headers["X-B"], headers["X-C"]) == ("", "b", "a\tb")


def test_headers_that_identify_the_caller_are_secret_and_missing_in_bare_headers() -> None:
    spec = rendered(
        {"auth": {"type": "bearer", "token": "t0ken"}, "headers": {"X-A": "he@der", "Accept": "mine"}}
    )
    assert {"t0ken", "he@der", "mine"} <= set(spec.secrets)
    assert not {"t0ken", "he@der", "mine"} & {value for _, value in spec.bare_headers}
    assert "t0ken" not in repr(spec)


def test_a_variable_is_secret_wherever_it_stands_unless_it_is_too_short_to_be_one() -> None:
    env = {"LONG": 'abc"d', "SHORT": "127"}
    config = {
        "url": URL,
        "method": "POST",
        "headers": {"X-A": "a ${LONG}"},
        "body": ["${SHORT} ${NO:-${LONG}}"],
    }
    assert {'abc"d', 'abc\\"d'} <= set(render(config, env=env).secrets)
    assert "127" not in render(config, env=env).secrets


@pytest.mark.parametrize(
    ("config", "params", "mode"),
    [
        ({}, {}, "sync"),
        ({}, {"mode": "stream"}, "stream"),
        ({}, {"mode": "sync"}, "sync"),
        ({}, {"mode": "fast"}, "sync"),
        ({}, {"mode": 7}, "sync"),
        ({"mode": "sync"}, {"mode": "stream"}, "sync"),
        ({"mode": "stream"}, {"mode": "sync"}, "stream"),
    ],
)
def test_the_mode_of_the_configuration_comes_first(
    config: dict[str, str], params: dict[str, Any], mode: str
) -> None:
    assert rendered(config, **params).mode == mode


def test_the_sinks_of_the_configuration_come_first() -> None:
    own, others = [http_client.ReturnSink()], [http_client.ReturnSink()]
    assert rendered({"sinks": own}, __sinks=others).sinks == tuple(own)
    assert rendered({}, __sinks=others).sinks == tuple(others)
    assert rendered({"sinks": []}, __sinks=others).sinks == tuple(others)


def test_parameters_are_no_configuration() -> None:
    params = {"url": "https://evil.org", "headers": {"X": "1"}, "timeout": 1, "auth": {}, "method": "DELETE"}
    assert rendered({}, **params) == rendered({})


@given(value=st.text())
def test_a_parameter_never_adds_a_line_to_the_headers(value: str) -> None:
    try:
        spec = rendered({"headers": {"X-A": "a{v}b"}}, v=value)
    except ConfigurationError:
        return
    (text,) = [text for name, text in spec.headers if name == "X-A"]
    assert text == f"a{value}b"
    assert not set(text.encode()) & {0, 10, 13}


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LILUX_TEST_X", "y")
    config = {"url": "https://example.org/${LILUX_TEST_X}"}
    assert render(config).url.target == "/y"
    assert render(config, env={"LILUX_TEST_X": "z"}).url.target == "/z"


# --- the module -----------------------------------------------------------------


def test_the_public_names_are_those_listed() -> None:
    assert len(set(http_client.__all__)) == len(http_client.__all__)
    own = {
        name
        for name, item in vars(http_client).items()
        if getattr(item, "__module__", None) == http_client.__name__ and not name.startswith("_")
    }
    assert own <= set(http_client.__all__)
    assert all(getattr(http_client, name).__doc__ for name in http_client.__all__)


def test_a_result_has_the_fields_of_the_specification_first() -> None:
    fields = list(http_client.HttpResult.__dataclass_fields__)
    specified = ["success", "status_code", "body", "headers", "duration_ms", "error"]
    assert fields[:8] == [*specified, "stream_events_count", "stream_destinations"]
    result = http_client.HttpResult(True, 200, {"a": 1}, {}, 5, None, None, None)
    assert (result.error_code, result.attempts, result.notices) == (None, 1, ())
    assert http_client.HttpResult(True, 200, None, {}, 1).error is None
