"""Hashes of structured data: the same content has the same hash, however it was put together.

Rules:

- The text is `json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)`, to the byte. The
  order of keys does not count, the order of lists does; a tuple is a list.
- Refused is what that call would write although others read it differently, or not at all: NaN and
  infinities, keys that are not strings, more than 200 containers inside each other. So is what it refuses
  itself: other types, and a value that contains itself.
- A refusal is an IntegrityError. Its message lists every place, and so does `issues` in its attributes, as
  pairs of path and problem.
- What is hashed is the caller's affair: Lilux knows no kinds of items.

    >>> canonical_json({"b": [1, None], "a": "é"})
    '{"a":"\\\\u00e9","b":[1,null]}'
    >>> compute_integrity({"b": 1, "a": 2}) == compute_integrity({"a": 2, "b": 1})
    True
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from lilux import _json
from lilux.primitives.errors import IntegrityError

__all__ = ["canonical_json", "compute_integrity"]

# A value that contains itself ends in a RecursionError, which `_json` translates: no need to look for it.
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False, check_circular=False
)


def canonical_json(data: Any) -> str:
    """The one text of `data`: sorted keys, no whitespace, ASCII only."""
    try:
        return _json.encode(data, _ENCODER)
    except _json.NotJsonError as exc:
        found = [(issue.path, issue.problem) for issue in exc.issues]
        raise IntegrityError(f"expected data that has a canonical form, found {exc}", issues=found) from exc


def compute_integrity(data: Any) -> str:
    """The SHA256 of the canonical JSON of `data`, as 64 lowercase hexadecimal digits."""
    return hashlib.sha256(canonical_json(data).encode("ascii")).hexdigest()
