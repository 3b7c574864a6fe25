"""Structured data has one canonical text, and so one hash."""

from __future__ import annotations

import doctest
import enum
import hashlib
import inspect
import json
import random
import sys
from collections import OrderedDict, namedtuple
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lilux.primitives import integrity
from lilux.primitives.errors import IntegrityError
from lilux.primitives.integrity import canonical_json, compute_integrity

MAX_DEPTH = 200
MAX_ISSUES = 20

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=6),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=4)


class Colour(str, enum.Enum):  # noqa: UP042 - what older code has
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


Point = namedtuple("Point", "x y")


def specified(data: Any) -> str:
    """The call of the specification."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def shuffled(value: Any, seed: int) -> Any:
    """The same value, with the keys of every object in another order."""
    if isinstance(value, dict):
        items = [(key, shuffled(item, seed)) for key, item in value.items()]
        random.Random(seed).shuffle(items)  # noqa: S311
        return dict(items)
    if isinstance(value, list):
        return [shuffled(item, seed) for item in value]
    return value


def nested(depth: int, *, as_list: bool = True) -> Any:
    """A value of `depth` containers inside each other."""
    value: Any = [] if as_list else {}
    for _ in range(depth - 1):
        value = [value] if as_list else {"k": value}
    return value


def refused(data: Any) -> list[tuple[str, str]]:
    """The issues of data that must be refused, which stand in the message too."""
    with pytest.raises(IntegrityError, match="canonical form") as caught:
        canonical_json(data)
    with pytest.raises(IntegrityError):
        compute_integrity(data)
    issues: list[tuple[str, str]] = caught.value.attributes["issues"]
    assert all(f"{path}: {problem}" in str(caught.value) for path, problem in issues)
    return issues


def test_the_public_names_are_those_listed() -> None:
    public = {
        name
        for name, item in vars(integrity).items()
        if getattr(item, "__module__", "") == integrity.__name__
    }
    assert public == set(integrity.__all__) == {"canonical_json", "compute_integrity"}


def test_the_examples_of_the_module_are_true() -> None:
    assert doctest.testmod(integrity).failed == 0


def test_canonical_json_has_sorted_keys_and_no_whitespace() -> None:
    assert canonical_json({"b": [1, {"d": 2, "c": 3}], "a": None}) == '{"a":null,"b":[1,{"c":3,"d":2}]}'


def test_canonical_json_is_ascii_only() -> None:
    assert canonical_json("é\u2028😀\x7f\x00") == '"\\u00e9\\u2028\\ud83d\\ude00\\u007f\\u0000"'


def test_the_integrity_is_the_sha256_hex_digest_of_the_canonical_json() -> None:
    data = {"tool_id": "demo", "é": [1.5, True]}
    expected = hashlib.sha256(b'{"tool_id":"demo","\\u00e9":[1.5,true]}').hexdigest()
    assert compute_integrity(data) == expected
    assert compute_integrity({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_the_same_input_has_the_same_hash_whatever_the_order_or_the_whitespace() -> None:
    texts = ['{"a": 1, "b": {"c": 2, "d": 3}}', '{"b":{"d":3,"c":2},\n\t"a":1}']
    assert len({compute_integrity(json.loads(text)) for text in texts}) == 1


def test_the_order_of_a_list_counts() -> None:
    assert compute_integrity({"a": [1, 2]}) != compute_integrity({"a": [2, 1]})


@given(data=VALUES)
def test_canonical_json_is_the_specified_call_to_the_byte(data: Any) -> None:
    assert canonical_json(data) == specified(data)


@given(data=VALUES)
def test_canonical_json_can_be_read_back(data: Any) -> None:
    again = json.loads(canonical_json(data))
    assert again == data
    assert canonical_json(again) == canonical_json(data)


@given(data=OBJECTS, seed=st.integers())
def test_the_order_of_keys_does_not_count(data: dict[str, Any], seed: int) -> None:
    other = shuffled(data, seed)
    assert canonical_json(other) == canonical_json(data)
    assert compute_integrity(other) == compute_integrity(data)


@given(one=VALUES, other=VALUES)
def test_different_texts_have_different_hashes(one: Any, other: Any) -> None:
    assert (compute_integrity(one) == compute_integrity(other)) == (
        canonical_json(one) == canonical_json(other)
    )


@pytest.mark.parametrize(
    "data",
    [
        0,
        -0.0,
        1e16,
        1e-7,
        1.0,
        5e-324,
        10**400,
        -(2**63),
        "",
        "\ud800",
        "</script>\u2029",
        (),
        (1, (2,)),
        Point(1, 2),
        OrderedDict([("b", 1), ("a", 2)]),
        {Colour.RED: Colour.RED},
        [Level.HIGH, True],
        {"": {"": []}},
        nested(MAX_DEPTH),
        nested(MAX_DEPTH, as_list=False),
        [[1]] * 50,
    ],
    ids=lambda data: repr(data)[:20],
)
def test_unusual_data_that_the_specified_call_writes_is_written_alike(data: Any) -> None:
    assert canonical_json(data) == specified(data)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinities_are_refused_with_their_path(number: float) -> None:
    assert refused({"a": [1, {"b": number}]}) == [("$.a[1].b", f"expected a finite number, found {number}")]
    assert refused(number) == [("$", f"expected a finite number, found {number}")]


@pytest.mark.parametrize("key", [1, 1.5, True, None, float("nan"), b"bytes", (1, 2), Level.HIGH])
def test_keys_that_are_not_strings_are_refused_with_their_path(key: Any) -> None:
    """Most of them would be written as strings: two different objects would have one hash."""
    ((path, problem),) = refused({"a": [{key: 1}]})
    assert path == "$.a[0]"
    assert problem == f"expected strings as keys, found {key!r} ({type(key).__name__})"


def test_an_object_with_keys_of_several_types_is_refused_with_its_path() -> None:
    assert [path for path, _ in refused({"a": {1: 1, "1": 2, None: 3}})] == ["$.a", "$.a"]


@pytest.mark.parametrize(
    "value",
    [
        b"x",
        bytearray(),
        {1},
        frozenset(),
        object(),
        Decimal(1),
        date(2026, 1, 1),
        Path("x"),
        1j,
        len,
        range(3),
    ],
)
def test_types_that_json_does_not_have_are_refused_with_their_path(value: Any) -> None:
    assert refused({"a": (value,)}) == [("$.a[0]", f"expected a JSON value, found {type(value).__name__}")]


def test_every_place_is_reported_and_not_only_the_first() -> None:
    data = {"a": float("nan"), "b": {2: {3}}, "c": [object()]}
    assert [path for path, _ in refused(data)] == ["$.a", "$.b", "$.b[2]", "$.c[0]"]


def test_only_so_many_places_are_reported() -> None:
    assert len(refused([float("nan")] * 10_000)) == MAX_ISSUES


def test_odd_and_long_keys_keep_the_path_readable() -> None:
    data = {"a b": {'"\n': {"k" * 1000: {"fine-key_1": {1}}}}}
    ((path, _),) = refused(data)
    assert path == f'$["a b"]["\\"\\n"]["{"k" * 40}\\u2026"].fine-key_1'
    ((_, problem),) = refused({(1,) * 1000: 1})
    assert len(problem) < 120


@pytest.mark.parametrize("as_list", [True, False])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 1_000, 5_000, 100_000])
def test_deep_nesting_is_refused_and_no_recursion_error(depth: int, as_list: bool) -> None:
    ((path, problem),) = refused(nested(depth, as_list=as_list))
    assert path == "$" + ("[0]" if as_list else ".k") * MAX_DEPTH
    assert problem == f"expected at most {MAX_DEPTH} lists and objects inside each other"


def test_a_caller_deep_in_the_stack_gets_the_text_or_a_refusal_and_no_recursion_error() -> None:
    """Which of them depends on the Python: some count the recursion of C code with their own."""

    def dive(levels: int) -> str:
        return dive(levels - 1) if levels else canonical_json(data)

    data = nested(MAX_DEPTH)
    try:
        text = dive(sys.getrecursionlimit() - len(inspect.stack()) - 60)
    except IntegrityError as exc:
        assert "recursion" in str(exc)  # noqa: PT017 - it may not be raised
    else:
        assert text == specified(data)


def test_data_that_contains_itself_is_refused_with_its_path() -> None:
    lists: list[Any] = [1]
    lists.append([lists, lists])
    objects: dict[str, Any] = {"a": {}}
    objects["a"]["b"] = objects
    problem = "expected no value that contains itself"
    assert refused(lists) == [("$[1][0]", problem), ("$[1][1]", problem)]
    assert refused(objects) == [("$.a.b", problem)]


def test_a_number_too_long_to_be_written_is_refused_with_its_path() -> None:
    ((path, problem),) = refused({"n": [10**5000]})
    assert path == "$.n[0]"
    assert "4300 digits" in problem
