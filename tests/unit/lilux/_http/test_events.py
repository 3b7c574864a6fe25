"""Server-sent events, split in every way."""

from __future__ import annotations

import doctest
import inspect
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lilux._http.events import EventParser
from lilux.primitives.http_client import ReturnSink, ServerSentEvent

Seen = list[tuple[str, str, str, int | None]]


def parse(*chunks: bytes) -> Seen:
    parser = EventParser()
    return [
        (str(event), event.event, event.id, event.retry) for chunk in chunks for event in parser.feed(chunk)
    ]


def data_of(*chunks: bytes) -> list[str]:
    return [event[0] for event in parse(*chunks)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"", []),
        (b"data: a\n\n", ["a"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data: a: b\n\n", ["a: b"]),
        (b"data\n\n", [""]),
        (b"data:\n\n", [""]),
        (b"data\ndata\n\n", ["\n"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\n\n\n\ndata: b\n\n", ["a", "b"]),
        (b": comment\n\n", []),
        (b":\n\ndata: a\n\n", ["a"]),
        (b"data: a\n: comment\ndata: b\n\n", ["a\nb"]),
        (b"event: x\n\n", []),
        (b"event: x\n\ndata: a\n\n", ["a"]),
        (b" data: a\n\n", []),
        (b"Data: a\n\n", []),
        (b"unknown: a\nunknown\n\n", []),
        (b"data: a\r\n\r\n", ["a"]),
        (b"data: a\r\r", ["a"]),
        (b"data: a\r\n\ndata: b\n\r\n", ["a", "b"]),
        (b"data: a\n\rdata: b\r\n\r", ["a", "b"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"\n\xef\xbb\xbfdata: a\n\n", []),
        (b"data: \xef\xbb\xbf\n\n", ["\ufeff"]),
        (b"data: \xff\n\n", ["\ufffd"]),
        (b"data: \xe2\x82\n\n", ["\ufffd"]),
        ("data: é€😀\u2028\x85\x0b\n\n".encode(), ["é€😀\u2028\x85\x0b"]),
        (b"data: a\0b\n\n", ["a\0b"]),
        (b"data: a", []),
        (b"data: a\n", []),
        (b"data: a\r\n", []),
        (b"data: a\n\ndata: b", ["a"]),
    ],
)
def test_a_stream_is_read_as_the_standard_says(stream: bytes, expected: list[str]) -> None:
    assert data_of(stream) == expected
    assert data_of(*(stream[position : position + 1] for position in range(len(stream)))) == expected


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"event: a\ndata: 1\n\ndata: 2\n\n", [("1", "a", "", None), ("2", "message", "", None)]),
        (b"event: a\nevent: b\ndata: 1\n\n", [("1", "b", "", None)]),
        (b"event\ndata: 1\n\n", [("1", "message", "", None)]),
        (b"id: 7\ndata: 1\n\ndata: 2\n\n", [("1", "message", "7", None), ("2", "message", "7", None)]),
        (b"id: 7\ndata: 1\n\nid\ndata: 2\n\n", [("1", "message", "7", None), ("2", "message", "", None)]),
        (b"id: 7\n\ndata: 1\n\n", [("1", "message", "7", None)]),
        (b"id: 7\nid: 8\0\ndata: 1\n\n", [("1", "message", "7", None)]),
        (b"retry: 10\ndata: 1\n\ndata: 2\n\n", [("1", "message", "", 10), ("2", "message", "", None)]),
        (b"retry: 1.5\nretry: -1\nretry: x\nretry:\ndata: 1\n\n", [("1", "message", "", None)]),
        ("retry: ٣\ndata: 1\n\n".encode(), [("1", "message", "", None)]),
        (b"retry: " + b"9" * 5000 + b"\ndata: 1\n\n", [("1", "message", "", None)]),
    ],
)
def test_the_fields_of_an_event_are_those_of_the_standard(stream: bytes, expected: Seen) -> None:
    assert parse(stream) == expected
    assert parse(*(stream[position : position + 1] for position in range(len(stream)))) == expected


LINES = st.lists(
    st.tuples(
        st.sampled_from(
            ["", "data", "data:", "data: ", ":", "event: ", "id: ", "id: \0", "retry: ", "x", "\ufeff"]
        ),
        st.text(max_size=4) | st.sampled_from(["é€😀", "7", "\u2028", "\udcff"]),
        st.sampled_from(["\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\r\r"]),
    ).map("".join),
    max_size=12,
).map(lambda lines: "".join(lines).encode("utf-8", "surrogatepass"))


@given(stream=LINES | st.binary(max_size=60), cuts=st.lists(st.integers(0, 200), max_size=20))
@example(stream=b"data: a\r\n\r\ndata: b\r\n\r\n", cuts=[8, 10])
@example(stream="\ufeffdata: é€\n\n".encode(), cuts=[1, 2, 10, 11])
def test_any_split_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    whole = parse(stream)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(edges)]
    assert b"".join(pieces) == stream
    assert parse(*pieces) == whole
    assert parse(*(stream[position : position + 1] for position in range(len(stream)))) == whole


@given(data=st.text(alphabet=st.characters(blacklist_categories=["Cs"], blacklist_characters="\r")))
def test_data_comes_out_as_it_went_in(data: str) -> None:
    stream = "".join(f"data: {line}\n" for line in data.split("\n")) + "\n"
    assert data_of(stream.encode()) == [data]


@pytest.mark.parametrize(
    ("stream", "unfinished"),
    [
        (b"", False),
        (b"data: a\n\n", False),
        (b": comment\n", False),
        (b"data: a\n\ndata", True),
        (b"data: a\n", True),
        (b"x", True),
    ],
)
def test_it_is_known_whether_an_event_was_begun(stream: bytes, unfinished: bool) -> None:
    parser = EventParser()
    parser.feed(stream)
    assert parser.is_unfinished is unfinished


def test_a_long_line_in_small_pieces_is_no_burden() -> None:
    parser = EventParser()
    for _ in range(100_000):
        parser.feed(b"data: xxxx")
    assert len(parser.feed(b"\n\n")[0]) == 1_000_000 - len("data: ")


def test_an_event_is_its_data() -> None:
    event = ServerSentEvent("text", event="kind", id="7", retry=1)
    assert event == "text"
    assert isinstance(event, str)
    assert repr(event) == "'text'"
    assert (ServerSentEvent("x").event, ServerSentEvent("x").id, ServerSentEvent("x").retry) == (
        "message",
        "",
        None,
    )


async def test_a_return_sink_keeps_writes_and_events_stay_after_close() -> None:
    sink = ReturnSink()
    await sink.write("a")
    await sink.write("b")
    await sink.close()
    assert sink.get_events() == ["a", "b"]
    sink.get_events().clear()
    assert sink.get_events() == ["a", "b"]


def test_the_examples_of_the_module_are_true() -> None:
    result = doctest.testmod(inspect.getmodule(EventParser))
    assert result.attempted > 0
    assert result.failed == 0
