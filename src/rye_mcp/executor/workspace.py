"""The files of a project that travel with a call: those that git tracks, as they are on the disk now.

The index of the repository says which; git is not run, and no link is followed. What no tool may see of a
project (`.env`, what its user hides) stays here, too, and what was left out is named.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lilux import _files
from lilux._dataclasses import dataclass
from rye_mcp.apart import off_loop
from rye_mcp.errors import RyeError, printable
from rye_mcp.executor.environment.git_index import MAX_INDEX_BYTES, UnreadableIndexError, names_in
from rye_mcp.files import Tree
from rye_mcp.notices import Notice
from rye_mcp.permissions import Access, below_any
from rye_mcp.permissions.planning import MASKED
from rye_mcp.trust.approvals import git_directories

if TYPE_CHECKING:
    from rye_mcp.executor.decider import DecidedCall
    from rye_mcp.trust.verify import Trust

__all__ = [
    "MAX_FILES",
    "MAX_TREE_BYTES",
    "NEVER_SEALED",
    "ProjectTree",
    "TreeFile",
    "is_inside",
    "tracked_files",
    "tree_of",
]

MAX_FILES: Final = 20_000
"""How many files of a project travel at most."""

MAX_TREE_BYTES: Final = 64 << 20
"""How many bytes they may have together."""

NEVER_SEALED: Final = "it works on files that nobody signed, which came along with the call or are shared"
"""Why a run is never sealed whose tool has a workspace with files."""

_MAX_PATH: Final = 4096
_MAX_SEGMENT: Final = 255
_MAX_DEPTH: Final = 200
_GIT: Final = ".git"
_SHOWN: Final = 5
_LISTED: Final = "left_out"


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One file, by its path below the project."""

    relative: str
    content: bytes
    executable: bool

    @property
    def digest(self) -> str:
        """The SHA-256 of its content."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True)
class ProjectTree:
    """What travels of a project, by path, and what of it was left out."""

    files: tuple[TreeFile, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What the caller should know of it."""
        if not self.left_out:
            return ()
        shown = ", ".join(map(printable, self.left_out[:_SHOWN]))
        more = f" and {len(self.left_out) - _SHOWN} more" if len(self.left_out) > _SHOWN else ""
        why = "links, submodules, secrets, or names that are not UTF-8 or lead elsewhere"
        what = f"these of the project did not travel, being {why}: {shown}{more}"
        return (Notice(_LISTED, what),)


async def tree_of(
    decided: DecidedCall,
    project: Path | None,
    trust: Trust,
    hidden: Callable[[Iterable[str]], Collection[str]],
) -> ProjectTree | None:
    """The files of the project that travel with a call, as far as its tool may see any; None for none.

    `hidden` adds what no tool sees to what the user's policy hides. RyeError `project_not_approved`: nothing
    of a project that nobody approved goes to another machine.
    """
    if decided.chain.root.metadata.workspace != "tree":
        return None
    return await off_loop(partial(_tree_of, decided, project, trust, hidden))


def _tree_of(
    decided: DecidedCall,
    project: Path | None,
    trust: Trust,
    hidden: Callable[[Iterable[str]], Collection[str]],
) -> ProjectTree:
    root, permissions = decided.chain.root, decided.permissions
    approvals = trust.approvals
    if project is None or approvals is None or not approvals.read().approved:
        what = f"expected an approved project, whose files {root.item_id} works on elsewhere, found none"
        raise RyeError("project_not_approved", what, hint="rye trust project", item_id=root.item_id)
    if not permissions.unconfined and permissions.project is Access.NONE:
        return ProjectTree()
    return tracked_files(project, hidden(decided.isolation.hide))


def tracked_files(project: Path, hidden: Collection[str] = ()) -> ProjectTree:
    """The files of a project that git tracks and that are there; `hidden` are paths that no tool sees.

    The index is no more than a file of the project: what it names is looked at as whatever comes from there.

    RyeError `workspace_unavailable` without an index that says so, `too_large` for too many.
    """
    names, others = _tracked(project)
    is_hidden, tree = below_any(hidden), Tree(project)
    files, left_out, size = [], list(others), 0
    for relative in names:
        is_harmless = is_inside(relative) and _is_text(relative) and not _is_secret(relative)
        if not is_harmless or is_hidden(f"{project}/{relative}"):
            left_out.append(relative)
            continue
        try:
            found = _read(tree, relative, MAX_TREE_BYTES - size)
        except RyeError as exc:
            if exc.code != "unsafe_path":
                raise
            left_out.append(relative)  # it, or a directory above it, has become a link
            continue
        if found is not None:
            files.append(found)
            size += len(found.content)
    return ProjectTree(tuple(files), tuple(left_out))


def is_inside(relative: str) -> bool:
    """Whether a path leads to a file below the project, in one way, and to none of git's own."""
    segments = relative.split("/")
    return (
        len(relative) <= _MAX_PATH
        and len(segments) <= _MAX_DEPTH
        and "\0" not in relative
        and all(0 < len(os.fsencode(each)) <= _MAX_SEGMENT for each in segments)
        and {".", "..", _GIT}.isdisjoint(each.lower() for each in segments)
    )


def _is_text(relative: str) -> bool:
    """Whether a name is UTF-8: what is not can't be listed."""
    return relative.isascii() or not any("\ud800" <= each <= "\udfff" for each in relative)


def _is_secret(relative: str) -> bool:
    return relative.rpartition("/")[2] in MASKED


def _read(tree: Tree, relative: str, room: int) -> TreeFile | None:
    try:
        descriptor = tree.open_file(relative)
    except (FileNotFoundError, NotADirectoryError):
        return None  # it was removed, and git does not know yet
    try:
        found = os.fstat(descriptor)
        if found.st_size > room:
            raise _too_much(f"{MAX_TREE_BYTES} bytes", "more", tree.root)
        content = _files.read(descriptor, found.st_size, room, tree.root / relative)
    finally:
        os.close(descriptor)
    return TreeFile(relative, content, bool(found.st_mode & 0o100))


def _tracked(project: Path) -> tuple[list[str], list[str]]:
    """The paths below the project of the files that git tracks, in order, and of everything else there."""
    top, data = _index_around(project)
    try:
        files, others = names_in(data)
    except UnreadableIndexError as exc:
        raise _unavailable(project, f"that its index can't be read: {exc}") from exc
    prefix = os.fsencode(project.relative_to(top)) + b"/" if project != top else b""
    names = _below(prefix, files)
    if len(names) > MAX_FILES:
        raise _too_much(f"{MAX_FILES} files", str(len(names)), project)
    return names, _below(prefix, others)


def _below(prefix: bytes, names: Iterable[bytes]) -> list[str]:
    return sorted(
        {os.fsdecode(name.removeprefix(prefix)) for name in names if name.startswith(prefix)} - {""}
    )


def _index_around(project: Path) -> tuple[Path, bytes]:
    """The top of the repository that a project is in, and its index."""
    top = next((each for each in (project, *project.parents) if os.path.lexists(each / ".git")), None)
    directories = () if top is None else git_directories(top)
    if top is None or not directories:
        raise _unavailable(project, "no repository of git around it")
    try:
        return top, _files.read_capped(directories[0] / "index", MAX_INDEX_BYTES)
    except (OSError, ValueError) as exc:
        raise _unavailable(project, f"that its index can't be read: {exc}") from exc


def _unavailable(project: Path, found: str) -> RyeError:
    what = f"expected a project whose files git tracks, since they come along, found {found}"
    return RyeError("workspace_unavailable", what, where=printable(project))


def _too_much(expected: str, found: str, project: Path) -> RyeError:
    what = f"expected at most {expected} that git tracks in the project, found {found}"
    return RyeError(
        "too_large", what, where=printable(project), hint="move large files out of the repository"
    )
