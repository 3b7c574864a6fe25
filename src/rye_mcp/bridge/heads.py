"""Which call a line answers that nobody can read: its id, and that it is an answer.

Only the outermost object counts, token by token, up to `MAX_TOKENS`: what stands deeper may be anything, or
end nowhere. A request has a `method` and is no answer.

    >>> answered_request(b'{"jsonrpc": "2.0", "id": 7, "result": {"id": 8, "text": "half')
    7
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

__all__ = ["answered_request"]

MAX_TOKENS: Final = 100_000
"""How many tokens of a line are looked at: for 0.3 s at most, and mostly a dozen, as the id comes first."""

_TOKEN: Final = re.compile(rb"[\[{]++|[\]}]++|[:,]|[^\[\]{}:,\s]++")
_RESULTS: Final = frozenset({b'"result', b'"error'})
_BRACKETS: Final = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}
_NUMBER: Final = re.compile(rb"-?[0-9]{1,18}")
_TEXT: Final = re.compile(rb'"[ -!#-\[\]-~]{1,64}')


def answered_request(line: bytes) -> int | str | None:
    """The id of the call that a line answers, or None."""
    found = _outermost(line) if line.lstrip().startswith(b"{") else {}
    is_answer = b'"method' not in found and not _RESULTS.isdisjoint(found)
    return _id_of(found.get(b'"id', b"")) if is_answer else None


def _id_of(value: bytes) -> int | str | None:
    if _TEXT.fullmatch(value):
        return value[1:].decode("ascii")
    return int(value) if _NUMBER.fullmatch(value) else None


def _outermost(line: bytes) -> dict[bytes, bytes]:
    """The keys of the outermost object with their values; a text begins with its quote, and has no other."""
    found: dict[bytes, bytes] = {}
    depth, last, key = 0, b"", b""
    for token in islice(_tokens(line), MAX_TOKENS):
        brackets = token[:1] in _BRACKETS
        depth += len(token) * _BRACKETS[token[:1]] if brackets else 0
        if depth <= 0 or (found.get(b'"id') and not _RESULTS.isdisjoint(found)):
            break
        if depth == 1 and token == b":":
            key, found[last] = last, b""
        elif depth == 1 and not brackets and token != b",":
            found |= {key: token} if key else {}
            last = token
        else:
            key = b""
    return found


def _tokens(line: bytes) -> Iterator[bytes]:
    """Texts with their opening quote, and what stands between them; escaped quotes are gone."""
    parts = line.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"', MAX_TOKENS)
    for number, part in enumerate(parts[:MAX_TOKENS]):
        if number % 2:
            yield b'"' + part
        else:
            yield from (each[0] for each in _TOKEN.finditer(part))
