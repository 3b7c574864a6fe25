"""Makes the word table out of pinned sources: python -m scripts.word_table SOURCES [--output FILE] [--plain]

SOURCES holds the files that `sources.PINNED` names. What the teacher says is kept beside them, so that a run
that was ended goes on where it was. About 15 minutes on one processor; the last bits depend on the processor.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import sparse

from rye_mcp.language.meaning import FILE, WORDS, packed
from rye_mcp.language.words import Stemmer, words_of
from scripts.word_table import training
from scripts.word_table.sources import require_pinned, sentences
from scripts.word_table.teacher import Teacher


def main() -> int:
    """Make a table and print its hash."""
    options = _options()
    require_pinned(options.sources)
    texts = sentences(options.sources)[: options.sentences]
    vocabulary = most_frequent(texts, options.words)
    teacher, kept = Teacher(options.sources), options.sources / "kept"
    word_vectors = teacher.vectors(vocabulary, kept)
    matrix = words_in(texts, vocabulary)
    if options.plain:
        vectors = training.plain(matrix, word_vectors)
    else:
        vectors = training.learnt(matrix, word_vectors, teacher.vectors(texts, kept), options.epochs)
    stemmer = Stemmer()
    stems = stemmer.stems(vocabulary)
    content, digest = packed(
        vocabulary, [stems[word] for word in vocabulary], training.as_bytes(vectors).tobytes()
    )
    options.output.write_bytes(content)
    print(f"{options.output}: {len(content):,} bytes, {len(vocabulary):,} words, SHA-256 {digest}")
    return 0


def most_frequent(texts: Sequence[str], count: int) -> list[str]:
    """The words that are in most sentences; of equally frequent ones the first by the alphabet."""
    counted = Counter(word for text in texts for word in set(words_of(text)))
    ordered = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    return [word for word, _ in ordered[:count]]


def words_in(texts: Sequence[str], vocabulary: Sequence[str]) -> sparse.csr_matrix:
    """Which words of the vocabulary are in each text, each once."""
    number = {word: at for at, word in enumerate(vocabulary)}
    columns: list[int] = []
    ends = [0]
    for text in texts:
        columns += sorted({number[word] for word in words_of(text) if word in number})
        ends.append(len(columns))
    return sparse.csr_matrix(
        (np.ones(len(columns), np.float32), columns, ends), (len(texts), len(vocabulary))
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sources", type=Path, help="where the sources are")
    parser.add_argument("--output", type=Path, default=FILE, metavar="FILE", help=f"by default {FILE.name}")
    parser.add_argument("--words", type=int, default=WORDS, metavar="N")
    parser.add_argument("--sentences", type=int, default=None, metavar="N", help="by default all")
    parser.add_argument("--epochs", type=int, default=6, metavar="N")
    parser.add_argument("--plain", action="store_true", help="without learning, as tests do")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
