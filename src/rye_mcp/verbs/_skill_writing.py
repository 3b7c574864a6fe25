"""Writes the directory of a skill: whole, beside its place, and then into it.

Whoever reads meanwhile finds the old skill, the new one, or one that the gate refuses; never a mixture that
passes, because the listing and the files have to agree.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from lilux import _files as whole_files
from rye_mcp.errors import RyeError
from rye_mcp.files import Tree, make_user_space, translated
from rye_mcp.items import ItemFile, ItemType, SpaceName, printable
from rye_mcp.spaces import read_skill_file
from rye_mcp.spaces.source_tree import SourceFile

__all__ = ["files_of", "write_directory", "write_skill"]

_DIRECTORY: Final = ItemType.SKILL.directory
_DIRECTORY_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_EXECUTABLE: Final = 0o111


def files_of(file: ItemFile) -> dict[str, SourceFile]:
    """The files of a skill by their paths, with the bytes that it was read with."""
    return {path: read_skill_file(file, path) for path in (file.skill.files if file.skill else ())}


def write_skill(copy: ItemFile, files: Mapping[str, SourceFile], *, overwrite: bool = False) -> None:
    """Write a skill, and its listing if it has one, to its place; RyeError `item_exists` if one is there."""
    if copy.space.name is SpaceName.USER:
        with translated("write_failed", copy.path):
            make_user_space(copy.space.root)
    place = copy.text_path.parent
    with _locked(copy.space.root, _DIRECTORY, place) as above:
        if not overwrite and any(_is_there(each, above) for each in (place.name, copy.path.name)):
            raise _exists(place)
        _replace(copy.space.root, _DIRECTORY, place.name, files, above)
        if copy.content:
            whole_files.write_whole(copy.path, copy.content, mode=_FILE_MODE, directory=above)
        else:
            with suppress(FileNotFoundError):
                os.unlink(copy.path.name, dir_fd=above)
        whole_files.sync_directory(above)


def write_directory(
    root: Path, directory: str, name: str, files: Mapping[str, SourceFile], *, overwrite: bool = False
) -> Path:
    """Write the files of a skill into a directory for a client; RyeError `item_exists` if one is there."""
    place = root / directory / name
    with _locked(root, directory, place) as above:
        if not overwrite and _is_there(name, above):
            raise _exists(place)
        _replace(root, directory, name, files, above)
        whole_files.sync_directory(above)
    return place


@contextmanager
def _locked(root: Path, directory: str, place: Path) -> Iterator[int]:
    with (
        translated("write_failed", place),
        Tree(root).opened(directory, create_mode=_DIRECTORY_MODE) as above,
        whole_files.lock(above),
    ):
        yield above


def _replace(root: Path, directory: str, name: str, files: Mapping[str, SourceFile], above: int) -> None:
    new = f".{name}.{secrets.token_hex(8)}.tmp"
    try:
        _fill(root, f"{directory}/{new}", files)
        _exchange(new, name, above)
    finally:
        shutil.rmtree(new, ignore_errors=True, dir_fd=above)


def _fill(root: Path, directory: str, files: Mapping[str, SourceFile]) -> None:
    tree = Tree(root)
    for path, file in sorted(files.items()):
        mode = _FILE_MODE | (_EXECUTABLE if file.executable else 0)
        relative = f"{directory}/{path}"
        tree.write(relative, file.content, mode=mode, replace=False, create_mode=_DIRECTORY_MODE)


def _exchange(new: str, name: str, above: int) -> None:
    """Put a directory in the place of another one, which is removed."""
    old = f"{new}.old"
    with suppress(FileNotFoundError):
        os.rename(name, old, src_dir_fd=above, dst_dir_fd=above)
    try:
        os.rename(new, name, src_dir_fd=above, dst_dir_fd=above)
    finally:
        shutil.rmtree(old, ignore_errors=True, dir_fd=above)


def _is_there(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _exists(place: Path) -> RyeError:
    shown = printable(place)
    what = f"expected no skill {place.name} there, found one: {shown}"
    return RyeError("item_exists", what, where=shown, item_id=place.name)
