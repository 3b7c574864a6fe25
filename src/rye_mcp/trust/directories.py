"""Decides which directories may have a say in what is started: the one rule about directories and paths.

A directory is refused if it lies in a project that this user has not approved, or if another user can write
to it. Facts about a path are kept until a stamp on the way changes; approvals are read each time.

    Directories(user=Path.home(), state=state_directory).why_not("/home/ada/clone/bin")
"""

from __future__ import annotations

import os
import pwd
import sys
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

import rye_mcp
from lilux._dataclasses import dataclass
from lilux._stamps import SETTLED_NS
from rye_mcp.errors import RyeError
from rye_mcp.items import printable
from rye_mcp.other_users import (
    MAX_LINKS,
    TooManyLinks,
    followed,
    on_the_way,
    upwards,
    why_others_turn,
    why_others_write,
)
from rye_mcp.trust.approvals import Approvals

__all__ = ["KEPT_BY_TOOLS", "Directories", "Look", "cache_of", "home_of"]

KEPT_BY_TOOLS: Final = ("rye", "tools")
"""Where in the user's cache the files are that tools keep between calls."""

_SPACE: Final = ".ai"
_REPOSITORY: Final = ".git"
_OF_THE_SYSTEM: Final = ("/usr/", "/opt/", "/nix/", "/snap/", "/home/linuxbrew/")
_MAX_KEPT: Final = 4096

_Key = tuple[int, int, int, int, int, int] | None
"""Device, number, mode, owner, group, and the time of the last change; None for what is not there."""


class Look(dict[str, _Key]):
    """One look at the file system, for paths that are judged together: each directory is looked at once."""

    def __missing__(self, path: str) -> _Key:
        self[path] = key = _key_of(path)
        return key


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts about a path: the projects it leads through, and which other users can write on the way."""

    stamps: Mapping[str, _Key]
    projects: tuple[str, ...]
    others: str | None

    def hold(self, look: Look) -> bool:
        """Whether nothing that they rest on has changed."""
        return all(look[path] == key for path, key in self.stamps.items())


class Directories:
    """The rule, for one user in one project or in none."""

    def __init__(
        self,
        *,
        user: Path,
        state: Callable[[], Path],
        project: Approvals | None = None,
        root: Path | None = None,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """`user` is the directory of the user's `.ai`, `root` the directory of the project.

        `environment` is the server's own: what nobody confines is started with nothing else.
        """
        self._clock = clock
        self.environment = environment
        self.state = state
        self._home = {os.path.realpath(home) for home in (user, os.path.expanduser("~"), _home_of_account())}  # noqa: PTH111
        self._own = {os.path.realpath(sys.base_prefix), *(up for each in self._home for up in upwards(each))}
        self._source = os.path.realpath(Path(rye_mcp.__file__).parent / _SPACE)
        self._approvals: dict[str, Approvals] = {}
        self._root = None if root is None else os.path.realpath(root)
        if self._root is not None and project is not None:
            self._approvals[self._root] = project
        self._kept: dict[str, _Facts] = {}

    def why_not(self, path: str, look: Look | None = None) -> str | None:
        """Why nothing may be started in, or found through, this absolute path; None when it may be."""
        look = Look() if look is None else look
        return self.why_no_project(path, look) or self._facts(path, look).others

    def why_no_project(self, path: str, look: Look | None = None) -> str | None:
        """The same, for a path that others may write to: a directory for temporary files."""
        for project in self._facts(path, Look() if look is None else look).projects:
            if not self._is_approved(project):
                return f"{printable(project)} is a project that you have not approved"
        return None

    def why_tools_write(self, path: str) -> str | None:
        """Why a confined tool may have made what this absolute path leads to; None when none can have.

        What is started without confinement on behalf of a tool lies in no project, approved or not, and not
        among the files that tools keep.
        """
        facts = self._facts(path, Look())
        if facts.projects:
            return f"{printable(facts.projects[0])} is a project, in which tools may write"
        kept = os.path.join(cache_of(self.environment), *KEPT_BY_TOOLS)  # noqa: PTH118
        if os.path.realpath(path).startswith(f"{os.path.realpath(kept)}/"):
            return f"{printable(kept)} holds what tools keep"
        return facts.others

    def _facts(self, path: str, look: Look) -> _Facts:
        """Return the facts about a path, found now if they are not known yet."""
        kept = self._kept.get(path)
        if kept is not None and kept.hold(look):
            return kept
        facts, is_settled = self._found_out(path, look)
        if is_settled:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            self._kept[path] = facts
        return facts

    def _found_out(self, path: str, look: Look) -> tuple[_Facts, bool]:
        """The facts, and whether a later change would be noticed."""
        try:
            real, links = followed(path)
        except TooManyLinks:
            projects = self._projects_of(os.path.normpath(path), path, ())
            return _Facts({}, projects, f"more than {MAX_LINKS} links on the way"), False
        stamps = {each: look[each] for each in on_the_way(real, links)}
        problems = (*map(why_others_turn, links), why_others_write(real))
        others = next((problem for problem in problems if problem), None)
        facts = _Facts(stamps, self._projects_of(real, path, links), others)
        return facts, self._would_tell(path, stamps)

    def _would_tell(self, path: str, stamps: Mapping[str, _Key]) -> bool:
        """Whether these stamps would tell of every later change."""
        latest = self._clock() - SETTLED_NS
        if any(key is not None and key[-1] >= latest for key in stamps.values()):
            return False
        # Where `..` leads, and what a linked `.ai` is, depends on what is not on the way.
        return ".." not in path.split("/") and not any(os.path.islink(f"{each}/{_SPACE}") for each in stamps)  # noqa: PTH114

    def _projects_of(self, real: str, path: str, links: tuple[str, ...]) -> tuple[str, ...]:
        """The projects of the real path, or else of the spelled one, and of the directories of the links."""
        first = self._project_of(real) or self._project_of(os.path.normpath(path))
        passed = (self._project_of(os.path.dirname(link)) for link in links)  # noqa: PTH120
        return tuple(dict.fromkeys(project for project in (first, *passed) if project is not None))

    def _is_approved(self, root: str) -> bool:
        if root not in self._approvals:
            self._approvals[root] = Approvals(Path(root), self.state())
        try:
            return self._approvals[root].read().approved
        except RyeError:
            return False  # a decision that cannot be read approves nothing

    def _project_of(self, path: str) -> str | None:
        for directory in upwards(path):
            if directory == self._root:
                return directory
            if directory in self._own:
                return None
            if os.path.lexists(f"{directory}/{_SPACE}"):
                return None if os.path.realpath(f"{directory}/{_SPACE}") == self._source else directory
            if os.path.lexists(f"{directory}/{_REPOSITORY}") and not self._is_set_up(directory):
                return directory
        return None

    def _is_set_up(self, repository: str) -> bool:
        hidden = tuple(f"{home.rstrip('/')}/." for home in self._home)
        return repository.startswith((*_OF_THE_SYSTEM, *hidden))


def cache_of(environment: Mapping[str, str]) -> str:
    """Where the user's caches are."""
    named = environment.get("XDG_CACHE_HOME", "")
    return named if named.startswith("/") else os.path.join(home_of(environment), ".cache")  # noqa: PTH118


def home_of(environment: Mapping[str, str]) -> str:
    """The home directory, without links; that of the account where the environment names none."""
    named = environment.get("HOME", "")
    usable = named.startswith("/") and os.path.realpath(named) != os.sep
    return os.path.realpath(named if usable else _home_of_account())


def _key_of(path: str) -> _Key:
    try:
        found = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - many times for each call
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_mode, found.st_uid, found.st_gid, found.st_ctime_ns


@lru_cache(maxsize=1)
def _home_of_account() -> str:
    """The home of this user, whatever HOME says."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return os.sep
