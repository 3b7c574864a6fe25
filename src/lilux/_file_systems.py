"""Tells whether a file system keeps the time of each change itself.

Where programs can set it, as with sshfs or FAT, a program can hide what it changed: no stamp shows it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["keeps_changes"]

_KEEPERS: Final = frozenset(
    [
        "ext2",
        "ext3",
        "ext4",
        "xfs",
        "btrfs",
        "bcachefs",
        "f2fs",
        "zfs",
        "tmpfs",
        "ramfs",
        "overlay",
        "nfs",
        "nfs4",
        "ceph",
        "squashfs",
        "erofs",
    ]
)
"""Kinds of file systems that programs cannot tell when something changed."""


def keeps_changes(path: str) -> bool:
    """Whether the file system that a path is on does; False if that cannot be found out."""
    try:
        named = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _kind_of(named) in _KEEPERS
    finally:
        os.close(named)


def _kind_of(named: int) -> str | None:
    """Return the kind of the file system that an open file is on, by the mount that it was opened through."""
    try:
        facts = Path(f"/proc/self/fdinfo/{named}").read_text("ascii").split()
        mounts = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except (OSError, UnicodeError):
        return None
    mount = f"{facts[facts.index('mnt_id:') + 1]} ".encode("ascii")
    ends = (line.partition(b" - ")[2] for line in mounts if line.startswith(mount))
    return next((end.split(b" ")[0].decode("ascii", "replace") for end in ends), None)
