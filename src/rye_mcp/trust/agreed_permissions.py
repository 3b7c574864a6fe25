"""The permissions that this user agreed to for each item; kept in the state directory, never in a project.

The record is the permissions that were agreed to last: those of the first version that a trusted person had
signed, of the latest one that the user has signed, or of one that the user was shown the difference of.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from lilux import _files as whole_files
from lilux import _json
from lilux._stamps import KeptFile
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS, Tree, translated
from rye_mcp.items import ItemFile
from rye_mcp.permissions import Permissions, read_permissions

__all__ = ["AgreedPermissions"]

_DIRECTORY: Final = "agreed"
_VERSION: Final = 1
_MAX_BYTES: Final = 1 << 20
_MAX_KEPT: Final = 4096
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


class AgreedPermissions:
    """The record of one user. `use` is what an item is run as: a tool and a runtime are two things."""

    def __init__(self, state: Callable[[], Path]) -> None:
        self._state = state
        self._kept: dict[str, KeptFile[Permissions | None]] = {}

    def of(self, file: ItemFile, use: str) -> Permissions | None:
        """Return the agreed permissions; None for an item never used. RyeError for a damaged record."""
        place = _place(file, use)
        kept = self._kept.get(place)
        if kept is None:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            kept = self._kept[place] = KeptFile(self._tree(), place, _parse, limit=_MAX_BYTES)
        return kept.value()

    def write(self, file: ItemFile, use: str, permissions: Permissions) -> None:
        """Replace what was agreed to; RyeError when it cannot be written."""
        tree, place = self._tree(), _place(file, use)
        path = tree.root / place
        known = {
            "version": _VERSION,
            "item": file.item_id,
            "use": use,
            "permissions": permissions.canonical(),
        }
        data = (json.dumps(known, indent=2) + "\n").encode("ascii")
        with (
            translated("write_failed", path),
            tree.opened(place.rpartition("/")[0], create_mode=_DIRECTORY_MODE) as directory,
        ):
            whole_files.write_whole(path, data, mode=_FILE_MODE, directory=directory)

    def _tree(self) -> Tree:
        return Tree(Path(os.path.realpath(self._state())), forbidden=OTHERS)


def _place(file: ItemFile, use: str) -> str:
    """Where the record of an item is: by the real path of its space, and its id in whatever case."""
    space = hashlib.sha256(os.fsencode(file.space.root)).hexdigest()
    item = hashlib.sha256(f"{use}/{file.item_id.lower()}".encode()).hexdigest()
    return f"{_DIRECTORY}/{space}/{item}.json"


def _parse(data: bytes | None, place: Path) -> Permissions | None:
    if data is None:
        return None
    known: Any = None
    try:
        known = _json.decode(data)
    except _json.NotJsonError as exc:
        raise _malformed(place) from exc
    if not isinstance(known, dict) or known.get("version") != _VERSION or "permissions" not in known:
        raise _malformed(place)
    permissions, problems = read_permissions(known["permissions"])
    if problems or permissions is None:
        raise _malformed(place)
    return permissions


def _malformed(place: Path) -> RyeError:
    what = f"expected what was agreed that an item may do, in {place}, found something else"
    return RyeError("malformed_trust", what, where=place)
