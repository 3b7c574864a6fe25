"""Files of a project that other programs run or load: no confined tool may change them.

Some names are known (`planning.GUARDED`); here is what has to be looked for. Repositories and packages are
found in the directories at the top of the project, submodules wherever the index names them. What git's
configuration names is found without running git.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from lilux import _files
from lilux._dataclasses import dataclass
from lilux._stamps import Stamp, stamp_of
from rye_mcp.executor.environment.git_index import MAX_INDEX_BYTES, UnreadableIndexError, submodules_of
from rye_mcp.permissions.planning import PACKAGED

__all__ = ["Found", "Repository", "find"]

_GIT: Final = ".git"
_VENV: Final = "pyvenv.cfg"
_USUAL_VENVS: Final = (".venv", "venv", "env")
_PACKAGES: Final = (".venv", "node_modules")
_MAX_CONFIG_BYTES: Final = 1 << 20
_MAX_INCLUDED: Final = 8
_MAX_LOOKED_AT: Final = 20_000
"""How many directories are looked into where an index doesn't say which repositories are in it."""

_PATHS: Final = frozenset({"core.hookspath", "include.path", "includeif.path"})
"""Keys of git whose value is a path, whether something is there or not."""

_NO_PROGRAMS: Final = frozenset(
    {"url", "pushurl", "fetch", "push", "merge", "worktree", "directory", "excludesfile"}
)
"""Last parts of keys whose value git never runs or takes orders from."""


@dataclass(frozen=True, slots=True)
class Repository:
    """Git's directories and configuration for a project."""

    top: str
    directories: tuple[str, ...] = ()
    configuration: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """Paths that stay as they are: `packages` and `repositories` unless the tool uses them."""

    guarded: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
    """Directories of git with a configuration of their own, other than those of the project itself."""
    nested: tuple[str, ...] = ()
    """Each `.git` below the top of the project."""


def find(project: str, repository: Repository) -> Found:
    """Find the guarded files of a project as they are now."""
    packages, nested = [], []
    for place in _directories_in(project):
        if _is_there(f"{place}/{_VENV}"):
            packages.append(place)
        packages += (path for name in _PACKAGES if _is_there(path := f"{place}/{name}"))
        packages += (path for name in _USUAL_VENVS if _is_there(f"{(path := f'{place}/{name}')}/{_VENV}"))
        nested += [path] if _is_there(path := f"{place}/{_GIT}") else []
    if _is_there(f"{project}/{_VENV}"):  # the project is an environment itself
        packages += [
            f"{project}/{name}" for name in (_VENV, "bin", "lib", "lib64") if _is_there(f"{project}/{name}")
        ]
    nested = list(dict.fromkeys([*nested, *_submodules(project, repository)]))
    inner = [each for directory in repository.directories for each in _inner(directory)]
    guarded = dict.fromkeys([*_named_by_git(project, repository), *_files_among(nested)])
    return Found(
        tuple(guarded),
        tuple(dict.fromkeys(packages)),
        (*_directories_among(nested), *inner),
        tuple(nested),
    )


def _directories_in(project: str) -> Iterator[str]:
    """The directories at the top of a project that are not guarded as a whole."""
    try:
        with os.scandir(project) as found:
            yield from (
                each.path
                for each in found
                if each.name not in (_GIT, ".ai", *PACKAGED) and each.is_dir(follow_symlinks=False)
            )
    except OSError:  # what cannot be listed is seen by its known names alone
        return


def _directories_among(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if os.path.isdir(path) and not os.path.islink(path))  # noqa: PTH112, PTH114


def _files_among(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if os.path.isfile(path))  # noqa: PTH113


def _is_there(path: str) -> bool:
    return os.path.lexists(path)


# --- repositories ---


def _submodules(project: str, repository: Repository) -> Iterator[str]:
    """Each `.git` of a submodule that the index names; if the index is unreadable, every `.git`."""
    index = next((f"{each}/index" for each in repository.directories), None)
    if index is None:
        return
    names = _submodules_in(index, stamp_of(index))
    found = _every_git(project) if names is None else (f"{repository.top}/{name}/{_GIT}" for name in names)
    yield from (path for path in found if path.startswith(f"{project}/") and _is_there(path))


@lru_cache(maxsize=64)
def _submodules_in(index: str, stamp: Stamp | None) -> tuple[str, ...] | None:
    if stamp is None:
        return ()
    try:
        return tuple(map(os.fsdecode, submodules_of(_files.read_capped(Path(index), MAX_INDEX_BYTES))))
    except (OSError, ValueError, UnreadableIndexError):
        return None


def _every_git(project: str) -> Iterator[str]:
    for count, (directory, names, files) in enumerate(os.walk(project)):
        if count >= _MAX_LOOKED_AT:
            return
        if directory != project and _GIT in (*names, *files):
            yield f"{directory}/{_GIT}"
        names[:] = [name for name in names if name not in (_GIT, "node_modules")]


def _inner(directory: str) -> Iterator[str]:
    """The directories of submodules and worktrees in a `.git`."""
    for place in ("modules", "worktrees"):
        for found, names, files in os.walk(f"{directory}/{place}"):
            if "HEAD" in files:
                yield found
                names[:] = [name for name in names if name == "modules"]


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
