"""What the word table is made of, and how: on a small corpus, with numpy where it is installed."""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

import pytest

from rye_mcp.language.meaning import DIMENSIONS, packed
from scripts.word_table import sources

PACKAGES = """Package: editor
Description-md5: 1
Description-en: small editor for text files
 It edits text files in a terminal. It has no menus: commands are keys.
 .
 This package has the program.

Package: editor-doc
Description-md5: 2
Description-en: small editor for text files
"""
GLOSS = (
    "  1 a line of the licence\n"
    "00003663 29 v 02 hiccup 0 hic_cup 0 001 @ 00001740 v 0000 01 + 02 00 "
    '| breathe in spasms with a sound; "drink a glass of cold water"\n'
)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    with lzma.open(tmp_path / sources.DEBIAN, "wt") as file:
        file.write(PACKAGES)
    with tarfile.open(tmp_path / sources.WORDNET, "w:gz") as archive:
        for name in ("noun", "verb", "adj", "adv"):
            member = tarfile.TarInfo(f"package/dict/data.{name}")
            content = (GLOSS if name == "verb" else "").encode()
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return tmp_path


def test_sentences_are_taken_once_out_of_both_sources(corpus: Path) -> None:
    assert sorted(sources.sentences(corpus)) == [
        "It edits text files in a terminal.",
        "It has no menus:",
        "This package has the program.",
        "drink a glass of cold water",
        "hiccup, hic cup: breathe in spasms with a sound",
        "small editor for text files",
    ]
    assert sources.sentences(corpus) == sources.sentences(corpus)


def test_only_the_pinned_sources_will_do(corpus: Path) -> None:
    with pytest.raises(sources.SourceError, match=f"expected {sources.TEACHER}"):
        sources.require_pinned(corpus)
    (corpus / sources.TEACHER).write_bytes(b"another")
    with pytest.raises(sources.SourceError, match="expected SHA-256"):
        sources.require_pinned(corpus)


def test_what_is_packed_has_its_hash() -> None:
    one, other = (packed(["a"], ["a"], bytes([each] * DIMENSIONS)) for each in (0, 1))
    assert one[1] != other[1]
    assert one == packed(["a"], ["a"], bytes(DIMENSIONS))


def test_what_is_learnt_is_nearer_to_the_teacher_than_the_guess() -> None:
    np = pytest.importorskip("numpy")
    sparse = pytest.importorskip("scipy.sparse")
    from scripts.word_table import training

    chance = np.random.default_rng(1)
    words = chance.normal(size=(300, 160)).astype(np.float32)
    matrix = sparse.random(2_000, 300, 0.02, "csr", np.float32, chance, np.ones)
    matrix = matrix[np.diff(matrix.indptr) > 1]
    mixed = matrix @ (words * chance.uniform(0.2, 3.0, size=(300, 1)).astype(np.float32))
    targets = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)

    def agreement(vectors: object) -> float:
        sums = matrix @ vectors
        sums /= np.linalg.norm(sums, axis=1, keepdims=True)
        return float(np.corrcoef((sums @ sums.T).ravel(), (targets @ targets.T).ravel())[0, 1])

    plain = training.plain(matrix, words)
    learnt = training.learnt(matrix, words, targets, 2)
    assert learnt.shape == (300, DIMENSIONS)
    assert training.as_bytes(learnt).dtype == np.int8
    assert agreement(learnt) > agreement(plain)
