"""One member goes into a JSON document, or out of it, and every other byte stays."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.cli._client_files import parse_object, with_member, without_comments, without_member

PATH = ("servers", "rye")
VALUE = {"command": "/bin/rye-mcp", "args": []}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "servers": {\n    "rye": 1\n  }\n}\n'),
        ("{}", '{\n  "servers": {\n    "rye": 1\n  }\n}'),
        ('{"a": 1e400}', '{"a": 1e400,\n  "servers": {\n    "rye": 1\n  }}'),
        (
            '{\n\t"servers": {\n\t\t"b": {}\n\t}\n}',
            '{\n\t"servers": {\n\t\t"b": {},\n\t\t"rye": 1\n\t}\n}',
        ),
        ('{"servers" : { } }', '{"servers" : {\n    "rye": 1\n  } }'),
        (
            '{"servers": {"rye" : {"old": [1, "}"]} , "z": "\\u00e9"}}',
            '{"servers": {"rye" : 1 , "z": "\\u00e9"}}',
        ),
        (
            '{"x": "\\"servers\\": {", "servers": {}}',
            '{"x": "\\"servers\\": {", "servers": {\n    "rye": 1\n  }}',
        ),
    ],
)
def test_a_member_is_put_where_it_belongs(before: str, after: str) -> None:
    assert with_member(before, PATH, 1) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"servers": {"rye": 1}}', '{"servers": {}}'),
        ('{"servers": {"a": 0, "rye": 1 , "b": 2}}', '{"servers": {"a": 0 , "b": 2}}'),
        ('{"servers": {\n  "rye": 1,\n  "b": 2\n}}', '{"servers": {\n  "b": 2\n}}'),
        ('{"servers": {"a": 0, "rye": 1}}', '{"servers": {"a": 0}}'),
        ('{"servers": 7}', '{"servers": 7}'),
        ("{}", "{}"),
    ],
)
def test_a_member_is_taken_out(before: str, after: str) -> None:
    assert without_member(before, PATH) == after


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1} // a comment',
        "{/* a comment */}",
        '{"a": 1,}',
        "{'a': 1}",
        '{"a": 1, "a": 2}',
        '{"servers": {"rye": 1, "rye": 2}}',
        "[]",
        "null",
        '{"a": 1} {"b": 2}',
        "\ufeff{}",
        '{"a":' * 100_000,
    ],
    ids=lambda text: repr(text[:30]),
)
def test_what_is_no_strict_json_is_left_alone(text: str) -> None:
    with pytest.raises(ValueError, match=r"[Ee]xpect|Extra|BOM|Illegal"):
        with_member(text, PATH, VALUE)
    with pytest.raises(ValueError, match=r"[Ee]xpect|Extra|BOM|Illegal"):
        without_member(text, PATH)


def test_what_stands_in_the_way_is_not_replaced() -> None:
    with pytest.raises(ValueError, match="expected an object as 'servers', found list"):
        with_member('{"servers": []}', PATH, VALUE)


scalars = st.none() | st.booleans() | st.integers() | st.text()
documents = st.dictionaries(
    st.text() | st.just("servers"),
    st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8),
)


@given(documents, st.sampled_from([None, 1, 4, "\t"]), st.booleans())
def test_whatever_else_is_there_stays(document: dict[str, Any], indent: Any, ascii_alone: bool) -> None:
    if not isinstance(document.get("servers", {}), dict):
        document["servers"] = {"other": document["servers"]}
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_alone)
    changed = with_member(text, PATH, VALUE)
    assert parse_object(changed)["servers"]["rye"] == VALUE
    again = without_member(changed, PATH)
    document.setdefault("servers", {}).pop("rye", None)
    assert parse_object(again) == document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('// a\n{"a": 1, /* b, } */ "b": [1, 2, ], }', {"a": 1, "b": [1, 2]}),
        ('{"url": "http://x//y", "c": "/* no */", "d": ",}", "e": "\\"//"}', None),
        ('{"a": 1 // the last\n , }', {"a": 1}),
    ],
)
def test_comments_are_read_over_and_no_text_is_taken_for_one(text: str, value: Any) -> None:
    assert json.loads(without_comments(text)) == (value or json.loads(text))


@pytest.mark.parametrize("text", ['{"a": "open // x', "{/* open", "{,", '{"a": 1,, }'])
def test_what_is_no_json_with_comments_either_stays_wrong(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_object(without_comments(text))
    assert len(without_comments(text)) == len(text)


@pytest.mark.parametrize("opening", ["/* ", '\\"', '"\\"'])
def test_what_is_opened_again_and_again_and_never_closed_takes_no_time(opening: str) -> None:
    text = '{"servers": ' + opening * 200_000 + "\\"
    began = time.process_time()
    assert len(without_comments(text)) == len(text)
    assert time.process_time() - began < 5
