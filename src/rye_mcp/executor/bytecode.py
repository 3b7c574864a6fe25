"""Bytecode of verified sources, made by this program and kept in its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Bytecode"]


@dataclass(frozen=True, slots=True)
class Bytecode:
    """Compiled modules, by the paths in a snapshot that an interpreter looks for them at."""

    files: Mapping[str, bytes]
