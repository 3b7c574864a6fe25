"""A sentence model of the user's, which takes the place of the word table; needs the extra `rye-mcp[onnx]`.

`RYE_SENTENCE_MODEL` names a directory with `model.onnx` and `tokenizer.json`, as such models are published.
Its vectors are compared as those of the table are, and its scores are added in the same way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rye_mcp.language.meaning import TableError, of_length

__all__ = ["SentenceModel"]

MODEL: Final = "model.onnx"
TOKENIZER: Final = "tokenizer.json"

MAX_TOKENS: Final = 128
"""How much of a text counts."""

BATCH: Final = 32
"""How many texts the model reads at once."""

_FIELDS: Final = ("name", "title", "description", "tags", "parameters", "examples")
_PRECISION: Final = 1_000_000
_INPUTS: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})


class SentenceModel:
    """Gives the vector of a text that a model in an ONNX file gives it; one thread at a time."""

    def __init__(self, session: Any, tokenizer: Any, identity: str) -> None:
        self.identity = identity
        self._session = session
        self._tokenizer = tokenizer
        self._inputs = [each.name for each in session.get_inputs()]

    @classmethod
    def load(cls, directory: Path) -> SentenceModel:
        """The model in a directory; TableError if it is missing or unusable."""
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as exc:
            what = f"expected {exc.name} for the sentence model, found it not installed"
            raise TableError(f"{what} (pip install 'rye-mcp[onnx]')") from exc
        content = [_read(directory / name) for name in (MODEL, TOKENIZER)]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            session = onnxruntime.InferenceSession(content[0], options, providers=["CPUExecutionProvider"])
            tokenizer = Tokenizer.from_str(content[1].decode("utf-8"))
        except Exception as exc:  # what both raise is of no common kind
            raise TableError(f"expected a sentence model in {directory}, found none: {exc}") from exc
        tokenizer.enable_truncation(MAX_TOKENS)
        tokenizer.no_padding()
        model = cls(session, tokenizer, hashlib.sha256(b"".join(content)).hexdigest())
        model._require_usable(directory)
        return model

    def _require_usable(self, directory: Path) -> None:
        if unknown := set(self._inputs) - _INPUTS:
            expected, found = ", ".join(sorted(_INPUTS)), ", ".join(sorted(unknown))
            raise TableError(
                f"expected a sentence model that asks for {expected}, found {found}: {directory}"
            )
        self.of_text("a word", ["a", "word"])

    def of_items(self, items: Sequence[Mapping[str, str]]) -> list[bytes]:
        """The vector of each item, by what its fields say but its body."""
        texts = [". ".join(item[name] for name in _FIELDS if item[name]) for item in items]
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))  # those of a batch are equally long
        found: dict[int, bytes] = {}
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            found |= zip(some, self._vectors([texts[at] for at in some]), strict=True)
        return [found[at] for at in range(len(texts))]

    def of_text(self, text: str, words: Sequence[str]) -> bytes:
        """The vector of what somebody looks for, as it is written."""
        [vector] = self._vectors([text])
        return vector

    def _vectors(self, texts: Sequence[str]) -> Iterable[bytes]:
        import numpy as np

        encodings = self._tokenizer.encode_batch(list(texts))
        longest = max(1, *(len(each.ids) for each in encodings))
        ids = np.zeros((len(encodings), longest), np.int64)
        mask = np.zeros_like(ids)
        for row, each in enumerate(encodings):
            ids[row, : len(each.ids)] = each.ids
            mask[row, : len(each.ids)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            found = self._session.run(None, {name: given[name] for name in self._inputs})[0]
        except Exception as exc:  # see `load`
            raise TableError(f"expected vectors of the sentence model, found an error: {exc}") from exc
        if found.ndim == 3:  # one for each token: their mean is that of the text
            found = (found * mask[:, :, None]).sum(axis=1)
        if found.ndim != 2:
            raise TableError(f"expected a vector for each text, found {found.ndim} dimensions")
        return [of_length([int(each) for each in row]) for row in _scaled(np, found)]


def _scaled(np: Any, found: Any) -> Any:
    """The vectors as whole numbers; a longest component of one million each."""
    most = np.abs(found).max(axis=1, keepdims=True)
    return np.rint(_PRECISION * found / np.where(most > 0, most, 1))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise TableError(f"expected {path.name} of the sentence model, found none: {exc.strerror}") from exc
