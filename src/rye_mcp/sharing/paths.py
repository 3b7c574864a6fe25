"""Which files of a space can be shared, and which paths can stand beside each other.

Only items, listings, files that a listing carries, lockfiles and proposed keys travel. What arrives can name
nothing else of a space (`config/`, `keys/`, `revoked.toml`, …).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from rye_mcp.errors import RyeError
from rye_mcp.executor.lock.store import LOCKFILES_DIRECTORY
from rye_mcp.items import DEPENDENCY_MANIFEST_NAME, ItemType
from rye_mcp.trust.listing import case_collisions, path_problem, require_may_be_listed
from rye_mcp.trust.trust_document import DIRECTORY as KEYS_DIRECTORY

__all__ = [
    "KEYS_DIRECTORY",
    "LOCKFILES_DIRECTORY",
    "check_path",
    "check_paths",
    "is_item_path",
    "is_shared_path",
]

MAX_PATH_CHARACTERS: Final = 512
"""How long a path may be."""

_ITEMS: Final = frozenset(each.directory for each in ItemType)
_SHARED: Final = _ITEMS | {LOCKFILES_DIRECTORY, KEYS_DIRECTORY}


def check_path(path: object) -> str:
    """A path below the root of a space that can be shared; RyeError `invalid_artifact` for any other."""
    if not isinstance(path, str) or not path or len(path) > MAX_PATH_CHARACTERS:
        raise _refused("a path of 1 to 512 characters", path)
    directory, slash, rest = path.partition("/")
    if directory not in _SHARED or not slash:
        raise _refused(f"a path below one of {', '.join(sorted(_SHARED))}", path)
    segments = rest.split("/")
    if directory == ItemType.SKILL.directory:
        _require_of_a_skill(rest)
    elif any(each.startswith(".") or each != each.strip() for each in segments):
        raise _refused("no segment that begins with a dot, or begins or ends with a blank", path)
    listed = segments[:-1] if segments[-1] == DEPENDENCY_MANIFEST_NAME else segments
    if listed and (problem := path_problem("/".join(listed))):
        raise _refused(problem, path)
    return path


def _require_of_a_skill(rest: str) -> None:
    """A skill has all its files, hidden ones too, under names that every system can have."""
    try:
        require_may_be_listed([rest])
    except RyeError as exc:
        raise RyeError("invalid_artifact", exc.message) from exc


def check_paths(paths: Collection[str], existing: Iterable[str] = ()) -> None:
    """RyeError unless each file has a place of its own on every file system, beside those that exist."""
    if len(set(paths)) != len(paths):
        raise RyeError("invalid_artifact", "expected each file once, found one that is there twice")
    for one, other in case_collisions([*existing, *paths]):
        what = f"expected paths that differ in more than case, found {one!a} and {other!a}"
        raise RyeError("invalid_artifact", what, where=other)
    known = set(paths).union(existing)
    for path in paths:
        above = path
        while "/" in above:
            above = above.rpartition("/")[0]
            if above in known:
                what = f"expected files, found {above!a}, which is a directory of {path!a}"
                raise RyeError("invalid_artifact", what, where=path)


def is_shared_path(path: str) -> bool:
    """Whether this lies, or is, where something can be shared."""
    return path.partition("/")[0] in _SHARED


def is_item_path(path: str) -> bool:
    """Whether this lies where items are."""
    return path.partition("/")[0] in _ITEMS


_SHOWN: Final = 120


def _refused(expected: str, found: object) -> RyeError:
    shown = ascii(found)[:_SHOWN] if isinstance(found, str) else type(found).__name__
    return RyeError("invalid_artifact", f"expected {expected}, found {shown}")
