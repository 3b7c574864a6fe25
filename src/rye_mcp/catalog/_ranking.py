"""Scores how well a document answers a query, by one measure for all spaces, pages and orders.

The functions take counts and read nothing. `benchmarks/relevance.py` says what the weights achieve.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from lilux._dataclasses import dataclass
from rye_mcp.catalog._query_tree import And, Everything, Near, Node, Not, Or, Phrase, Prefix, Term
from rye_mcp.catalog._words import GREETINGS, QUESTION_WORDS, Stemmer, grams_of, name_words, words_of

__all__ = [
    "LEAST_WORDS",
    "MEANING_WEIGHT",
    "Asked",
    "Counts",
    "Features",
    "Group",
    "Measure",
    "Scale",
    "as_sentence",
    "asks_to_look",
    "merged",
    "sentences_of",
]


class Features(NamedTuple):
    """What is counted of one document, as far as a query asks for it; see `Document`.

    `length` and `grams_length` are those of the whole document. A tuple, as an `Entry` is.
    """

    words: Mapping[str, int]
    length: int
    grams: Collection[str]
    grams_length: int


@dataclass(frozen=True, slots=True)
class Group:
    """The words that one part of a query stands for: those of a stem, or with a beginning."""

    label: str
    documents: int
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """What the documents of one space come to, as far as a query needs it.

    In how many documents each group, each word and each n-gram of the query is.
    """

    documents: int
    length: int
    grams_length: int
    groups: Mapping[str, Group]
    words: Mapping[str, int]
    grams: Mapping[str, int]


STEM_WEIGHT: Final = 1.0
WORD_WEIGHT: Final = 0.2
GRAM_WEIGHT: Final = 0.15

SATURATION: Final = 3.0
"""BM25's k1: how much a word that comes again still counts."""

LENGTH_SHARE: Final = 0.3
"""BM25's b: how much the length of a document counts."""

GRAM_LENGTH_SHARE: Final = 0.4
"""The same for n-grams, and how many a document has."""

MEANING_WEIGHT: Final = 0.5
"""What counts of the similarity of vectors, where the best share of words counts 1."""

MAX_SENTENCES: Final = 8
"""How many sentences of a wish are looked at one by one."""

_LOOKING: Final = """
check compare count display examine explain explore find get inspect list look open print read search
see show tell view watch what when where which who why
"""
_CHANGING: Final = """
add append apply archive change clean clear close commit convert copy create cut delete destroy
disable discard drop edit empty end erase execute fix forget free insert install kill launch make
merge modify move overwrite patch purge push put remove rename replace reset restart restore revert
rid run save send set shorten start stop store swap terminate throw trash truncate undo uninstall
update upload wipe write
"""

LOOKING: Final = frozenset(_LOOKING.split())
"""With these words, somebody asks to find or to read something …"""

CHANGING: Final = frozenset(_CHANGING.split())
"""… unless there is one of these, too."""

LEAST_WORDS: Final = 2
"""How many words a sentence has that says something of its own."""

_SENTENCE_END: Final = re.compile(r"[.!?;:](?:\s+|$)|\n")
_WORDS_WITH_GREETING: Final = 3
"""Of more words than these, a greeting in front is none of what is looked for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The words that a query asks for; what it does not want has none."""

    words: tuple[str, ...]
    prefixes: tuple[str, ...]

    @classmethod
    def of(cls, tree: Node) -> Asked:
        """The words of a tree, each once, in its order."""
        leaves = list(_leaves(tree))
        words = [word for leaf in leaves for word in _words(leaf)]
        prefixes = [
            words_of(leaf.text)[-1] for leaf in leaves if isinstance(leaf, Prefix) and words_of(leaf.text)
        ]
        return cls(tuple(dict.fromkeys(words)), tuple(dict.fromkeys(prefixes)))

    def within(self, sentence: str) -> Asked:
        """Those of the words that are in a sentence."""
        inside = {each for chunk in sentence.split() for each in name_words(chunk)}
        return Asked(tuple(word for word in self.words if word in inside), ())


@dataclass(frozen=True, slots=True)
class Measure:
    """What a query asks for and how much each part of it counts, given what all documents come to."""

    groups: Mapping[str, tuple[str, float]]
    words: Mapping[str, float]
    grams: Mapping[str, float]
    length: float
    grams_length: float
    most: float

    @classmethod
    def of(cls, asked: Asked, counts: Counts, stems: Mapping[str, str]) -> Measure:
        """The measure of a query. `stems` are those of its words."""
        total = max(counts.documents, 1)
        labels = dict.fromkeys(
            [*(stems[word] for word in asked.words), *(f"{each}*" for each in asked.prefixes)]
        )
        groups = {label: counts.groups.get(label, Group(label, 0, ())) for label in labels}
        rarity = {label: STEM_WEIGHT * _rarity(total, group.documents) for label, group in groups.items()}
        words = {word: WORD_WEIGHT * _rarity(total, counts.words.get(word, 0)) for word in asked.words}
        every_gram = {gram for word in asked.words for gram in grams_of(word)}
        grams = {gram: GRAM_WEIGHT * _rarity(total, counts.grams.get(gram, 0)) for gram in sorted(every_gram)}
        most = sum(rarity.values()) + sum(words.values()) + sum(grams.values())
        return cls(
            groups={word: (label, rarity[label]) for label, group in groups.items() for word in group.words},
            words=words,
            grams=grams,
            length=max(counts.length / total, 1.0),
            grams_length=max(counts.grams_length / total, 1.0),
            most=most * (SATURATION + 1) or 1.0,
        )

    def score(self, features: Features) -> float:
        """How well a document answers, between 0 and 1."""
        flattened = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * features.length / self.length)
        found: dict[str, tuple[float, int]] = {}
        value = 0.0
        for word, times in sorted(features.words.items()):
            if (group := self.groups.get(word)) is None:
                continue
            label, rarity = group
            found[label] = (rarity, found.get(label, (0.0, 0))[1] + times)
            if word in self.words:
                value += self.words[word] * times / (times + flattened)
        value += sum(rarity * times / (times + flattened) for rarity, times in found.values())
        if features.grams:
            share = GRAM_LENGTH_SHARE
            flattened = SATURATION * (1 - share + share * features.grams_length / self.grams_length)
            value += math.fsum(self.grams.get(gram, 0.0) for gram in features.grams) / (1 + flattened)
        return min(1.0, value * (SATURATION + 1) / self.most)


def merged(counts: Sequence[Counts]) -> Counts:
    """What several spaces come to together."""
    return Counts(
        documents=sum(each.documents for each in counts),
        length=sum(each.length for each in counts),
        grams_length=sum(each.grams_length for each in counts),
        groups=_merged_groups(counts),
        words=_summed(each.words for each in counts),
        grams=_summed(each.grams for each in counts),
    )


def as_sentence(tree: Node) -> Node:
    """What a sentence is about: without the words that only make it one, and with the parts of those that are
    put together (`real-time`) beside the whole. Every other tree stays as it is.

    A greeting is none of these words in `hello world`, and is one in front of a whole wish.
    """
    terms = _bare_terms(tree)
    if terms is None:
        return tree
    texts = dict.fromkeys(text for term in terms for text in _with_parts(term.text))
    kept = [text for text in texts if not QUESTION_WORDS.issuperset(words_of(text))] or list(texts)
    if len(kept) > _WORDS_WITH_GREETING and kept[0].lower() in GREETINGS:
        del kept[0]
    parts = tuple(Term(text) for text in kept)
    return parts[0] if len(parts) == 1 else Or(parts)


def _bare_terms(tree: Node) -> list[Term] | None:
    """The words of a tree that is nothing but words, in any field; None for every other one."""
    parts = tree.parts if isinstance(tree, Or) else (tree,)
    terms = [part for part in parts if isinstance(part, Term) and part.field is None]
    return terms if len(terms) == len(parts) else None


@dataclass(frozen=True, slots=True)
class Scale:
    """The best that the candidates of a search have reached by each measure.

    The first measure is that of the whole wish, the others are those of its sentences.
    """

    best: Sequence[float]

    @classmethod
    def of(cls, scores: Sequence[Sequence[float]]) -> Scale:
        """The scale of candidates with these scores."""
        return cls([max(column) for column in zip(*scores, strict=True)])

    def worth(self, scores: Sequence[float]) -> tuple[float, int | None]:
        """What the words of a document are worth, and the sentence that it answers best, of several."""
        best = self.best or [0.0] * len(scores)  # without candidates, nothing is worth anything
        whole, *parts = [score / most if most else 0.0 for score, most in zip(scores, best, strict=True)]
        if not parts:
            return whole, None
        sentence = max(range(len(parts)), key=parts.__getitem__)
        return (whole + parts[sentence]) / 2, sentence


def sentences_of(wish: str) -> list[str]:
    """The sentences of a wish that say something of their own; none when there is only one."""
    parts = [part for part in _SENTENCE_END.split(wish) if len(_content(part)) >= LEAST_WORDS]
    return parts[:MAX_SENTENCES] if len(parts) > 1 else []


def asks_to_look(wish: str, stemmer: Stemmer) -> bool:
    """Whether a query only asks to find or read something."""
    words = set(words_of(wish))
    if words.isdisjoint(LOOKING):
        return False
    changing = set(stemmer.stems(CHANGING).values())
    return changing.isdisjoint(stemmer.stems(words).values())


def _content(text: str) -> set[str]:
    return set(words_of(text)) - QUESTION_WORDS


def _rarity(total: int, documents: int) -> float:
    return math.log(1 + (total - min(documents, total) + 0.5) / (min(documents, total) + 0.5))


def _with_parts(text: str) -> list[str]:
    parts = words_of(text)
    return [text, *parts] if len(parts) > 1 else [text]


def _leaves(tree: Node) -> Iterable[Term | Prefix | Phrase | Near]:
    match tree:
        case And() | Or():
            for part in tree.parts:
                yield from _leaves(part)
        case Not() | Everything():
            return
        case _:
            yield tree


def _words(leaf: Term | Prefix | Phrase | Near) -> Iterable[str]:
    match leaf:
        case Term():
            return name_words(leaf.text)
        case Prefix():
            return words_of(leaf.text)[:-1]
        case _:
            return [word for each in leaf.words for word in words_of(each)]


def _merged_groups(counts: Sequence[Counts]) -> Mapping[str, Group]:
    found: dict[str, Group] = {}
    for each in counts:
        for label, group in each.groups.items():
            known = found.get(label, Group(label, 0, ()))
            words = tuple(dict.fromkeys((*known.words, *group.words)))
            found[label] = Group(label, known.documents + group.documents, words)
    return found


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for each in counts:
        for name, number in each.items():
            summed[name] = summed.get(name, 0) + number
    return summed
