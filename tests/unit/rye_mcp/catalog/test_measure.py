"""What is compared of a document: its stems, as often as they count, and parts of words in its name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.catalog._ranking import MAX_TIMES, MAX_WORDS, Counts, Features, Measure, stems_counted
from rye_mcp.queries import Asked

WORDS = ["convert", "converts", "con", "1", "12", "a", "ab", "größe", "字", "abcd"]
STEMS = {word: word.removesuffix("s") for word in WORDS}

counted = st.dictionaries(st.sampled_from(WORDS), st.integers(min_value=1, max_value=12), max_size=40)


def score(words: dict[str, int], named: str, asked: tuple[str, ...]) -> float:
    counts = Counts(10, 100, 100, dict.fromkeys(("=" + stem for stem in STEMS.values()), 1), {})
    measure = Measure(Asked(asked, ()), counts, STEMS, similar={}, sentences=())
    every = (word for word, times in words.items() for _ in range(times))
    [score] = measure.scores(Features(stems_counted(every, STEMS), f" {named} ", 10))
    return score


@given(words=counted, asked=st.sampled_from(WORDS))
def test_a_document_scores_for_exactly_the_stems_that_it_has(words: dict[str, int], asked: str) -> None:
    has = STEMS[asked] in {STEMS[word] for word in words}
    assert (score(words, "", (asked,)) > 0) is has


def test_a_word_counts_more_if_it_comes_again_up_to_a_bound() -> None:
    once, often, most, more = (
        score({"convert": times}, "", ("convert",)) for times in (1, 5, MAX_TIMES, 1000)
    )
    assert once < often < most == more


def test_only_so_many_words_of_a_document_count() -> None:
    many = [f"w{number}" for number in range(MAX_WORDS + 1)]
    assert stems_counted(many, {word: word for word in many}).count("=") == MAX_WORDS


def test_a_part_of_a_word_in_a_name_counts_and_all_of_it_counts_more_than_twice_as_much_as_half() -> None:
    nothing, half, whole = (score({}, named, ("abcd",)) for named in ("xyz", "abx", "abcd"))
    assert nothing == 0 < 2 * half < whole


def test_a_long_description_has_parts_of_many_words_which_count_less() -> None:
    assert score({}, "convert", ("convert",)) > score({}, "convert" + " more" * 50, ("convert",)) > 0
