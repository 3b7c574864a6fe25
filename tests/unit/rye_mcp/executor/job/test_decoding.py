"""What of a tool's output is data, and that the quick reader reads exactly what `json` reads strictly."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lilux.primitives.subprocess import StreamCounts
from rye_mcp.executor.job.decoding import MAX_DEPTH, decode_output, decode_result, parse_json


def cut(omitted: int) -> StreamCounts:
    return StreamCounts(kept=100, head=50, total=100 + omitted, omitted=omitted, spooled=0, lost=0)


# --- the reader -----------------------------------------------------------------


def strictly(text: str) -> Any:
    """What `json` reads, without what it lets pass although it is no JSON, or can be written by nobody."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    def finite(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise ValueError(digits)
        return value

    value = json.loads(text, parse_constant=refuse, parse_float=finite)
    if depth_of(value) > MAX_DEPTH:
        raise ValueError("deep")
    json.dumps(value, ensure_ascii=False).encode()  # a half of a surrogate pair is an UnicodeEncodeError
    return value


def depth_of(value: Any) -> int:
    depth, level = 0, [value]
    while level := [each for each in level if isinstance(each, list | dict)]:
        depth += 1
        level = [below for each in level for below in (each.values() if isinstance(each, dict) else each)]
    return depth


def same(one: Any, other: Any) -> bool:
    """Equal, of the same types all the way down, keys in the same order, and -0.0 is not 0.0."""
    return repr(one) == repr(other)


def agree(text: str) -> bool:
    """Whether both readers say the same of a text; True when it is JSON."""
    try:
        expected = strictly(text)
    except (ValueError, RecursionError):
        with pytest.raises(ValueError, match=r"JSON|inside each other"):
            parse_json(text)
        return False
    assert same(parse_json(text), expected)
    return True


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
WORDS = r"""
\u \ud83d \ude00 \u00e9 \n \x true false null NaN Infinity -Infinity 1e400 1e-400 18446744073709551616
"a" "a": {} [] 1.5 -0 0e1 'a' //
"""
pieces = st.sampled_from(
    [*WORDS.split(), *'[]{}",:\\/-+.eE0123456789 \t\r\n\x00\x0b\x1f\x7f\ufeff\u2028é😀', "\ud800"]
)


@given(values, st.booleans(), st.sampled_from([None, 2]))
def test_whatever_json_writes_is_read_as_json_reads_it(
    value: Any, ascii_only: bool, indent: int | None
) -> None:
    assert agree(json.dumps(value, ensure_ascii=ascii_only, indent=indent))


@given(st.lists(pieces).map("".join))
@example("1" * 5000)
@example('"\\ud800"')
@example('{"a": 1, "a": 2}')
@example("\ud800")
@example("")
def test_whatever_else_is_read_or_refused_as_json_does_it(text: str) -> None:
    agree(text)


@given(values, st.data())
def test_a_document_with_one_place_changed_is_read_or_refused_alike(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    at = data.draw(st.integers(0, len(text)))
    agree(text[:at] + data.draw(pieces) + text[at + data.draw(st.integers(0, 2)) :])


@given(st.from_regex(r"\A-?[0-9]{0,25}(\.[0-9]{0,25})?([eE][-+]?[0-9]{0,4})?\Z"))
def test_numbers_are_the_same_to_the_last_bit(digits: str) -> None:
    agree(digits)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize(
    ("depth", "is_json"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False), (900, False), (100_000, False)]
)
def test_depth_has_one_limit_wherever_it_is_read(opening: str, depth: int, is_json: bool) -> None:
    closing = "]" if opening == "[" else "}"
    text = opening * (depth - 1) + "[]" + closing * (depth - 1)
    assert decode_output(text).source == ("stdout" if is_json else "text")


@pytest.mark.parametrize(("depth", "source"), [(MAX_DEPTH, "stdout"), (MAX_DEPTH + 1, "text")])
def test_the_limit_of_depth_is_the_same_where_much_stands_beside_it(depth: int, source: str) -> None:
    text = f"{'[[],' * (depth - 2)}[[]]{']' * (depth - 2)}"
    assert depth_of(json.loads(text)) == depth
    assert decode_output(text).source == source


def test_many_containers_beside_each_other_are_not_deep() -> None:
    text = json.dumps([{"a": [index]} for index in range(1000)])
    assert decode_output(text).source == "stdout"


# --- the rule -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}\n', {"a": 1}),
        (" [1, 2]\r\n\n", [1, 2]),
        ("42\n", 42),
        ("true", True),
        ("null\n", None),
        ('"text"', "text"),
        ("{}", {}),
    ],
)
def test_one_document_is_data_whatever_its_type(text: str, value: Any) -> None:
    decoded = decode_output(text)
    assert (decoded.value, decoded.source) == (value, "stdout")


@pytest.mark.parametrize(
    "text",
    [
        'fetching\n{"a": 1}\n',
        'a\n\nb\r\n{"a": 1}\r\n\n',
        '{"half": \n{"a": 1}',
        '1 of 2\n2\n{"a": 1}',
        '\n{ oops\n{"a": 1}',
    ],
)
def test_the_last_line_is_data_when_it_is_an_object_and_the_rest_is_no_json(text: str) -> None:
    decoded = decode_output(text)
    assert (decoded.value, decoded.source) == ({"a": 1}, "last_line")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "NaN",
        '{"a": NaN}',
        "\ufeff{}",
        "log\n42\n",  # a number may stand at the end of anything
        'log\n"text"',
        "log\ntrue",
        'log\n  {"a": 1}',  # a part of something that was printed with indentation
        'log {"a": 1}',
        '50 %\r{"a": 1}',
        '{"a": 1}\n{"b": 2}\n',  # lines of JSON: which of them would it be?
        'log\n{"a": 1}\n{"b": 2}\n',
        '1\n{"b": 2}\n',
        '{\n  "a": 1\n}\n{"b": 2}',
        '{"a": 1}\nlog\n',
        '["a",\n"b"',
    ],
)
def test_everything_else_is_text_as_it_stands(text: str) -> None:
    decoded = decode_output(text)
    assert (decoded.value, decoded.source, decoded.notices) == (text, "text", ())


def test_output_that_was_cut_is_never_a_whole_document() -> None:
    mark = cut(900).mark
    text = f'["{mark}"]'.replace("\n", "")
    assert decode_output(text).source == "stdout"
    assert decode_output(text, counts=cut(900)).source == "text"


def test_a_last_line_that_came_whole_behind_a_cut_is_data() -> None:
    decoded = decode_output(f'{{"log": {cut(7).mark}the end of a line\n{{"a": 1}}\n', counts=cut(7))
    assert (decoded.value, decoded.source) == ({"a": 1}, "last_line")


@pytest.mark.parametrize("end", ['{"a": 1}', '{"b": 2}\n{"a": 1}', '\n{"a": 1}  x'])
def test_a_piece_of_a_line_behind_a_cut_does_not_count(end: str) -> None:
    assert decode_output(f"head{cut(7).mark}{end}", counts=cut(7)).source == "text"


def test_a_tool_that_prints_the_mark_itself_does_not_make_a_line_whole() -> None:
    forged = f'head{cut(7).mark}x{cut(7).mark}{{"a": 1}}'
    assert decode_output(forged, counts=cut(7)).source == "text"


@pytest.mark.parametrize(("text", "value"), [("[1]\n", [1]), ('"x"', "x"), ("null", None)])
def test_what_was_written_for_a_result_is_data(text: str, value: Any) -> None:
    decoded = decode_result(text)
    assert (decoded.value, decoded.source, decoded.notices) == (value, "result", ())


@pytest.mark.parametrize(
    ("text", "counts", "found"),
    [("hello", None, "no JSON"), ("[1]\n[2]", None, "no JSON"), ("[]", cut(5), "105 bytes")],
)
def test_what_was_written_for_a_result_and_is_no_json_is_text_with_a_notice(
    text: str, counts: StreamCounts | None, found: str
) -> None:
    decoded = decode_result(text, counts=counts)
    [notice] = decoded.notices
    assert decoded.value == text
    assert notice.code == "result_not_json"
    assert found in notice.message
