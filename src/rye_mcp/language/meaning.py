"""Turns words into vectors that are near where words mean similar things, by a table that ships with rye-mcp.

Whole numbers and the standard library only: the same words have the same vector on every machine. How the
table is made is told in `scripts/word_table`, its format in `docs/architecture/search.md`.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import isqrt, sqrt
from operator import mul
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from rye_mcp.language.words import Stemmer

__all__ = [
    "DIMENSIONS",
    "FILE",
    "WEIGHTS",
    "WORDS",
    "Meaning",
    "Signs",
    "TableError",
    "WordTable",
    "of_length",
    "packed",
    "sign_bits",
    "similarity",
]

FILE: Final = Path(__file__).with_name("words.table")
DIGEST: Final = "275af476e05370858891668342d1d74b1af70da39c291c5f28d2b577ac99b257"
"""The SHA-256 of the table: another one would give other vectors."""

WORDS: Final = 30_000
DIMENSIONS: Final = 128

MAX_FIELD_WORDS: Final = 100
"""How many words of each field of an item count, and of a query."""

_MAGIC: Final = b"rye-mcp words 1\n"
_HEAD: Final = struct.Struct("<16sIII")
_LANES: Final = struct.Struct(f"<{DIMENSIONS}H")
_MIDDLE: Final = 128
_MOST_AT_ONCE: Final = 257
"""So many bytes fit into one lane of 16 bits when they are added."""

_ONES: Final = bytes(map(int.bit_count, range(256)))
"""How many bits each byte has."""

_MOST: Final = 127
_LENGTH: Final = 2 * _MOST
"""How long a vector is; a component of more than half of that is cut to a byte."""

WEIGHTS: Final = {
    "name": 2, "title": 2, "description": 1, "category": 1, "tags": 1,
    "parameters": 1, "examples": 1, "body": 1,
}  # fmt: skip


class TableError(Exception):
    """The table is missing, or belongs to another version."""


class Meaning(Protocol):
    """What knows what texts mean: the word table, or a model of the user's."""

    @property
    def identity(self) -> str:
        """A name for its vectors, which no other one gives."""

    def of_items(self, items: Sequence[Mapping[str, str]]) -> list[bytes]:
        """The vector of each item, given the words of its fields; empty for an item without known words."""

    def of_text(self, text: str, words: Sequence[str]) -> bytes:
        """The vector of what somebody looks for, and the words of it; empty when no word is known."""


class WordTable:
    """A vector for each of many words; that of a text is the sum of its words."""

    identity: Final = DIGEST

    def __init__(self, lexicon: _Lexicon, stemmer: Stemmer) -> None:
        self.rows = lexicon.rows
        self.numbers = lexicon.numbers
        self._by_stem = lexicon.by_stem
        self._stemmer = stemmer

    @classmethod
    def load(cls, stemmer: Stemmer, path: Path = FILE) -> WordTable:
        """The table that ships with this version; TableError for a missing, damaged or other one."""
        return cls(_read(path), stemmer)

    def of_items(self, items: Sequence[Mapping[str, str]]) -> list[bytes]:
        """The vector of each item: its distinct words, those of its name and title twice."""
        weighed = [_weighed(item) for item in items]
        unknown = {word for words in weighed for word in words if word not in self.numbers}
        stems = self._stemmer.stems(unknown)
        return [self._vector(words, stems) for words in weighed]

    def of_text(self, text: str, words: Sequence[str]) -> bytes:
        """The vector of some words, each of which counts once."""
        distinct = dict.fromkeys(words[:MAX_FIELD_WORDS], 1)
        return self._vector(distinct, self._stemmer.stems(distinct))

    def of_word(self, word: str) -> bytes:
        """The vector of one word; empty if neither it nor its stem is known."""
        return self.of_text(word, [word])

    def _vector(self, words: Mapping[str, int], stems: Mapping[str, str]) -> bytes:
        numbered: dict[int, int] = {}
        for word, weight in words.items():
            number = self.numbers.get(word)
            if number is None:
                stem = stems[word]
                number = self._by_stem.get(stem, self.numbers.get(stem))
            if number is not None and numbered.get(number, 0) < weight:
                numbered[number] = weight
        return of_length(self._sum(numbered))

    def _sum(self, numbered: Mapping[int, int]) -> Sequence[int]:
        """The sum of these rows: as whole numbers with a lane of 16 bits for each component."""
        summed: list[int] = [0] * DIMENSIONS
        lanes, many, row = 0, 0, bytearray(2 * DIMENSIONS)
        for number, weight in numbered.items():
            if many + weight > _MOST_AT_ONCE:
                summed, lanes, many = _with_lanes(summed, lanes, many), 0, 0
            start = number * DIMENSIONS
            row[::2] = self.rows[start : start + DIMENSIONS]
            lanes += weight * int.from_bytes(row, "little")
            many += weight
        return _with_lanes(summed, lanes, many)


def _with_lanes(summed: Sequence[int], lanes: int, many: int) -> list[int]:
    components = _LANES.unpack(lanes.to_bytes(_LANES.size, "little"))
    return [sum_ + each - _MIDDLE * many for sum_, each in zip(summed, components, strict=True)]


def of_length(summed: Sequence[int]) -> bytes:
    """A vector as one byte a component; empty when it has no direction."""
    length = isqrt(sum(map(mul, summed, summed)))
    if not length:
        return b""
    scaled = [(each * _LENGTH + length // 2) // length for each in summed]
    if max(scaled) > _MOST or min(scaled) < -_MOST:
        scaled = [max(-_MOST, min(_MOST, each)) for each in scaled]
    return struct.pack(f"{len(scaled)}b", *scaled)


def _weighed(item: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for field, weight in WEIGHTS.items():
        for word in item[field].split(" ", MAX_FIELD_WORDS)[:MAX_FIELD_WORDS]:
            if word and word not in found:
                found[word] = weight
    return found


class _Lexicon(NamedTuple):
    """The rows of a table, and the number of the row of each word; of a stem, where it is another one."""

    rows: bytes
    numbers: Mapping[str, int]
    by_stem: Mapping[str, int]


@lru_cache(maxsize=1)
def _read(path: Path) -> _Lexicon:
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise TableError(f"expected the word table {path.name}, found none: {exc.strerror}") from exc
    found = hashlib.sha256(content).hexdigest()
    if found != DIGEST:
        raise TableError(f"expected the word table {path.name} with SHA-256 {DIGEST}, found {found}")
    _, count, _, length = _HEAD.unpack_from(content)
    start = _HEAD.size
    words, _, stems = zlib.decompress(content[start : start + length]).decode("utf-8").partition("\n\n")
    numbers = dict(zip(words.split("\n"), range(count), strict=True))
    # The first word of a stem is the most frequent one; it is often the stem itself.
    firsts = dict(zip(reversed(stems.split("\n")), reversed(range(count)), strict=True))
    by_stem = {stem: first for stem, first in firsts.items() if numbers.get(stem) != first}
    return _Lexicon(content[start + length :], numbers, by_stem)


def similarity(one: bytes, other: bytes) -> float:
    """The cosine of two vectors; 0 where one is missing."""
    if not one or len(one) != len(other):
        return 0.0
    first, second = memoryview(one).cast("b"), memoryview(other).cast("b")
    product: int = sum(map(mul, first, second))
    return product / sqrt(_square(one) * _square(other))


@lru_cache(maxsize=4_096)
def _square(vector: bytes) -> int:
    signed = memoryview(vector).cast("b")
    return sum(map(mul, signed, signed)) or 1


def sign_bits(vector: bytes) -> bytes:
    """A bit for each of the first 128 components: whether it is negative. Near vectors share many."""
    bits = sum(1 << number for number, each in enumerate(vector[:DIMENSIONS]) if each & 0x80)
    return bits.to_bytes((min(len(vector), DIMENSIONS) + 7) // 8, "little")


class Signs:
    """The sign bits of many vectors, which are compared with those of one all at once."""

    def __init__(self, every: Iterable[bytes]) -> None:
        self._every = b"".join(every)

    def nearest(self, bits: bytes, start: int, end: int) -> Iterator[int]:
        """The places from `start` up to `end`, those first that share most bits with these."""
        size, count = len(bits), end - start
        those = int.from_bytes(self._every[start * size : end * size], "little")
        differing = those ^ int.from_bytes(bits * count, "little")
        ones = differing.to_bytes(size * count, "little").translate(_ONES)
        # One byte for each vector, as no two of so many bits differ in more than a byte can count.
        summed = sum(int.from_bytes(ones[at::size], "little") for at in range(size))
        distances = summed.to_bytes(count, "little")
        for distance in range(8 * size + 1):
            at = distances.find(distance)
            while at >= 0:
                yield start + at
                at = distances.find(distance, at + 1)


def packed(words: Sequence[str], stems: Iterable[str], rows: bytes) -> tuple[bytes, str]:
    """A table of words, the most frequent first, with their stems and rows of signed bytes; its hash."""
    lexicon = zlib.compress(("\n".join(words) + "\n\n" + "\n".join(stems)).encode(), 9)
    head = _HEAD.pack(_MAGIC, len(words), DIMENSIONS, len(lexicon))
    content = head + lexicon + bytes(each ^ 0x80 for each in rows)
    return content, hashlib.sha256(content).hexdigest()
