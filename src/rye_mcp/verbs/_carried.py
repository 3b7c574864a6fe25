"""Which files are authentic as parts of a tool alone: by a good listing, and not by a line of their own.

Any directory above a file may have the listing. Its signature has to be good, and the file as it says; what
differs from a listing is no part of anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from rye_mcp.errors import RyeError
from rye_mcp.items import DEPENDENCY_MANIFEST_NAME, MAX_ITEM_BYTES, ItemType, Space, SpaceName
from rye_mcp.spaces.source_tree import SourceTree
from rye_mcp.trust.dependency_manifest import (
    MAX_LISTED_BYTES,
    DependencyManifest,
    manifest_file,
    verify_manifest,
)
from rye_mcp.trust.scope import Role
from rye_mcp.verbs._shapes import Integrity
from rye_mcp.verbs.context import Context

__all__ = ["CarriedFiles"]


class CarriedFiles:
    """Says of files whether a good listing carries them; reads each listing once."""

    def __init__(self, context: Context) -> None:
        self._trust = context.trust
        self._listings: dict[Path, DependencyManifest | None] = {}

    def integrity_of(self, space: Space, path: Path) -> Integrity | None:
        """Who vouches for a file by a listing; None where nobody does."""
        if space.name is SpaceName.SYSTEM or not path.is_relative_to(space.root / ItemType.TOOL.directory):
            return None
        relative = path.relative_to(space.root).as_posix()
        with SourceTree(space.root) as tree:
            for listing in self._above(space, relative, tree):
                listed = listing.files.get(relative.removeprefix(f"{listing.directory}/"))
                if listed is not None and listed == _digest(tree, relative):
                    return Integrity(listing.signer, listed, listing=listing.file.path)
        return None

    def _above(self, space: Space, relative: str, tree: SourceTree) -> Iterator[DependencyManifest]:
        parts = relative.split("/")[:-1]
        for depth in range(len(parts), 0, -1):
            directory = "/".join(parts[:depth])
            place = space.root / directory
            if place not in self._listings:
                self._listings[place] = self._good(space, directory, tree)
            if (known := self._listings[place]) is not None:
                yield known

    def _good(self, space: Space, directory: str, tree: SourceTree) -> DependencyManifest | None:
        try:
            found = tree.read(f"{directory}/{DEPENDENCY_MANIFEST_NAME}", limit=MAX_ITEM_BYTES)
            if found is None:
                return None
            return verify_manifest(
                manifest_file(space, directory, found.content), self._trust, role=Role.TOOL
            )
        except RyeError:
            return None  # the run of the tool that rests on it says what is wrong with it


def _digest(tree: SourceTree, relative: str) -> str | None:
    try:
        found = tree.read(relative, limit=MAX_LISTED_BYTES)
    except RyeError:
        return None  # no regular file is there, and the refusal of the item says so
    return None if found is None else hashlib.sha256(found.content).hexdigest()
