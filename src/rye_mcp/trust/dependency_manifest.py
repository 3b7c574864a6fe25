"""`deps.manifest.yaml`: the files that the tools of its directory rest on, with their hashes, as one text.

    # rye:signed:2026-11-18T10:00:00Z:<sha256>:<signature>:<fingerprint>
    version: 1
    files:
      "helpers.py": "fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9"

Only the one form that `render_listing` writes is accepted. A manifest is signed and verified like an item, at
the same gate, under an id that no item can have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import DEPENDENCY_MANIFEST_NAME, ItemFile, ItemType, Space
from rye_mcp.trust import listing, signature
from rye_mcp.trust.scope import Evidence, Role, Signer
from rye_mcp.trust.verify import Moment, Trust, VerifiedItem, verify_listing

__all__ = [
    "MAX_CARRIED_BYTES",
    "MAX_LISTED_BYTES",
    "DependencyManifest",
    "manifest_file",
    "parse_listing",
    "render_listing",
    "verify_manifest",
]

MAX_LISTED_BYTES: Final = 64 << 20
"""How many bytes a listed file may have: 64 MiB."""

MAX_CARRIED_BYTES: Final = 256 << 20
"""How many bytes all files together may have that a tool brings along: 256 MiB."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_DIRECTORY = ItemType.TOOL.directory
_STEM, _, _ENDING = DEPENDENCY_MANIFEST_NAME.rpartition(".")


@dataclass(frozen=True, slots=True)
class DependencyManifest:
    """The content of a directory's manifest, and its signer.

    `directory` is where it is below the root of its space (`tools/demo`); `files` has the SHA256 of each file
    by its path below that directory.
    """

    file: ItemFile
    directory: str
    files: Mapping[str, str]
    signer: Signer


def manifest_file(space: Space, directory: str, content: bytes) -> ItemFile:
    """The manifest of a directory such as `tools/demo`, with its signature or without.

    RyeError `invalid_id` for a directory that no tool can be in.
    """
    kind, _, below = directory.partition("/")
    if kind != _DIRECTORY:
        what = f"expected the manifest of a directory of {_DIRECTORY}/, found one of {directory!r}"
        raise RyeError("invalid_id", what)
    item_id = f"{below}/{_STEM}" if below else _STEM
    path = space.root / directory / DEPENDENCY_MANIFEST_NAME
    return ItemFile(space, ItemType.TOOL, item_id, f".{_ENDING}", path, content)


def verify_manifest(
    file: ItemFile, trust: Trust, *, role: Role, moment: Moment | None = None
) -> DependencyManifest:
    """Return an authentic manifest; RyeError otherwise.

    `role` is that of the item that rests on it: tool, or runtime for the library of one.
    """
    verified = verify_listing(file, trust, role=role, moment=moment)
    return DependencyManifest(
        file,
        file.path.parent.relative_to(file.space.root).as_posix(),
        _parse(_text_of(verified), file.path),
        verified.signer,
    )


def parse_listing(file: ItemFile) -> Mapping[str, str]:
    """The listing of an unverified manifest, from which a new one is made and signed."""
    return _parse(signature.detach(file), file.path)


def render_listing(files: Mapping[str, str]) -> bytes:
    """The bytes of a manifest without a signature: the same for the same files."""
    return listing.render(files, _DIGEST)


def _text_of(verified: VerifiedItem) -> bytes:
    if verified.evidence is Evidence.MANIFEST:
        return verified.file.content
    return signature.detach(verified.file)


@lru_cache(maxsize=256)
def _parse(content: bytes, place: Path) -> Mapping[str, str]:
    hint = "sign the tool that rests on it again, which writes a new one"
    return listing.parse(content, _DIGEST, place, hint=hint)
