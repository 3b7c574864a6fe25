"""Asks the teacher, a sentence model in an ONNX file, for the vectors of texts, and keeps them on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from scripts.word_table.sources import teacher_file

CHUNK: Final = 4_096
BATCH: Final = 64
MAX_TOKENS: Final = 64


class Teacher:
    """The model; one thread."""

    def __init__(self, directory: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        model = teacher_file(directory, ".onnx")
        self._session = onnxruntime.InferenceSession(model, options)
        self._tokenizer = Tokenizer.from_str(teacher_file(directory, "-tokenizer.json").decode())
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()

    def vectors(self, texts: Sequence[str], kept: Path) -> np.ndarray:
        """The vector of each text, of length 1; chunks are kept in a directory, and not made again."""
        kept.mkdir(parents=True, exist_ok=True)
        parts = [self._chunk(texts[start : start + CHUNK], kept) for start in range(0, len(texts), CHUNK)]
        return np.concatenate(parts)

    def _chunk(self, texts: Sequence[str], kept: Path) -> np.ndarray:
        digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
        path = kept / f"{digest[:24]}.npy"
        if path.exists():
            return np.load(path)
        encoded = self._tokenizer.encode_batch(list(texts))
        order = sorted(range(len(texts)), key=lambda number: len(encoded[number].ids))
        found = np.zeros((len(texts), 384), np.float16)
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            found[some] = self._encoded([encoded[number] for number in some])
        unfinished = path.with_suffix(".part.npy")
        np.save(unfinished, found)
        unfinished.rename(path)
        print(f"{path.name}: {len(texts)} texts", flush=True)
        return found

    def _encoded(self, encodings: Sequence[Any]) -> np.ndarray:
        longest = max(len(each.ids) for each in encodings)
        ids = np.zeros((len(encodings), longest), np.int64)
        mask = np.zeros_like(ids)
        for row, each in enumerate(encodings):
            ids[row, : len(each.ids)] = each.ids
            mask[row, : len(each.ids)] = 1
        asked = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (hidden,) = self._session.run(None, asked)
        summed = (hidden * mask[:, :, None]).sum(axis=1)
        return summed / np.linalg.norm(summed, axis=1, keepdims=True)
