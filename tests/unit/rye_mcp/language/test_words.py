"""Words, stems and slips: what is taken for the same on both sides of a search."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rye_mcp.language.slips import Vocabulary, distance_between
from rye_mcp.language.words import (
    Stemmer,
    grams_of,
    name_words,
    words_of,
)
from rye_mcp.queries import as_sentence, parse
from tests.catalog_world import stem_of, written


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("snake_case-and.dots/too", ["snake", "case", "and", "dots", "too"]),
        ("Été à Zürich", ["ete", "a", "zurich"]),
        ("视频转换", ["视", "频", "转", "换"]),
        ("℡ or \U0001d401old™", ["or", "bold"]),
        ("x" * 100, ["x" * 64]),
        ("№ 5, Tool™ in ℃", ["5", "tool", "in"]),
        ("\x00'\";--", []),
    ],
)
def test_a_text_is_its_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("text", "grams"),
    [
        ("video", [" vi", "vid", "ide", "deo", "eo "]),
        ("a", [" a "]),
        ("to go", [" to", "to ", "o g", " go", "go "]),
        ("", []),
    ],
)
def test_n_grams_know_where_a_word_begins_and_ends(text: str, grams: list[str]) -> None:
    assert {"".join(gram) for gram in grams_of(text)} == set(grams)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("convertToMP3", ["converttomp3", "convert", "to", "mp3"]),
        ("getURLInfo", ["geturlinfo", "get", "url", "info"]),
        ("read_file", ["read", "file"]),
        ("html2pdf", ["html2pdf", "html", "2", "pdf"]),
        ("plain", ["plain"]),
    ],
)
def test_a_name_is_what_is_written_and_its_parts(name: str, words: list[str]) -> None:
    assert name_words(name) == words


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("how do I convert this video", "convert OR video"),
        ("what is it", "what OR is OR it"),
        ("real-time data", "real-time OR real OR time OR data"),
        ("this AND video", "this AND video"),
        ("hello world", "hello OR world"),
        ("say hello to Ada", "say OR hello OR Ada"),
        ("Hi, can you translate this text to French", "translate OR text OR French"),
        ("name:this video", "name:this OR video"),
    ],
)
def test_a_sentence_is_what_it_is_about(text: str, sentence: str) -> None:
    assert written(as_sentence(parse(text))) == sentence


def test_stems_are_those_of_the_index_and_are_learnt_once() -> None:
    stemmer = Stemmer()
    for _ in range(2):
        stems = stemmer.stems(["converting", "converts", "running", "mp3", "été"])
        assert stems["converting"] == stems["converts"] == "convert"
        assert (stems["running"], stems["mp3"]) == ("run", "mp3")
    stemmer.close()


plain_words = st.from_regex(r"[a-z0-9]{1,9}(ing|ed|s)?", fullmatch=True)


@given(st.lists(plain_words))
def test_a_stem_is_the_one_that_the_index_has(words: list[str]) -> None:
    stemmer = Stemmer()
    assert stemmer.stems(words) == {word: stem_of(word) for word in words}
    stemmer.close()


@given(st.lists(plain_words | st.text(max_size=6)))
def test_the_stem_of_a_word_is_the_same_whatever_is_learnt_with_it(words: list[str]) -> None:
    together, alone = Stemmer(), Stemmer()
    assert together.stems(words) == {word: alone.stems([word])[word] for word in words}
    together.close()
    alone.close()


def naive_distance(one: str, other: str) -> int:
    """Edits, with neighbours that swap, by the whole table."""
    table = {(row, 0): row for row in range(len(one) + 1)} | {(0, at): at for at in range(len(other) + 1)}
    for row in range(1, len(one) + 1):
        for at in range(1, len(other) + 1):
            same = one[row - 1] == other[at - 1]
            best = min(table[row - 1, at] + 1, table[row, at - 1] + 1, table[row - 1, at - 1] + (not same))
            if row > 1 and at > 1 and one[row - 1] == other[at - 2] and one[row - 2] == other[at - 1]:
                best = min(best, table[row - 2, at - 2] + 1)
            table[row, at] = best
    return table[len(one), len(other)]


short = st.text("abc", max_size=7)


@example("aa", "aaa", 1)  # what they begin with is what they end with
@given(short, short, st.sampled_from([1, 2]))
def test_a_distance_is_that_of_the_whole_table_up_to_the_limit(one: str, other: str, limit: int) -> None:
    assert min(distance_between(one, other, limit), limit + 1) == min(naive_distance(one, other), limit + 1)


@given(
    st.sets(st.text("abcd", min_size=3, max_size=10), min_size=1), st.text("abcd", min_size=5, max_size=10)
)
def test_the_words_near_a_word_are_those_of_a_scan_the_nearest_first(words: set[str], wanted: str) -> None:
    vocabulary = Vocabulary(words)
    for limit in (1, 2):
        scanned = {(naive_distance(word, wanted), word) for word in words - {wanted}}
        found = vocabulary.near(wanted, limit)
        assert set(found) == {(edits, word) for edits, word in scanned if edits <= limit}
        assert [edits for edits, _ in found] == sorted(edits for edits, _ in found)


def test_a_short_word_is_a_slip_of_few_others_and_of_equally_near_ones_the_most_frequent_is_first() -> None:
    vocabulary = Vocabulary(["cat", "cats", "cut", "coat", "at"])
    assert vocabulary.near("ct", 2) == []
    assert vocabulary.near("cat", 2) == [(1, "cats"), (1, "cut"), (1, "coat"), (1, "at")]
