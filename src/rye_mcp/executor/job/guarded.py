"""Files of a project that other programs run or load: no confined tool may change them.

Some names are known (`planning.GUARDED`); here is what has to be looked for. Repositories and packages are
found in the directories at the top of the project, submodules wherever the index names them; they are
looked for again only where a directory has changed. What git's configuration names is found without git.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from lilux import _files
from lilux._dataclasses import dataclass
from lilux._file_systems import keeps_changes
from lilux._footprints import note_links
from lilux._stamps import Stamp, is_settled, stamp_of
from rye_mcp.executor.environment.git_index import MAX_INDEX_BYTES, UnreadableIndexError, submodules_of
from rye_mcp.permissions.planning import PACKAGED

__all__ = ["Around", "Found", "Repository", "Surroundings", "find", "tell_changes"]

_GIT: Final = ".git"
_HEAD: Final = "HEAD"
_VENV: Final = "pyvenv.cfg"
_USUAL_VENVS: Final = (".venv", "venv", "env")
_PACKAGES: Final = (".venv", "node_modules")
_MAX_CONFIG_BYTES: Final = 1 << 20
_MAX_INCLUDED: Final = 8
MAX_LOOKED_AT: Final = 20_000
"""How many directories are looked into where repositories may be anywhere."""

_PATHS: Final = frozenset({"core.hookspath", "include.path", "includeif.path"})
"""Keys of git whose value is a path, whether something is there or not."""

_NO_PROGRAMS: Final = frozenset(
    {"url", "pushurl", "fetch", "push", "merge", "worktree", "directory", "excludesfile"}
)
"""Last parts of keys whose value git never runs or takes orders from."""


@dataclass(frozen=True, slots=True)
class Repository:
    """Git's directories and configuration for a project."""

    project: str
    top: str
    directories: tuple[str, ...] = ()
    configuration: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Around:
    """Paths without a known place: packages, each `.git` below the top, those inside git's directories."""

    packages: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    crowded: tuple[str, ...] = ()
    """Directories with too much in them to be looked through: they stay as they are as a whole."""
    bare: tuple[str, ...] = ()
    """Directories that git takes for one of its own, though they are not called `.git`."""
    is_noted: bool = field(default=False, compare=False)
    """Whether each change would show in what was noted."""


@dataclass(frozen=True, slots=True)
class Found:
    """Paths that stay as they are: `packages` and `repositories` unless the tool uses them."""

    guarded: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
    """Directories of git with a configuration of their own, other than those of the project itself."""


def find(repository: Repository, around: Around) -> Found:
    """Find the guarded files of a project as they are now."""
    note_links(each for each in around.nested if os.path.islink(each))  # noqa: PTH114
    named = _named_by_git(repository.project, repository)
    guarded = dict.fromkeys([*named, *_files_among(around.nested), *around.crowded])
    bare = (each for each in around.bare if each != repository.project)  # which the tool is to write
    repositories = (*_directories_among(around.nested), *bare, *around.inner)
    return Found(tuple(guarded), around.packages, repositories)


class Surroundings:
    """A memory of what is around in a project, valid until a directory that was looked into changes.

    A change that is too young to show in a stamp is not relied on, nor is a file system on which a tool can
    set the times of changes: the next look goes everywhere again.
    """

    def __init__(self, *, clock: Callable[[], int] = time.time_ns, limit: int = MAX_LOOKED_AT) -> None:
        self._clock, self._limit = clock, limit
        self._last: tuple[Repository, tuple[tuple[str, Stamp | None], ...], Around] | None = None

    def look(self, repository: Repository) -> Around:
        """Return what there is now."""
        last = self._last
        if last and last[0] == repository and all(stamp_of(path) == then for path, then in last[1]):
            note_links(path for path, _ in last[1])
            return last[2]
        walk = _Walk(repository, self._limit)
        around = walk.around()
        stamps, now = tuple(walk.stamps.items()), self._clock()
        relied_on = walk.is_known and all(then is None or is_settled(then, now) for _, then in stamps)
        relied_on = relied_on and tell_changes(stamps)
        around = replace(around, is_noted=relied_on)
        self._last = (repository, stamps, around) if relied_on else None
        note_links(path for path, _ in stamps)
        return around


def tell_changes(stamps: Iterable[tuple[str, Stamp | None]]) -> bool:
    """Whether no tool can set the time of a change, on any of the file systems."""
    by_device = {stamp[0]: path for path, stamp in stamps if stamp is not None and len(stamp) > 1}
    return all(map(keeps_changes, by_device.values()))


class _Walk:
    """One look around a project, with the stamps of everything that decides about its result."""

    def __init__(self, repository: Repository, limit: int) -> None:
        self.stamps: dict[str, Stamp | None] = {}
        self.is_known = True
        self.crowded: list[str] = []
        self._project, self._repository, self._limit = repository.project, repository, limit

    def around(self) -> Around:
        """Look for packages and repositories."""
        packages: list[str] = []
        directories = self._directories()
        bare = [place for place in (self._project, *directories) if self._is_bare(place)]
        nested = [f"{place}/{_HEAD}" for place in bare]
        for place in directories:
            names = self._names_in(place, (_VENV, _GIT, *dict.fromkeys((*_PACKAGES, *_USUAL_VENVS))))
            packages += [place] if _VENV in names else []
            installed = (name for name in names if name in _PACKAGES or self._is_venv(place, name))
            packages += [f"{place}/{name}" for name in installed]
            nested += [f"{place}/{_GIT}"] if _GIT in names else []
        if self._names_in(self._project, (_VENV,)):  # the project is an environment itself
            inside = self._names_in(self._project, (_VENV, "bin", "lib", "lib64"))
            packages += [f"{self._project}/{name}" for name in inside]
        nested = list(dict.fromkeys([*nested, *self._submodules()]))
        inner = [each for directory in self._repository.directories for each in self._inner(directory)]
        return Around(
            tuple(dict.fromkeys(packages)), tuple(nested), tuple(inner), tuple(self.crowded), tuple(bare)
        )

    def _is_bare(self, place: str) -> bool:
        """Whether git takes a directory for one of its own, wherever it is started in it."""
        if not self._names_in(place, (_HEAD,)):
            return False
        names = self._names_in(place, ("objects", "refs", "commondir"))
        return "commondir" in names or names == ["objects", "refs"]

    def _is_venv(self, place: str, name: str) -> bool:
        return name in _USUAL_VENVS and bool(self._names_in(f"{place}/{name}", (_VENV,)))

    def _names_in(self, directory: str, names: Iterable[str]) -> list[str]:
        self._stamp(directory)
        return [name for name in names if _is_there(f"{directory}/{name}")]

    def _stamp(self, path: str) -> None:
        self.stamps.setdefault(path, stamp_of(path))

    def _directories(self) -> list[str]:
        """List the directories at the top of the project that are not guarded as a whole."""
        self._stamp(self._project)
        try:
            with os.scandir(self._project) as found:
                return [
                    each.path
                    for each in found
                    if each.name not in (_GIT, ".ai", *PACKAGED) and each.is_dir(follow_symlinks=False)
                ]
        except OSError:  # what cannot be listed is seen by its known names alone
            return []

    def _submodules(self) -> Iterator[str]:
        """Yield each `.git` of a submodule that the index names; if the index is unreadable, every `.git`."""
        index = next((f"{each}/index" for each in self._repository.directories), None)
        if index is None:
            return
        self._stamp(index)
        names = _submodules_in(index, self.stamps[index])
        if names is None:
            self.is_known = False
            yield from _every_git(self._project, self._limit)
            return
        for place in (f"{self._repository.top}/{name}" for name in names):
            if place.startswith(f"{self._project}/"):
                yield from (f"{place}/{name}" for name in self._names_in(place, (_GIT,)))

    def _inner(self, directory: str) -> Iterator[str]:
        """Yield the directories of submodules and worktrees in a `.git`."""
        for place in (f"{directory}/modules", f"{directory}/worktrees"):
            self._stamp(place)
            looked_at = 0
            for found, directories, names in _walked(place, self._limit):
                looked_at += 1
                self._stamp(found)
                if "HEAD" in names:
                    yield found
                    directories[:] = [name for name in directories if name == "modules"]
            if looked_at == self._limit:
                self.crowded.append(place)


def _directories_among(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if os.path.isdir(path) and not os.path.islink(path))  # noqa: PTH112, PTH114


def _files_among(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if os.path.isfile(path))  # noqa: PTH113


def _is_there(path: str) -> bool:
    return os.path.lexists(path)


# --- repositories ---


@lru_cache(maxsize=64)
def _submodules_in(index: str, stamp: Stamp | None) -> tuple[str, ...] | None:
    if stamp is None:
        return ()
    try:
        return tuple(map(os.fsdecode, submodules_of(_files.read_capped(Path(index), MAX_INDEX_BYTES))))
    except (OSError, ValueError, UnreadableIndexError):
        return None


def _every_git(project: str, limit: int) -> Iterator[str]:
    for directory, directories, names in _walked(project, limit):
        if directory != project and _GIT in names:
            yield f"{directory}/{_GIT}"
        directories[:] = [name for name in directories if name not in (_GIT, "node_modules")]


def _walked(top: str, limit: int) -> Iterator[tuple[str, list[str], set[str]]]:
    """Yield each directory, those in it, and all names in it; the caller removes the directories to skip.

    A tool may have made it deep and large, so nothing here is recursive, and it ends at the limit.
    """
    waiting, count = [top], 0
    while waiting and count < limit:
        directory = waiting.pop()
        try:
            with os.scandir(directory) as entries:
                found = [(each.name, each.is_dir(follow_symlinks=False)) for each in entries]
        except OSError:  # gone, closed, or deeper than a path can say
            continue
        count += 1
        directories = [name for name, is_directory in found if is_directory]
        yield directory, directories, {name for name, _ in found}
        waiting += [f"{directory}/{name}" for name in directories]


# --- what configuration names ---


def _named_by_git(project: str, repository: Repository) -> Iterator[str]:
    """Yield the files that git runs or reads orders from because its configuration names them."""
    own = [
        f"{directory}/{name}"
        for directory in repository.directories
        for name in ("config", "config.worktree")
    ]
    waiting, seen = [*repository.configuration, *own], set[str]()
    while waiting and len(seen) < _MAX_INCLUDED * 4:
        note_links(waiting[-1:])
        file = os.path.realpath(waiting.pop())
        if file in seen:
            continue
        seen.add(file)
        yield from _inside(project, file) if file not in own else ()
        for key, value in _settings(file, stamp_of(file)):
            for path in _paths_of(key, value, file, repository.top):
                if key in _PATHS and key != "core.hookspath":
                    waiting.append(path)
                yield from _inside(project, path)


def _inside(project: str, path: str) -> Iterator[str]:
    """A path as the project has it, and what it leads to, as far as that is in the project."""
    note_links((path,))
    for each in dict.fromkeys((os.path.normpath(path), os.path.realpath(path))):
        if each.startswith(f"{project}/") and not each.startswith(f"{project}/{_GIT}/"):
            yield each


def _paths_of(key: str, value: str, file: str, top: str) -> Iterator[str]:
    """The paths in a value: of a path the value itself, of a command the files among its words."""
    if key in _PATHS:
        base = os.path.dirname(file) if key != "core.hookspath" else top  # noqa: PTH120
        yield os.path.join(base, os.path.expanduser(value))  # noqa: PTH111, PTH118
        return
    if key.rpartition(".")[2] in _NO_PROGRAMS or "/" not in value:
        return
    try:
        words = shlex.split(value.removeprefix("!"))
    except ValueError:
        words = value.removeprefix("!").split()
    for word in words:
        path = os.path.join(top, os.path.expanduser(word.rstrip(";")))  # noqa: PTH111, PTH118
        note_links((path,))
        if "/" in word and os.path.isfile(path):  # noqa: PTH113
            yield path


@lru_cache(maxsize=64)
def _settings(file: str, stamp: Stamp | None) -> tuple[tuple[str, str], ...]:
    """The keys, without subsections, and values of a configuration of git."""
    if stamp is None:
        return ()
    try:
        text = _files.read_capped(Path(file), _MAX_CONFIG_BYTES).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return ()
    found, section = [], ""
    for line in text.replace("\\\n", "").splitlines():
        said = line.strip()
        if said.startswith("["):
            head, _, said = said.partition("]")
            section = head[1:].split('"')[0].split(".")[0].strip().lower()
            said = said.strip()
        name, equals, value = said.partition("=")
        if equals and not said.startswith(("#", ";")):
            found.append((f"{section}.{name.strip().lower()}", _plain(value)))
    return tuple(found)


def _plain(value: str) -> str:
    """A value without its comment, and without the quotes around all of it."""
    value = value.strip()
    if value.startswith('"') and value.endswith('"') and len(value) > 1:
        return value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    for mark in (" #", " ;"):
        value = value.partition(mark)[0].rstrip() if '"' not in value else value
    return value
