"""What is picked out of the texts of a document is what is in them, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.catalog._store import open_memory
from rye_mcp.catalog._words import grams_of, sign_of
from rye_mcp.catalog._writing import features_of, insert, written_in_a_row, written_words

# Words that begin alike, that are numbers as the lines have, and that have letters beyond ASCII.
WORDS = [
    "convert",
    "converts",
    "converting",
    "convey",
    "con",
    "1",
    "12",
    "2",
    "a",
    "ab",
    "größe",
    "größer",
    "字",
]
WORDS += [f"{letter}{number}" for letter in "bcdefgh" for number in range(10)]

counted = st.dictionaries(st.sampled_from(WORDS), st.integers(min_value=1, max_value=12), max_size=40)


def grams_in(words: Iterable[str]) -> set[str]:
    return {gram for word in words for gram in grams_of(word)}


@given(words=counted, described=st.sets(st.sampled_from(WORDS)), asked=st.frozensets(st.sampled_from(WORDS)))
def test_of_a_document_exactly_the_words_and_grams_are_found_that_it_has(
    words: dict[str, int], described: set[str], asked: frozenset[str]
) -> None:
    database = open_memory()
    grams = grams_in(described)
    signs = "".join(map(sign_of, grams))
    insert(
        database, "features", [(1, written_words(words), 7, written_in_a_row(described), signs, len(grams))]
    )

    picked = features_of(database, [1], asked, frozenset(grams_in(asked)))[1]
    whole = features_of(database, [1])[1]
    database.close()

    assert picked.words == {word: times for word, times in words.items() if word in asked}
    assert sorted(picked.grams) == sorted(grams & grams_in(asked))
    assert whole.words == words
    assert whole.grams == grams


def test_no_two_grams_have_the_same_sign() -> None:
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    grams = grams_in(first + second + third for first in letters for second in letters for third in letters)
    signs = {sign_of(gram) for gram in grams}

    assert len(signs) == len(grams)
    assert all(len(sign) == 1 and sign.encode() for sign in signs)


@pytest.mark.parametrize("word", ["ß", "größe", "字"])
def test_a_gram_beyond_ascii_has_no_sign(word: str) -> None:
    assert "" in {sign_of(gram) for gram in grams_of(word)}
