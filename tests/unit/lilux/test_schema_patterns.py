"""Regular expressions mean what they mean in JavaScript, and end in time."""

from __future__ import annotations

import doctest
import inspect
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lilux.schemas._patterns import (
    DEPTH_LIMIT,
    LENGTH_LIMIT,
    SIZE_LIMIT,
    PatternError,
    compile_pattern,
    matches,
)


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("b", ["abc"], ["ac", ""]),
        ("", ["", "x"], []),
        ("^a$", ["a"], ["a\n", "\na", "ab"]),
        ("^a|b$", ["ax", "xb"], ["xa", "bx"]),
        ("a.c", ["abc", "a\x85c", "a😀c"], ["a\nc", "a\rc", "a\u2028c", "a\u2029c"]),
        (r"^\d+$", ["0123"], ["٣", ""]),
        (r"^\D$", ["٣", "x"], ["3"]),
        (r"^\w+$", ["aZ_09"], ["é", "-"]),
        (r"^\W$", ["é", "-", "\n"], ["a", "_"]),
        (r"^\s$", [" ", "\t", "\n", "\u00a0", "\ufeff", "\u2003", "\u2028"], ["x", "\x1c", "\x85", "\u200b"]),
        (r"^\S$", ["x", "\x1c", "\u200b"], [" ", "\ufeff"]),
        (r"\bcat\b", ["a cat!", "écat"], ["concat", "cat_"]),
        (r"a\Bb", ["ab"], ["a b"]),
        (r"^[\w.-]+$", ["a.b-c"], ["a b"]),
        (r"^[^\s\d]$", ["x"], [" ", "5"]),
        (r"^[\b]$", ["\b"], ["b"]),
        (r"^[a\]b[]+$", ["a]b["], ["c"]),
        (r"^[\W]+$", ["é-"], ["a"]),
        (r"^[+--]$", ["+", ",", "-"], ["."]),
        (r"^[a-]$", ["a", "-"], ["b"]),
        (r"^[\d-x]+$", ["3-x"], ["y"]),
        (r"^[a&&b||c~~d-]+$", ["a&b|c~d-"], ["e"]),
        ("^[]", [], ["", "x"]),
        ("^[^]$", ["\n", "x"], [""]),
        (r"^\t\n\v\f\r\0$", ["\t\n\v\f\r\0"], ["tnvfr0"]),
        (r"^\x41\u0042\u{1F600}\cJ$", ["AB😀\n"], []),
        (r"^\ud83d\ude00$", ["😀"], []),
        (r"^[\ud83d\udc00-\ud83d\ude00]$", ["🐀", "😀"], ["😁"]),
        (r"^\p{L}\P{L}$", ["é1"], ["1é"]),
        (r"^[\p{Lu}\d]+$", ["É1"], ["é"]),
        (r"^\p{Script=Greek}$", ["\u03b1"], ["a"]),
        (r"^\.\*\+\?\(\)\[\]\{\}\|\^\$\\\/\-$", [".*+?()[]{}|^$\\/-"], []),
        ("^#a b$", ["#a b"], ["ab"]),
        ("^(?:ab){2,3}?$", ["abab", "ababab"], ["ab"]),
        ("^a{2}$", ["aa"], ["a"]),
        ("^a{2,}$", ["aaa"], ["a"]),
        ("^a{,2}$", ["a{,2}"], ["aa"]),
        ("^{a}}]$", ["{a}}]"], []),
        ("^a{e<=3}$", ["a{e<=3}"], ["a"]),
        ("^(a)(?!b)(?=c)(?<=a)(?<!b)c$", ["ac"], ["ab"]),
        (r"^(?<year>\d{2})-\k<year>$", ["20-20"], ["20-26"]),
        (r"^(a|b)\1$", ["aa", "bb"], ["ab"]),
        (r"^(?!\.)(?!.*\.\.)([\w.]*)@x$", ["a.b@x"], [".a@x", "a..b@x"]),
        ("^é$", ["é"], ["e\u0301"]),
    ],
)
def test_patterns_mean_what_they_mean_in_javascript(
    pattern: str, fitting: list[str], others: list[str]
) -> None:
    assert [text for text in fitting if not matches(pattern, text, timeout_s=1)] == []
    assert [text for text in others if matches(pattern, text, timeout_s=1)] == []


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "a closing parenthesis at character 2"),
        ("a)", "a group before its closing parenthesis at character 2"),
        ("[a", "a closing bracket"),
        ("[b-a]", "a range in ascending order"),
        ("[a--]", "a range in ascending order"),
        ("*", "something to repeat at character 1"),
        ("^*", "something to repeat"),
        ("a++", "something to repeat at character 3"),
        ("a**", "something to repeat"),
        ("a|*", "something to repeat"),
        ("a{2}{3}", "something to repeat"),
        ("a{3,2}", "repetitions in ascending order"),
        ("\\", "an escape of JavaScript"),
        (r"\A", "an escape of JavaScript"),
        (r"a\Z", "an escape of JavaScript"),
        (r"\x4", "an escape of JavaScript"),
        (r"\u{110000}", "a code point of Unicode"),
        (r"[\q]", "an escape of JavaScript"),
        (r"\p{NoSuchThing}", "unknown property"),
        (r"\1", "a regular expression"),
        (r"\k<a>", "a regular expression"),
        ("(?i)a", "a group of JavaScript"),
        ("(?P<a>b)", "a group of JavaScript"),
        ("(?>a)", "a group of JavaScript"),
        ("(?R)", "a group of JavaScript"),
        ("(?#c)", "a group of JavaScript"),
        ("(?<1>a)", "a group of JavaScript"),
        # what would take memory without bound
        ("a{10000000}", "numbers of at most 6 digits"),
        ("a{" + "9" * 5000 + "}", "numbers of at most 6 digits"),
        ("a{100000}", "at most 10000 characters with all repetitions"),
        ("(?:(?:a{100}){100}){100}", "at most 10000 characters with all repetitions"),
        ("(?:[ab]c){6000}", "at most 10000 characters with all repetitions"),
        ("(" * 51 + ")" * 51, "at most 50 groups inside each other"),
        ("x" * 9000, "at most 8192 characters, found 9000"),
    ],
)
def test_what_is_no_pattern_of_javascript_or_is_too_large_is_refused(pattern: str, words: str) -> None:
    started = time.process_time()
    with pytest.raises(PatternError, match=words.replace("(", r"\(")) as caught:
        compile_pattern(pattern)
    assert len(str(caught.value)) < 300
    assert time.process_time() - started < 1


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a|aa)+$", "a" * 5000 + "!"),
        (r"(\w+\s?)+$", "aaaa " * 2000 + "!"),
        (r"^(.*?,){11}P", "1,2,3,4,5,6,7,8,9,10,11,12,13" * 3000),
        (r"\s+$", " " * 500_000 + "x"),
        (r"^(?=(a|aa)+b)", "a" * 5000),
        (r"^((a|aa)\2?)+b$", "a" * 5000 + "b!"),
    ],
)
def test_a_search_that_takes_too_long_ends_when_its_time_is_up(pattern: str, text: str) -> None:
    started = time.process_time()
    with pytest.raises(TimeoutError):
        matches(pattern, text, timeout_s=0.05)
    assert time.process_time() - started < 1


def test_only_so_many_patterns_are_kept() -> None:
    for number in range(300):
        compile_pattern(f"a{number}")
    assert compile_pattern.cache_info().currsize == compile_pattern.cache_info().maxsize == 128


@given(st.text(max_size=30))
def test_any_text_stands_for_itself_when_escaped(text: str) -> None:
    pattern = "^" + "".join(f"\\u{{{ord(char):x}}}" for char in text) + "$"
    assert matches(pattern, text, timeout_s=1)
    assert not matches(pattern, text + "\n", timeout_s=1)


@given(
    st.text(st.sampled_from("ab()[]{}|*+?^$.\\-,0123<>=!:dwsbpukx&~#"), max_size=20),
    st.text("ab01-\n", max_size=8),
)
def test_any_pattern_matches_or_is_refused(pattern: str, text: str) -> None:
    try:
        found = matches(pattern, text, timeout_s=1)
    except PatternError:
        return
    assert isinstance(found, bool)


def test_the_limits_are_what_the_documents_say() -> None:
    assert (LENGTH_LIMIT, SIZE_LIMIT, DEPTH_LIMIT) == (8192, 10_000, 50)


def test_the_example_in_the_documentation_is_true() -> None:
    assert doctest.testmod(inspect.getmodule(compile_pattern)).failed == 0
