"""The list of the files of the system space, pinned in this package.

A file that is not listed does not exist (`not_in_manifest`), and one with another hash was changed
(`content_changed`). The manifest counts only if its SHA256 is that in `rye_mcp.trust.sealed`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lilux import _json
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.files import Tree
from rye_mcp.items import SYSTEM_MANIFEST_KIND, SYSTEM_MANIFEST_NAME
from rye_mcp.trust.sealed import MANIFEST_SHA256

__all__ = ["MAX_MANIFEST_BYTES", "SystemManifest", "render_manifest"]

MAX_MANIFEST_BYTES: Final = 1 << 20
"""How many bytes the manifest may have."""

_VERSION = 1


@dataclass(frozen=True, slots=True)
class SystemManifest:
    """The files of the system space, by their paths below it."""

    files: Mapping[str, str]

    @classmethod
    def load(cls, system_space: Path, *, pin: str = MANIFEST_SHA256) -> SystemManifest:
        """The manifest of a system space, when it is the pinned one."""
        place = system_space / SYSTEM_MANIFEST_NAME
        data = Tree(system_space).read(SYSTEM_MANIFEST_NAME, limit=MAX_MANIFEST_BYTES)
        if data is None:
            raise RyeError("not_in_manifest", f"expected the manifest {place}, found none", where=place)
        return cls.parse(data, place, pin=pin)

    @classmethod
    def parse(cls, data: bytes, place: Path, *, pin: str = MANIFEST_SHA256) -> SystemManifest:
        """The manifest that stands in these bytes, when they are the pinned ones."""
        found = hashlib.sha256(data).hexdigest()
        if found != pin:
            raise RyeError(
                "content_changed",
                f"expected the manifest with the SHA256 {pin} in {place}, found {found}",
                where=place,
                hint="pip install --force-reinstall rye-mcp",
            )
        return cls(MappingProxyType(_files_of(_json.decode(data), place)))

    def require_listed(self, relative: str, content: bytes, place: Path) -> str:
        """The SHA256 of a file, when it is what the manifest says."""
        listed = self.files.get(relative)
        if listed is None:
            what = f"expected a file of the system space, found {place}, which its manifest does not list"
            raise RyeError("not_in_manifest", what, where=place)
        found = hashlib.sha256(content).hexdigest()
        if found != listed:
            raise RyeError(
                "content_changed",
                f"expected the SHA256 {listed} of {place}, as its manifest says, found {found}",
                where=place,
                hint="pip install --force-reinstall rye-mcp",
            )
        return found


def render_manifest(files: Mapping[str, str]) -> bytes:
    """The bytes of a manifest: the same for the same files."""
    manifest = {"kind": SYSTEM_MANIFEST_KIND, "version": _VERSION, "files": dict(sorted(files.items()))}
    return (json.dumps(manifest, indent=2) + "\n").encode("ascii")


def _files_of(manifest: Any, place: Path) -> dict[str, str]:
    if not isinstance(manifest, dict) or manifest.get("kind") != SYSTEM_MANIFEST_KIND:
        raise RyeError("malformed_trust", f"expected a system manifest in {place}", where=place)
    if manifest.get("version") != _VERSION or not isinstance(manifest.get("files"), dict):
        raise RyeError(
            "malformed_trust", f"expected version {_VERSION} of a manifest in {place}", where=place
        )
    files: dict[str, str] = manifest["files"]
    return files
