"""Finds the programs of the user that sharing starts: `git`, and credential helpers of Docker.

They come from absolute directories of PATH that lie in no project that was not approved, and to which no
other user can write. What these programs start themselves is found in the same directories alone, without
those in which a link leads to a place from which nothing may be started.
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
    """The PATH, after every link, without the directories from which nothing may be started."""
    found = ((each, os.path.realpath(each)) for each in _directories(environment))
    allowed = (real for each, real in found if why_not(each) is None and _leads_nowhere(real, why_not))
    return os.pathsep.join(dict.fromkeys(allowed))


def _leads_nowhere(directory: str, why_not: WhyNot) -> bool:
    """Whether no program of a directory is a link to a place from which nothing may be started."""
    try:
        with os.scandir(directory) as entries:
            links = [os.path.realpath(entry.path) for entry in entries if entry.is_symlink()]
    except OSError:
        return False
    places = {os.path.dirname(link) for link in links if _is_program(link)} - {directory}  # noqa: PTH120
    return all(why_not(place) is None for place in places)


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
