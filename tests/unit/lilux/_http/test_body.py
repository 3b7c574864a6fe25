"""Bodies: unpacked within a limit, and turned into values."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lilux._http.body import BrokenBodyError, TooLargeError, Unpacker, decode_body, is_json, media_type


def bare_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "bare deflate": bare_deflate,
}


def unpack(coding: str, *chunks: bytes, limit: int = 10**9) -> bytes:
    unpacker = Unpacker(coding, limit)
    content = b"".join(piece for chunk in chunks for piece in unpacker.feed(chunk))
    unpacker.finish()
    return content


@given(
    data=st.binary(max_size=300) | st.binary(min_size=1, max_size=3).map(lambda part: part * 50_000),
    cut=st.integers(0, 300),
)
@pytest.mark.parametrize("name", PACKERS)
def test_what_was_packed_is_unpacked_however_it_is_split(name: str, data: bytes, cut: int) -> None:
    packed = PACKERS[name](data)
    coding = name.removeprefix("bare ")
    assert unpack(coding, packed) == data
    assert unpack(coding, packed[:cut], packed[cut:]) == data
    if len(packed) < 2000:
        assert unpack(coding, *(packed[position : position + 1] for position in range(len(packed)))) == data


def test_members_of_gzip_follow_one_another_and_padding_is_ignored() -> None:
    members = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two")
    assert unpack("gzip", members) == b"one two"
    assert unpack("gzip", members + b"\0" * 100) == b"one two"
    assert (
        unpack("gzip", *(members[position : position + 1] for position in range(len(members)))) == b"one two"
    )


def test_no_bytes_need_no_unpacking() -> None:
    assert unpack("gzip") == b""
    assert unpack("deflate", b"") == b""


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_what_stops_before_its_end_is_broken(coding: str) -> None:
    packed = PACKERS[coding](b"hello" * 100)
    for end in range(1, len(packed)):
        with pytest.raises(BrokenBodyError):
            unpack(coding, packed[:end])


def test_a_second_member_that_stops_before_its_end_is_broken_too() -> None:
    with pytest.raises(BrokenBodyError):
        unpack("gzip", gzip.compress(b"one") + gzip.compress(b"two")[:-4])


def test_the_limit_counts_unpacked_bytes_and_packed_ones() -> None:
    packed = gzip.compress(b"x" * 1000)
    assert len(unpack("gzip", packed, limit=1000)) == 1000
    with pytest.raises(TooLargeError):
        unpack("gzip", packed, limit=999)
    assert unpack("", b"x" * 10, limit=10) == b"x" * 10
    with pytest.raises(TooLargeError):
        unpack("", b"x" * 6, b"x" * 5, limit=10)
    with pytest.raises(TooLargeError):
        unpack("gzip", gzip.compress(b"") * 100, limit=100)


def test_pieces_are_small_whatever_they_unpack_from() -> None:
    unpacker = Unpacker("gzip", 10**9)
    assert max(len(piece) for piece in unpacker.feed(gzip.compress(bytes(10_000_000)))) <= 65536


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/problem+json", True),
        ("text/json", True),
        ("application/vnd.a.b+json;v=1", True),
        ("application/jsonp", False),
        ("application/json-seq", False),
        ("application/x-ndjson", False),
        ("text/plain; a=application/json", False),
        ("", False),
    ],
)
def test_json_is_what_says_so(content_type: str, expected: bool) -> None:
    assert is_json(content_type) is expected


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ('text/HTML; Charset="UTF-8"', ("text/html", "UTF-8")),
        ("text/plain;charset=latin-1;x=y", ("text/plain", "latin-1")),
        ("text/plain ; charset = ascii ", ("text/plain", "ascii")),
        ("text/plain; x-charset=no", ("text/plain", "")),
        (";;;", ("", "")),
    ],
)
def test_a_type_has_a_name_and_a_charset(content_type: str, expected: tuple[str, str]) -> None:
    assert media_type(content_type) == expected


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(blacklist_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(value=JSON, ensure_ascii=st.booleans())
def test_json_comes_out_as_it_went_in(value: Any, ensure_ascii: bool) -> None:
    content = json.dumps(value, ensure_ascii=ensure_ascii).encode()
    body = decode_body(content, "application/json", "")
    assert (body.value, body.encoding, body.notices) == (value, "json", ())


WORDS = "null NaN Infinity 1.5 -0 E+9 e400 1e-400 4.9e-324 1.797693134862316e308 \\ud83d \\ude00 \\u0000 \\x"
SCRAPS = st.lists(
    st.sampled_from([*'{}[]:,"\\- \t\n\x01é😀\ufeff09', *WORDS.split(), "9" * 25]), max_size=12
).map("".join)


@given(
    content=SCRAPS.map(str.encode)
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=9)
)
def test_the_quick_way_to_read_json_gives_what_the_thorough_one_gives(content: bytes) -> None:
    quick = decode_body(content, "application/json", "")
    thorough = decode_body(content, "application/json; charset=utf_8", "")  # a spelling that is looked up
    assert repr(quick) == repr(thorough)


@pytest.mark.parametrize(
    "text",
    [
        *('{"a": NaN}', "[Infinity]", "-Infinity", "1e999", "[1, -1e999]", '"\\ud800"', '{"\\udfff": 1}'),
        *("9" * 400 + ".5e10", "{", "", "nul", "[1,]", "{'a': 1}", "1" * 5000, "[" * 100_000, "//c\n1"),
    ],
    ids=lambda text: text[:12],
)
def test_what_is_no_json_stays_text(text: str) -> None:
    body = decode_body(text.encode(), "application/json", "")
    assert (body.value, body.encoding) == (text, "text")
    assert bool(body.notices) == bool(text)


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert decode_body(b'"\\ud83d\\ude00"', "application/json", "").value == "😀"


@given(content=st.binary())
@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "image/png", "application/json", "text/x; charset=utf-16"]
)
def test_every_body_has_a_value_that_can_be_written_down(content_type: str, content: bytes) -> None:
    body = decode_body(content, content_type, "")
    json.dumps(body.value, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize(
    "charset",
    [
        "rot13",
        "hex",
        "zlib",
        "base64",
        "idna",
        "punycode",
        "unicode_escape",
        "utf-7",
        "undefined",
        "x\0y",
        "../x",
        "klingon",
    ],
)
def test_what_is_no_charset_is_read_as_utf_8(charset: str) -> None:
    body = decode_body("é+2AA-".encode(), f"text/plain; charset={charset}", "")
    assert body.value == "é+2AA-"
    assert "is not known" in body.notices[0]


@pytest.mark.parametrize(
    ("content", "content_type", "text"),
    [
        ("é".encode("utf-16"), "text/plain", "é"),
        ("é".encode("utf-8-sig"), "text/plain; charset=latin-1", "é"),
        ("é".encode("utf-32"), "", "é"),
        ("é".encode("shift_jis", "replace"), "text/plain; charset=shift_jis", "?"),
        ("я".encode("koi8-r"), "text/plain; charset=KOI8-R", "я"),
    ],
)
def test_a_byte_order_mark_wins_over_the_charset(content: bytes, content_type: str, text: str) -> None:
    body = decode_body(content, content_type or "text/plain", "")
    assert (body.value, body.notices) == (text, ())
