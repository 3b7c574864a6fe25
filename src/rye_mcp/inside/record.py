"""The answers to a program's calls, kept while a person is asked, so that no call is made twice.

A client of 2026 answers a question by calling again, which starts the program from its beginning. What it
called before is answered from the record then. Rules:

- A call is known by its program (its bytes, permissions and parameters), its tool, its parameters, and by how
  often the same program has made the same call before.
- Until everything in the record was asked for, no other call is made: `replay_differs`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Self

from rye_mcp.errors import RyeError

__all__ = ["MAX_RECORD_BYTES", "Answer", "CallRecord"]

Answer = Mapping[str, Any] | RyeError
"""The facts of a result, or a refusal."""

MAX_RECORD_BYTES: Final = 16 << 20
"""How long all answers of a record may be together."""


class CallRecord:
    """The calls of one tree: those that ended, with their answers, and those that have begun."""

    def __init__(self) -> None:
        self._answers: dict[str, bytes] = {}
        self._begun: set[str] = set()
        self._waiting: dict[str, bytes] = {}
        self._known: frozenset[str] = frozenset()
        self._size = 0

    @classmethod
    def read(cls, data: bytes) -> Self:
        """The record of a call before; everything in it waits to be asked for again."""
        found, record = json.loads(data), cls()
        record._waiting = {key: answer.encode() for key, answer in found["answers"].items()}
        record._known = frozenset(found["begun"])
        record._answers, record._begun = dict(record._waiting), set(record._known)
        record._size = sum(map(len, record._answers.values()))
        return record

    def data(self) -> bytes:
        """The record as it is kept; RyeError `answers_too_long` for one that is too long."""
        if self._size > MAX_RECORD_BYTES:
            what = (
                f"expected at most {MAX_RECORD_BYTES} bytes of answers before a question, found {self._size}"
            )
            hint = "ask for less in each call, or keep what is long, and pass its handle on"
            raise RyeError("answers_too_long", what, hint=hint)
        answers = {key: answer.decode() for key, answer in self._answers.items()}
        return json.dumps({"answers": answers, "begun": sorted(self._begun)}).encode()

    def begin(self, key: str, item_id: str) -> Answer | None:
        """The answer that this call got before; None for one that has to be made.

        RyeError `replay_differs` for another call than those that were made before.
        """
        kept = self._waiting.pop(key, None)
        if kept is not None:
            return _read(kept)
        self._require_known(key, item_id)
        self._begun.add(key)
        return None

    def keep(self, key: str, answer: Answer) -> None:
        """Remember how a call ended."""
        whole = {"error": answer.as_dict()} if isinstance(answer, RyeError) else {"result": answer}
        text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"), default=str)
        data = text.encode("utf-8", "backslashreplace")
        self._size += len(data)
        # What is too long for a record is not held either: a question is an error then.
        self._answers[key] = data if self._size <= MAX_RECORD_BYTES else b""

    def _require_known(self, key: str, item_id: str) -> None:
        if not self._waiting or key in self._known:
            return
        what = (
            f"expected the calls that were made before a person was asked, found another one of {item_id} "
            f"while {len(self._waiting)} of them were not made again"
        )
        raise RyeError("replay_differs", what, item_id=item_id)


def _read(kept: bytes) -> Answer:
    answer: Mapping[str, Any] = json.loads(kept)
    if "error" in answer:
        return _error(answer["error"])
    result: Mapping[str, Any] = answer["result"]
    return result


def _error(facts: Mapping[str, Any]) -> RyeError:
    """A refusal as it was kept."""
    told = {"status", "code", "error", "hint", "where"}
    details = {name: value for name, value in facts.items() if name not in told}
    return RyeError(facts["code"], facts["error"], where=facts.get("where"), hint=facts["hint"], **details)
