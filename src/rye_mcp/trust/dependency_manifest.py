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
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError, printable
from rye_mcp.items import DEPENDENCY_MANIFEST_NAME, ItemFile, ItemType, Space
from rye_mcp.trust import signature
from rye_mcp.trust.scope import Role
from rye_mcp.trust.verify import Evidence, Moment, Signer, Trust, VerifiedItem, verify_listing
from rye_mcp.visible import find_hidden

__all__ = [
    "MAX_CARRIED_BYTES",
    "MAX_LISTED_BYTES",
    "DependencyManifest",
    "case_collisions",
    "folded",
    "manifest_file",
    "parse_listing",
    "path_problem",
    "render_listing",
    "verify_manifest",
]

MAX_LISTED_BYTES: Final = 64 << 20
"""How many bytes a listed file may have: 64 MiB."""

MAX_CARRIED_BYTES: Final = 256 << 20
"""How many bytes all files together may have that a tool brings along: 256 MiB."""

_MAX_SEGMENT_BYTES = 255
_MAX_SEGMENTS = 32
_HEAD = "version: 1\nfiles:\n"
_EMPTY = "version: 1\nfiles: {}\n"
_LINE = re.compile(r'  "((?:[^"\\]|\\")+)": "([0-9a-f]{64})"')
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NO_SEGMENTS = frozenset({"", ".", "..", "__pycache__", DEPENDENCY_MANIFEST_NAME})
_BYTECODE = (".pyc", ".pyo")
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
    """The listing of a manifest that nobody has verified, for who is going to sign another one."""
    return _parse(signature.detach(file), file.path)


def render_listing(files: Mapping[str, str]) -> bytes:
    """The bytes of a manifest without a signature: the same for the same files."""
    if problem := _problem(files):
        raise RyeError("invalid_item", f"expected files that can be listed: {problem}")
    if not files:
        return _EMPTY.encode("ascii")
    lines = (f'  "{_escape(path)}": "{digest}"\n' for path, digest in sorted(files.items()))
    return (_HEAD + "".join(lines)).encode("utf-8")


def folded(path: str) -> str:
    """Return a path as a file system sees it that ignores case and the forms of letters."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def case_collisions(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The files and directories that such a file system takes for others of the same paths, with these."""
    seen: dict[str, str] = {}
    for path in paths:
        for each in _with_directories(path):
            other = seen.setdefault(folded(each), each)
            if other != each:
                yield other, each


def _with_directories(path: str) -> list[str]:
    """A path, and every directory that it is in."""
    found = [path]
    while "/" in path:
        path = path.rpartition("/")[0]
        found.append(path)
    return found


def _text_of(verified: VerifiedItem) -> bytes:
    if verified.evidence is Evidence.MANIFEST:
        return verified.file.content
    return signature.detach(verified.file)


@lru_cache(maxsize=256)
def _parse(content: bytes, place: Path) -> Mapping[str, str]:
    if content == _EMPTY.encode("ascii"):
        return MappingProxyType({})
    head, _, rest = content.decode("utf-8", "replace").partition(_HEAD)
    lines = rest.split("\n")
    if head or lines.pop() != "" or not lines:
        raise _malformed(place, "`version: 1` and `files:`, and a file in each line after these")
    files: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        found = _LINE.fullmatch(line)
        if found is None:
            raise _malformed(place, f'`  "path": "<sha256>"` as its file {number}')
        files[found[1].replace('\\"', '"')] = found[2]
    if problem := _problem(files):
        raise _malformed(place, problem)
    if render_listing(files) != content:
        raise _malformed(place, "each file once, in the order of their paths")
    return MappingProxyType(files)


def _problem(files: Mapping[str, str]) -> str | None:
    """Why these cannot be the files of one directory."""
    for path, digest in files.items():
        if problem := path_problem(path):
            return f"{problem}, found {path[:80]!r}"
        if not _DIGEST.fullmatch(digest):
            return f"a SHA256 for {path!r}, found another text"
    return _clash(files)


def path_problem(path: str) -> str | None:
    """Why this cannot be the path of a file that is listed; None for one that can."""
    segments = path.split("/")
    if len(segments) > _MAX_SEGMENTS:
        return f"a path of at most {_MAX_SEGMENTS} segments"
    if not _NO_SEGMENTS.isdisjoint(segments) or "\\" in path:
        return "a path of a file in the directory, with no `.`, `..`, `\\` or `__pycache__` in it"
    if path.lower().endswith(_BYTECODE):
        return "no bytecode, which Python makes from what is listed"
    return _text_problem(path, segments)


def _text_problem(path: str, segments: Sequence[str]) -> str | None:
    try:
        longest = max(len(segment.encode("utf-8")) for segment in segments)
    except UnicodeEncodeError:
        return "a path that is text"
    if longest > _MAX_SEGMENT_BYTES:
        return f"segments of at most {_MAX_SEGMENT_BYTES} bytes"
    if find_hidden(path) is not None or "\t" in path or "\n" in path:
        return "a path whose characters can all be seen"
    return None


def _clash(paths: Collection[str]) -> str | None:
    """Two paths that some file system, or any, cannot have beside each other."""
    for one, other in case_collisions(paths):
        return f"paths that differ in more than case, found {one!r} and {other!r}"
    for path in paths:
        for above in _with_directories(path)[1:]:
            if above in paths:
                return f"files, found {above!r}, which is a directory of {path!r}"
    return None


def _escape(path: str) -> str:
    return path.replace('"', '\\"')


def _malformed(place: Path, expected: str) -> RyeError:
    shown = printable(place)
    return RyeError(
        "invalid_item",
        f"expected {expected} in {shown}, found something else",
        where=shown,
        hint="sign the tool that rests on it again, which writes a new one",
    )
