"""How many values JSON text holds, counted while it comes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lilux._json import MAX_VALUES, ValueCount

VALUES: list[Any] = [
    {},
    [],
    [[], [[]], {"a": [1, 2, 3]}],
    {"[,{": ",,,[[[{{{", '"': '\\"[,', "\\": '\\\\"', "a\\": ["\\\\", '"']},
    ["ü" * 3, "\n\t", "\u2028", None, True, 1.5],
]


def counted(value: Any) -> int:
    """One for each list or object, and one for each further member of one."""
    if not isinstance(value, dict | list):
        return 0
    members = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(0, len(members) - 1) + sum(map(counted, members))


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_strings_do_not_count_wherever_the_text_is_cut(value: Any, step: int) -> None:
    text, count = json.dumps(value).encode(), ValueCount()
    assert all(count.feed(text[at : at + step]) for at in range(0, len(text), step))
    assert count.values == counted(value)


def test_a_reader_is_told_as_soon_as_there_are_too_many() -> None:
    count = ValueCount()
    assert count.feed(b"[" + b"0," * (MAX_VALUES - 10))
    assert not count.feed(b"[],[],[],[],[],[],")
