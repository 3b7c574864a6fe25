"""Whether a file or a directory may have changed, told by its stamp.

A stamp is taken before what it stands for is read. One that is younger than what clocks of file systems can
tell apart is not kept (`settled`): the next look reads again.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from lilux._stamps import SETTLED_NS

__all__ = ["Stamp", "settled", "stamp_of"]

Stamp = tuple[int, int, int, int, int] | None
"""Device, number, size, and the times of the last changes; None for what is not there."""


def stamp_of(path: str | Path, *, follow: bool = True) -> Stamp:
    """The stamp of a file, behind every link unless told otherwise."""
    try:
        found = os.stat(path, follow_symlinks=follow)  # noqa: PTH116 - in every run, and several times
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def settled(stamp: Stamp) -> Stamp:
    """The same stamp, or None when a later change could have the same one."""
    return stamp if stamp is not None and max(stamp[3:]) < time.time_ns() - SETTLED_NS else None
