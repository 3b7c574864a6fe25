"""Learns the vector of each word, so that sums of them are like the teacher's vectors of whole sentences.

A first guess by a linear map of the teacher's vectors of single words, times how rare each word is; a ridge
regression from there; some epochs towards the teacher's similarities; and the dimensions of the table.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import sparse

DIMENSIONS: Final = 128
RIDGE: Final = 1.0
RIDGE_STEPS: Final = 12
BATCH: Final = 1_024
TEACHER_TEMPERATURE: Final = 0.03
STUDENT_TEMPERATURE: Final = 0.05
STEP: Final = 5e-3
_LEAST: Final = 1e-8


def learnt(
    sentences: sparse.csr_matrix, word_vectors: np.ndarray, sentence_vectors: np.ndarray, epochs: int
) -> np.ndarray:
    """The vectors of the words, with `DIMENSIONS` columns. `sentences` says which words are in which."""
    rarity = rarities(sentences)
    guess = first_guess(sentences, word_vectors, sentence_vectors, rarity)
    learning = ridge(sentences, guess, sentence_vectors)
    learning *= rarity.mean() / np.linalg.norm(learning, axis=1).mean()
    approach(sentences, learning, sentence_vectors, epochs)
    return with_fewer_dimensions(sentences, learning)


def plain(sentences: sparse.csr_matrix, word_vectors: np.ndarray) -> np.ndarray:
    """The teacher's vectors of single words times their rarity: for trying out what is around it."""
    weighted = (word_vectors.astype(np.float32) * rarities(sentences)[:, None]).astype(np.float32)
    return with_fewer_dimensions(sentences, weighted)


def rarities(sentences: sparse.csr_matrix) -> np.ndarray:
    """The inverse document frequency of each word."""
    counted = np.asarray(sentences.sum(axis=0)).ravel()
    return np.log1p(sentences.shape[0] / (1.0 + counted)).astype(np.float32)


def first_guess(
    sentences: sparse.csr_matrix, words: np.ndarray, targets: np.ndarray, rarity: np.ndarray
) -> np.ndarray:
    """The best linear map of weighted word vectors."""
    weighted = words.astype(np.float32) * rarity[:, None]
    sums = _normal(sentences @ weighted)
    square = sums.T @ sums + np.eye(sums.shape[1], dtype=np.float32)
    return weighted @ np.linalg.solve(square, sums.T @ targets.astype(np.float32))


def ridge(sentences: sparse.csr_matrix, guess: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The vectors near the guess whose sums are nearest to the targets, by conjugate gradients."""
    sums = sentences @ guess
    lengths = np.maximum(np.linalg.norm(sums, axis=1), _LEAST)
    scaled = sparse.diags((1.0 / lengths).astype(np.float32)) @ sentences
    turned = scaled.T.tocsr()
    change = np.zeros_like(guess)
    left = turned @ (targets.astype(np.float32) - sums / lengths[:, None])
    direction, size = left.copy(), (left * left).sum(axis=0)
    for _ in range(RIDGE_STEPS):
        image = turned @ (scaled @ direction) + RIDGE * direction / lengths.mean() ** 2
        share = size / np.maximum((direction * image).sum(axis=0), _LEAST)
        change += share * direction
        left -= share * image
        new = (left * left).sum(axis=0)
        direction = left + (new / np.maximum(size, _LEAST)) * direction
        size = new
    return guess + change


def approach(sentences: sparse.csr_matrix, learning: np.ndarray, targets: np.ndarray, epochs: int) -> None:
    """Change the vectors, so that sentences are as similar to each other as the teacher says."""
    chance = np.random.default_rng(0)
    first, second = np.zeros_like(learning), np.zeros_like(learning)
    times = np.zeros(len(learning), np.int64)
    count = len(targets) // BATCH * BATCH or len(targets)
    steps, done = epochs * -(-count // BATCH), 0
    for epoch in range(epochs):
        order, lost = chance.permutation(len(targets))[:count], 0.0
        for start in range(0, count, BATCH):
            some = np.sort(order[start : start + BATCH])
            columns, gradient, loss = _gradient(sentences[some], learning, targets[some].astype(np.float32))
            times[columns] += 1
            _adam(learning, first, second, times, columns, gradient, STEP * (1 - done / steps))
            lost, done = lost + loss, done + 1
        print(f"epoch {epoch + 1}: {lost / -(-count // BATCH):.4f}", flush=True)


def _gradient(
    rows: sparse.csr_matrix, learning: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    columns, numbered = np.unique(rows.indices, return_inverse=True)
    compact = sparse.csr_matrix((rows.data, numbered, rows.indptr), (rows.shape[0], len(columns)))
    sums = compact @ learning[columns]
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), _LEAST)
    normal = sums / lengths
    wanted = _shares(targets @ targets.T / TEACHER_TEMPERATURE)
    found = _shares(normal @ normal.T / STUDENT_TEMPERATURE)
    loss = float(-(wanted * np.log(found + _LEAST)).sum() / len(rows.indptr))
    error = (found - wanted) / (len(targets) * STUDENT_TEMPERATURE)
    pull = (error + error.T) @ normal
    pull = (pull - normal * (pull * normal).sum(axis=1, keepdims=True)) / lengths
    return columns, compact.T @ pull, loss


def _shares(similarities: np.ndarray) -> np.ndarray:
    """Softmax of each row, with nothing for itself."""
    np.fill_diagonal(similarities, -np.inf)
    found = np.exp(similarities - similarities.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


def _adam(
    learning: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    times: np.ndarray,
    columns: np.ndarray,
    gradient: np.ndarray,
    step: float,
) -> None:
    """One step of Adam for the rows that have a gradient."""
    mean = first[columns] = 0.9 * first[columns] + 0.1 * gradient
    square = second[columns] = 0.999 * second[columns] + 0.001 * gradient * gradient
    count = times[columns][:, None]
    mean, square = mean / (1 - 0.9**count), square / (1 - 0.999**count)
    learning[columns] -= (step * mean / (np.sqrt(square) + _LEAST)).astype(np.float32)


def with_fewer_dimensions(sentences: sparse.csr_matrix, learning: np.ndarray) -> np.ndarray:
    """The directions in which sentences differ most."""
    sums = _normal(sentences @ learning)
    values, directions = np.linalg.eigh((sums.T @ sums).astype(np.float64))
    chosen = directions[:, np.argsort(values)[::-1][:DIMENSIONS]]
    signs = np.sign(chosen[np.abs(chosen).argmax(axis=0), range(chosen.shape[1])])
    return (learning @ (chosen * signs)).astype(np.float32)


def as_bytes(vectors: np.ndarray) -> np.ndarray:
    """Rows of whole numbers from -127 to 127, of one scale for all."""
    scale = 127 / np.quantile(np.abs(vectors), 0.9995)
    return np.clip(np.rint(vectors * scale), -127, 127).astype(np.int8)


def _normal(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _LEAST)
