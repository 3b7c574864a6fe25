"""The user's record of who vouched for which item of a project; kept outside of it, written by the gate.

Facts about persons are never forgotten: an id that a person vouched for stays theirs. Facts about agents and
commits are in a file that forgets the oldest. Case counts for no id.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from threading import Lock
from typing import Final

from lilux import _files as whole_files
from lilux._dataclasses import dataclass
from lilux._footprints import unnoted
from lilux._stamps import KeptFile
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS, Tree, translated
from rye_mcp.items import ItemFile, ItemType
from rye_mcp.trust.scope import SignerKind

__all__ = [
    "ACCEPTED",
    "COMMITTED",
    "MAX_AGENTS_BYTES",
    "MAX_RECORD_BYTES",
    "Fact",
    "Facts",
    "SignerRecord",
    "commit_fact",
]

MAX_RECORD_BYTES: Final = 8 << 20
"""How much is kept about the persons of one project: some 40,000 facts."""

MAX_AGENTS_BYTES: Final = 1 << 20
"""How much is kept about its agents, and of the commits that were looked at."""

ACCEPTED: Final = "accepted"
"""The kind of a fact by which a person let what an agent signed run."""

COMMITTED: Final = "committed"
"""The kind of a fact that a commit holds a signature, good or not, which is no agent's."""

_COMMIT: Final = "commit"
"""The kind of a fact that a commit was looked at; its digest is the name of the commit."""

_DIRECTORY: Final = "signers"
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_OF_AGENTS: Final = frozenset({SignerKind.AGENT.value, _COMMIT})
_KINDS: Final = _OF_AGENTS | {SignerKind.PERSON.value, ACCEPTED, COMMITTED}
_CLAIMING: Final = frozenset({SignerKind.PERSON.value, COMMITTED})
_MAX_LINE_BYTES: Final = 4096


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


def commit_fact(commit: str) -> Fact:
    """That a commit was looked at: what it holds of persons is on record."""
    return Fact(_COMMIT, "-", "-", commit, "-", "-")


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a record: by id, and by content. Of several facts about a person, the latest counts.

    `is_full` says that it takes no more facts about persons.
    """

    persons: dict[str, Fact] = field(default_factory=dict)
    committed: dict[str, list[Fact]] = field(default_factory=dict)
    by_digest: dict[str, list[Fact]] = field(default_factory=dict)
    accepted: frozenset[tuple[str, str]] = frozenset()
    keys: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    commits: frozenset[str] = frozenset()
    is_full: bool = False

    def keys_of(self, file: ItemFile) -> set[str]:
        """The ids of the keys that vouched for the file of this very name, with whatever content."""
        return self.keys.get((_item(file), file.extension), set())

    def person_of(self, file: ItemFile) -> Fact | None:
        """The person who vouched last for an item of this id."""
        return self.persons.get(_item(file).lower())

    def claims(self, file: ItemFile, digest: str | None) -> Iterator[Fact]:
        """Yield the facts that keep a file from agents: about its id (any content and extension), and about
        its content, under whatever id.
        """
        person = self.person_of(file)
        if person is not None:
            yield person
        yield from self.committed.get(_item(file).lower(), ())
        if digest is not None:
            yield from (fact for fact in self.by_digest.get(digest, ()) if fact.kind in _CLAIMING)

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
        name = hashlib.sha256(os.fsencode(known_as)).hexdigest()
        self._persons = _File(f"{_DIRECTORY}/{name}.tsv", state, MAX_RECORD_BYTES, forgets=False)
        self._agents = _File(f"{_DIRECTORY}/{name}.agents.tsv", state, MAX_AGENTS_BYTES, forgets=True)

    def kept(self) -> KeptFile[Facts]:
        """The facts about persons, for a caller that reads them again when they change."""
        return self._persons.kept()

    def all_facts(self) -> tuple[Facts, Facts]:
        """Return the facts about persons, and those about agents and commits."""
        return self._persons.kept().value(), self._agents.kept().value()

    def note(self, fact: Fact) -> None:
        """Write down a fact that is new; a state directory that cannot be written stops nobody."""
        with suppress(RyeError, OSError):
            self.write((fact,))

    def write(self, facts: Iterable[Fact]) -> None:
        """Write down the facts that are new; RyeError when that is not possible, `too_large` for no room."""
        of_agents: list[bytes] = []
        of_persons: list[bytes] = []
        for fact in facts:
            (of_agents if fact.kind in _OF_AGENTS else of_persons).append(fact.line)
        self._persons.add(of_persons)
        self._agents.add(of_agents)


class _File:
    """A file of facts. When it is full it forgets its earlier half, or takes no more."""

    def __init__(self, relative: str, state: Callable[[], Path], limit: int, *, forgets: bool) -> None:
        self._relative = relative
        self._state = state
        self._limit = limit
        self._forgets = forgets
        self._lock = Lock()
        self._known: set[bytes] | None = None
        self._kept: KeptFile[Facts] | None = None

    def kept(self) -> KeptFile[Facts]:
        """The content of the record."""
        if self._kept is None:
            self._kept = KeptFile(self._tree(), self._relative, _parse, limit=self._limit)
        return self._kept

    def add(self, lines: list[bytes]) -> None:
        """Write down the lines that are new."""
        if not lines:
            return
        with self._lock:
            if self._known is None:
                self._known = set((self._read() or b"").splitlines(keepends=True))
            known = self._known
            new = [line for line in dict.fromkeys(lines) if line not in known]
            if new:
                self._append(new)
                known.update(new)

    def _tree(self) -> Tree:
        with unnoted():  # once found, the state directory stays where it is
            return Tree(Path(os.path.realpath(self._state())), forbidden=OTHERS)

    def _read(self) -> bytes | None:
        return self._tree().read(self._relative, limit=self._limit)

    def _append(self, lines: list[bytes]) -> None:
        tree = self._tree()
        path = tree.root / self._relative
        with (
            translated("write_failed", path),
            tree.opened(_DIRECTORY, create_mode=_DIRECTORY_MODE) as directory,
            whole_files.lock(directory),
        ):
            left = _append_whole(path.name, lines, directory, self._limit)
            if not left:
                return
            if not self._forgets:
                what = (
                    f"expected room for {len(left)} more lines in {path}, found it full ({self._limit} bytes)"
                )
                raise RyeError("too_large", what, where=path, hint="an agent signs nothing here now; you can")
            kept = _later_half((self._read() or b"").splitlines(keepends=True) + left, self._limit)
            whole_files.write_whole(path, kept, mode=_FILE_MODE, durable=False, directory=directory)
            self._known = None


def _append_whole(name: str, lines: list[bytes], directory: int, limit: int) -> list[bytes]:
    """Add the lines that fit; the others. What is written of them is taken back when the disk is full."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(name, flags, _FILE_MODE, dir_fd=directory)
    try:
        before = os.fstat(descriptor).st_size
        fitting, size = 0, before
        while fitting < len(lines) and size + len(lines[fitting]) <= limit:
            size += len(lines[fitting])
            fitting += 1
        data = b"".join(lines[:fitting])
        try:
            if os.write(descriptor, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(descriptor, before)
            raise
        return lines[fitting:]
    finally:
        os.close(descriptor)


def _later_half(lines: list[bytes], limit: int) -> bytes:
    """The last lines, in half of the room."""
    kept: list[bytes] = []
    room = limit // 2
    for line in reversed(lines):
        room -= len(line)
        if room < 0:
            break
        kept.append(line)
    return b"".join(reversed(kept))


def _parse(data: bytes | None, place: Path) -> Facts:
    persons: dict[str, Fact] = {}
    committed: dict[str, list[Fact]] = {}
    by_digest: dict[str, list[Fact]] = {}
    accepted: set[tuple[str, str]] = set()
    keys: dict[tuple[str, str], set[str]] = {}
    commits: set[str] = set()
    for fact in _facts(data or b"", place):
        item = fact.item.lower()
        if fact.kind == ACCEPTED:
            accepted.add((item, fact.digest))
            continue
        if fact.kind == _COMMIT:
            commits.add(fact.digest)
            continue
        if fact.kind == SignerKind.PERSON:
            persons[item] = fact
        elif fact.kind == COMMITTED:
            committed.setdefault(item, []).append(fact)
        by_digest.setdefault(fact.digest, []).append(fact)
        if fact.kind != COMMITTED:  # nobody has checked whose key that is
            keys.setdefault((fact.item, fact.extension), set()).add(fact.key_id)
    is_full = len(data or b"") > MAX_RECORD_BYTES - _MAX_LINE_BYTES
    return Facts(persons, committed, by_digest, frozenset(accepted), keys, frozenset(commits), is_full)


def _facts(data: bytes, place: Path) -> Iterator[Fact]:
    for line in data.decode("utf-8", "replace").split("\n")[:-1]:
        fields = line.split("\t")
        if len(fields) != len(Fact.__dataclass_fields__) or fields[0] not in _KINDS:
            what = f"expected the record of who signed what in {place}, found an invalid line"
            raise RyeError("malformed_trust", what, where=place)
        yield Fact(*fields)


def _item(file: ItemFile) -> str:
    return f"{file.item_type.value}/{file.item_id}"
