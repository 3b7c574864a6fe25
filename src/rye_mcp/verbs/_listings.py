"""Which files a `deps.manifest.yaml` vouches for: the parts of a tool, which need no signature of their own.

Rules:

- A listing counts when it is authentic. It may be in the directory of the file, or in one above it.
- The file has to be, byte for byte, what the listing says. That is what a run asks too.
- A file that names an executor is a tool of its own: it needs its own signature, whatever lists it.
"""

from __future__ import annotations

import hashlib

from rye_mcp.errors import RyeError
from rye_mcp.items import (
    DEPENDENCY_MANIFEST_NAME,
    MAX_ITEM_BYTES,
    ItemFile,
    ItemType,
    Space,
    SpaceName,
    relative_path,
)
from rye_mcp.metadata import parse_metadata
from rye_mcp.spaces.source_tree import SourceTree
from rye_mcp.trust.dependency_manifest import DependencyManifest, manifest_file, verify_manifest
from rye_mcp.trust.scope import Role
from rye_mcp.verbs._shapes import Integrity
from rye_mcp.verbs.context import Context

__all__ = ["Listings"]


class Listings:
    """The listings of the spaces of one context; each directory is looked at once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kept: dict[tuple[Space, str], DependencyManifest | None] = {}

    def integrity(self, file: ItemFile) -> Integrity | None:
        """Who vouches for a part of a tool, and its hash; None for what no good listing names."""
        if file.item_type is not ItemType.TOOL or file.space.name is SpaceName.SYSTEM:
            return None
        digest = hashlib.sha256(file.content).hexdigest()
        relative = relative_path(file.item_type, file.item_id, file.extension)
        directory = relative
        while "/" in directory:
            directory = directory.rpartition("/")[0]
            manifest = self._manifest(file.space, directory)
            if manifest is not None and manifest.files.get(relative[len(directory) + 1 :]) == digest:
                return Integrity(manifest.signer, digest) if _is_part(file) else None
        return None

    def _manifest(self, space: Space, directory: str) -> DependencyManifest | None:
        key = (space, directory)
        if key not in self._kept:
            self._kept[key] = self._read(space, directory)
        return self._kept[key]

    def _read(self, space: Space, directory: str) -> DependencyManifest | None:
        try:
            with SourceTree(space.root) as tree:
                found = tree.read(f"{directory}/{DEPENDENCY_MANIFEST_NAME}", limit=MAX_ITEM_BYTES)
            if found is None:
                return None
            file = manifest_file(space, directory, found.content)
            return verify_manifest(file, self._context.trust, role=Role.TOOL)
        except RyeError:
            return None  # it vouches for nothing; the tool that rests on it says why


def _is_part(file: ItemFile) -> bool:
    try:
        return parse_metadata(file).is_library
    except RyeError:
        return False
