"""`load`: the content of an item and what it says about itself; and a copy of it in another space.

Only bytes that passed the gate are given out or copied; the file is read once. A person may also read what
does not pass, to decide about it.

    load(LoadRequest("demo/hello"), context).as_dict()
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from lilux import _files as whole_files
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.anchor import directory_of
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.files import Tree, make_user_space, translated
from rye_mcp.items import (
    DEPENDENCY_MANIFEST_NAME,
    MAX_ITEM_BYTES,
    ItemFile,
    ItemPlace,
    ItemType,
    Space,
    SpaceName,
    printable,
    relative_path,
)
from rye_mcp.metadata import ItemMetadata, parse_metadata
from rye_mcp.notices import Notice
from rye_mcp.spaces import read_skill_file
from rye_mcp.spaces.source_tree import SourceFile, SourceTree
from rye_mcp.trust.dependency_manifest import MAX_LISTED_BYTES, manifest_file, verify_manifest
from rye_mcp.trust.scope import Evidence
from rye_mcp.trust.verify import VerifiedItem
from rye_mcp.verbs._answers import Integrity, metadata_as_dict
from rye_mcp.verbs._chains import Chains, Dependencies, dependencies_of
from rye_mcp.verbs._skill_writing import files_of, write_skill
from rye_mcp.verbs.context import Context, options_of

__all__ = [
    "Copied",
    "LoadRequest",
    "LoadResult",
    "carried_files",
    "copy_item",
    "load",
    "require_no_clash",
    "write_new",
]

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
    warnings = _require_valid_copy(copy, verified, context)
    require_no_clash(copy, context)
    if copy.skill is not None:
        write_skill(copy, files_of(source), overwrite=overwrite)
        return Copied(copy.text_path.parent, warnings)
    left = _not_copied(ChainElement(source, metadata), space, context)
    write_new(copy, mode=_mode_of(source), overwrite=overwrite)
    return Copied(path, (*warnings, *left))


def _require_valid_copy(copy: ItemFile, verified: VerifiedItem, context: Context) -> tuple[Notice, ...]:
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


def _not_copied(element: ChainElement, space: Space, context: Context) -> tuple[Notice, ...]:
    """Return the companions of an item that are missing at its new place, or differ there."""
    if element.file.item_type is not ItemType.TOOL:
        return ()
    with SourceTree(element.file.space.root) as tree, SourceTree(space.root) as there:
        names, listings = carried_files(element, tree, context)
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


def carried_files(
    element: ChainElement, tree: SourceTree, context: Context, chains: Chains | None = None
) -> tuple[list[str], list[str]]:
    """The files that an item carries, and the good listings that say so, by their paths below the space."""
    needs = dependencies_of(element, tree, chains or Chains(context), context.project)
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
    relative: str, tree: SourceTree, needs: Dependencies, file: ItemFile, context: Context
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
    """Require that no other item has this id, and only a regular file is in its place; RyeError otherwise.

    The file itself is for a caller that writes at the same instant.
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


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """An item, and the place for a copy of it.

    Without `source` the item is found by precedence. `overwrite` is about the copy alone. `file` is one of a
    skill, by its path there, instead of its `SKILL.md`.
    """

    item_id: str
    item_type: ItemType = ItemType.TOOL
    source: SpaceName | None = None
    destination: SpaceName | None = None
    overwrite: bool = False
    file: str | None = None


@dataclass(frozen=True, slots=True)
class LoadResult:
    """An item, as it was read. `metadata` is None where what an unverified item says makes no sense."""

    file: ItemFile
    metadata: ItemMetadata | None
    integrity: Integrity
    shadowed: tuple[ItemPlace, ...] = ()
    copied_to: Path | None = None
    warnings: tuple[Notice, ...] = ()
    part: SourceFile | None = None
    """The file of a skill that was asked for."""

    @property
    def content(self) -> str:
        """The whole file as text; bytes that are no UTF-8, which no verified item has, as escapes."""
        content = self.file.text if self.part is None else self.part.content
        return content.decode("utf-8", "backslashreplace")

    def as_dict(self) -> dict[str, Any]:
        """Return the result as data."""
        answer: dict[str, Any] = {
            "status": "success",
            "item_id": self.file.item_id,
            "type": self.file.item_type.value,
            "space": self.file.space.name.value,
            "path": printable(self.file.text_path if self.part is None else self.part.path),
            "content": self.content,
            "metadata": {} if self.metadata is None else metadata_as_dict(self.metadata),
            "integrity": self.integrity.as_dict(),
        }
        if self.file.skill is not None:
            listed = sorted(self.file.skill.files.items())
            answer["files"] = [{"path": path, "size": each.size} for path, each in listed]
        if self.shadowed:
            answer["shadows"] = [
                {"space": place.space.name.value, "path": printable(place.path)} for place in self.shadowed
            ]
        if self.copied_to is not None:
            answer["copied_to"] = printable(self.copied_to)
        if self.warnings:
            answer["warnings"] = [warning.as_dict() for warning in self.warnings]
        return answer


def load(request: LoadRequest, context: Context) -> LoadResult:
    """Load an item, and copy it when a destination is named.

    1. the item is found by its id, and read
    2. it passes the gate, or a person only reads it
    3. its metadata is parsed from those bytes
    4. the copy passes the gate in its new place, and is written
    """
    found = context.spaces.find(request.item_id, request.item_type, only=request.source)
    try:
        verified = context.verify(found.item)
    except RyeError as exc:
        if not context.is_person or request.destination is not None:
            raise
        part = _part(found.item, request.file)
        refused = Integrity(refusal=exc)
        return LoadResult(found.item, _metadata_of(found.item), refused, found.shadowed, part=part)
    metadata = context.metadata(verified)
    integrity = Integrity.of(verified)
    if request.destination is None:
        part = _part(verified.file, request.file)
        return LoadResult(verified.file, metadata, integrity, found.shadowed, part=part)
    copied = copy_item(verified, metadata, request.destination, context, overwrite=request.overwrite)
    return LoadResult(
        verified.file, metadata, integrity, found.shadowed, copied.path, warnings=copied.warnings
    )


def _part(file: ItemFile, path: str | None) -> SourceFile | None:
    """The file of a skill that was asked for; RyeError for one that it has not, or that is no text."""
    if path is None:
        return None
    if file.skill is None:
        what = f"expected no file for a {file.item_type}, which is one, found {path[:80]!a}"
        raise RyeError("unknown_argument", what, hint="leave out file")
    part = read_skill_file(file, path)
    try:
        part.content.decode("utf-8")
    except UnicodeDecodeError as exc:
        what = f"expected a text, found other bytes in {path} of the skill {file.item_id}"
        hint = f"read the resource skill://{file.item_id}/{quote(path)}"
        raise RyeError("not_text", what, item_id=file.item_id, hint=hint) from exc
    return part


def _metadata_of(file: ItemFile) -> ItemMetadata | None:
    try:
        return parse_metadata(file)
    except RyeError:
        return None  # the reader is told why it did not pass, and sees the rest in the content
