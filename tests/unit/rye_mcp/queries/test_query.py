"""The query language: what is understood, what is refused and where, and what holds for any text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp import queries
from rye_mcp.errors import RyeError
from rye_mcp.queries import (
    FIELDS,
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_NEAR_DISTANCE,
    MAX_NEAR_WORDS,
    MAX_PREFIXES,
    MAX_WORDS,
    And,
    Everything,
    Near,
    Node,
    Not,
    Or,
    Phrase,
    Prefix,
    Term,
    parse,
    read_query,
)
from tests.catalog_world import written

A, B, C, D = map(Term, "abcd")


def any_of(*words: str) -> Or:
    return Or(tuple(map(Term, words)))


UNDERSTOOD: list[tuple[str, Node]] = [
    # everything
    ("", Everything()),
    (" \t\n", Everything()),
    ("*", Everything()),
    ("* *", Everything()),
    ("(*)", Everything()),
    ("* NOT a", And((Everything(), Not(A)))),
    ("turn * into", any_of("turn", "into")),
    # words beside each other
    ("a", A),
    ("a b", Or((A, B))),
    ("a a", A),
    ("and or not near", any_of("and", "or", "not", "near")),
    ("And NEAR a", any_of("And", "NEAR", "a")),
    ("convertToMP3", Term("convertToMP3")),
    # operators
    ("a AND b", And((A, B))),
    ("a OR b", Or((A, B))),
    ("NOT a", Not(A)),
    ("a NOT b", And((A, Not(B)))),
    ("a AND NOT b", And((A, Not(B)))),
    ("a b AND c", And((Or((A, B)), C))),
    ("a b NOT c d", And((Or((A, B)), Not(Or((C, D)))))),
    ("a OR b AND c", Or((A, And((B, C))))),
    ("a AND b OR c", Or((And((A, B)), C))),
    ("a AND b AND c", And((A, B, C))),
    ("a AND a", A),
    ("NOT (NOT a)", Not(Not(A))),
    ("'AND' b", any_of("AND", "b")),
    ("a AND? b", any_of("a", "AND", "b")),
    ("(a)AND(b)", And((A, B))),
    # parentheses
    ("(a OR b) AND c", And((Or((A, B)), C))),
    ("a (b AND c)", Or((A, And((B, C))))),
    ("((a)) AND b", And((A, B))),
    ("a () AND b", And((A, B))),
    # phrases
    ('"a b"', Phrase(("a", "b"))),
    ('"a, b!"', Phrase(("a", "b"))),
    ('"a AND b"', Phrase(("a", "AND", "b"))),
    ("\u201ca b\u201d", Phrase(("a", "b"))),
    ('a""b', Or((A, B))),
    ('"a""b" AND c', And((Or((Phrase(("a",)), Phrase(("b",)))), C))),
    # prefixes
    ("vid*", Prefix("vid")),
    ("vid*, a", Or((Prefix("vid"), A))),
    ("**vid**", Term("vid")),
    ("2*3", Term("2*3")),
    # fields
    ("name:a", Term("a", "name")),
    ("name:a b", Or((Term("a", "name"), B))),
    ("tags:a*", Prefix("a", "tags")),
    ('body:"a b"', Phrase(("a", "b"), "body")),
    ("name:(a OR tags:b)", Or((Term("a", "name"), Term("b", "tags")))),
    ("name:(a AND NOT *)", And((Term("a", "name"), Not(Everything())))),
    ("name:NEAR(a b)", Near(("a", "b"), 10, "name")),
    ("id:rye/core", Term("rye/core", "id")),
    ("id:rye/core/*", Prefix("rye/core", "id")),
    ("name:title:a", Term("title:a", "name")),
    # near
    ("NEAR(a b, 5)", Near(("a", "b"), 5)),
    ("NEAR(a b c)", Near(("a", "b", "c"), 10)),
    (f"NEAR(a b,{MAX_NEAR_DISTANCE})", Near(("a", "b"), MAX_NEAR_DISTANCE)),
    ("NEAR (a b)", any_of("NEAR", "a", "b")),
    # sentences
    ("turn it into an mp3 file, please!", any_of("turn", "it", "into", "an", "mp3", "file", "please")),
    ("don't re-run it", any_of("don't", "re-run", "it")),
    ("trains from Portland, OR to Seattle", any_of("trains", "from", "Portland", "OR", "to", "Seattle")),
    ("a, OR (b AND c)", Or((A, Term("OR"), And((B, C))))),
    ("a,OR b OR c", Or((Term("a,OR"), B, C))),
    ("at 12:30 see https://example.org/a?b=c.", any_of("at", "12:30", "see", "https://example.org/a?b=c")),
    ("Titel:a Name:b name: a", any_of("Titel:a", "Name:b", "name", "a")),
    ("1) load 2) save :)", any_of("1", "load", "2", "save")),
    ("(keep the ratio", any_of("keep", "the", "ratio")),
    ('a 5" disk', any_of("a", "5", "disk")),
    ('name:"a b', any_of("name", "a", "b")),
    ('find "big files" here', any_of("find", "big", "files", "here")),
    ('"find all of the big files"', any_of("find", "all", "of", "the", "big", "files")),
    ('please "name:x" (now)', any_of("please", "name:x", "now")),
    ("name:- a", any_of("name", "a")),
    ("C++ & C#", Term("C")),
    ("a\x00b\ud800c\u200bd", Or((A, B, C, D))),
    ("x' OR '1'='1'; DROP TABLE items; --", Or(tuple(map(Term, ("x", "1'='1", "DROP", "TABLE", "items"))))),
    ("{name title}: a ^b +c -d", any_of("name", "title", "a", "b", "c", "d")),
    ("ビデオを変換", Term("ビデオを変換")),
]


@pytest.mark.parametrize(("text", "tree"), UNDERSTOOD)
def test_what_is_understood(text: str, tree: Node) -> None:
    assert parse(text) == tree


REFUSED = [
    ("AND", 1, ">>>AND<<<", "expected a word, found AND"),
    ("a OR", 5, "a OR>>><<<", "expected a word, found the end"),
    ("a AND OR b", 7, "a AND >>>OR<<< b", "expected a word, found OR"),
    ("NOT NOT a", 5, "NOT >>>NOT<<< a", "expected a word, found NOT"),
    ("a AND !!!", 10, "a AND !!!>>><<<", "expected a word, found the end"),
    ("(a AND b", 1, ">>>(<<<a AND b", "expected a ), found none"),
    ("a AND b)", 8, "a AND b>>>)<<<", "expected a word or an operator, found )"),
    ("a AND () OR b", 10, "a AND () >>>OR<<< b", "expected a word, found OR"),
    ('a AND "b', 7, 'a AND >>>"<<<b', "expected a word, found quotes that nothing closes"),
    ('a AND (b "c)', 10, 'a AND (b >>>"<<<c)', "expected a word, an operator or a )"),
    ('name:"a AND b', 1, '>>>name:"<<<a AND b', "quotes that nothing closes"),
    ("name:(a", 1, ">>>name:(<<<a", "expected a ), found none"),
    ("x NEAR(a b", 3, "x >>>NEAR(<<<a b", "expected a ) that ends the NEAR"),
    ("NEAR(a, 5)", 1, ">>>NEAR(a, 5)<<<", "expected two words or more in NEAR, found 1"),
    ("NEAR(a b, x)", 1, ">>>NEAR(a b, x)<<<", "expected a number"),
    (f"NEAR(a b, {MAX_NEAR_DISTANCE + 1})", 1, ">>>NEAR(", "expected a number"),
    ("NEAR(a b, ٣)", 1, ">>>NEAR(", "expected a number"),
    ("?!", 1, ">>>?!<<<", "expected a word, found only punctuation"),
    ("(" * (MAX_DEPTH + 1) + "a AND b" + ")" * (MAX_DEPTH + 1), MAX_DEPTH + 1, ">>>(<<<a", "at most 8 deep"),
]


@pytest.mark.parametrize(("text", "column", "where", "what"), REFUSED)
def test_what_is_refused_and_where(text: str, column: int, where: str, what: str) -> None:
    with pytest.raises(RyeError) as caught:
        parse(text)
    error = caught.value
    assert (error.code, error.details["column"]) == ("invalid_query", column)
    assert where in error.message
    assert what in error.message
    assert f"in column {column}: " in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("most", "more"),
    [
        ("a*" + "a" * (MAX_CHARACTERS - 2), "a* " + "a" * (MAX_CHARACTERS - 2)),
        ("a AND " + "a " * (MAX_WORDS - 1), "a AND " + "a " * MAX_WORDS),
        (f'b: OR "{"a " * (MAX_WORDS - 1)}"', f'b OR "{"a " * MAX_WORDS}"'),
        ("b AND " + "-".join("a" * (MAX_WORDS - 1)), "b AND " + "-".join("a" * MAX_WORDS)),
        ("b AND " + "\u6f22" * (MAX_WORDS - 1), "b AND " + "\u6f22" * MAX_WORDS),
        ("b AND " + "\ufdfa" * 80, "b AND " + "\ufdfa" * 90),
        (f"NEAR({'a ' * MAX_NEAR_WORDS})", f"NEAR({'a ' * (MAX_NEAR_WORDS + 1)})"),
        ("a* " * MAX_PREFIXES, "a* " * (MAX_PREFIXES + 1)),
        (
            "(" * MAX_DEPTH + "a AND b" + ")" * MAX_DEPTH,
            "(" * (MAX_DEPTH + 1) + "a AND b" + ")" * (MAX_DEPTH + 1),
        ),
    ],
    ids=["characters", "words", "a phrase", "parts", "signs", "ligatures", "NEAR", "prefixes", "depth"],
)
def test_a_limit_is_the_last_that_is_taken(most: str, more: str) -> None:
    parse(most)
    with pytest.raises(RyeError, match="at most") as caught:
        parse(more)
    assert caught.value.code == "invalid_query"


def test_what_is_wrong_in_a_long_text_is_shown_with_a_part_of_it() -> None:
    with pytest.raises(RyeError) as caught:
        parse("word " * 200 + "AND OR " + "word " * 200)
    assert len(caught.value.message) < 200


def test_a_parenthesis_that_was_left_is_not_counted_as_depth() -> None:
    parse(" AND ".join(["(a OR b)"] * (MAX_DEPTH + 1)))


PIECES = st.sampled_from(
    [
        "AND",
        "OR",
        "NOT",
        "NEAR(",
        "(",
        ")",
        '"',
        "*",
        "a",
        "b",
        "'AND",
        "x*",
        "name:",
        "id:",
        ", 5)",
        " ",
        ",",
        ":",
    ]
)
HOSTILE = st.text() | st.lists(PIECES, max_size=30).map("".join) | st.lists(PIECES, max_size=30).map(" ".join)


@given(HOSTILE)
def test_any_text_is_a_tree_that_reads_the_same_when_it_is_written_or_a_refusal(text: str) -> None:
    tree = tree_or_code(text)
    if isinstance(tree, str):
        assert tree == "invalid_query"
    else:
        assert parse(written(tree)) == tree
        require_normal(tree)


def tree_or_code(text: str) -> Node | str:
    try:
        return parse(text)
    except RyeError as error:
        return error.code


def require_normal(node: Node) -> None:
    """What whoever evaluates a tree relies on."""
    match node:
        case And(parts) | Or(parts):
            assert len(parts) == len(set(parts)) > 1
            assert not any(isinstance(part, type(node)) for part in parts)
            for part in parts:
                require_normal(part)
        case Not(part):
            require_normal(part)
        case Term(text, field) | Prefix(text, field):
            require_word(text, field, never=' "()')
        case Phrase(words, field):
            require_words(words, field, never=' "')
        case Near(words, _, field):
            require_words(words, field, never=" )")


def require_words(words: Sequence[str], field: str | None, *, never: str) -> None:
    assert words
    for word in words:
        require_word(word, field, never=never)


def require_word(word: str, field: str | None, *, never: str) -> None:
    assert any(map(str.isalnum, word))
    assert word.isprintable()
    assert not set(word) & set(never)
    assert field in (None, *FIELDS)


@pytest.mark.parametrize("text", ['"0)0"', '"a(b c"', 'NEAR(a"b (c d, 2)'])
def test_what_is_put_together_may_hold_what_ends_a_word(text: str) -> None:
    tree = parse(text)
    assert parse(written(tree)) == tree
    require_normal(tree)


@given(st.lists(st.text(st.characters(exclude_categories=["Lu"])), min_size=1).map(" ".join))
def test_a_sentence_without_capitals_is_never_wrong(text: str) -> None:
    """No operator can be in it; unless a field stands before a parenthesis, it is a sentence."""
    if any(f"{field}:(" in text for field in FIELDS) or not any(map(str.isalnum, text)):
        return
    assert not isinstance(parse(text), And | Not)


def steps_of(work: Callable[[], object]) -> int:
    """How many lines of the parser are run."""
    package = str(Path(queries.__file__).parent)
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line" and frame.f_code.co_filename.startswith(package)
        return trace if frame.f_code.co_filename.startswith(package) else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with suppress(RyeError):
            work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "unit",
    [
        *("w ", "w* ", "(", ")", "(w ", "(w) ", '"', '"w" ', "w AND ", "NOT ", "NEAR(w w) ", "NEAR(", "'"),
        *("name:", 'name:"', "name:(", "*", "* ", "w OR (w AND ", ":", "a.", "\x00"),
    ],
)
def test_twice_the_text_takes_at_most_twice_the_steps(unit: str) -> None:
    def query_of(length: int) -> str:
        return (unit * length)[:length]

    few, many = (steps_of(lambda: parse(query_of(length))) for length in (512, 1024))  # noqa: B023
    assert many <= 2 * few + 50


def test_what_is_too_long_is_not_read_to_its_end() -> None:
    steps = [steps_of(lambda: parse("(" * length)) for length in (100_000, 10_000_000)]  # noqa: B023
    assert steps[0] == steps[1]


@pytest.mark.parametrize(
    "text",
    ["a" * (MAX_CHARACTERS + 1), "a " * (MAX_WORDS + 1), "\u6f22" * (MAX_WORDS + 1), "a (b) " * 9000],
    ids=["characters", "words", "signs", "both"],
)
def test_plain_text_that_is_too_long_is_cut_and_said_to_be(text: str) -> None:
    query = read_query(text)
    assert query.notice
    assert "at most" in query.notice
    assert query.wish
    assert text.startswith(query.wish[:100])
    assert isinstance(query.tree, Or | Term)
    assert read_query("a few words").notice is None


@pytest.mark.parametrize("text", ["sound*", "name:a b", '"a b"', "a AND b", "NEAR(a b)", "(a) OR b", "", "*"])
def test_a_query_with_an_operator_is_no_wish(text: str) -> None:
    assert read_query(text).wish is None
