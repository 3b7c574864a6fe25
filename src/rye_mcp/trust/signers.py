"""The user's record of who has vouched for which item of a project: kept outside of it, written by the gate.

Rules:

- A fact says that a key vouched for an id with a content. It is written when the gate first sees it, and an
  agent never removes one: an id that a person vouched for stays theirs, whatever happens to its file.
- A project is known as for `Approvals`; the user space has a record of its own. Case counts for no id.
- `ACCEPTED` facts are those of a person who agreed to run exactly what an agent signed in place of theirs.
- A record holds at most `MAX_RECORD_BYTES`. Then facts about agents go first, and the oldest of the others.
- A fact that cannot be written stops no verification. A record that cannot be read is `malformed_trust` for
  whoever asks it; only checks of what an agent signs, or signed, do.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

from lilux import _files as whole_files
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemType
from rye_mcp.trust.files import KeptFile, opened_directory, read_below, translated
from rye_mcp.trust.scope import SignerKind

__all__ = ["ACCEPTED", "MAX_RECORD_BYTES", "Fact", "Facts", "SignerRecord"]

MAX_RECORD_BYTES: Final = 4 << 20
"""How large the record of one project may be: some 20,000 facts."""

ACCEPTED: Final = "accepted"
"""The kind of a fact by which a person let what an agent signed run."""

_DIRECTORY: Final = "signers"
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_FORBIDDEN: Final = 0o077
_KINDS: Final = frozenset({SignerKind.PERSON.value, SignerKind.AGENT.value, ACCEPTED})


@dataclass(frozen=True, slots=True)
class Fact:
    """A key vouched for a content of an item. `item` is type and id, with a slash between them."""

    kind: str
    item: str
    extension: str
    digest: str
    key_id: str
    owner: str

    @classmethod
    def of(cls, file: ItemFile, digest: str, *, kind: str, key_id: str, owner: str) -> Fact:
        """That about a file."""
        return cls(kind, _item(file), file.extension, digest, key_id, " ".join(owner.split()))

    @property
    def line(self) -> bytes:
        """The line that stands for it."""
        fields = (self.kind, self.item, self.extension, self.digest, self.key_id, self.owner)
        return "\t".join(fields).encode() + b"\n"

    @property
    def item_id(self) -> str:
        """The id by itself."""
        return self.item.partition("/")[2]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a record says: by id, and by content. Of several facts about a person, the latest counts."""

    persons: dict[str, Fact] = field(default_factory=dict)
    by_digest: dict[str, list[Fact]] = field(default_factory=dict)
    accepted: frozenset[tuple[str, str]] = frozenset()
    keys: dict[str, set[str]] = field(default_factory=dict)

    def keys_of(self, file: ItemFile) -> set[str]:
        """The ids of the keys that vouched for an item of this id, with whatever content."""
        return self.keys.get(_item(file).lower(), set())

    def person_of(self, file: ItemFile) -> Fact | None:
        """The person who vouched for an item of this id, with whatever content."""
        return self.persons.get(_item(file).lower())

    def person_of_content(self, digest: str) -> Fact | None:
        """The person who vouched for this content, under whatever id."""
        facts = self.by_digest.get(digest, ())
        return next((fact for fact in facts if fact.kind == SignerKind.PERSON), None)

    def ids_of_persons(self, item_type: ItemType) -> set[str]:
        """The ids of one type that a person vouched for."""
        prefix = f"{item_type.value}/"
        return {fact.item_id for fact in self.persons.values() if fact.item.startswith(prefix)}

    def is_accepted(self, file: ItemFile, digest: str) -> bool:
        """Whether a person agreed to run this content, which an agent signed."""
        return (_item(file).lower(), digest) in self.accepted


class SignerRecord:
    """The record of one project, or of the user space: of the directory `known_as`."""

    def __init__(self, known_as: Path, state: Callable[[], Path]) -> None:
        self._relative = f"{_DIRECTORY}/{hashlib.sha256(os.fsencode(known_as)).hexdigest()}.tsv"
        self._state = state
        self._lock = Lock()
        self._known: set[bytes] | None = None
        self._kept: KeptFile[Facts] | None = None

    def kept(self) -> KeptFile[Facts]:
        """What it says, for who looks at it again when it changes."""
        if self._kept is None:
            self._kept = KeptFile(
                self._root(), self._relative, _parse, limit=MAX_RECORD_BYTES, forbidden=_FORBIDDEN
            )
        return self._kept

    def note(self, fact: Fact) -> None:
        """Write down a fact that is new; a state directory that cannot be written stops nobody."""
        with self._lock, suppress(RyeError, OSError):
            if self._known is None:
                self._known = set((self._read() or b"").splitlines(keepends=True))
            if fact.line not in self._known:
                known = self._known
                self._append(fact.line)
                known.add(fact.line)

    def accept(self, fact: Fact) -> None:
        """Write down what a person agreed to; RyeError when that is not possible."""
        with self._lock:
            self._append(fact.line)

    def _root(self) -> Path:
        return Path(os.path.realpath(self._state()))

    def _read(self) -> bytes | None:
        return read_below(self._root(), self._relative, limit=MAX_RECORD_BYTES, forbidden=_FORBIDDEN)

    def _append(self, line: bytes) -> None:
        root = self._root()
        path = root / self._relative
        with (
            translated("write_failed", path),
            opened_directory(
                root, _DIRECTORY, forbidden=_FORBIDDEN, create_mode=_DIRECTORY_MODE
            ) as directory,
            whole_files.lock(directory),
        ):
            if _append_whole(path.name, line, directory):
                return
            kept = _shortened(self._read() or b"")
            whole_files.write_whole(path, kept + line, mode=_FILE_MODE, durable=False, directory=directory)
            self._known = None


def _append_whole(name: str, line: bytes, directory: int) -> bool:
    """Add a line; False where the record is full. What is written of it is taken back when the disk is."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(name, flags, _FILE_MODE, dir_fd=directory)
    try:
        before = os.fstat(descriptor).st_size
        if before + len(line) > MAX_RECORD_BYTES:
            return False
        try:
            if os.write(descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(descriptor, before)
            raise
        return True
    finally:
        os.close(descriptor)


def _shortened(data: bytes) -> bytes:
    """The later half of what a record says of persons: one fact for each content of each item."""
    agent = SignerKind.AGENT.value.encode() + b"\t"
    lines = [line for line in dict.fromkeys(data.splitlines(keepends=True)) if not line.startswith(agent)]
    kept: list[bytes] = []
    room = MAX_RECORD_BYTES // 2
    for line in reversed(lines):
        room -= len(line)
        if room < 0:
            break
        kept.append(line)
    return b"".join(reversed(kept))


def _parse(data: bytes | None, place: Path) -> Facts:
    persons: dict[str, Fact] = {}
    by_digest: dict[str, list[Fact]] = {}
    accepted: set[tuple[str, str]] = set()
    keys: dict[str, set[str]] = {}
    for fact in _facts(data or b"", place):
        if fact.kind == ACCEPTED:
            accepted.add((fact.item.lower(), fact.digest))
            continue
        if fact.kind == SignerKind.PERSON:
            persons[fact.item.lower()] = fact
        by_digest.setdefault(fact.digest, []).append(fact)
        keys.setdefault(fact.item.lower(), set()).add(fact.key_id)
    return Facts(persons, by_digest, frozenset(accepted), keys)


def _facts(data: bytes, place: Path) -> Iterator[Fact]:
    for line in data.decode("utf-8", "replace").split("\n")[:-1]:
        fields = line.split("\t")
        if len(fields) != len(Fact.__dataclass_fields__) or fields[0] not in _KINDS:
            what = f"expected the record of who signed what in {place}, found an invalid line"
            raise RyeError("malformed_trust", what, where=place)
        yield Fact(*fields)


def _item(file: ItemFile) -> str:
    return f"{file.item_type.value}/{file.item_id}"
