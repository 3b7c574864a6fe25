"""Results that are kept by their content, each for the project whose runs made it.

A handle is `rye://result/<sha256>`. It opens the result only for callers of the same project, so knowing what
is in a file doesn't show that another project has it. The rules are in `docs/architecture/execution.md`.

    kept = KeptResults(state, owner_of(project)).keep(b'{"rows": []}', name="data")
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, Final

from lilux import _files as whole_files
from lilux import _trees
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS, refusal
from rye_mcp.visible import visible

__all__ = [
    "MAX_AGE",
    "MAX_TOTAL_BYTES",
    "PREVIEW_BYTES",
    "Kept",
    "KeptResults",
    "as_bytes",
    "is_result_handle",
    "media_type_of",
    "owner_of",
    "result_handle",
    "text_of",
    "with_kept",
]

MAX_TOTAL_BYTES: Final = 512 << 20
"""How much is kept of all results. One project leaves the others their share of it."""

MAX_AGE: Final = timedelta(days=7)
"""How long a result is kept since it was last made."""

PREVIEW_BYTES: Final = 2048
"""How much of a result its caller sees at once."""

_SCHEME: Final = "rye://result/"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_OWNER_DIGITS: Final = 32
_DIRECTORY_NAME: Final = "results"
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_SHARE_BETWEEN_SWEEPS: Final = 16
_SHOWN_CHARACTERS: Final = 90
_BLOCK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Kept:
    """One result that was kept: its name, its bytes, and how it begins (empty if it isn't text)."""

    digest: str
    name: str
    size: int
    media_type: str
    preview: str

    @classmethod
    def of(cls, data: bytes, name: str, digest: str, size: int) -> Kept:
        """The one whose content begins with `data`."""
        beginning = data[:PREVIEW_BYTES]
        preview = text_of(beginning, is_whole=size <= PREVIEW_BYTES) or ""
        return cls(digest, name, size, media_type_of(name, beginning), preview)

    @property
    def handle(self) -> str:
        """The address of the result."""
        return result_handle(self.digest)

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "handle": self.handle,
            "name": visible(self.name),
            "bytes": self.size,
            "mime_type": self.media_type,
            "preview": self.preview,
        }


def result_handle(digest: str) -> str:
    """The handle of a result with this SHA-256."""
    return f"{_SCHEME}{digest}"


def is_result_handle(value: object) -> bool:
    """Whether this is meant as the handle of a result; it may still be malformed."""
    return isinstance(value, str) and value.startswith(_SCHEME)


def owner_of(project: Path | None) -> str:
    """Where results of a project's runs are kept; None for runs without a project."""
    known = b"" if project is None else os.fsencode(project)
    return hashlib.sha256(known).hexdigest()[:_OWNER_DIGITS]


class KeptResults:
    """The kept results of one owner or, without one, of all: then they can only be read."""

    def __init__(
        self,
        state: Path,
        owner: str | None,
        *,
        total_bytes: int = MAX_TOTAL_BYTES,
        max_age: timedelta = MAX_AGE,
    ) -> None:
        self._root = state / _DIRECTORY_NAME
        self._tree = _trees.Tree(state, forbidden=OTHERS)
        self._owner = owner
        self._total_bytes = total_bytes
        self._max_age = max_age
        self._since_sweep: int | None = None
        self._sweeping: threading.Thread | None = None

    def keep(self, data: bytes, *, name: str) -> Kept:
        """Keep these bytes whole, for as long as there is room; RyeError `write_failed`."""
        digest = hashlib.sha256(data).hexdigest()
        place = self._root / (self._owner or "")
        try:
            self._prepare(place)
            with self._directory(place.name) as directory:
                if not _was_touched(digest, directory):
                    path = place / digest
                    whole_files.write_whole(path, data, mode=_FILE_MODE, directory=directory)
        except (OSError, _trees.UnsafeError) as exc:
            raise refusal(exc, place, "write_failed") from exc
        self._sweep_sometimes(len(data))
        return Kept.of(data, name, digest, len(data))

    def keep_file(self, source: int, *, name: str, limit: int) -> Kept:
        """Keep all of an open file; RyeError `too_large` above the limit, or `write_failed`."""
        hashed, size, beginning = hashlib.sha256(), 0, b""
        place = self._root / (self._owner or "")
        try:
            self._prepare(place)
            with self._directory(place.name) as directory, _new_file(directory) as (target, temporary):
                while block := os.pread(source, _BLOCK_BYTES, size):
                    size += len(block)
                    if size > limit:
                        raise RyeError("too_large", f"expected at most {limit} bytes, found more")
                    beginning = beginning or block[:PREVIEW_BYTES]
                    hashed.update(block)
                    _write_all(target, block)
                os.fsync(target)
                os.rename(temporary, hashed.hexdigest(), src_dir_fd=directory, dst_dir_fd=directory)
        except (OSError, _trees.UnsafeError) as exc:
            raise refusal(exc, place, "write_failed") from exc
        self._sweep_sometimes(size)
        return Kept.of(beginning, name, hashed.hexdigest(), size)

    @contextmanager
    def opened(self, handle: str) -> Iterator[int]:
        """The open file of a result; RyeError `malformed_handle` or `output_not_found`."""
        digest = _digest_in(handle)
        descriptor = self._open(digest)
        with _trees.opened(descriptor):
            yield descriptor

    def read_whole(self, handle: str, *, limit: int) -> bytes:
        """All of a result, which is what its name says; RyeError `too_large` above the limit."""
        with self.opened(handle) as descriptor:
            size = os.fstat(descriptor).st_size
            if size > limit:
                what = f"expected a kept result of at most {limit} bytes, found {size} in {handle}"
                raise RyeError("too_large", what, hint="read it in pieces with load")
            data = whole_files.read(descriptor, size, limit, self._root)
        if hashlib.sha256(data).hexdigest() != _digest_in(handle):
            raise _not_kept(handle)
        return data

    def kept(self, handle: str, *, name: str) -> Kept:
        """What is known of a result; RyeError `malformed_handle` or `output_not_found`."""
        beginning, _, size = self.read_bytes(handle, offset=0, length=PREVIEW_BYTES)
        return Kept.of(beginning, name, _digest_in(handle), size)

    def read_bytes(self, handle: str, *, offset: int, length: int) -> tuple[bytes, int, int]:
        """At most `length` bytes of a result, where they begin, and how many it has in all.

        An offset below 0 counts from the end.
        """
        with self.opened(handle) as descriptor:
            total = os.fstat(descriptor).st_size
            start = max(0, total + offset) if offset < 0 else min(offset, total)
            return os.pread(descriptor, length, start), start, total

    def sweep(self) -> None:
        """Remove what is too old, then the oldest of the owners that keep most, until there is room."""
        oldest = time.time() - self._max_age.total_seconds()
        with suppress(OSError, _trees.UnsafeError):
            found = sorted(self._all(), reverse=True)
            sizes: Counter[str] = Counter()
            for _, size, owner, _ in found:
                sizes[owner] += size
            share = _share(sizes.values(), self._total_bytes)
            room = dict.fromkeys(sizes, share)
            for kept_at, size, owner, name in found:
                room[owner] -= size
                if kept_at < oldest or room[owner] < 0:
                    with suppress(OSError, _trees.UnsafeError), self._directory(owner) as directory:
                        os.unlink(name, dir_fd=directory)

    def close(self) -> None:
        """Wait for what is under way."""
        if self._sweeping is not None:
            self._sweeping.join()

    def _open(self, digest: str) -> int:
        try:
            for owner in [self._owner] if self._owner is not None else self._owners():
                with suppress(FileNotFoundError):
                    return self._tree.open_file(f"{_DIRECTORY_NAME}/{owner}/{digest}")
        except FileNotFoundError as exc:
            raise _not_kept(result_handle(digest)) from exc
        except (OSError, _trees.UnsafeError) as exc:
            raise refusal(exc, self._root) from exc
        raise _not_kept(result_handle(digest))

    def _owners(self) -> list[str]:
        with self._directory("") as root, os.scandir(root) as entries:
            return sorted(each.name for each in entries if each.is_dir(follow_symlinks=False))

    @contextmanager
    def _directory(self, owner: str) -> Iterator[int]:
        with self._tree.opened(f"{_DIRECTORY_NAME}/{owner}") as directory:
            yield directory

    def _all(self) -> Iterator[tuple[float, int, str, str]]:
        """When each result was made last, its size, and where it is."""
        for owner in self._owners():
            with self._directory(owner) as directory, os.scandir(directory) as files:
                for each in files:
                    with suppress(OSError):  # another process has swept it
                        found = each.stat(follow_symlinks=False)
                        yield found.st_mtime, found.st_size, owner, each.name

    def _prepare(self, place: Path) -> None:
        if self._owner is None:
            raise ValueError("expected the results of one project to keep another one")
        for path in (self._root.parent, self._root, place):
            if not path.is_dir():
                whole_files.make_directory(path, mode=_DIRECTORY_MODE)

    def _sweep_sometimes(self, size: int) -> None:
        """Sweep in a thread of its own: at first, and again when much was added."""
        before, self._since_sweep = self._since_sweep, (self._since_sweep or 0) + size
        if before is not None and self._since_sweep < self._total_bytes // _SHARE_BETWEEN_SWEEPS:
            return
        if self._sweeping is None or not self._sweeping.is_alive():
            self._since_sweep = 0
            self._sweeping = threading.Thread(target=self.sweep, name="rye-results", daemon=True)
            self._sweeping.start()


def _share(sizes: Iterable[int], total: int) -> int:
    """How much each owner may keep, so that all together keep at most `total`.

    An owner that keeps less leaves the rest to the others.

    >>> _share([10, 400, 300], 512)
    251
    """
    ascending = sorted(sizes)
    for number, size in enumerate(ascending):
        share = total // (len(ascending) - number)
        if size > share:
            return share
        total -= size
    return ascending[-1] if ascending else 0


@contextmanager
def _new_file(directory: int) -> Iterator[tuple[int, str]]:
    """A file that is filled, with its name, which is removed unless it was renamed."""
    temporary = f".lilux-{os.urandom(8).hex()}.tmp"
    descriptor = os.open(temporary, _trees.NEW_FILE, _FILE_MODE, dir_fd=directory)
    try:
        yield descriptor, temporary
    finally:
        os.close(descriptor)
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def as_bytes(value: Any) -> bytes:
    """A value as it is kept: a text as it is, and everything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def with_kept(facts: Mapping[str, Any], kept: Kept) -> dict[str, Any]:
    """The facts of a result, with the handle of what was kept in the place of the value itself."""
    rest = {name: value for name, value in facts.items() if name != kept.name}
    sentence = (
        f"{kept.name} ({kept.size} bytes) was kept and not repeated here: load with run_id {kept.handle} "
        "reads it in pieces, and other tools take this handle as a parameter"
    )
    notice = {"code": "result_kept", "message": sentence}
    return {
        **rest,
        "kept": [*facts.get("kept", ()), kept.as_dict()],
        "notices": [*facts.get("notices", ()), notice],
    }


def _was_touched(name: str, directory: int) -> bool:
    """Make a result that is there already the newest one."""
    try:
        os.utime(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _digest_in(handle: str) -> str:
    digest = handle.removeprefix(_SCHEME)
    if not is_result_handle(handle) or not _DIGEST.fullmatch(digest):
        found = ascii(handle)[:_SHOWN_CHARACTERS]
        raise RyeError("malformed_handle", f"expected {_SCHEME} and 64 digits of 0-9 and a-f, found {found}")
    return digest


def _not_kept(handle: str) -> RyeError:
    what = f"expected {handle} to be a result of a run of this project that is still kept, found none"
    return RyeError("output_not_found", what, hint="run the tool again: it is kept for a limited time")


# --- media types ---
# The media type of a file: by its name, or else by how it begins. Nothing of the machine is asked.
#
# >>> media_type_of("report.csv", b"a,b")
# 'text/csv'


_BY_SUFFIX: Final = MappingProxyType(
    {
        ".css": "text/css",
        ".csv": "text/csv",
        ".gif": "image/gif",
        ".gz": "application/gzip",
        ".html": "text/html",
        ".jpeg": "image/jpeg",
        ".jpg": "image/jpeg",
        ".json": "application/json",
        ".jsonl": "application/jsonl",
        ".md": "text/markdown",
        ".mp3": "audio/mpeg",
        ".pdf": "application/pdf",
        ".png": "image/png",
        ".svg": "image/svg+xml",
        ".tsv": "text/tab-separated-values",
        ".txt": "text/plain",
        ".wav": "audio/wav",
        ".webp": "image/webp",
        ".xml": "application/xml",
        ".yaml": "application/yaml",
        ".yml": "application/yaml",
        ".zip": "application/zip",
    }
)

_BY_BEGINNING: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
)


def media_type_of(name: str, beginning: bytes) -> str:
    """The media type of a file with this name that begins like this."""
    known = _BY_SUFFIX.get(PurePath(name).suffix.lower())
    found = next((kind for start, kind in _BY_BEGINNING if beginning.startswith(start)), None)
    return known or found or _of_text(beginning)


def text_of(beginning: bytes, *, is_whole: bool = False) -> str | None:
    """The beginning of a file as text, without the half of a character at its end; None if it isn't text."""
    try:
        return None if b"\0" in beginning else codecs.utf_8_decode(beginning, "strict", is_whole)[0]
    except UnicodeDecodeError:
        return None


def _of_text(beginning: bytes) -> str:
    if text_of(beginning) is None:
        return "application/octet-stream"
    return "application/json" if beginning.lstrip()[:1] in (b"{", b"[") else "text/plain"
