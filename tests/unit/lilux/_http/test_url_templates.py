"""A URL from a template: values land where they stand and change nothing else."""

from __future__ import annotations

import doctest
import inspect
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lilux._http.url import Target, render_url
from lilux.primitives.errors import ConfigurationError

ENV = {
    "BASE": "https://api.example.org/v1",
    "SLASH": "https://api.example.org/v1/",
    "HOST": "internal",
    "PREFIX": "a/b",
    "KEY": "k+/=&",
    "USERINFO": "me:p@ss/w",
    "WITH_USER": "https://me:secret@api.example.org",
}


def rendered(text: str, **params: Any) -> Target:
    return render_url(text, ENV, params)


def address(text: str, **params: Any) -> str:
    url = rendered(text, **params).url
    return f"{url.origin.scheme}://{url.netloc}{url.target}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://example.org", "https://example.org/"),
        ("https://example.org?x=1", "https://example.org/?x=1"),
        ("HTTPS://Example.ORG:443/A", "https://example.org/A"),
        ("http://example.org:8080/", "http://example.org:8080/"),
        ("http://example.org:/", "http://example.org/"),
        ("http://[::1]:81/", "http://[::1]:81/"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://a_b.example/", "http://a_b.example/"),
        ("https://example.org/a b?c d", "https://example.org/a%20b?c%20d"),
        ("https://example.org/é%20%zz", "https://example.org/%C3%A9%20%zz"),
        ('https://example.org/{}?{"a":1}', "https://example.org/%7B%7D?{%22a%22:1}"),
        ("https://example.org/a/../b/./c//d", "https://example.org/a/../b/./c//d"),
        ("https://example.org/a#part?no", "https://example.org/a"),
        ("https://example.org/a?b#part{x}", "https://example.org/a?b"),
        ("https://example.org/{unknown}", "https://example.org/%7Bunknown%7D"),
    ],
)
def test_a_url_without_values_is_taken_as_it_is(text: str, expected: str) -> None:
    assert address(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://h/{x}", "https://h/a%2Fb%20%3Fc%26d%3De%23f%25"),
        ("https://h/{x}/y", "https://h/a%2Fb%20%3Fc%26d%3De%23f%25/y"),
        ("https://h/p-{x}-s", "https://h/p-a%2Fb%20%3Fc%26d%3De%23f%25-s"),
        ("https://h/?q={x}&r=1", "https://h/?q=a%2Fb%20%3Fc%26d%3De%23f%25&r=1"),
        ("https://h?{x}", "https://h/?a%2Fb%20%3Fc%26d%3De%23f%25"),
        ("https://h/y#{x}", "https://h/y"),
        ("https://h/{n}/{t}/{l}", "https://h/7/true/%5B1%2C%22a%22%5D"),
        ("https://h/?a={none}", "https://h/?a="),
        ("https://h/${UNSET:-d/{n}}", "https://h/d/7"),
        ("https://h/?k=${KEY}", "https://h/?k=k%2B%2F%3D%26"),
        ("https://h/${PREFIX}/x", "https://h/a/b/x"),
        ("https://h/x?a=${UNSET}", "https://h/x?a="),
        ("${BASE}/{n}", "https://api.example.org/v1/7"),
        ("${BASE}-{n}", "https://api.example.org/v1-7"),
        ("${BASE}?a={n}", "https://api.example.org/v1?a=7"),
        ("${BASE}", "https://api.example.org/v1"),
        ("${SLASH}/{n}", "https://api.example.org/v1/7"),
        ("${SLASH}{n}", "https://api.example.org/v1/7"),
        ("${UNSET:-https://h/v2}/{n}", "https://h/v2/7"),
        ("${UNSET:-https://h}/{n}", "https://h/7"),
        ("https://${HOST}:{n}/", "https://internal:7/"),
        ("https://{host}.example.org/", "https://sub.example.org/"),
        ("https://{v6}:81/", "https://[2001:db8::1]:81/"),
        ("https://{v6}/", "https://[2001:db8::1]/"),
        ("{url}", "https://example.org/a/%2E?b=%20c&d"),
        ("{base}/x", "https://example.org:81/x"),
    ],
)
def test_a_value_is_encoded_for_where_it_lands(text: str, expected: str) -> None:
    params = {
        "x": "a/b ?c&d=e#f%",
        "n": 7,
        "t": True,
        "l": [1, "a"],
        "none": None,
        "host": "sub",
        "v6": "2001:db8::1",
        "url": "https://example.org/a/%2E?b=%20c&d#e",
        "base": "https://example.org:81",
    }
    assert address(text, **params) == expected


@pytest.mark.parametrize(
    ("text", "from_parameter"),
    [
        ("https://h/{x}?{x}#{x}", False),
        ("https://h:{n}/", False),
        ("https://{x}@h/", False),
        ("${BASE}/{x}", False),
        ("https://${HOST}/{x}", False),
        ("https://[::1]:{n}/", False),
        ("https://{x}/", True),
        ("https://{x}", True),
        ("https://{x}.example.org/", True),
        ("https://api.{x}:80/", True),
        ("https://a:b@{x}/", True),
        ("https://${UNSET:-{x}}/", True),
        ("${UNSET:-https://{x}}/", True),
        ("{url}", True),
        ("{url}/x", True),
        ("${UNSET:-{url}}", True),
    ],
)
def test_it_is_known_whether_a_parameter_has_named_the_host(text: str, from_parameter: bool) -> None:
    assert rendered(text, x="x", n=80, url="https://h").from_parameter is from_parameter


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("", {}),
        ("example.org", {}),
        ("/path", {}),
        ("//example.org/", {}),
        ("ftp://example.org/", {}),
        ("file:///etc/passwd", {}),
        ("https:example.org", {}),
        ("https://", {}),
        ("https:///path", {}),
        ("https://?q", {}),
        ("https://:80/", {}),
        ("https://user@/", {}),
        ("https://h:99999/", {}),
        ("https://h:0/", {}),
        ("https://h:8x/", {}),
        ("https://h:80:81/", {}),
        ("https://[::1/", {}),
        ("https://[::g]/", {}),
        ("https://[fe80::1%25eth0]/", {}),
        ("https://a b/", {}),
        ("https://a\\b/", {}),
        ("https://a%20b/", {}),
        ("https://a..b/", {}),
        ("https://.a/", {}),
        ("https://300.1.2.3/", {}),
        (f"https://{'a' * 64}.org/", {}),
        (f"https://{'a.' * 128}org/", {}),
        ("https://h/a\nb", {}),
        ("https://h/a\0b", {}),
        ("https://h/\ud800", {}),
        ("https://h/" + "x" * 70_000, {}),
        # values
        ("https://h/{x}", {"x": ""}),
        ("https://h/{x}/y", {"x": None}),
        ("https://h/${UNSET}/y", {}),
        ("https://h/{x}", {"x": "."}),
        ("https://h/{x}/y", {"x": ".."}),
        ("https://h/.{x}/y", {"x": "."}),
        ("https://h/{x}{y}/y", {"x": ".", "y": "."}),
        ("https://h/%2e{x}/y", {"x": "."}),
        ("https://h/%2e%2E{x}/y", {"x": ""}),
        ("https://h/{x}", {"x": "../../admin"}),
        ("https://h/{x}", {"x": "a/../b"}),
        ("https://h/{x}", {"x": "..\\b"}),
        ("https://h/{x}", {"x": "..;a/b"}),
        ("https://h/${UP}", {}),
        ("https://h/%{x}", {"x": "2e"}),
        ("https://h/%2{x}", {"x": "e"}),
        ("https://h/?a=%{x}", {"x": "26"}),
        ("https://h/{x}", {"x": "\ud800"}),
        ("https://h/?{x}", {"x": "\ud800"}),
        ("https://{x}@h/", {"x": ""}),
        ("https://me:${UNSET}@h/", {}),
        ("https://{x}/", {"x": ""}),
        ("https://{x}/", {"x": "a/b"}),
        ("https://{x}/", {"x": "a?b"}),
        ("https://{x}/", {"x": "a#b"}),
        ("https://{x}/", {"x": "a:80"}),
        ("https://{x}/", {"x": "a@b"}),
        ("https://{x}/", {"x": "a b"}),
        ("https://{x}/", {"x": "a\n"}),
        ("https://{x}.org/", {"x": "::1"}),
        ("https://[{x}]/", {"x": "::1"}),
        ("https://h:{x}/", {"x": "8 0"}),
        ("https://h:{x}/", {"x": "80/x"}),
        ("https://h:{x}/", {"x": "٨٠"}),
        ("https://h:{x}/", {"x": -1}),
        ("https://h{x}/", {"x": "/path"}),
        ("https://h{x}", {"x": "?query"}),
        ("{x}://h/", {"x": "https"}),
        ("{x}", {"x": "example.org"}),
        ("{x}", {"x": "ftp://example.org"}),
        ("{x}", {"x": "https://u:p@example.org"}),
        ("{x}", {"x": "https://"}),
        ("{x}", {"x": "https://h\\@evil/"}),
        ("{x}", {"x": "https://[::1]x/"}),
        ("{x}", {"x": 7}),
        ("{x}/y", {"x": "https://h/?q"}),
        ("{x}/y", {"x": "https://h/#f"}),
        ("{x}y", {"x": "https://h"}),
        ("{x}{y}", {"x": "https://h", "y": ".evil.org"}),
        ("{x}.org/", {"x": "https://h"}),
        ("{x}@evil/", {"x": "https://h"}),
    ],
)
def test_what_does_not_fit_is_refused(text: str, params: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        render_url(text, {**ENV, "UP": "a/../b"}, params)
    assert caught.value.field == "url"
    assert str(caught.value).startswith("expected ")
    assert ", found " in str(caught.value)


@pytest.mark.parametrize("base", ["https://h/a/", "https://h/a"])
@given(value=st.sampled_from(["x", "/x", "//", "?x", "#x"]) | st.text(min_size=1))
def test_a_value_after_a_value_never_takes_its_slash(base: str, value: str) -> None:
    try:
        target = render_url("{base}{v}", {}, {"base": base, "v": value}).url.target
    except ConfigurationError:
        return
    assert target.startswith(base.removeprefix("https://h"))
    assert unquote(target) == base.removeprefix("https://h") + value
    assert target.count("/") == base.removeprefix("https://h").count("/")


def test_a_variable_after_a_variable_is_joined_with_one_slash() -> None:
    for base in ("https://h/a/", "https://h/a"):
        assert render_url("${B}${P}", {"B": base, "P": "/x"}, {}).url.target == "/a/x"


def test_text_right_after_a_host_that_is_a_value_is_explained() -> None:
    with pytest.raises(
        ConfigurationError, match=r"after \{x\} as url, found text that would be part of the host"
    ):
        rendered("{x}.org/", x="https://h")


def test_userinfo_is_taken_out_of_the_address() -> None:
    for text in ("https://me:p%40ss@h/", "https://${U:-me}:{p}@h/"):
        target = rendered(text, p="p@ss")
        assert target.userinfo == ("me", "p@ss")
        assert target.url.netloc == "h"
        assert {"me", "p@ss"} <= set(target.secrets)
    assert rendered("${WITH_USER}/x").userinfo == ("me", "secret")


def test_variables_in_an_address_are_secrets_in_both_spellings() -> None:
    assert {"k+/=&", "k%2B%2F%3D%26"} <= set(rendered("https://h/?k=${KEY}&x={x}", x="open").secrets)
    assert "open" not in rendered("https://h/?k=${KEY}&x={x}", x="open").secrets


def test_no_repr_shows_the_target() -> None:
    assert "private" not in repr(rendered("https://h/private?{x}", x="private"))


def test_values_are_inert() -> None:
    assert rendered("https://h/{x}", x="{y} ${HOST}", y="WRONG").url.target == "/%7By%7D%20%24%7BHOST%7D"


# --- whatever the value ---------------------------------------------------------

VALUES = st.text() | st.text(alphabet="/\\?#&=%.:;@[]{}<>+ \t\r\n\0a2eE\u2024\uff0e\uff0f", max_size=12)


@given(value=VALUES)
@example(value="..")
@example(value="a/../../b?c#d")
@example(value="%2e%2e%2f")
@example(value="x&admin=1")
@example(value="\r\nHost: evil")
def test_a_value_never_changes_the_structure(value: str) -> None:
    try:
        url = rendered("https://user:{v}@example.org:81/a/{v}/b-{v}?x={v}&y={v}z#{v}", v=value).url
    except ConfigurationError:
        return
    full = f"https://{url.netloc}{url.target}"
    assert url.target.isascii()
    assert url.target.isprintable()
    assert " " not in url.target
    for scheme, host, port, path, query in (seen_by_urllib(full), seen_by_httpx(full)):
        assert (scheme, host, port) == ("https", "example.org", 81)
        first, a, one, two = path.split("/")
        assert (first, a, unquote(one), unquote(two)) == ("", "a", value, f"b-{value}")
        assert parse_qsl(query, keep_blank_values=True) == [("x", value), ("y", f"{value}z")]


def seen_by_urllib(url: str) -> tuple[str, str | None, int | None, str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port, parts.path, parts.query


def seen_by_httpx(url: str) -> tuple[str, str | None, int | None, str, str]:
    parts = httpx.URL(url)
    path, _, query = parts.raw_path.decode().partition("?")
    return parts.scheme, parts.host, parts.port, path, query


@given(value=VALUES)
def test_only_values_that_would_climb_or_vanish_are_refused_in_a_path(value: str) -> None:
    assume(value and "." not in value and max(value) < "\ud800")
    assert unquote(rendered("https://h/{v}", v=value).url.target) == f"/{value}"


@given(value=VALUES)
def test_every_value_fits_into_a_query(value: str) -> None:
    assert unquote(rendered("https://h/?q={v}", v=value).url.target) == f"/?q={value}"


@given(value=VALUES, template=st.sampled_from(["https://{v}/a", "https://{v}.x/a", "https://x.{v}:81/a"]))
@example(value="evil.org#", template="https://{v}.x/a")
@example(value="h/b", template="https://{v}/a")
def test_a_value_in_the_host_is_only_ever_a_host(value: str, template: str) -> None:
    try:
        target = rendered(template, v=value)
    except ConfigurationError:
        return
    assert target.from_parameter
    assert target.url.target == "/a"
    assert target.url.origin.port == (81 if ":81" in template else None)
    assert target.url.host.isascii()


@given(value=VALUES | VALUES.map("https://h/{}".format) | VALUES.map("https://h{}".format))
@example(value="https://h\\@evil")
@example(value="https://h/\\@evil")
def test_a_whole_url_goes_where_every_reader_thinks_it_goes(value: str) -> None:
    try:
        target = rendered("{v}", v=value)
    except ConfigurationError:
        return
    assert target.from_parameter
    assert target.userinfo is None
    assert target.url.target.startswith("/")
    assert target.url.target.isprintable()
    assert urlsplit(f"https://{target.url.netloc}{target.url.target}").hostname == target.url.host


def test_the_examples_of_the_module_are_true() -> None:
    result = doctest.testmod(inspect.getmodule(Target))
    assert result.attempted > 0
    assert result.failed == 0
