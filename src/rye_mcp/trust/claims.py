"""What tells, besides the record of signers, that an id is a person's: the user space, and lockfiles.

Rules:

- An id that the user space has is a person's in every project, since no agent signs in the user space.
- A lockfile of an id, of whatever version and in whatever space, that pins another key than an agent's makes
  the id a person's. So does one that cannot be read.
- Case counts for no id: on many disks one file has both names.
- Both are looked at each time: they count from the moment in which they are there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from lilux.primitives.errors import LockfileError
from lilux.primitives.lockfile import MAX_LOCKFILE_BYTES, Lockfile
from rye_mcp.errors import RyeError
from rye_mcp.items import EXTENSIONS, ItemFile, ItemType, SpaceName
from rye_mcp.trust.files import opened_directory, read_below

__all__ = ["claim_by_lockfile", "claim_by_user_space"]

_LOCKFILES: Final = "lockfiles"
_SUFFIX: Final = ".lock.json"


def claim_by_user_space(file: ItemFile, user_space: Path) -> str | None:
    """That the user space has an item with the id of one of a project: the end of a sentence, or None."""
    if file.space.name is not SpaceName.PROJECT:
        return None
    above, _, last = file.item_id.lower().rpartition("/")
    wanted = {f"{last}{extension}" for extension in EXTENSIONS[file.item_type]}
    try:
        for _, names in _in_any_letters(user_space, file.item_type.directory, above):
            if not wanted.isdisjoint(map(str.lower, names)):
                return "would take the place of an item of the user space"
    except RyeError as exc:
        return f"may be in the user space, which cannot be read there ({exc.code})"
    return None


def claim_by_lockfile(
    file: ItemFile, spaces: Iterable[Path], agents: Callable[[], frozenset[str]]
) -> str | None:
    """Whose key a lockfile of the item pins, unless it is one of `agents`: the end of a sentence, or None."""
    if file.item_type is not ItemType.TOOL:
        return None
    try:
        for signer in _pinned_signers(file.item_id, spaces):
            if signer not in agents():
                return f"is locked as signed with the key {signer[:16]}"
    except RyeError as exc:
        return f"has a lockfile that cannot be read ({exc.code})"
    except (LockfileError, LookupError, AttributeError):
        return "has a lockfile that cannot be read (malformed_lockfile)"
    return None


def _pinned_signers(item_id: str, spaces: Iterable[Path]) -> Iterator[str]:
    """The id of each key that a lockfile of a tool says its root was signed with."""
    above, _, last = item_id.lower().rpartition("/")
    for root in spaces:
        for directory, names in _in_any_letters(root, _LOCKFILES, above):
            for name in names:
                if name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX).rpartition("@")[0].lower() == last:
                    data = read_below(root, f"{directory}/{name}", limit=MAX_LOCKFILE_BYTES)
                    signer = (
                        None if data is None else Lockfile.from_bytes(data).resolved_chain[0].get("signer")
                    )
                    if signer is not None:
                        yield str(signer)


def _in_any_letters(root: Path, directory: str, below: str) -> Iterator[tuple[str, list[str]]]:
    """The directories of this name, whatever the case of its letters, and the names in each of them."""
    directories = [directory]
    for segment in filter(None, below.split("/")):
        found = (
            (each, name) for each in directories for name, is_file in _entries(root, each) if not is_file
        )
        directories = [f"{each}/{name}" for each, name in found if name.lower() == segment]
    for each in directories:
        yield each, [name for name, _ in _entries(root, each)]


def _entries(root: Path, directory: str) -> list[tuple[str, bool]]:
    """The names in a directory, and whether each is a file; RyeError where a link or a file stands for it."""
    try:
        with opened_directory(root, directory) as descriptor, os.scandir(descriptor) as entries:
            return sorted((each.name, each.is_file(follow_symlinks=False)) for each in entries)
    except FileNotFoundError:
        return []
