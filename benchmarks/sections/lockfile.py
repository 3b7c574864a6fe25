"""Lockfiles, beside the same bytes read, parsed and written without any check."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lilux.primitives.lockfile import Lockfile, LockfileManager, LockfileRoot
from sections.case import Case

CHAIN_LENGTH = 5
DEPENDENCIES = 20
HASH = "0123456789abcdef" * 4


@contextmanager
def cases(directory: Path) -> Iterator[Sequence[Case]]:
    """The cases, on a lockfile in `directory`."""
    manager, lockfile, path, bare = (
        LockfileManager(),
        _lockfile(),
        directory / "lock.json",
        directory / "bare.json",
    )
    manager.save(lockfile, path)
    data = path.read_bytes()
    yield [
        Case("load", lambda: manager.load(path) == lockfile, lambda: bool(json.loads(path.read_bytes()))),
        Case(
            "save",
            lambda: manager.save(lockfile, path).read_bytes() == data,
            lambda: _write(bare, json.dumps(json.loads(data), indent=2).encode()).read_bytes() != b"",
            is_right=lambda answer: answer is True,
        ),
    ]


def _lockfile() -> Lockfile:
    entries = [
        {
            "item_id": f"rye/core/element_{number}",
            "space": "system",
            "version": "1.0.0",
            "tool_type": "runtime",
            "executor_id": "rye/core/primitives/subprocess",
            "integrity": HASH,
            "signer": {"kind": "system", "owner": "rye-mcp", "fingerprint": None},
        }
        for number in range(CHAIN_LENGTH)
    ]
    return Lockfile(
        1,
        "2026-01-30T12:00:00Z",
        LockfileRoot("rye/bash/bash", "1.0.0", HASH),
        entries,
        {"package": "rye-mcp", "version": "0.1.0"},
        {f"lib/module_{number}.py": HASH for number in range(DEPENDENCIES)},
    )


def _write(path: Path, data: bytes) -> Path:
    """Whole and durable, with as little as that takes."""
    twin = path.with_suffix(".tmp")
    with twin.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    twin.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return path
