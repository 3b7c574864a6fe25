"""Where private copies are made, and a runtime directory in memory where nobody has logged in.

A login session has `/run/user/UID`, which is in memory. A container has none: its copies are on its disk.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rye_mcp.executor.job.snapshot import require_place

_ENTERED: Final = "RYE_BENCHMARK_SESSION"
_ENTER: Final = (
    "mount -t tmpfs -o mode=755,nosuid,nodev tmpfs /run"
    ' && mkdir /run/user && mkdir -m 700 "/run/user/$(id -u)" && exec "$@"'
)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--session`."""
    what = "have a runtime directory in memory, as in a login session; for root, in a mount namespace"
    parser.add_argument("--session", action="store_true", help=what)


def enter() -> None:
    """Start this program again where it has a runtime directory in memory."""
    if os.environ.get(_ENTERED) == "1":
        return
    if os.geteuid():
        raise SystemExit("--session: expected root, who may mount; a login session has the directory anyway")
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, "sh"]
    environment = {**os.environ, _ENTERED: "1"}
    os.execvpe(command[0], [*command, sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606


def copies_in(environment: Mapping[str, str]) -> str:
    """The file system that private copies are made in, in words."""
    place = Path(os.path.realpath(require_place(environment)))
    return f"private copies are made on {_file_system(place)}"


def _file_system(path: Path) -> str:
    """The type of the file system of a path, as the kernel says it."""
    kinds = dict[Path, str]()
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kinds[Path(before.split()[4])] = after.split()[0]
    return next(kinds[above] for above in (path, *path.parents) if above in kinds)
