"""`.ai/sources.toml`: what a space has from elsewhere, pinned by the digest of each source and of each file.

    version = 1

    [[source]]
    ref = "registry.example.com/team/tools:1"
    digest = "sha256:…"

    [source.files]
    "tools/demo/hello.py" = { sha256 = "…", signer = "…" }

It is not signed: it only says what has to be there, and every file still has to pass the gate.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError, printable
from rye_mcp.files import Tree
from rye_mcp.items import Space
from rye_mcp.sharing.artifact import is_digest
from rye_mcp.sharing.paths import check_path
from rye_mcp.sharing.reference import GitReference, Reference, is_commit, parse_reference
from rye_mcp.trust.trust_document import is_key_id

__all__ = ["SOURCES_FILE", "Pin", "Source", "Sources", "read_sources"]

SOURCES_FILE: Final = "sources.toml"
"""The file, directly in a space."""

MAX_SOURCES_BYTES: Final = 4 << 20
"""How many bytes it may have."""

MAX_LINE_CHARACTERS: Final = 2_000
"""How long a line may be: the time that TOML takes grows faster than its lines."""

_VERSION: Final = 1
_HEAD: Final = (
    "# What this space has from elsewhere. `rye pull` writes it, `rye sync` restores it. Commit it.\n"
)
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_GIT: Final = "git:"


@dataclass(frozen=True, slots=True)
class Pin:
    """What one file has to be: the SHA256 of its bytes, and the key that signed it, if it has one."""

    sha256: str
    signer: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Where files came from, at which version, and what they are.

    `digest` is that of the manifest (`sha256:…`), or the commit (`git:…`).
    """

    reference: Reference | GitReference
    digest: str
    files: Mapping[str, Pin] = field(default_factory=dict)

    @property
    def pinned(self) -> Reference | GitReference:
        """The reference, at this very version."""
        return self.reference.pinned(self.digest)


@dataclass(frozen=True, slots=True)
class Sources:
    """All sources of a space; `before` is what the file held, None where there is none."""

    sources: tuple[Source, ...] = ()
    before: bytes | None = None

    def of(self, name: str) -> Source | None:
        """The source of this name."""
        return next((each for each in self.sources if each.reference.name == name), None)

    def owner_of(self, path: str) -> Source | None:
        """The source that a file came from."""
        return next((each for each in self.sources if path in each.files), None)

    def having(self, source: Source) -> Sources:
        """The same, with this one in the place of the one of its name."""
        others = [each for each in self.sources if each.reference.name != source.reference.name]
        together = sorted((*others, source), key=lambda each: each.reference.name)
        return Sources(tuple(together), self.before)

    def render(self) -> bytes:
        """The file: the same for the same sources."""
        return "".join([_HEAD, f"version = {_VERSION}\n", *self._lines()]).encode()

    def _lines(self) -> Iterator[str]:
        for source in self.sources:
            yield "\n[[source]]\n"
            yield f"ref = {_text(source.reference.unpinned())}\ndigest = {_text(source.digest)}\n"
            yield "\n[source.files]\n"
            for path, pin in sorted(source.files.items()):
                signer = "" if pin.signer is None else f", signer = {_text(pin.signer)}"
                yield f"{_text(path)} = {{ sha256 = {_text(pin.sha256)}{signer} }}\n"


def read_sources(space: Space) -> Sources:
    """What the file of a space says; RyeError `malformed_sources` for one that cannot be read."""
    place = space.root / SOURCES_FILE
    try:
        data = Tree(space.root).read(SOURCES_FILE, limit=MAX_SOURCES_BYTES)
    except FileNotFoundError:
        data = None
    return Sources() if data is None else Sources(tuple(_sources_in(data, place)), data)


def _sources_in(data: bytes, place: Path) -> list[Source]:
    table = _table(_parsed(data, place), place, {"version"}, {"source"})
    if type(table["version"]) is not int or table["version"] != _VERSION:
        raise _malformed(place, f"version {_VERSION}", "another")
    entries = table.get("source", [])
    if not isinstance(entries, list):
        raise _malformed(place, "[[source]]", type(entries).__name__)
    found = [_source(each, place) for each in entries]
    _require_apart(found, place)
    return found


def _require_apart(sources: list[Source], place: Path) -> None:
    """Each source once, and each file of one source."""
    names: set[str] = set()
    paths: set[str] = set()
    for each in sources:
        if each.reference.name in names:
            raise _malformed(place, "each source once", f"{each.reference.name} twice")
        if both := paths & each.files.keys():
            raise _malformed(place, "each file from one source", f"{sorted(both)[0]} from two")
        names.add(each.reference.name)
        paths |= each.files.keys()


def _parsed(data: bytes, place: Path) -> dict[str, Any]:
    try:
        text = data.decode("utf-8")
        if max(map(len, text.split("\n"))) > MAX_LINE_CHARACTERS:
            raise _malformed(place, f"lines of at most {MAX_LINE_CHARACTERS} characters", "a longer one")
        return tomllib.loads(text)
    except (ValueError, RecursionError, OverflowError) as exc:
        raise _malformed(place, "TOML", "something else") from exc


def _source(entry: object, place: Path) -> Source:
    table = _table(entry, place, {"ref", "digest"}, {"files"})
    ref, digest = table["ref"], table["digest"]
    if not isinstance(ref, str) or not isinstance(digest, str):
        raise _malformed(place, "ref and digest as text", "something else")
    try:
        reference = parse_reference(ref)
    except RyeError as exc:
        raise _malformed(place, "the reference of a source as ref", "another text") from exc
    is_git = isinstance(reference, GitReference)
    good = is_git and digest.startswith(_GIT) and is_commit(digest.removeprefix(_GIT))
    if not good and (is_git or not is_digest(digest)):
        raise _malformed(place, f"the digest of {ref}", "another text")
    files = _table(table.get("files", {}), place, set(), None)
    return Source(reference, digest, {_path(path, place): _pin(pin, place) for path, pin in files.items()})


def _path(path: str, place: Path) -> str:
    try:
        return check_path(path)
    except RyeError as exc:
        raise _malformed(place, "paths of files that can be shared", "another one") from exc


def _pin(entry: object, place: Path) -> Pin:
    table = _table(entry, place, {"sha256"}, {"signer"})
    sha256, signer = table["sha256"], table.get("signer")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise _malformed(place, "a SHA256 of each file", "another text")
    if signer is not None and not is_key_id(signer):
        raise _malformed(place, "the id of a key as signer", "another text")
    return Pin(sha256, signer)


def _table(value: object, place: Path, required: set[str], optional: set[str] | None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _malformed(place, "a table", type(value).__name__)
    if required - value.keys() or (optional is not None and value.keys() - required - optional):
        expected = ", ".join(sorted(required | (optional or set())))
        raise _malformed(place, f"{expected}, and nothing else", "other names")
    return value


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _malformed(place: Path, expected: str, found: str) -> RyeError:
    shown = printable(place)
    return RyeError("malformed_sources", f"expected {expected} in {shown}, found {found}", where=shown)
