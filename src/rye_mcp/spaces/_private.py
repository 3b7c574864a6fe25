"""Directories that are no projects: those with what decides about trust, and all inside or above them.

Rules:

- Directories are compared by what they are (device and inode), whatever they are called: a link, a mount or
  another spelling leads to the same directory.
- What is not there yet counts by the directories above it.
- Every `.ai` decides about its project, so nothing inside one is a project.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rye_mcp.errors import RyeError
from rye_mcp.items import printable

__all__ = ["require_no_private"]

_SPACE: Final = ".ai"
_Identity = tuple[int, int]


def require_no_private(project: Path, private: Mapping[str, Path]) -> None:
    """RyeError `no_project` for a directory that is inside or above a private one; `private` by its name."""
    shown, above = printable(project), set(_lineage(project))
    own = _identity(project)
    for name, directory in private.items():
        if _identity(directory) in above:
            raise _refusal(f"a directory inside {name} ({printable(directory)})", shown)
        if own in set(_lineage(directory)):
            raise _refusal(f"a directory that contains {name} ({printable(directory)})", shown)
    for parent in Path(os.path.realpath(project)).parents:
        if _identity(parent / _SPACE) in above:
            raise _refusal(f"a directory inside the {_SPACE} of {printable(parent)}", shown)


def _lineage(path: Path) -> Iterator[_Identity]:
    """What a directory is, and all directories above it, as far as they are there."""
    real = Path(os.path.realpath(path))
    return filter(None, map(_identity, (real, *real.parents)))


def _identity(path: Path) -> _Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - both raise ValueError for an invalid name
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _refusal(found: str, shown: str) -> RyeError:
    what = f"expected a project, found {found}: {shown}"
    return RyeError("no_project", what, where=shown, hint="use a directory beside it, and there: rye init")
