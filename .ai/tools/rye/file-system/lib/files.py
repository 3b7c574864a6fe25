"""The files below an open directory, read one after the other.

A file is opened by its directories, each by its name in the one above it, through no link. Nothing but regular
files is read, and none above 64 MiB.
"""

import os
import stat

from places import DIRECTORY_FLAGS, FILE_FLAGS, MAX_BYTES

__all__ = ["Files"]

FIRST_READ_BYTES = 64 * 1024


class Files:
    """Files below an open directory, each opened through no link; those in a row share their directories."""

    def __init__(self, root):
        self._root, self._way = root, []

    def read(self, path):
        """The content of a regular file; None for what cannot be read."""
        *directories, name = path.split("/")
        try:
            self._go(directories)
            here = self._way[-1][1] if self._way else self._root
            descriptor = os.open(name, os.O_RDONLY | FILE_FLAGS, dir_fd=here)
        except OSError:
            return None
        try:
            return _content(descriptor)
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def _go(self, directories):
        way = self._way
        common = 0
        while common < min(len(way), len(directories)) and way[common][0] == directories[common]:
            common += 1
        while len(way) > common:
            os.close(way.pop()[1])
        for name in directories[common:]:
            here = way[-1][1] if way else self._root
            way.append((name, os.open(name, DIRECTORY_FLAGS, dir_fd=here)))


def _content(descriptor):
    content = os.read(descriptor, FIRST_READ_BYTES + 1)
    if len(content) <= FIRST_READ_BYTES:
        return content
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
        return None
    pieces, total = [content], len(content)
    while total <= MAX_BYTES and (piece := os.read(descriptor, 1 << 20)):
        pieces.append(piece)
        total += len(piece)
    return b"".join(pieces) if total <= MAX_BYTES else None
