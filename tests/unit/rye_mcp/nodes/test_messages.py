"""Messages arrive as they were sent wherever the stream is cut; output goes out as far as there is credit."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lilux._frames import encode_frame
from rye_mcp.errors import RyeError
from rye_mcp.nodes.messages import CREDIT_BYTES, Incoming, Outgoing, message

LIMIT = 1 << 20
messages = st.lists(
    st.tuples(
        st.fixed_dictionaries({"op": st.sampled_from(("a", "b")), "n": st.integers(0, 9)}), st.binary()
    ),
    max_size=5,
)


@settings(max_examples=100, deadline=None)
@given(messages, st.lists(st.integers(0, 400), max_size=8))
def test_they_arrive_as_they_were_sent_wherever_the_stream_is_cut(sent: Any, cuts: list[int]) -> None:
    stream = b"".join(message(header, body) for header, body in sent)
    places = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    incoming = Incoming(limit=LIMIT)
    found = [each for start, end in pairwise(places) for each in incoming.feed(stream[start:end])]
    assert found == sent


def test_a_message_longer_than_a_frame_arrives_whole() -> None:
    body = bytes(range(256)) * 2000
    assert Incoming(limit=LIMIT).feed(message({"op": "bundle"}, body)) == [({"op": "bundle"}, body)]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_other_bytes_are_no_messages_and_nothing_worse(data: bytes) -> None:
    incoming = Incoming(limit=LIMIT)
    with suppress(RyeError):
        assert all(isinstance(header["op"], str) for header, _ in incoming.feed(data))


@pytest.mark.parametrize(
    "stream",
    [
        message({"op": "a"}, b"x" * (LIMIT + 1)),
        encode_frame({"op": "body"}, b"x"),
        encode_frame({"op": 1}),
        encode_frame({}),
        encode_frame({"op": "a", "body": 0}),
        encode_frame({"op": "a", "body": True}),
        encode_frame({"op": "a", "body": 2}, b"x"),
        encode_frame({"op": "a", "body": 2}) + encode_frame({"op": "body"}, b"xyz"),
        encode_frame({"op": "a", "body": 2}) + encode_frame({"op": "body"}),
        encode_frame({"op": "a", "body": 2}) + encode_frame({"op": "b"}, b"xy"),
    ],
    ids=["long", "no head", "no name", "empty", "size 0", "true", "both", "more", "nothing", "another"],
)
def test_what_is_no_message_is_refused(stream: bytes) -> None:
    with pytest.raises(RyeError) as caught:
        Incoming(limit=LIMIT).feed(stream)
    assert caught.value.code == "lost"


def written(output: list[Any]) -> int:
    return sum(len(data) for _, data, _ in output)


def test_output_goes_out_as_far_as_there_is_credit_and_on_with_more() -> None:
    outgoing = Outgoing(credit=10)
    assert outgoing.write("stdout", b"x" * 15, 0) == [("stdout", b"x" * 10, 0)]
    assert outgoing.grant(3) == [("stdout", b"xxx", 0)]
    assert outgoing.grant(100) == [("stdout", b"xx", 0)]


def test_what_nobody_takes_is_left_out_and_counted_before_the_next_bytes() -> None:
    outgoing = Outgoing(credit=1)
    assert written(outgoing.write("stdout", b"x", 0)) == 1
    for _ in range(10):
        assert outgoing.write("stdout", b"y" * (CREDIT_BYTES // 4), 2) == []
    found = outgoing.grant(CREDIT_BYTES)
    assert written(found) + sum(skipped for *_, skipped in found) == 10 * (CREDIT_BYTES // 4 + 2)
    assert written(found) <= CREDIT_BYTES


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(("stdout", "stderr")), st.integers(1, 200_000)), max_size=12))
def test_nothing_is_lost_without_being_counted(pieces: Any) -> None:
    outgoing = Outgoing(credit=1)
    found = [each for name, size in pieces for each in outgoing.write(name, b"x" * size, 0)]
    while more := outgoing.grant(CREDIT_BYTES):
        found += more
    found += outgoing.write("stdout", b"!", 0) + outgoing.write("stderr", b"!", 0)
    found += outgoing.grant(CREDIT_BYTES)
    assert written(found) + sum(skipped for *_, skipped in found) == sum(size for _, size in pieces) + 2


@pytest.mark.parametrize("size", [0, -1, True, None, "1", CREDIT_BYTES + 1])
def test_invalid_credit_is_refused(size: Any) -> None:
    with pytest.raises(RyeError, match="credit"):
        Outgoing().grant(size)
