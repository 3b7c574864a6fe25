"""Copying a verified item to another space.

Rules:

- What is written are the bytes that were verified, under the same id and extension. The source is not read
  again.
- A signature holds in every space, but not everybody is trusted in every one: a copy that would not pass the
  gate where it goes is refused, and nothing is written.
- An item of the system carries no signature. Its copy has to be signed where it went, and until then it is
  refused there, and hides the original: the result says so. In the user space only a person signs, so only a
  person copies such an item there.
- A file that is there stays, unless told otherwise, in the user space by a person. One with the same id and
  another extension, or with an id that differs only in case, stays in any case: the copy would make both of
  them ambiguous.
- Written whole or not at all, through no symbolic link. Of two who copy at once, one is told that the item
  exists.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lilux import _files as whole_files
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, SpaceName, printable, relative_path
from rye_mcp.notices import Notice
from rye_mcp.trust.files import make_user_space, opened_directory, translated
from rye_mcp.trust.verify import Evidence, VerifiedItem
from rye_mcp.verbs.context import Context, options_of

__all__ = ["Copied", "copy_item", "require_no_clash", "write_new"]

_DIRECTORY_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_EXECUTABLE: Final = 0o111


@dataclass(frozen=True, slots=True)
class Copied:
    """Where a copy is, and what has to be known about it."""

    path: Path
    warnings: tuple[Notice, ...] = ()


def copy_item(
    verified: VerifiedItem, destination: SpaceName, context: Context, *, overwrite: bool = False
) -> Copied:
    """Write a verified item to another space; RyeError when it would not be valid there, or is in the way."""
    source = verified.file
    if destination is SpaceName.SYSTEM:
        what = "expected the project or the user space as destination, found the system space"
        hint = f"rye copy {source.item_id} --to project{options_of(source.item_type)}"
        raise RyeError("out_of_scope", what, item_id=source.item_id, hint=hint)
    space = context.spaces.space(destination)
    if space.name is source.space.name:
        what = f"expected another space than that of {printable(source.path)}, found the {space.name} space"
        raise RyeError("item_exists", what, where=printable(source.path), hint="name the other space")
    if overwrite and space.name is SpaceName.USER and not context.is_person:
        what = f"expected a person to replace an item of the user space by {source.item_id}, found an agent"
        hint = f"ask a person: rye copy {source.item_id} --to user --overwrite{options_of(source.item_type)}"
        raise RyeError("person_required", what, item_id=source.item_id, hint=hint)
    path = space.root / relative_path(source.item_type, source.item_id, source.extension)
    copy = replace(source, space=space, path=path)
    warnings = _require_valid(copy, verified, context)
    require_no_clash(copy, context)
    write_new(copy, mode=_mode_of(source), overwrite=overwrite)
    return Copied(path, warnings)


def _require_valid(copy: ItemFile, verified: VerifiedItem, context: Context) -> tuple[Notice, ...]:
    """Whether it will pass where it goes, and what is still to be done for that."""
    if verified.evidence is not Evidence.MANIFEST:
        context.verify(copy)
        return ()
    if copy.space.name is SpaceName.USER and not context.is_person:
        raise RyeError(
            "person_required",
            f"expected a person to copy the system item {copy.item_id} to the user space, where it has to be "
            "signed by one; found an agent",
            where=printable(copy.path),
            item_id=copy.item_id,
            hint=f"ask a person: rye copy {copy.item_id} --to user{options_of(copy.item_type)}",
        )
    options = options_of(copy.item_type, copy.space.name)
    what = (
        f"the copy {printable(copy.path)} carries no signature yet, and hides the system item until a person "
        f"signs it: rye sign {copy.item_id}{options}"
    )
    return (Notice("unsigned", what),)


def require_no_clash(copy: ItemFile, context: Context) -> None:
    """Nothing else may have this id, nor anything but a regular file its place; RyeError otherwise.

    The file itself is for who writes, and knows at the same instant.
    """
    spaces, name = context.spaces, copy.space.name
    try:
        existing = spaces.find(copy.item_id, copy.item_type, only=name).item
    except RyeError as exc:
        if exc.code != "item_not_found":
            raise
        folded = copy.item_id.lower()
        for place in spaces.list(name, copy.item_type).items:
            if place.item_id.lower() == folded and place.item_id != copy.item_id:  # else it has just come
                raise _in_the_way(copy, place.path, "an item whose id differs only in case") from None
        return
    if existing.extension != copy.extension:
        raise _in_the_way(copy, existing.path, "an item with the same id and another extension")


def _mode_of(source: ItemFile) -> int:
    """A file that its owner may start stays one; whether it may run is decided elsewhere."""
    try:
        found = source.path.lstat().st_mode
    except OSError:
        return _FILE_MODE
    return _FILE_MODE | (_EXECUTABLE if found & 0o100 else 0)


def write_new(copy: ItemFile, *, mode: int, overwrite: bool = False) -> None:
    """Write an item to its place, with the directories above it; RyeError `item_exists` when one is there."""
    relative = relative_path(copy.item_type, copy.item_id, copy.extension)
    above = relative.rpartition("/")[0]
    if copy.space.name is SpaceName.USER:
        with translated("write_failed", copy.path):
            make_user_space(copy.space.root)
    with (
        translated("write_failed", copy.path),
        opened_directory(copy.space.root, above, create_mode=_DIRECTORY_MODE) as directory,
        whole_files.lock(directory),
    ):
        try:
            whole_files.write_whole(
                copy.path, copy.content, mode=mode, replace=overwrite, directory=directory
            )
        except FileExistsError as exc:
            raise _exists(copy) from exc


def _in_the_way(copy: ItemFile, path: Path, found: str) -> RyeError:
    shown = printable(path)
    what = f"expected room for {printable(copy.path)}, found {found}: {shown}"
    return RyeError("ambiguous_item", what, where=shown, item_id=copy.item_id)


def _exists(copy: ItemFile) -> RyeError:
    shown = printable(copy.path)
    what = f"expected no item {copy.item_id} in the {copy.space.name} space, found one: {shown}"
    return RyeError("item_exists", what, where=shown, item_id=copy.item_id)
