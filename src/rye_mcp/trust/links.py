"""The symbolic links that a path leads over.

Rule: a path is followed one component at a time, so that each link is known by where it really lies. What is
missing, or cannot be read, is taken as it is spelled.

    followed("/bin/sh")  # ("/usr/bin/dash", ("/bin", "/usr/bin/sh"))
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["MAX_LINKS", "TooManyLinks", "followed"]

MAX_LINKS: Final = 40
"""How many links a path may lead over: as many as Linux follows."""


class TooManyLinks(Exception):  # noqa: N818 - it says what was found
    """A path leads over more links than `MAX_LINKS`, or in a circle."""


def followed(path: str) -> tuple[str, tuple[str, ...]]:
    """The real path of an absolute path, and each link on the way to it, in a directory without links."""
    real, links, ahead = os.sep, list[str](), _components(path)
    while ahead:
        real, target = _step(real, ahead.pop())
        if target is None:
            continue
        links.append(real)
        if len(links) > MAX_LINKS:
            raise TooManyLinks(path)
        ahead += _components(target)
        real = os.sep if target.startswith(os.sep) else os.path.dirname(real)  # noqa: PTH120
    return real, tuple(links)


def _components(path: str) -> list[str]:
    """The components of a path, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _step(directory: str, name: str) -> tuple[str, str | None]:
    """Where a component leads from a real directory, and what that says when it is a link."""
    if name == "..":
        return os.path.dirname(directory), None  # noqa: PTH120
    place = f"{directory.rstrip(os.sep)}/{name}"
    try:
        return place, os.readlink(place)  # noqa: PTH115 - as text
    except (OSError, ValueError):
        return place, None
