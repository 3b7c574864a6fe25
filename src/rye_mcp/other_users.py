"""Tells whether another user of the machine can write at a path, or exchange what is there.

They can if a component of the real path belongs to neither this user nor root, or lets others write; a group
counts if it has another member. A sticky directory is safe above a directory of this user, never as the end.

    why_others_write("/tmp/mine")  # None, if it is there and is mine
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from rye_mcp.errors import printable

__all__ = [
    "MAX_LINKS",
    "TooManyLinks",
    "followed",
    "on_the_way",
    "upwards",
    "why_others_exchange",
    "why_others_turn",
    "why_others_write",
]

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


_ACCESS_LIST: Final = "system.posix_acl_access"


def upwards(path: str) -> Iterator[str]:
    """The path and every directory above it."""
    while True:
        yield path
        above = os.path.dirname(path)  # noqa: PTH120 - as text
        if above == path:
            return
        path = above


def on_the_way(real: str, links: Iterable[str]) -> dict[str, None]:
    """A real path, the links that led to it, and every directory above one of them."""
    return dict.fromkeys(each for end in (real, *links) for each in upwards(end))


def why_others_exchange(path: str) -> str | None:
    """Why somebody else can put another directory in the place of one of this user, whatever is in it."""
    try:
        real, links = followed(path)
    except TooManyLinks:
        return f"more than {MAX_LINKS} links are on the way"
    problems = (*map(why_others_turn, links), why_others_write(os.path.dirname(real), is_end=False))  # noqa: PTH120
    return next((problem for problem in problems if problem), None)


def why_others_turn(link: str) -> str | None:
    """Why somebody else can make a link lead elsewhere; the directory of the link is a real path."""
    directory = os.path.dirname(link)  # noqa: PTH120
    try:
        is_sticky = os.stat(directory, follow_symlinks=False).st_mode & stat.S_ISVTX  # noqa: PTH116
        owner = os.stat(link, follow_symlinks=False).st_uid  # noqa: PTH116
    except OSError:
        return f"{printable(link)} cannot be looked at"
    if is_sticky and not _is_ours(owner):
        return f"{printable(link)} belongs to another user ({owner})"
    return why_others_write(directory, is_end=False)


def why_others_write(real: str, *, is_end: bool = True) -> str | None:
    """Why somebody else can put something at a real path, or exchange what is there."""
    for path in upwards(real):
        try:
            found = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - as above
        except FileNotFoundError:
            continue  # the directory in which it would be made is the end
        except (OSError, ValueError):
            return f"{printable(path)} cannot be looked at"
        if problem := _problem_of(path, found, is_end=is_end):
            return problem
        is_end = False
    return None


def _problem_of(path: str, found: os.stat_result, *, is_end: bool) -> str | None:
    if not _is_ours(found.st_uid):
        return f"{printable(path)} belongs to another user ({found.st_uid})"
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        return None  # a socket or a terminal, which others may be meant to write to
    if found.st_mode & stat.S_ISVTX and not is_end:
        return None
    if found.st_mode & stat.S_IWOTH:
        return f"every user can write to {printable(path)}"
    if found.st_mode & stat.S_IWGRP and (_is_shared(found.st_gid) or _has_access_list(path)):
        return f"its group can write to {printable(path)}"
    return None


def _is_ours(owner: int) -> bool:
    return owner in (0, os.geteuid(), _owner_of_root())


@lru_cache(maxsize=1)
def _owner_of_root() -> int:
    """Return the uid of root: in a user namespace, files of root belong to a user without a name."""
    return os.stat("/").st_uid  # noqa: PTH116


@lru_cache(maxsize=64)
def _is_shared(group: int) -> bool:
    """Whether a group has a member besides this user and root."""
    if group == 0:
        return False
    try:
        own = {"root", pwd.getpwuid(os.geteuid()).pw_name}
        members = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return True
    return bool(members - own) or any(
        each.pw_gid == group and each.pw_name not in own for each in pwd.getpwall()
    )


def _has_access_list(path: str) -> bool:
    """Whether others have been granted access by name; nothing where the system knows no such lists."""
    try:
        return _ACCESS_LIST in os.listxattr(path)
    except OSError:
        return False
