"""Names that programs trust, were missing before a run, and were made by it: they go to the trash.

What is not there cannot be made read-only, so it is looked for again when nothing of the run is left. Whoever
else makes such a name at the same time finds it in the trash as well: nothing is deleted.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

from lilux import _files as whole_files
from lilux._dataclasses import dataclass
from rye_mcp.errors import printable
from rye_mcp.notices import Notice

__all__ = ["Missing", "present"]

_NAMED: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_USABLE: Final = stat.S_IWUSR | stat.S_IXUSR
_PRIVATE: Final = 0o700
_MAX_NOTICES: Final = 32
"""How many names are told one by one; a run can make any number of them."""

_MANY: Final = 8
"""So many names in one directory are looked for in its list: most are missing, and each miss is an error."""

_MAX_LISTED: Final = 256
"""In a directory with more than that, each name is looked for by itself."""


_OF_GIT: Final = ("/.git", "/HEAD")

_Numbered = tuple[tuple[int, str], ...]
"""Names, each with a number of its own."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Protected paths that were missing before a run, or were links, and where they go if it makes them."""

    paths: tuple[str, ...]
    trash: str
    links: tuple[tuple[str, str], ...] = ()
    """Links, which no mount keeps as they are, and where they led: one that leads elsewhere is the run's."""
    look: Callable[[], Iterable[str]] = field(default=tuple, compare=False, repr=False)
    """Finds what is trusted wherever it is; what was there before is in `known`."""
    known: frozenset[str] = frozenset()
    there: frozenset[str] = frozenset()
    """Protected paths that were there, and no links."""
    watched: tuple[str, bool] | None = None
    """The project that `look` looks around in, and whether it finds packages, too."""

    @classmethod
    def among(
        cls,
        protected: Mapping[str, bool | None],
        trash: str,
        *,
        look: Callable[[], Iterable[str]] = tuple,
        known: Iterable[str] = (),
        watched: tuple[str, bool] | None = None,
    ) -> Self:
        """Those of the protected paths that are missing; `look` finds those that have no known place.

        With each path is said whether it is a link, and None if it is missing.
        """
        links = tuple((path, os.path.realpath(path)) for path, is_link in protected.items() if is_link)
        missing = tuple(path for path, is_link in protected.items() if is_link is None)
        there = frozenset(path for path, is_link in protected.items() if is_link is False)
        return cls(missing, trash, links, look, frozenset(known), there, watched)

    def beside(self, others: Iterable[Self]) -> Self:
        """The same for a run that begins while others are under way: what these have made was missing."""
        others = [each for each in others if each != self]
        if not others:
            return self
        made = {path for each in others for path in each.paths}
        links = {path: real for each in (self, *others) for path, real in each.links if path not in made}
        protected = {*self.there, *self.paths, *dict(self.links)}
        paths = protected & {*self.paths, *made} - links.keys()
        led = sorted((path, real) for path, real in links.items() if path in protected)
        return replace(self, paths=tuple(sorted(paths)), links=tuple(led), known=self._known_beside(others))

    def _known_beside(self, others: Iterable[Self]) -> frozenset[str]:
        """What was there before this run, and before each of the others."""
        return frozenset(path for path in self.known if all(each._knew(path, self) for each in others))

    def _knew(self, path: str, other: Missing) -> bool:
        """Whether this run would have left a path where it is, which another one knows."""
        if self.watched is None or other.watched is None or self.watched[0] != other.watched[0]:
            return True
        is_of_git = path.endswith(_OF_GIT)
        return path in self.known or not (is_of_git or self.watched[1])

    def take_away(self, run_id: str) -> tuple[Notice, ...]:
        """Move what is there by now to the trash, and say where it is."""
        turned = (path for path, real in self.links if not _is_link_to(real, path))
        more = (*turned, *(each for each in self.look() if each not in self.known))
        notices = tuple(
            notice
            for above, names in _by_directory((*self.paths, *more) if more else self.paths)
            for notice in self._taken(above, names, run_id)
        )
        if len(notices) <= _MAX_NOTICES:
            return notices
        rest = f"the run made {len(notices) - _MAX_NOTICES} more names which other programs trust"
        place = printable(self._place_of(run_id))
        where = f"they are below {place}, or beside their places as planted-{run_id}-NAME"
        return (*notices[:_MAX_NOTICES], Notice("planted", f"{rest}: {where}"))

    def _taken(self, above: str, names: _Numbered, run_id: str) -> list[Notice]:
        """Take names out of one directory, which is opened once for all of them."""
        try:
            with _opened(above) as directory, _usable(directory):
                there = None if len(names) < _MANY else _listed_in(directory, [each[1] for each in names])
                named = names if there is None else tuple(each for each in names if each[1] in there)
                taken = [self._taken_from(directory, above, *each, run_id) for each in named]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as exc:
            return [_left(f"{above}/{name}", exc) for _, name in names]
        return [notice for notice in taken if notice is not None]

    def _taken_from(self, directory: int, above: str, number: int, name: str, run_id: str) -> Notice | None:
        path = f"{above}/{name}"
        try:
            if not _is_there(name, directory):
                return None
            now_at = self._moved(directory, above, name, run_id, number)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            return _left(path, exc)
        back = shlex.join(["mv", "-nT", now_at, path])
        what = f"the run made {printable(path)}, which other programs trust: it is at {printable(now_at)} now"
        return Notice("planted", f"{what}. If you want it there: {printable(back)}")

    def _moved(self, directory: int, above: str, name: str, run_id: str, number: int) -> str:
        """Where it is now: in the trash, or beside its place where the trash cannot have it.

        Another file system cannot, nor can any that a directory without the right to write in it would be
        moved to: moving that one changes what is in it.
        """
        try:
            with ExitStack() as opened:
                place = self._made_place(run_id, number)
                trash = opened.enter_context(_opened(place))
                os.rename(name, name, src_dir_fd=directory, dst_dir_fd=trash)
                return f"{place}/{name}"
        except OSError:
            beside = f"planted-{run_id}-{name.removeprefix('.')}"
            os.rename(name, beside, src_dir_fd=directory, dst_dir_fd=directory)
            return f"{above}/{beside}"

    def _place_of(self, run_id: str) -> str:
        return f"{self.trash}/planted-{run_id}"

    def _made_place(self, run_id: str, number: int) -> str:
        """Make a new directory for one thing."""
        above = Path(self._place_of(run_id))
        for directory in (above.parent.parent, above.parent, above):
            whole_files.make_directory(directory, mode=_PRIVATE)
        place = above / str(number)
        place.mkdir(_PRIVATE)
        return str(place)


@lru_cache(maxsize=16)
def _by_directory(paths: tuple[str, ...]) -> tuple[tuple[str, _Numbered], ...]:
    """Names by the directory that they are in, each with the number of its path."""
    directories: dict[str, list[tuple[int, str]]] = {}
    for number, path in enumerate(dict.fromkeys(paths)):
        above, _, name = path.rpartition("/")
        directories.setdefault(above, []).append((number, name))
    return tuple((above, tuple(names)) for above, names in directories.items())


def present(paths: Iterable[str]) -> dict[str, bool]:
    """Those of the paths that are there, and whether each of them is a link."""
    by_directory: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths):
        above, slash, name = path.rpartition("/")
        by_directory.setdefault(above + slash, []).append(name)
    found: dict[str, bool] = {}
    for directory, names in by_directory.items():
        listed = None if len(names) < _MANY else _listed(directory, names)
        for name in names:
            is_link = _kind_of(directory + name) if listed is None else listed.get(name)
            if is_link is not None:
                found[directory + name] = is_link
    return found


def _kind_of(path: str) -> bool | None:
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return None


def _listed_in(directory: int, wanted: Iterable[str]) -> dict[str, bool] | None:
    """As `_listed`, of a directory that is open as a name only."""
    try:
        opened = os.open(os.curdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return None
    try:
        return _listed(opened, wanted)
    finally:
        os.close(opened)


def _listed(directory: str | int, wanted: Iterable[str]) -> dict[str, bool] | None:
    """All names in a directory, and which are links; None if there are many, or it cannot be listed.

    None, too, if a name may be another spelling of one that is wanted: some file systems take it for that.
    """
    names: dict[str, bool] = {}
    exact = frozenset(wanted)
    folded = {name.lower() for name in exact}
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                name = entry.name
                is_other = not name.isascii() or (name not in exact and name.lower() in folded)
                if is_other or len(names) == _MAX_LISTED:
                    return None
                names[name] = entry.is_symlink()
    except (OSError, ValueError):
        return None
    return names


def _left(path: str, exc: OSError) -> Notice:
    what = f"the run made {printable(path)}, or hid whether it did, and it could not be moved"
    return Notice("planted", f"{what}: {exc.strerror}. Look at it before anything else does")


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """A directory, without following a link anywhere on the way."""
    directory = os.open(os.sep, _NAMED)
    try:
        for part in path.split("/"):
            if part:
                above, directory = directory, os.open(part, _NAMED, dir_fd=directory)
                os.close(above)
        yield directory
    finally:
        os.close(directory)


@contextmanager
def _usable(directory: int) -> Iterator[None]:
    """A directory in which its owner may look and rename for a moment, whatever mode the run gave it."""
    found = os.fstat(directory)
    mode, named = stat.S_IMODE(found.st_mode), f"/proc/self/fd/{directory}"
    if found.st_uid != os.geteuid() or mode & _USABLE == _USABLE:
        yield
        return
    Path(named).chmod(mode | _USABLE)
    try:
        yield
    finally:
        Path(named).chmod(mode)


def _is_there(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_link_to(real: str, path: str) -> bool:
    return os.path.islink(path) and os.path.realpath(path) == real  # noqa: PTH114
