"""Where this user's state, cache and user space are, by the variables of this process.

What rye-mcp keeps there decides things, so no place that somebody else could choose or exchange is taken.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rye_mcp.errors import RyeError, printable
from rye_mcp.files import require_not_exchanged

__all__ = ["USER_SPACE_VARIABLE", "cache_directory", "state_directory", "user_directory"]

USER_SPACE_VARIABLE: Final = "USER_SPACE"
"""The environment variable that names the directory of the user's `.ai`."""

_STATE_VARIABLE: Final = "XDG_STATE_HOME"
_CACHE_VARIABLE: Final = "XDG_CACHE_HOME"


def state_directory() -> Path:
    """Where this user's decisions are kept.

    RyeError `malformed_trust` for a place in whatever directory this process happens to be in, which may be a
    project that decides for itself; `unsafe_permissions` for one that another user could exchange.
    """
    import platformdirs

    # Whether a relative one counts depends on the version of platformdirs; and it may go by a relative HOME.
    named = Path(os.environ.get(_STATE_VARIABLE, "").strip() or "/")
    found = platformdirs.user_state_path("rye", appauthor=False)
    for path in (named, found):
        if not path.is_absolute():
            what = f"expected an absolute path as {_STATE_VARIABLE}, found {printable(path)!r}"
            raise RyeError("malformed_trust", what, where=_STATE_VARIABLE, hint=f"unset {_STATE_VARIABLE}")
    require_not_exchanged(found)
    return found


def cache_directory() -> Path | None:
    """Where what can be made again is kept; None where the surroundings name no place for it."""
    import platformdirs

    # As for the state: whether a relative one counts depends on the version of platformdirs.
    named = Path(os.environ.get(_CACHE_VARIABLE, "").strip() or "/")
    found = platformdirs.user_cache_path("rye", appauthor=False)
    return found if named.is_absolute() and found.is_absolute() else None


def user_directory(environment: Mapping[str, str]) -> Path:
    """The directory that holds the user's `.ai`."""
    named = environment.get(USER_SPACE_VARIABLE)
    return Path(named or os.path.expanduser("~"))  # noqa: PTH111
