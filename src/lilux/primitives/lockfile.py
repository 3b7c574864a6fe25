"""Lockfiles: what a tool's chain was when it was pinned, kept at a path that the caller names.

Rules:

- Paths are explicit. Nothing is looked up, no configuration is read, no directory is made.
- Lilux checks the form, not the meaning: that the fields are there and have their types. Whether the pins fit
  is for the caller to say; the elements of `resolved_chain` may be any JSON.
- A file that is not there is FileNotFoundError. One that is no lockfile is LockfileError, which is a
  ValueError too, and lists everything that is wrong. So is one of a newer format: to read half of it is to
  ignore pins. Other errors of the system, such as PermissionError, stay what they are.
- At most `MAX_LOCKFILE_BYTES` are read, as strict JSON: UTF-8, no key twice, no NaN, limited depth.
- Fields that are not known stay: at the top and in `root` as `extra`, in elements of the chain as they are.
- `save` refuses whatever `load` would refuse. It replaces the file as a whole, durably, with mode 0644:
  indented by two, the known fields first, ASCII only, a newline at the end. The same lockfile always has the
  same bytes.

Example:

    manager = LockfileManager()
    root = LockfileRoot(tool_id="demo", version="1.0.0", integrity="9f86d081…")
    manager.save(Lockfile(1, "2026-01-30T12:00:00Z", root, resolved_chain=[]), path)
    manager.load(path).root.version
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from lilux import _files, _json
from lilux._dataclasses import dataclass
from lilux.primitives.errors import LockfileError

__all__ = ["LOCKFILE_VERSION", "MAX_LOCKFILE_BYTES", "Lockfile", "LockfileManager", "LockfileRoot"]

LOCKFILE_VERSION = 1
"""The newest format that is understood."""

MAX_LOCKFILE_BYTES = 16 * 1024 * 1024
"""How large a lockfile may be. One with ten thousand dependencies has about a tenth of that."""

_MODE = 0o644

_ROOT_FIELDS: dict[str, type] = {"tool_id": str, "version": str, "integrity": str}
_REQUIRED_FIELDS: dict[str, type] = {
    "lockfile_version": int,
    "generated_at": str,
    "root": dict,
    "resolved_chain": list,
}
_OPTIONAL_FIELDS: dict[str, type] = {"registry": dict, "verified_deps": dict}
_FIELDS = _REQUIRED_FIELDS | _OPTIONAL_FIELDS

_TYPE_NAMES: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    dict: "an object",
    list: "a list",
    type(None): "null",
}
_NOT_A_FILE = {errno.EISDIR, errno.EINVAL, errno.ENXIO, errno.EFBIG}
_ENCODER = json.JSONEncoder(indent=2, ensure_ascii=True, allow_nan=False, check_circular=False)


@dataclass
class LockfileRoot:
    """The tool that is locked."""

    tool_id: str
    version: str
    integrity: str
    """SHA256 of its content."""
    extra: dict[str, Any] = field(default_factory=dict, kw_only=True)
    """Fields that this version does not know."""


@dataclass
class Lockfile:
    """A locked tool and everything that it was resolved to."""

    lockfile_version: int
    """The format, `LOCKFILE_VERSION`."""
    generated_at: str
    """When it was made, an ISO timestamp."""
    root: LockfileRoot
    resolved_chain: list[Any]
    """The elements of the chain in order, with their hashes."""
    registry: dict[str, Any] | None = None
    """Where things came from."""
    verified_deps: dict[str, Any] | None = None
    """The hashes of verified dependencies."""
    extra: dict[str, Any] = field(default_factory=dict, kw_only=True)
    """Fields that this version does not know."""

    @classmethod
    def from_bytes(cls, data: bytes, *, path: str | Path | None = None) -> Lockfile:
        """The lockfile that stands in `data`; `path` is for the message of a LockfileError."""
        try:
            document = _json.decode(data)
        except _json.NotJsonError as exc:
            raise _malformed(exc.issues, path) from exc
        if issues := list(_document_issues(document)):
            error = _malformed(issues, path)
            error.newer = isinstance(document, dict) and _version_of(document) > LOCKFILE_VERSION
            raise error
        root = document["root"]
        return cls(
            **{name: document.get(name) for name in _FIELDS if name != "root"},
            root=LockfileRoot(
                **{name: root[name] for name in _ROOT_FIELDS}, extra=_unknown(root, _ROOT_FIELDS)
            ),
            extra=_unknown(document, _FIELDS),
        )

    def to_bytes(self, *, path: str | Path | None = None) -> bytes:
        """Return the bytes that `save` writes; `path` is for the message of a LockfileError."""
        document = self._document()
        if issues := [*self._extra_issues(), *_document_issues(document)]:
            raise _malformed(issues, path)
        try:
            data = _json.encode(document, _ENCODER).encode("ascii") + b"\n"
        except _json.NotJsonError as exc:
            raise _malformed(exc.issues, path) from exc
        if len(data) > MAX_LOCKFILE_BYTES:
            raise _malformed([f"expected at most {MAX_LOCKFILE_BYTES} bytes, found {len(data)}"], path)
        return data

    def _document(self) -> dict[str, Any]:
        """The fields in the order of the file; an optional one that is None is left out."""
        known = {name: getattr(self, name) for name in _FIELDS}
        if isinstance(self.root, LockfileRoot):
            known["root"] = {name: getattr(self.root, name) for name in _ROOT_FIELDS} | self.root.extra
        if isinstance(self.resolved_chain, tuple):
            known["resolved_chain"] = list(self.resolved_chain)
        left_out = {name for name in _OPTIONAL_FIELDS if known[name] is None}
        return {name: value for name, value in known.items() if name not in left_out} | self.extra

    def _extra_issues(self) -> Iterator[str]:
        """Find values that are given twice, and would hide those of the field itself."""
        if isinstance(self.root, LockfileRoot):
            yield from _hidden("root.extra", self.root.extra, _ROOT_FIELDS)
        yield from _hidden("extra", self.extra, _FIELDS)


class LockfileManager:
    """Reads and writes lockfiles at explicit paths. It keeps nothing, so one will do for everybody."""

    def load(self, path: Path) -> Lockfile:
        """The lockfile at `path`; FileNotFoundError if it is missing, LockfileError if it is invalid."""
        try:
            data = _files.read_capped(path, MAX_LOCKFILE_BYTES)
        except NotADirectoryError as exc:
            raise FileNotFoundError(errno.ENOENT, "expected a lockfile, found nothing", str(path)) from exc
        except OSError as exc:
            if exc.errno in _NOT_A_FILE:
                raise _malformed([exc.strerror or str(exc)], path) from exc
            raise
        return Lockfile.from_bytes(data, path=path)

    def save(self, lockfile: Lockfile, path: Path) -> Path:
        """Write `lockfile` to `path` and return that; FileNotFoundError when the directory does not exist."""
        path = Path(path)
        data = lockfile.to_bytes(path=path)
        try:
            _files.write_whole(path, data, mode=_MODE)
        except (FileNotFoundError, NotADirectoryError) as exc:
            what = "expected the directory of the lockfile, found nothing"
            raise FileNotFoundError(errno.ENOENT, what, str(path.parent)) from exc
        except IsADirectoryError as exc:
            raise _malformed(["expected a place for a file, found a directory"], path) from exc
        return path

    def exists(self, path: Path) -> bool:
        """Whether there is something at `path`."""
        return Path(path).exists()


def _version_of(document: dict[str, Any]) -> int:
    version: Any = document.get("lockfile_version")
    return version if _is_a(version, int) else LOCKFILE_VERSION


def _document_issues(document: Any) -> Iterator[str]:
    """Everything that keeps a JSON document from being a lockfile."""
    if not isinstance(document, dict):
        yield f"expected an object, found {_type_name(document)}"
        return
    version = _version_of(document)
    if version > LOCKFILE_VERSION:
        yield (
            f"lockfile_version: expected {LOCKFILE_VERSION}, found the newer {version}; "
            "what wrote it is newer than this program, and can read it"
        )
        return
    yield from _field_issues(document, _REQUIRED_FIELDS)
    if version < LOCKFILE_VERSION:
        yield f"lockfile_version: expected {LOCKFILE_VERSION}, found {version}"
    if isinstance(document.get("root"), dict):
        yield from _field_issues(document["root"], _ROOT_FIELDS, place="root.")
    given = {name: kind for name, kind in _OPTIONAL_FIELDS.items() if document.get(name) is not None}
    yield from _field_issues(document, given)


def _field_issues(values: dict[str, Any], fields: dict[str, type], *, place: str = "") -> Iterator[str]:
    for name, kind in fields.items():
        if name not in values:
            yield f"{place}{name}: expected {_TYPE_NAMES[kind]}, found nothing"
        elif not _is_a(values[name], kind):
            yield f"{place}{name}: expected {_TYPE_NAMES[kind]}, found {_type_name(values[name])}"


def _is_a(value: Any, kind: type) -> bool:
    """Like isinstance, but True is no integer."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _type_name(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def _unknown(values: dict[str, Any], fields: dict[str, type]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in fields}


def _hidden(place: str, extra: dict[str, Any], fields: dict[str, type]) -> Iterator[str]:
    return (f"{place}: expected fields that are not known, found {name}" for name in fields if name in extra)


def _malformed(issues: Iterable[object], path: str | Path | None) -> LockfileError:
    place = "" if path is None else f" {path}"
    return LockfileError(f"malformed lockfile{place}: " + "; ".join(map(str, issues)), path=path)
