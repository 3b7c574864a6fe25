"""Decides where the three spaces are, and which directories can be no project.

Roots are resolved once, here. A project is refused if its `.ai` is the system space or the user's own, or if
it is inside or above a private directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import rye_mcp
from lilux import _json
from rye_mcp.errors import RyeError
from rye_mcp.items import SYSTEM_MANIFEST_KIND, SYSTEM_MANIFEST_NAME, Space, SpaceName, printable
from rye_mcp.spaces._directories import opened, read_file

__all__ = ["DIRECTORY_NAME", "project_space", "system_space", "user_space"]

DIRECTORY_NAME: Final = ".ai"
"""The name of a space's root directory, in a project and in the home of a user."""

_USER_SPACE = "USER_SPACE"
_ELSEWHERE = "in the directory of your project: rye init"
_MAX_MANIFEST_BYTES = 1 << 20


def system_space(root: Path | None = None) -> Space:
    """The items that ship with this package, or those in another directory."""
    return Space(SpaceName.SYSTEM, _resolved(root or Path(rye_mcp.__file__).parent / DIRECTORY_NAME))


def user_space(home: Path | None = None, environ: Mapping[str, str] = os.environ) -> Space:
    """The space of the user whose directory is `home`; by default as the environment says."""
    where = str(home or environ.get(_USER_SPACE) or os.path.expanduser("~"))  # noqa: PTH111 - never raises
    if not os.path.isabs(where):  # noqa: PTH117 - it may be no path at all
        what = f"expected {_USER_SPACE} to be an absolute path, found {printable(where)!r}"
        raise RyeError("unsafe_path", what, where=printable(where), hint=f"export {_USER_SPACE}=$HOME")
    return Space(SpaceName.USER, _resolved(Path(where) / DIRECTORY_NAME))


def project_space(project: Path, *, user: Space, system: Space, private: Mapping[str, Path]) -> Space:
    """The space of a project; RyeError `no_project` or `unsafe_path` when this directory can be none.

    `private` are the directories besides the user space that a project may not be inside or above.
    """
    shown = printable(project)
    if not os.path.isdir(project):  # noqa: PTH112 - never raises
        raise RyeError("no_project", f"expected the directory of a project, found none: {shown}", where=shown)
    root = _resolved(project / DIRECTORY_NAME)
    if root == user.root:
        what = f"expected a project, found the directory of the user space: {shown}"
        raise RyeError("no_project", what, where=shown, hint=_ELSEWHERE)
    if root == system.root or _is_system_space(root):
        what = f"expected a project, found the source of rye-mcp itself: {shown}"
        raise RyeError("no_project", what, where=shown, hint=_ELSEWHERE)
    require_no_private(project, {"your user space": user.root, **private})
    if os.path.islink(project / DIRECTORY_NAME):  # noqa: PTH114 - never raises
        what = f"expected a directory in the place of {DIRECTORY_NAME}, found a symbolic link: {shown}"
        hint = f"remove the link {DIRECTORY_NAME}, and copy there what it leads to"
        raise RyeError("unsafe_path", what, where=shown, hint=hint)
    return Space(SpaceName.PROJECT, root)


def _resolved(path: Path) -> Path:
    """The path without any link in it, as far as it exists; a loop of links stays, and cannot be opened."""
    return Path(os.path.realpath(path))


def _is_system_space(root: Path) -> bool:
    try:
        with opened(root) as directory:
            text = read_file(
                directory, SYSTEM_MANIFEST_NAME, root / SYSTEM_MANIFEST_NAME, _MAX_MANIFEST_BYTES
            )
        manifest = _json.decode(text)
    except (FileNotFoundError, _json.NotJsonError, RyeError):
        return False  # whatever stands there, it is no manifest of ours
    return isinstance(manifest, dict) and manifest.get("kind") == SYSTEM_MANIFEST_KIND


_SPACE: Final = ".ai"
_Identity = tuple[int, int]


def require_no_private(project: Path, private: Mapping[str, Path]) -> None:
    """RyeError `no_project` for a directory that is inside or above a private one; `private` by its name."""
    shown, above = printable(project), set(_lineage(project))
    own = _identity(project)
    for name, directory in private.items():
        if _identity(directory) in above:
            raise _refusal(f"a directory inside {name} ({printable(directory)})", shown)
        if own in set(_lineage(directory)):
            raise _refusal(f"a directory that contains {name} ({printable(directory)})", shown)
    for parent in Path(os.path.realpath(project)).parents:
        if _identity(parent / _SPACE) in above:
            raise _refusal(f"a directory inside the {_SPACE} of {printable(parent)}", shown)


def _lineage(path: Path) -> Iterator[_Identity]:
    """Yield the identity of a directory and of each directory above it that exists."""
    real = Path(os.path.realpath(path))
    return filter(None, map(_identity, (real, *real.parents)))


def _identity(path: Path) -> _Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - both raise ValueError for an invalid name
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _refusal(found: str, shown: str) -> RyeError:
    what = f"expected a project, found {found}: {shown}"
    return RyeError("no_project", what, where=shown, hint="use a directory beside it, and there: rye init")
