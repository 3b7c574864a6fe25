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
- The item alone is copied. A warning names the files that it carries and that are not there as they are here,
  with the command that takes them along.
- Written whole or not at all, through no symbolic link. Of two who copy at once, one is told that the item
  exists.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lilux import _files as whole_files
from rye_mcp.errors import RyeError
from rye_mcp.executor.anchor import directory_of
from rye_mcp.executor.chain import ChainElement
from rye_mcp.files import Tree, make_user_space, translated
from rye_mcp.items import (
    DEPENDENCY_MANIFEST_NAME,
    MAX_ITEM_BYTES,
    ItemFile,
    ItemType,
    Space,
    SpaceName,
    printable,
    relative_path,
)
from rye_mcp.metadata import ItemMetadata
from rye_mcp.notices import Notice
from rye_mcp.spaces.source_tree import SourceTree
from rye_mcp.trust.dependency_manifest import MAX_LISTED_BYTES, manifest_file, verify_manifest
from rye_mcp.trust.verify import Evidence, VerifiedItem
from rye_mcp.verbs._chains import Chains
from rye_mcp.verbs._needs import Needs, needs_of
from rye_mcp.verbs.context import Context, options_of

__all__ = ["Copied", "copy_item", "require_no_clash", "write_new"]

_DIRECTORY_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_EXECUTABLE: Final = 0o111
_SHOWN: Final = 20
"""How many files a warning names."""


@dataclass(frozen=True, slots=True)
class Copied:
    """Where a copy is, and what has to be known about it."""

    path: Path
    warnings: tuple[Notice, ...] = ()


def copy_item(
    verified: VerifiedItem,
    metadata: ItemMetadata,
    destination: SpaceName,
    context: Context,
    *,
    overwrite: bool = False,
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
    left = _left_behind(ChainElement(source, metadata), space, context)
    write_new(copy, mode=_mode_of(source), overwrite=overwrite)
    return Copied(path, (*warnings, *left))


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


def _left_behind(element: ChainElement, space: Space, context: Context) -> tuple[Notice, ...]:
    """What an item carries, and its new place has not, or not the same."""
    if element.file.item_type is not ItemType.TOOL:
        return ()
    with SourceTree(element.file.space.root) as tree, SourceTree(space.root) as there:
        names, listings = _carried(element, tree, context)
        files = [each for each in names if _bytes_of(tree, each) != _bytes_of(there, each)]
        is_taken = any(_bytes_of(there, each) is not None for each in listings)
    if not files:
        return ()
    shown = ", ".join(map(printable, files[:_SHOWN]))
    shown += f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    command = _taking_along(element, space, files, [] if is_taken else listings)
    asked = "" if context.is_person else "ask a person: "
    what = (
        f"{element.item_id} carries files that were not copied: {shown}; to take them along, {asked}{command}"
    )
    return (Notice("companions_not_copied", what),)


def _carried(element: ChainElement, tree: SourceTree, context: Context) -> tuple[list[str], list[str]]:
    """The files that an item carries, and the good listings that say so, by their paths below the space."""
    needs = needs_of(element, tree, Chains(context), context.project)
    names = {name.relative for name in needs.asked_for if name.is_regular}
    listings = []
    for directory in needs.directories:
        relative = f"{directory}/{DEPENDENCY_MANIFEST_NAME}"
        if listed := _listed_by(relative, tree, needs, element.file, context):
            listings.append(relative)
            names.update(listed)
    own = element.path.relative_to(element.file.space.root).as_posix()
    return sorted(names - {own}), listings


def _listed_by(
    relative: str, tree: SourceTree, needs: Needs, file: ItemFile, context: Context
) -> Sequence[str]:
    """The files of a good listing, by their paths below the space."""
    found = tree.read(relative, limit=MAX_ITEM_BYTES)
    if found is None:
        return ()
    directory = posixpath.dirname(relative)
    try:
        manifest = verify_manifest(
            manifest_file(file.space, directory, found.content), context.trust, role=needs.role
        )
    except RyeError:
        return ()  # nothing that it lists would run with the item here
    return [f"{directory}/{each}" for each in manifest.files]


def _bytes_of(tree: SourceTree, relative: str) -> bytes | None:
    try:
        found = tree.read(relative, limit=MAX_LISTED_BYTES)
    except RyeError:
        return None  # there is no such directory, or nothing that could be carried
    return None if found is None else found.content


def _taking_along(element: ChainElement, space: Space, files: Sequence[str], listings: Sequence[str]) -> str:
    """The command that copies files to another space, and signs them there when no listing goes along."""
    names = shlex.join(map(printable, [*files, *listings]))
    source, target = (shlex.quote(printable(each.root)) for each in (element.file.space, space))
    command = f"(cd {source} && cp --parents -- {names} {target})"
    if listings:
        return command
    beside = (posixpath.relpath(each, directory_of(element)) for each in files)
    named = "".join(f" --with {shlex.quote(printable(each))}" for each in beside)
    return f"{command} && rye sign {element.item_id}{options_of(ItemType.TOOL, space.name)}{named}"


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
        Tree(copy.space.root).opened(above, create_mode=_DIRECTORY_MODE) as directory,
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
