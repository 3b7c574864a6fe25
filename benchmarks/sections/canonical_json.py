"""Canonical JSON, beside the `json.dumps` of the specification, which checks nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lilux.primitives.integrity import canonical_json, compute_integrity
from sections.case import Case

SIZES = {"1 KB": 1_000, "1 MB": 1_000_000}


@contextmanager
def cases(directory: Path) -> Iterator[Sequence[Case]]:
    """The cases; nothing is written."""
    yield [case for name, size in SIZES.items() for case in _cases_of(name, _document(size))]


def _cases_of(size: str, document: Any) -> list[Case]:
    text = _specified(document)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return [
        Case(
            f"canonical_json, {size}",
            lambda: canonical_json(document),
            lambda: _specified(document),
            is_right=lambda found: found == text,
        ),
        Case(
            f"compute_integrity, {size}",
            lambda: compute_integrity(document),
            lambda: hashlib.sha256(_specified(document).encode()).hexdigest(),
            is_right=lambda found: found == digest,
        ),
    ]


def _specified(document: Any) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _document(size: int) -> Any:
    """What metadata looks like, in about so many bytes."""
    element = {
        "item_id": "rye/bash/bash",
        "version": "1.0.0",
        "integrity": hashlib.sha256(b"").hexdigest(),
        "timeout": 0.5,
        "tags": ["a", "é", None, True],
        "depends": {"one": 1, "two": 2},
    }
    return {"chain": [element] * max(1, round(size / len(_specified(element))))}
