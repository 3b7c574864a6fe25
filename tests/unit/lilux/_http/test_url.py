"""An address in its two parts."""

from __future__ import annotations

import pytest

from lilux._http.url import MAX_TARGET_CHARACTERS, Url, escape_path, escape_query, parse_origin
from lilux.primitives.errors import ConfigurationError


def url(target: str = "/a/b?c", host: str = "example.org", scheme: str = "https") -> Url:
    return Url(parse_origin(f"{scheme}://", host), target)


def test_no_repr_shows_the_target() -> None:
    assert "secret" not in repr(url("/secret"))


@pytest.mark.parametrize("target", ["", "a", "?a", "@evil.org/", "/" * (MAX_TARGET_CHARACTERS + 1)])
def test_a_target_is_a_path_of_some_length(target: str) -> None:
    with pytest.raises(ConfigurationError):
        url(target)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("example.org", ("example.org", 443, "example.org")),
        ("example.org:443", ("example.org", 443, "example.org")),
        ("example.org:81", ("example.org", 81, "example.org:81")),
        ("[::1]", ("::1", 443, "[::1]")),
        ("[::1]:81", ("::1", 81, "[::1]:81")),
        ("EXAMPLE.org.", ("example.org.", 443, "example.org.")),
        ("bücher.example", ("xn--bcher-kva.example", 443, "xn--bcher-kva.example")),
    ],
)
def test_an_origin_has_one_canonical_form(host: str, expected: tuple[str, int, str]) -> None:
    found = url(host=host)
    assert (found.host, found.port, found.netloc) == expected


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (url("/elsewhere"), True),
        (url(host="EXAMPLE.ORG:443"), True),
        (url(host="example.org:81"), False),
        (url(host="example.com"), False),
        (url(host="sub.example.org"), False),
        (url(scheme="http"), False),
        (url(scheme="http", host="example.org:443"), False),
    ],
)
def test_an_origin_is_scheme_host_and_port(other: Url, same: bool) -> None:
    assert url().has_origin_of(other) is same


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("", "https://example.org/a/b?c"),
        ("x", "https://example.org/a/x"),
        ("../x", "https://example.org/x"),
        ("/x?y z#f", "https://example.org/x?y%20z"),
        ("?d", "https://example.org/a/b?d"),
        ("//h/x", "https://h/x"),
        ("http://h", "http://h/"),
        ("http://u:p@h:81/x", "http://h:81/x"),
        ("https:///x", "https://example.org/x"),
    ],
)
def test_a_redirect_is_joined(location: str, expected: str) -> None:
    found = url().join(location)
    assert f"{found.origin.scheme}://{found.netloc}{found.target}" == expected


@pytest.mark.parametrize(
    "location", ["ftp://h/", "mailto:a@b", "http://", "http://h:x/", "http://[::1", "http://a b"]
)
def test_a_redirect_to_anything_else_is_refused(location: str) -> None:
    with pytest.raises(ConfigurationError):
        url().join(location)


def test_text_is_escaped_once() -> None:
    assert escape_path("a b%20c?d`é") == "a%20b%20c%3Fd%60%C3%A9"
    assert escape_query("a b%20c?d`é") == "a%20b%20c?d`%C3%A9"
    assert escape_path("x" * 5000 + " ") == "x" * 5000 + "%20"


@pytest.mark.parametrize("text", ["a\nb", "a\0", "\x7f", "\ud800"])
def test_text_that_no_address_holds_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        escape_path(text)
    with pytest.raises(ConfigurationError):
        escape_query(text)
