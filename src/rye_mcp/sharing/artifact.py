"""The form of an artifact: an OCI image manifest with a type of our own, and one raw layer for each file.

The same files give the same manifest, byte for byte, and so the same digest. Each layer names its path in the
annotation that `oras` obeys, so `oras pull` writes the same files. This module takes bytes and does no I/O.

    manifest = write_manifest(files)
    read_manifest(manifest)  # what each layer has to be
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from lilux import _json
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.sharing.paths import check_path, check_paths
from rye_mcp.trust.dependency_manifest import MAX_CARRIED_BYTES, MAX_LISTED_BYTES

__all__ = [
    "ARTIFACT_TYPE",
    "EMPTY_CONFIG",
    "FILE_TYPE",
    "MANIFEST_TYPE",
    "MAX_FILES",
    "MAX_MANIFEST_BYTES",
    "Layer",
    "SharedFile",
    "check_bytes",
    "digest_of",
    "is_digest",
    "read_manifest",
    "write_manifest",
]

ARTIFACT_TYPE: Final = "application/vnd.rye-mcp.items.v1"
"""What the artifact is: files of a space, with their signatures."""

FILE_TYPE: Final = "application/vnd.rye-mcp.file.v1"
"""What a layer is: one file, as it is, not packed."""

MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
"""The manifest is an image manifest of OCI, version 1.1."""

EMPTY_CONFIG: Final = b"{}"
"""The config of an artifact that needs none."""

MAX_MANIFEST_BYTES: Final = 4 << 20
"""How many bytes a manifest may have: registries need to take no more than 4 MiB."""

MAX_FILES: Final = 5_000
"""How many files an artifact may have."""

PATH_ANNOTATION: Final = "org.opencontainers.image.title"
EXECUTABLE_ANNOTATION: Final = "io.rye-mcp.executable"

_CONFIG_TYPE: Final = "application/vnd.oci.empty.v1+json"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A file of a space: its path below the root, its bytes, and whether its owner may execute it."""

    path: str
    content: bytes = field(repr=False)
    executable: bool = False

    @property
    def sha256(self) -> str:
        """The SHA256 of the whole file, as 64 hexadecimal digits."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True)
class Layer:
    """What a manifest says of one file. Nothing of it is true until the bytes were compared."""

    path: str
    digest: str
    size: int
    executable: bool = False


def digest_of(data: bytes) -> str:
    """The digest of bytes, as OCI writes it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def is_digest(text: object) -> bool:
    """Whether this is a digest in the one form that is used here."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def check_bytes(data: bytes, digest: str, size: int, what: str) -> bytes:
    """The bytes, when they are what was promised; RyeError `invalid_artifact` when not."""
    if len(data) != size:
        raise RyeError("invalid_artifact", f"expected {size} bytes as {what}, found {len(data)}")
    if (found := digest_of(data)) != digest:
        raise RyeError("invalid_artifact", f"expected {what} with the digest {digest}, found {found}")
    return data


def write_manifest(files: Iterable[SharedFile]) -> bytes:
    """The manifest of these files: the same for the same files, whatever their order."""
    layers = [_descriptor(each) for each in sorted(files, key=lambda each: each.path)]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": ARTIFACT_TYPE,
        "config": {"mediaType": _CONFIG_TYPE, "digest": digest_of(EMPTY_CONFIG), "size": len(EMPTY_CONFIG)},
        "layers": layers,
    }
    data = json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode()
    read_manifest(data)  # nothing is written that could not be read again
    return data


def _descriptor(file: SharedFile) -> dict[str, Any]:
    annotations = {PATH_ANNOTATION: file.path}
    if file.executable:
        annotations[EXECUTABLE_ANNOTATION] = "true"
    return {
        "mediaType": FILE_TYPE,
        "digest": f"sha256:{file.sha256}",
        "size": len(file.content),
        "annotations": annotations,
    }


def read_manifest(data: bytes) -> tuple[Layer, ...]:
    """The files that a manifest names; RyeError `invalid_artifact` for what is no artifact of this type."""
    if len(data) > MAX_MANIFEST_BYTES:
        raise _refused(f"a manifest of at most {MAX_MANIFEST_BYTES} bytes", f"{len(data)}")
    try:
        manifest = _json.decode(data)
    except _json.NotJsonError as exc:
        raise _refused("a manifest in JSON", "something else") from exc
    if not isinstance(manifest, dict):
        raise _refused("a manifest of OCI", type(manifest).__name__)
    _require(manifest, "schemaVersion", 2)
    _require(manifest, "mediaType", MANIFEST_TYPE)
    _require(manifest, "artifactType", ARTIFACT_TYPE)
    config = manifest.get("config")
    _require(config if isinstance(config, dict) else {}, "mediaType", _CONFIG_TYPE)
    layers = manifest.get("layers")
    if not isinstance(layers, list) or not 0 < len(layers) <= MAX_FILES:
        raise _refused(f"a list of 1 to {MAX_FILES} layers", "another")
    return _checked(tuple(map(_layer, layers)))


def _checked(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    check_paths([each.path for each in layers])
    total = sum(each.size for each in layers)
    if total > MAX_CARRIED_BYTES:
        raise _refused(f"at most {MAX_CARRIED_BYTES} bytes in all layers", str(total))
    return tuple(layers)


def _layer(descriptor: object) -> Layer:
    if not isinstance(descriptor, dict):
        raise _refused("a descriptor as layer", type(descriptor).__name__)
    _require(descriptor, "mediaType", FILE_TYPE)
    digest, size = descriptor.get("digest"), descriptor.get("size")
    annotations = descriptor.get("annotations")
    if not isinstance(annotations, dict):
        raise _refused(f"a layer with the annotation {PATH_ANNOTATION}", "none")
    path = check_path(annotations.get(PATH_ANNOTATION))
    if not isinstance(digest, str) or not is_digest(digest):
        raise _refused(f"a SHA256 as digest of {path}", _shown(digest))
    if type(size) is not int or not 0 <= size <= MAX_LISTED_BYTES:
        raise _refused(f"0 to {MAX_LISTED_BYTES} as size of {path}", _shown(size))
    return Layer(path, digest, size, annotations.get(EXECUTABLE_ANNOTATION) == "true")


def _require(table: Mapping[str, Any], name: str, expected: object) -> None:
    found = table.get(name)
    if found != expected or type(found) is not type(expected):
        raise _refused(f"{expected} as {name}", _shown(found))


def _shown(value: object) -> str:
    return "none" if value is None else ascii(value)[:_SHOWN]


def _refused(expected: str, found: str) -> RyeError:
    return RyeError("invalid_artifact", f"expected {expected}, found {found}")
