"""Scores how well a document answers a query, by one measure for all spaces, pages and orders.

The functions take counts and read nothing. `benchmarks/relevance.py` says what the weights achieve.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import Final, NamedTuple

from lilux._dataclasses import dataclass
from rye_mcp.catalog._matching import STEM
from rye_mcp.language.words import grams_of, name_words
from rye_mcp.queries import Asked

__all__ = [
    "MEANING_WEIGHT",
    "Counts",
    "Features",
    "Measure",
    "Scale",
    "stems_counted",
]


class Features(NamedTuple):
    """What is compared of a document.

    `counted` has the stems of all its words, each as often as it counts, and `named` the words of its name,
    title and description; see `stems_counted`. `length` is how many words it has.
    """

    counted: str
    named: str
    length: int


class Counts(NamedTuple):
    """How many documents there are, how long they are together, and how many have each word or stem.

    `words` are those that each prefix of the query stands for. A stem has `STEM` in front.
    """

    documents: int
    length: int
    named: int
    having: Mapping[str, int]
    words: Mapping[str, Sequence[str]]

    @classmethod
    def merged(cls, counts: Sequence[Counts]) -> Counts:
        """What several spaces come to together."""
        having: Counter[str] = Counter()
        words: dict[str, dict[str, None]] = {}
        for each in counts:
            having.update(each.having)
            for prefix, found in each.words.items():
                words.setdefault(prefix, {}).update(dict.fromkeys(found))
        return cls(
            documents=sum(each.documents for each in counts),
            length=sum(each.length for each in counts),
            named=sum(each.named for each in counts),
            having=having,
            words={prefix: list(found) for prefix, found in words.items()},
        )


SATURATION: Final = 3.0
"""BM25's k1: how much a word that comes again still counts."""

LENGTH_SHARE: Final = 0.3
"""BM25's b: how much the length of a document counts."""

NAME_SHARE: Final = 0.4
"""The same for the n-grams of what it is called, and how long that is."""

MAX_TIMES: Final = 8
"""How often a word counts at most in one item: saying it a thousand times gains nothing more."""

MAX_WORDS: Final = 512
"""How many different words of an item count when what was found is ranked; all of them are found."""

MEANING_WEIGHT: Final = 0.5
"""What counts of the similarity of vectors, where the best share of words counts 1."""


class _Part(NamedTuple):
    """A word of a query, or a prefix: how rare it is, the stems that it stands for, and its n-grams."""

    rarity: float
    stems: Sequence[str]
    grams: Set[tuple[str, ...]]


class Measure:
    """What a query asks for and how much each part of it counts, given what all documents come to."""

    def __init__(
        self,
        asked: Asked,
        counts: Counts,
        stems: Mapping[str, str],
        *,
        similar: Mapping[str, Iterable[str]],
        sentences: Sequence[str],
    ) -> None:
        """The measure of a query, given the stems of all words, and those that one may be a slip of."""
        total = max(counts.documents, 1)
        self._length = max(counts.length / total, 1.0)
        self._named = max(counts.named / total, 1.0)
        words: dict[str, list[str]] = {}
        for word in asked.words:
            words.setdefault(stems[word], []).append(word)
        self._parts: list[_Part] = []
        for stem, same in words.items():
            others = (stems[each] for word in same for each in similar.get(word, ()))
            self._add(total, counts.having.get(STEM + stem, 0), [stem, *others], same)
        for prefix in asked.prefixes:
            begun = counts.words.get(prefix, ())
            self._add(total, sum(counts.having[word] for word in begun), [stems[word] for word in begun], ())
        self._sentences = [_places(sentence, words.values()) for sentence in sentences]
        # As much as a document is worth that says each word once, and in its name.
        whole = [2 * part.rarity / (1 + SATURATION) for part in self._parts]
        self.possible = [sum(whole), *(sum(map(whole.__getitem__, places)) for places in self._sentences)]

    def _add(self, total: int, documents: int, stems: Iterable[str], words: Iterable[str]) -> None:
        counted = [_counted(stem) for stem in dict.fromkeys(stems)]
        grams = {gram for word in words for gram in grams_of(word)}
        self._parts.append(_Part(_rarity(total, documents), counted, grams))

    def scores(self, features: Features) -> list[float]:
        """How well a document answers the whole query, and how well each of its sentences."""
        values = self._values(features)
        return [sum(values), *(sum(map(values.__getitem__, places)) for places in self._sentences)]

    def has_words(self, features: Features) -> bool:
        """Whether a document has any of the words."""
        return any(stem in features.counted for part in self._parts for stem in part.stems)

    def _values(self, features: Features) -> list[float]:
        """What each part is worth: BM25 of its stems, and the squared share of its n-grams in the name."""
        counted, named, length = features
        called = grams_of(named)
        spread = SATURATION * (1 - NAME_SHARE + NAME_SHARE * len(named) / self._named)
        flattened = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length / self._length)
        values: list[float] = []
        for rarity, stems, grams in self._parts:
            times = sum(map(counted.count, stems))
            share = len(grams & called) / len(grams) if grams else 0.0
            values.append(rarity * (times / (times + flattened) + share * share / (1 + spread)))
        return values


def _places(sentence: str, parts: Iterable[Sequence[str]]) -> list[int]:
    """The places of those parts of which a word is in a sentence."""
    inside = {each for chunk in sentence.split() for each in name_words(chunk)}
    return [place for place, words in enumerate(parts) if not inside.isdisjoint(words)]


def stems_counted(words: Iterable[str], stem_of: Mapping[str, str]) -> str:
    """The stems of the words of a document, each as often as its words count."""
    times: dict[str, int] = {}
    for word, number in islice(Counter(words).items(), MAX_WORDS):
        stem = stem_of[word]
        times[stem] = times.get(stem, 0) + min(number, MAX_TIMES)
    return "".join([_counted(stem) * number for stem, number in times.items()])


def _counted(stem: str) -> str:
    return f"{STEM}{stem} "


@dataclass(frozen=True, slots=True)
class Scale:
    """The best that the candidates of a search have reached by each measure.

    The first measure is that of the whole wish, the others are those of its sentences. `coverage` says how
    much of what is possible the best is, of the measure where that is most: words that say little of what
    somebody wishes for count little beside what the wish means.
    """

    best: Sequence[float]
    coverage: float

    @classmethod
    def of(cls, scores: Sequence[Sequence[float]], possible: Sequence[float]) -> Scale:
        """The scale of candidates with these scores."""
        best = [max(column) for column in zip(*scores, strict=True)] or [0.0] * len(possible)
        reached = (most / whole for most, whole in zip(best, possible, strict=True) if whole)
        return cls(best, min(1.0, max(reached, default=1.0)))

    def worth(self, scores: Sequence[float]) -> tuple[float, int | None]:
        """What the words of a document are worth, and the sentence that it answers best, of several."""
        shares = [score / most if most else 0.0 for score, most in zip(scores, self.best, strict=True)]
        whole, *parts = (share * self.coverage for share in shares)
        if not parts:
            return whole, None
        sentence = max(range(len(parts)), key=parts.__getitem__)
        return (whole + parts[sentence]) / 2, sentence


def _rarity(total: int, documents: int) -> float:
    return math.log(1 + (total - min(documents, total) + 0.5) / (min(documents, total) + 0.5))
