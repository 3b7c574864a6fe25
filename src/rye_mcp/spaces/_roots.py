"""Where the three spaces are.

Rules:

- The root of the user space and of the system space is resolved once, here, and may be a link. That of a
  project may not, since a clone could lead what is written there elsewhere. Nor may what is below a root.
- The user's space is `$USER_SPACE/.ai`, by default `~/.ai`. An empty variable counts as none, and a relative
  path is refused: it would be another space in every directory.
- A directory is no project, and nothing of it is the project space, when its `.ai` is the system space of
  some rye-mcp (its `manifest.json` says so) or is the user's own space, or when it is inside or above a
  private directory (`_private`). Anything else is: there need not be an `.ai` yet.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import rye_mcp
from rye_mcp.errors import RyeError
from rye_mcp.items import SYSTEM_MANIFEST_KIND, SYSTEM_MANIFEST_NAME, Space, SpaceName, printable
from rye_mcp.spaces._files import opened, read_file
from rye_mcp.spaces._private import require_no_private

__all__ = ["DIRECTORY_NAME", "project_space", "system_space", "user_space"]

DIRECTORY_NAME: Final = ".ai"
"""What the root of a space is called, in a project and in the directory of a user."""

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
        manifest = json.loads(text)
    except (FileNotFoundError, ValueError, RecursionError, RyeError):
        return False  # whatever stands there, it is no manifest of ours
    return isinstance(manifest, dict) and manifest.get("kind") == SYSTEM_MANIFEST_KIND
