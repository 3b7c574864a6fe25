"""The PATH of what is started for a project that nobody approved: no name on it leads to a shim.

Rules:

- A directory that has nothing but shims is left out. One that has a shim among other programs is exchanged
  for a directory of links to those others, in the state of the user.
- Such a directory is named by what is in it, appears whole, and is never changed. It is removed when it was
  not used for `KEPT_S`.
- In directories of the operating system only links are looked at: its packages bring no scripts of a version
  manager, and there are thousands of programs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from lilux._files import make_directory
from rye_mcp.executor.shims import is_place_of_shims, is_shim
from rye_mcp.executor.stamps import Stamp, settled, stamp_of
from rye_mcp.other_users import why_others_write

__all__ = ["KEPT_S", "PathWithoutShims"]

KEPT_S: Final = 30 * 24 * 3600.0
"""How long a directory of links is kept after it was used last."""

_USED_AGAIN_S: Final = 24 * 3600.0
_NOWHERE: Final = "/dev/null"
_NAME: Final = "programs"
_OF_THE_SYSTEM: Final = ("/bin", "/sbin", "/usr/bin", "/usr/sbin")


class PathWithoutShims:
    """Exchanges entries of PATH, for one user; `place` says where directories of links may be."""

    def __init__(self, place: Callable[[], Path]) -> None:
        self._place = place
        self._known: dict[str, tuple[Stamp, str | None]] = {}

    def of(self, variables: Mapping[str, str]) -> Mapping[str, str]:
        """These variables, with another PATH where a shim would be found on it."""
        if not variables.get("PATH"):
            return variables
        entries = variables["PATH"].split(os.pathsep)
        kept = [used for entry in entries if (used := self._used_for(entry)) is not None]
        return variables if kept == entries else {**variables, "PATH": os.pathsep.join(kept) or _NOWHERE}

    def _used_for(self, entry: str) -> str | None:
        """What stands for an entry; None when nothing does."""
        if is_place_of_shims(entry):
            return None
        stamp = stamp_of(entry)
        known = self._known.get(entry)
        if known is None or known[0] is None or known[0] != stamp:
            known = self._known[entry] = (settled(stamp), self._looked_up(entry))
        return known[1]

    def _looked_up(self, entry: str) -> str | None:
        programs = list(_programs_in(entry))
        shims = {path for path in programs if is_shim(path)}
        if not shims:
            return entry
        try:
            return self._directory_of(_every_name(entry) - shims)
        except OSError:
            return None

    def _directory_of(self, programs: set[str]) -> str | None:
        """A directory with a link to each of these; None where another user could change it."""
        every = sorted(programs)
        digest = hashlib.sha256("\0".join(every).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        place = self._place() / _NAME
        for directory in (place.parent, place):
            make_directory(directory, mode=0o700)
        if why_others_write(str(place)) is not None:
            return None
        found = place / digest
        if not found.is_dir():
            _remove_old(place)
            _make(found, every)
        elif time.time() - found.stat().st_mtime > _USED_AGAIN_S:
            os.utime(found)
        return str(found)


def _programs_in(entry: str) -> Iterator[str]:
    """What in a directory may be a shim."""
    links_alone = os.path.realpath(entry) in _OF_THE_SYSTEM
    with suppress(OSError), os.scandir(entry) as found:
        yield from (each.path for each in found if not links_alone or each.is_symlink())


def _every_name(entry: str) -> set[str]:
    with os.scandir(entry) as found:
        return {each.path for each in found if not each.is_dir()}


def _make(directory: Path, programs: list[str]) -> None:
    made = Path(tempfile.mkdtemp(prefix=".", dir=directory.parent))
    try:
        for program in programs:
            (made / os.path.basename(program)).symlink_to(program)  # noqa: PTH119
        made.rename(directory)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if not directory.is_dir():  # else another process has been quicker
            raise


def _remove_old(place: Path) -> None:
    latest = time.time() - KEPT_S
    for directory in place.iterdir():
        with suppress(OSError):
            if directory.stat().st_mtime < latest:
                shutil.rmtree(directory, ignore_errors=True)
