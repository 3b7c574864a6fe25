"""Finds the programs of the user that sharing starts: `git`, and credential helpers of Docker.

They come from absolute directories of PATH that lie in no project that was not approved, and to which no
other user can write. What these programs start themselves is found in the same directories alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping

from rye_mcp.errors import printable

__all__ = ["WhyNot", "allowed_path", "find_program"]

WhyNot = Callable[[str], str | None]
"""Why nothing may be started from a directory; None where it may."""


def allowed_path(environment: Mapping[str, str], why_not: WhyNot) -> str:
    """The PATH without the directories from which nothing may be started."""
    return os.pathsep.join(each for each in _directories(environment) if why_not(each) is None)


def find_program(name: str, environment: Mapping[str, str], why_not: WhyNot) -> tuple[str | None, str]:
    """The file of a program, after every link, or None; and the reason why there is none."""
    refused = "no such program on PATH"
    for directory in _directories(environment):
        path = os.path.realpath(os.path.join(directory, name))  # noqa: PTH118 - stays text
        if not _is_program(path):
            continue
        why = why_not(directory) or why_not(os.path.dirname(path))  # noqa: PTH120
        if why is None:
            return path, ""
        refused = f"{printable(path)}, but {why}"
    return None, refused


def _directories(environment: Mapping[str, str]) -> Iterator[str]:
    """The absolute directories of PATH."""
    return filter(os.path.isabs, environment.get("PATH", "").split(os.pathsep))


def _is_program(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)  # noqa: PTH116
    except OSError:
        return False
