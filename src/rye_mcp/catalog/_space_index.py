"""Keeps the index of one space as fresh as its files, and recovers from damage.

A refresh compares the stamps of all files with those of the last time, and reads what differs. Many files are
looked at by another process, which only helps: this one does whatever the other did not do.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from rye_mcp.cache_file import DamagedError
from rye_mcp.catalog._apart import STEP, Progress, Task, index_apart
from rye_mcp.catalog._document import documents_of
from rye_mcp.catalog._engine import Change, Engine, Row, file_for, file_of
from rye_mcp.errors import RyeError
from rye_mcp.items import (
    ItemFile,
    ItemPlace,
    ItemType,
    Space,
    parse_relative_path,
    printable,
    relative_path,
)
from rye_mcp.language.meaning import Meaning, WordTable
from rye_mcp.language.words import Stemmer
from rye_mcp.spaces import Reader, Spaces, Stamp, is_settled

__all__ = ["SpaceIndex"]

MANY: Final = 1_500
"""From how many files on it is worth to start a process: it takes a quarter of a second to begin."""

GROUP: Final = 10
"""How many files are looked at together."""

BATCH: Final = 2_000
"""How many changes are written at once: for that long, half a second perhaps, other writers wait."""

BATCH_WORDS: Final = 500_000
"""How many words are written at once: changes with more of them are fewer."""

MAX_WORDS: Final = 8_000_000
"""How many words are indexed at a time: 27,000 items of a common length, or 80 MB of text."""

YIELD_S: Final = 0.0005
"""How long other threads are let through."""

_MAX_PASSES: Final = 3
"""How often a refresh begins again when other processes write at the same time."""

_UNSETTLED: Final = "?"
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})

Answer = TypeVar("Answer")


class SpaceIndex:
    """Everything about the index of one space; several threads may use it, one after the other."""

    def __init__(
        self,
        spaces: Spaces,
        space: Space,
        directory: Path | None,
        stemmer: Stemmer,
        meaning: Meaning | None = None,
        max_words: int = MAX_WORDS,
    ) -> None:
        self.space = space
        self._max_words = max_words
        self.notice: str | None = None
        self._spaces = spaces
        self._path = None if directory is None else file_for(directory, space.root)
        self._stemmer = stemmer
        self._meaning = meaning
        self._file = file_of("nothing" if meaning is None else meaning.identity)
        self._can_be_made_apart = meaning is None or isinstance(meaning, WordTable)
        self._lock = threading.RLock()
        self._version: int | None = None
        self._seen: dict[str, Stamp | None] = {}
        self._engine = Engine(self._open(None), stemmer, meaning)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._engine.database.close()

    def ask(self, question: Callable[[Engine], Answer]) -> Answer:
        """What the engine answers; when it turns out to be damaged, what another one answers."""
        return self._done(lambda: question(self._engine))

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """A block in which the index stays as it is, whoever writes to its file meanwhile."""
        with self._lock:
            self.ask(lambda engine: engine.database.execute("BEGIN"))
            try:
                yield
            finally:
                # After a damage it is another one, without a transaction.
                if self._engine.database.in_transaction:
                    self._engine.database.rollback()

    def refresh(self, progress: Progress | None = None) -> None:
        """Bring the index up to date with the files of the space."""
        self._done(lambda: self._refresh(progress))

    def note_changed(self, places: Iterable[ItemPlace]) -> None:
        """Look at these files alone."""
        self._done(lambda: self._note_changed(places))

    # --- what has changed ---

    def _note_changed(self, places: Iterable[ItemPlace]) -> None:
        self._learn()
        for place in places:
            path = relative_path(place.item_type, place.item_id, place.extension)
            *directories, _ = place.item_id.split("/")
            stamps = self._spaces.scan(self.space.name, place.item_type, tuple(directories))
            self._apply([path], {path: stamps[path]} if path in stamps else {}, None)

    def _refresh(self, progress: Progress | None) -> None:
        stamps, concerned = self._look()
        if len(concerned) >= MANY and self._path is not None and self._can_be_made_apart:
            index_apart(self._task(self._path.parent), len(concerned), progress)
            self._learn()
            # What changed again meanwhile is found by the next refresh, which sees another stamp.
            concerned = self._concerned(stamps)
        for _ in range(_MAX_PASSES):
            if self._apply(concerned, stamps, progress):
                return
            stamps, concerned = self._look()

    def _task(self, directory: Path) -> Task:
        """What another process needs to know to index the same space."""
        roots = {each.name.value: str(each.root) for each in self._spaces.accessible()}
        vectors = "" if self._meaning is None else self._meaning.identity
        return Task(roots, self.space.name.value, str(directory), vectors, self._max_words)

    def _look(self) -> tuple[dict[str, Stamp], list[str]]:
        """The stamps of all files, and the paths of those that are not as they were."""
        # One by one: what is done all at once keeps the event loop of a server waiting.
        stamps = {
            path: stamp
            for item_type in ItemType
            for path, stamp in self._spaces.scan(self.space.name, item_type).items()
        }
        self._learn()
        return stamps, self._concerned(stamps)

    def _concerned(self, stamps: Mapping[str, Stamp]) -> list[str]:
        """The paths of the files that are not as the index knows them."""
        seen = self._seen
        concerned = [path for path, stamp in stamps.items() if seen.get(path) != stamp]
        concerned += [path for path in seen if path not in stamps]
        return concerned

    def _learn(self) -> None:
        """What the index holds; it is not asked when nobody else has written to it since the last time."""
        version = self._engine.version()
        if version != self._version:
            self._seen = {path: _stamp_of(written) for path, written in self._engine.stamps()}
            self._version = version

    def _apply(
        self,
        paths: Sequence[str],
        stamps: Mapping[str, Stamp | None],
        progress: Progress | None,
    ) -> bool:
        """Look at these files and write what has become of them; False when somebody else has done so too."""
        known = self._engine.rows(path for path in paths if path in self._seen)
        whole, batch, done = True, list[Change](), 0
        words = written = 0
        with Reader() as reader:
            ordered = sorted(paths)
            for start in range(0, len(ordered), GROUP):
                some = ordered[start : start + GROUP]
                changes = self._examined(some, known, stamps, reader, brief=words >= self._max_words)
                batch += changes
                words += sum(change.words for change in changes)
                done += len(some)
                if len(batch) >= BATCH or words - written >= BATCH_WORDS or done == len(paths):
                    whole = self._write(batch) and whole
                    batch, written = [], words
                if done % STEP == 0 or done == len(paths):
                    _report(progress, done, len(paths))
        return whole

    def _write(self, batch: Sequence[Change]) -> bool:
        if not self._engine.write(batch):
            self._version = None  # somebody else has written
            return False
        for change in batch:
            if change.after is None:
                self._seen.pop(change.path, None)
            else:
                self._seen[change.path] = _stamp_of(change.after.stamp)
        return True

    def _examined(
        self,
        paths: Sequence[str],
        known: Mapping[str, Row],
        stamps: Mapping[str, Stamp | None],
        reader: Reader,
        *,
        brief: bool,
    ) -> list[Change]:
        """What has become of these files."""
        looks = [self._looked_at(path, known.get(path), stamps.get(path), reader) for path in paths]
        documents = iter(documents_of([file for _, file in looks if file], brief=brief))
        return [replace(change, document=next(documents)) if file else change for change, file in looks]

    def _looked_at(
        self, path: str, before: Row | None, stamp: Stamp | None, reader: Reader
    ) -> tuple[Change, ItemFile | None]:
        """What has become of a file; and what there is to index, when it is another one."""
        if stamp is None:
            return Change(path, before, None), None
        settled = is_settled(stamp, time.time_ns())
        written = ",".join(map(str, stamp)) if settled else _UNSETTLED
        try:
            item_type, item_id, extension = parse_relative_path(path)
            place = ItemPlace(self.space, item_type, item_id, extension)
            file = reader.read(place)
        except RyeError as exc:
            # It is no item, as long as it is as it is: looked at again when its stamp changes.
            return Change(path, before, Row(written, f"! {exc.code}")), None
        digest = hashlib.sha256(file.text).hexdigest()
        after = Row(written, digest)
        if before is not None and before.digest == digest:
            return Change(path, before, after), None
        return Change(path, before, after, place, date=stamp[0]), file

    # --- what goes wrong ---

    def _open(self, replacing: int | None) -> sqlite3.Connection:
        if self._path is None:
            self.notice = "the search index is kept in memory: there is no directory for it"
            return self._file.in_memory()
        try:
            return self._file.open(self._path, replacing=replacing)
        except (RyeError, OSError, sqlite3.Error, DamagedError) as exc:
            return self._in_memory(exc, None)

    def _in_memory(self, reason: Exception, copied: sqlite3.Connection | None) -> sqlite3.Connection:
        where = "" if self._path is None else printable(self._path)
        self.notice = f"the search index is kept in memory, as its file cannot be used: {where}: {reason}"
        self._path = None
        connection = self._file.in_memory()
        if copied is not None:
            try:
                copied.backup(connection)
            except sqlite3.Error:
                connection.close()
                connection = self._file.in_memory()
        return connection

    def _done(self, work: Callable[[], Answer]) -> Answer:
        """What some work with the index comes to: with another index where this one cannot be used.

        The first one that is damaged is made again, and whatever comes after that is kept in memory.
        """
        is_replaced = False
        with self._lock:
            while True:
                try:
                    if is_replaced:
                        self._refresh(None)
                    return work()
                except sqlite3.DatabaseError as exc:
                    self._require_possible(exc)
                    self._recover(exc, in_place=not is_replaced)
                    is_replaced = True

    def _require_possible(self, exc: sqlite3.DatabaseError) -> None:
        """RyeError `invalid_query` for a question that SQLite refuses, however good the index is."""
        if getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR and self._file.is_whole(
            self._engine.database
        ):
            what = "expected a query that the search engine can read, found one that it refuses"
            raise RyeError("invalid_query", what, hint="search for less at once") from exc

    def _recover(self, exc: sqlite3.DatabaseError, *, in_place: bool) -> None:
        """Put another index in the place of one that is damaged, or cannot be written."""
        if self._path is None:
            raise exc  # there is nothing left to fall back to
        old = self._engine.database
        if _is_damage(exc) and in_place:
            inode = None
            with suppress(OSError):
                inode = self._path.stat().st_ino
            old.close()
            replacement = self._open(inode)
        else:
            with suppress(sqlite3.Error):
                old.rollback()
            replacement = self._in_memory(exc, None if _is_damage(exc) else old)
            old.close()
        self._engine = Engine(replacement, self._stemmer, self._meaning)
        self._version = None


def _is_damage(exc: sqlite3.DatabaseError) -> bool:
    code = getattr(exc, "sqlite_errorcode", None)
    return code is None or code & 0xFF in _DAMAGE


def _report(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)
    if done < total and threading.active_count() > 1:
        time.sleep(YIELD_S)


def _stamp_of(stamp: str) -> Stamp | None:
    """The stamp that a file had; None when it is to be looked at again whatever it has now."""
    try:
        written, changed, size, inode = map(int, str(stamp).split(","))
    except ValueError:
        return None
    return (written, changed, size, inode)
