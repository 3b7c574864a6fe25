"""The formats of JSON Schema, one table of texts that have them and of texts that do not."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lilux.schemas._formats import FORMATS, fits

TEXTS = [
    (
        "date",
        ["2026-11-18", "2024-02-29", "0000-02-29"],
        ["2026-02-29", "2026-13-01", "2026-1-1", "26-01-01", "2026-01-01\n", "\u0662026-01-01", "2026-11-31"],
    ),
    (
        "time",
        ["10:00:00Z", "23:59:60Z", "10:00:00.123+02:00", "22:59:60-01:00", "10:00:00z"],
        [
            "10:00:00",
            "24:00:00Z",
            "10:60:00Z",
            "10:00:61Z",
            "22:59:60Z",
            "10:00Z",
            "10:00:00+24:00",
            "10:00:00,1Z",
        ],
    ),
    (
        "date-time",
        ["2026-11-18T10:00:00Z", "2026-11-18t10:00:00.5-08:00"],
        ["2026-11-18 10:00:00Z", "2026-11-18", "2026-11-18T10:00:00", "2026-02-30T10:00:00Z"],
    ),
    (
        "duration",
        ["P1D", "PT1H", "P1Y2M3DT4H5M6S", "P3W", "PT36H"],
        ["P", "PT", "1D", "P1H", "P1S", "P1D2H", "P1W2D", "PT1D"],
    ),
    (
        "email",
        ["ada@example.com", "a.b+c@x", '"a b"@example.com', "a@[127.0.0.1]", "a@[IPv6:::1]"],
        [
            "ada",
            "@x",
            "a@",
            ".a@x.com",
            "a..b@x.com",
            "a b@x.com",
            "a@-x.com",
            "a@[1.2.3]",
            "a@b@c d",
            "é@x.com",
        ],
    ),
    ("idn-email", ["é@example.com", "実例@実例.テスト"], ["é", "é @x.com"]),
    (
        "hostname",
        ["example.com", "a", "xn--4gbwdl", "1.2.3.4", "a-b.c"],
        ["", ".", "a.", ".a", "-a", "a-", "a_b", "a..b", "é", "x" * 64, "a." * 127 + "ab", "a\n"],
    ),
    ("idn-hostname", ["例え.jp", "example.com"], ["", "-a", "a-", "a b", "x" * 64, "a\u3002"]),
    (
        "ipv4",
        ["127.0.0.1", "255.255.255.255"],
        ["256.0.0.1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.4\n", "\u0661.1.1.1", "0x7f.1"],
    ),
    (
        "ipv6",
        ["::1", "2001:db8::1", "::ffff:1.2.3.4"],
        ["1", ":::", "12345::", "::1%eth0", "::1/64", "1.2.3.4"],
    ),
    (
        "uri",
        [
            "http://a",
            "http://u:p@h:80/p?q#f",
            "urn:x:y",
            "mailto:a@b",
            "file:///x",
            "http://[::1]:1/",
            "a:",
            "http://[v1.x]",
        ],
        [
            "",
            "a",
            "/x",
            "//h/x",
            "http://a b",
            "http://a/<",
            "http://a/%zz",
            "http://[::1",
            "http://h:p/",
            ":a",
            "1a:b",
            "http://é",
        ],
    ),
    ("uri-reference", ["", "a", "/x?y#z", "//h/x", "#f", "http://a"], ["a b", "\\x", "#a#b", "1:2", "%1"]),
    ("iri", ["http://é.example/ü?q=ñ", "http://a"], ["é", "http://a b"]),
    ("iri-reference", ["é", "/ü"], ["a b", "\\"]),
    (
        "uri-template",
        ["http://x/{a}{?b,c*}{+d:3}", "", "{#a.b}"],
        ["{", "}", "{a", "{a}}", "{{a}}", "{a b}", "{}", "<", "{a:10000}"],
    ),
    (
        "uuid",
        ["2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2EB8AA08-AA98-11EA-B4AA-73B441D16380"],
        [
            "2eb8aa08aa9811eab4aa73b441d16380",
            "2eb8aa08-aa98-11ea-b4aa-73b441d1638",
            "{2eb8aa08-aa98-11ea-b4aa-73b441d16380}",
            "x",
        ],
    ),
    ("json-pointer", ["", "/", "/a~1b~0/0", "/é"], ["a", "/~", "/~2", "#/a"]),
    ("relative-json-pointer", ["0", "1/a", "2#", "0/a~0"], ["", "/a", "01", "-1", "1#a", "+1"]),
    ("regex", ["^a$", ""], ["(", "a++", r"\Z"]),
]


@pytest.mark.parametrize(("name", "good", "bad"), TEXTS, ids=[name for name, _, _ in TEXTS])
def test_texts_have_a_format_or_do_not(name: str, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not fits(name, text)] == []
    assert [text for text in bad if fits(name, text)] == []


def test_every_format_is_in_the_table() -> None:
    assert {name for name, _, _ in TEXTS} == set(FORMATS)


@pytest.mark.parametrize("name", ["no-such-format", "", None, 7, ["date"]])
def test_what_is_no_known_format_is_an_annotation(name: object) -> None:
    assert fits(name, "anything")


@pytest.mark.parametrize("name", FORMATS)
def test_long_texts_are_decided_in_time(name: str) -> None:
    pieces = ("a", "1", ".", ":", "-", "a.", "%41", "{a}", '"', "/~0", "P1Y", "@", "1:", "é")
    started = time.process_time()
    for piece in pieces:
        for text in (piece * 50_000, piece * 50_000 + "!", f"http://{piece * 50_000}\n"):
            fits(name, text)
    assert time.process_time() - started < 5


@given(st.sampled_from(sorted(FORMATS)), st.text(max_size=40))
def test_any_text_has_a_format_or_does_not(name: str, text: str) -> None:
    assert fits(name, text) in {True, False}


def test_the_formats_need_no_further_package() -> None:
    script = (
        "import sys\n"
        "for name in ('rfc3987', 'rfc3987_syntax', 'rfc3339_validator', 'fqdn', 'idna', 'isoduration'):\n"
        "    sys.modules[name] = None\n"
        "from lilux.schemas import validate_parameters\n"
        "assert not validate_parameters('x', {'format': 'iri'}).valid"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
