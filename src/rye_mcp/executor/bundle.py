"""A call as a value: everything that a run needs, and no path of this machine.

A bundle says nothing about trust. Its reader verifies it like files on the disk (`BundleSpaces`), by
what their own machine trusts. The form of its bytes is in `docs/architecture/execution.md`.

    data = (await executor.bundle("demo/hello", {"name": "Ada"})).to_bytes()
    result = await elsewhere.run_bundle(Bundle.from_bytes(data))
"""

from __future__ import annotations

import hashlib
import math
import stat
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from lilux import _json
from lilux._dataclasses import dataclass
from lilux.primitives.errors import IntegrityError
from lilux.primitives.integrity import canonical_json
from rye_mcp.errors import RyeError
from rye_mcp.executor.caller import Caller, TraceContext
from rye_mcp.executor.chain.builder import MAX_CHAIN_DEPTH
from rye_mcp.executor.chain.files import Source
from rye_mcp.executor.lock import pins
from rye_mcp.executor.lock.resolver import PinnedChain
from rye_mcp.items import ItemFile, ItemType, Space, SpaceName, parse_relative_path, path_below, relative_path
from rye_mcp.permissions import Permissions, read_permissions
from rye_mcp.runs.ids import is_run_id
from rye_mcp.spaces import Found, Spaces
from rye_mcp.spaces.source_tree import MAX_LISTED_NAMES, SourceFile, SourceName
from rye_mcp.trust.dependency_manifest import MAX_CARRIED_BYTES

__all__ = ["MAX_BUNDLE_BYTES", "Bundle", "BundleSpaces"]

MAX_BUNDLE_BYTES: Final = MAX_CARRIED_BYTES + (64 << 20)
"""How long a bundle may be: all files that a tool may bring along, and 64 MiB."""

_VALUES_OF_A_FILE: Final = 6
MAX_HEAD_VALUES: Final = _VALUES_OF_A_FILE * MAX_LISTED_NAMES + _json.MAX_VALUES
"""How many values its head may hold: all files, and a large call. Other calls wait while they are read."""

MAX_DEPTH: Final = 64
"""How many runs may be above the one that a bundle is for."""

_MAGIC: Final = b"rye-bundle 1\n"
_LENGTH: Final = 8
_DIGEST: Final = hashlib.sha256().digest_size
_MAX_TEXT: Final = 1000
_MAX_PATH: Final = 4096
_ROOT: Final = ItemType.TOOL.directory

Place = tuple[SpaceName, str]
"""Where a file is: its space, and its path below the root of that."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A call that was decided: what runs with which parameters, for whom, and what it may do.

    `chain` has the places of the tool and of everything that runs it, which are among the `files`; `marker`
    is the file that switches the anchor of the tool on. `lock` is a lockfile that pins the chain, `package`
    the version of rye-mcp that decided.
    """

    package: str
    chain: tuple[Place, ...]
    files: tuple[Source, ...]
    lock: bytes = field(repr=False)
    parameters: Mapping[str, Any] = field(repr=False)
    permissions: Permissions
    caller: Caller
    marker: str | None = None
    timeout: float | None = None

    @classmethod
    def of(
        cls,
        pinned: PinnedChain,
        parameters: Mapping[str, Any],
        permissions: Permissions,
        caller: Caller,
        *,
        package: str,
        timeout: float | None = None,
    ) -> Bundle:
        """The one of a call; RyeError `not_runnable` for a tool that can run nowhere else."""
        verified = pinned.valid.verified
        chain, carried = verified.chain, verified.carried
        if not carried.sealed:
            what = f"expected a tool whose files can be taken along, found {chain.root.item_id}"
            raise RyeError("not_runnable", f"{what}: {carried.why_not_sealed}", item_id=chain.root.item_id)
        places = tuple((element.space, _relative(element.file)) for element in chain.elements)
        sources = {(each.space, each.relative): each for each in carried.sources}
        for place, element in zip(places, chain.elements, strict=True):
            sources[place] = Source(*place, element.file.content)
        return cls(
            package,
            places,
            tuple(sources[place] for place in sorted(sources)),
            pins.rendered(pinned.valid, package_version=package),
            parameters,
            permissions,
            replace(caller, client=None if caller.client is None else caller.client[:_MAX_TEXT]),
            None if carried.anchor is None else carried.anchor.marker,
            timeout,
        )

    @property
    def item_id(self) -> str:
        """The id of the tool."""
        return parse_relative_path(self.chain[0][1])[1]

    @property
    def unchanging(self) -> Hashable:
        """All of it that is the same in every call of the same files."""
        return self.package, self.chain, self.files, self.lock, self.marker

    @property
    def size(self) -> int:
        """How many bytes all of that has, also in files that the call does not use."""
        return len(self.lock) + sum(len(each.content) for each in self.files)

    def to_bytes(self) -> bytes:
        """The bundle as bytes: the same ones for the same bundle."""
        caller, trace = self.caller, self.caller.trace
        head = {
            "caller": {
                "client": caller.client,
                "depth": caller.depth,
                "kind": caller.kind,
                "parent": caller.parent,
                "trace": None if trace is None else [trace.parent, trace.state],
            },
            "chain": [[space.value, relative] for space, relative in self.chain],
            "files": [
                [each.space.value, each.relative, len(each.content), _hash(each.content), each.executable]
                for each in self.files
            ],
            "lock": self.lock.decode(),
            "marker": self.marker,
            "package": self.package,
            "parameters": dict(self.parameters),
            "permissions": self.permissions.canonical(),
            "timeout": self.timeout,
        }
        try:
            text = canonical_json(head).encode("ascii")
        except IntegrityError as exc:
            raise _malformed(f"values that JSON can hold, found {exc}") from exc
        _require_few_values(text)
        whole = b"".join([_MAGIC, len(text).to_bytes(_LENGTH), text, *(each.content for each in self.files)])
        if len(whole) + _DIGEST > MAX_BUNDLE_BYTES:
            raise _too_large(len(whole) + _DIGEST)
        return whole + hashlib.sha256(whole).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Bundle:
        """The bundle of these bytes; RyeError for anything that `to_bytes` would not have written."""
        if len(data) > MAX_BUNDLE_BYTES:
            raise _too_large(len(data))
        body, digest = data[:-_DIGEST], data[-_DIGEST:]
        if not data.startswith(_MAGIC):
            raise _malformed(f"one that begins with {_MAGIC.decode().strip()!r}, found something else")
        if hashlib.sha256(body).digest() != digest:
            raise RyeError("content_changed", "expected a bundle as it was written, found other bytes")
        start = len(_MAGIC) + _LENGTH
        end = start + int.from_bytes(body[len(_MAGIC) : start])
        text = body[start:end]
        _require_few_values(text)
        try:
            head = _json.decode(text)
        except (_json.NotJsonError, ValueError, RecursionError) as exc:
            raise _malformed(f"a head in JSON, found {exc}") from exc
        found = cls(**_Head(head).fields(body[end:]))
        if found.to_bytes() != data:
            raise _malformed("its one form, found another one")
        return found


def _relative(file: ItemFile) -> str:
    return relative_path(file.item_type, file.item_id, file.extension)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _malformed(expected: str) -> RyeError:
    return RyeError("invalid_item", f"expected a bundle of a call: {expected}")


def _require_few_values(text: bytes) -> None:
    if len(text) > MAX_HEAD_VALUES and not _json.ValueCount(MAX_HEAD_VALUES).feed(text):
        what = f"expected a call of at most {MAX_HEAD_VALUES} values, with its list of files, found more"
        raise RyeError("too_large", what, hint="pass them in a file")


def _too_large(size: int) -> RyeError:
    return RyeError("too_large", f"expected a bundle of at most {MAX_BUNDLE_BYTES} bytes, found {size}")


class _Head:
    """Reads the head of a bundle; whatever is not as it should be is refused."""

    def __init__(self, head: Any) -> None:
        self._head = self._object("head", head, _KEYS)

    def fields(self, contents: bytes) -> dict[str, Any]:
        """The fields of the bundle, whose files have these contents."""
        head = self._head
        files = tuple(self._files(head["files"], memoryview(contents)))
        chain = tuple(self._place("chain", each) for each in self._list("chain", head["chain"]))
        if not 1 <= len(chain) <= MAX_CHAIN_DEPTH:
            self._refuse("chain", f"1 to {MAX_CHAIN_DEPTH} elements")
        known = {(each.space, each.relative) for each in files}
        for place in chain:
            if place not in known or parse_relative_path(place[1])[0] is not ItemType.TOOL:
                self._refuse("chain", "tools that are among its files")
        permissions, problems = read_permissions(head["permissions"])
        if problems:
            self._refuse("permissions", problems[0])
        if not isinstance(head["parameters"], dict):
            self._refuse("parameters", "an object")
        marker = head["marker"]
        return {
            "package": self._text("package", head["package"]),
            "chain": chain,
            "files": files,
            "lock": self._text("lock", head["lock"], MAX_BUNDLE_BYTES).encode(),
            "parameters": head["parameters"],
            "permissions": permissions,
            "caller": self._caller(head["caller"]),
            "marker": None if marker is None else self._path("marker", marker),
            "timeout": self._timeout(head["timeout"]),
        }

    def _files(self, listed: Any, contents: memoryview) -> Iterator[Source]:
        rows = self._list("files", listed)
        if len(rows) > MAX_LISTED_NAMES:
            self._refuse("files", f"at most {MAX_LISTED_NAMES}")
        at, places = 0, []
        for row in rows:
            if not isinstance(row, list) or len(row) != 5 or type(row[2]) is not int or row[2] < 0:
                self._refuse("files", "a space, a path, a size, a SHA256 and a flag for each")
            place = self._place("files", row[:2])
            places.append(place)
            content = bytes(contents[at : at + row[2]])
            at += row[2]
            if len(content) != row[2] or _hash(content) != row[3] or type(row[4]) is not bool:
                self._refuse("files", f"the content of {place[1]!a}, as it is listed")
            yield Source(*place, content, row[4])
        if at != len(contents):
            self._refuse("files", "nothing behind the last file")
        if any(one >= other for one, other in pairwise(places)):
            self._refuse("files", "each file once, in order")

    def _caller(self, value: Any) -> Caller:
        said = self._object("caller", value, ("client", "depth", "kind", "parent", "trace"))
        kind, client, parent, depth = said["kind"], said["client"], said["parent"], said["depth"]
        if kind not in ("person", "agent"):
            self._refuse("caller.kind", "person or agent")
        if client is not None:
            self._text("caller.client", client)
        if parent is not None and not is_run_id(parent):
            self._refuse("caller.parent", "a run id")
        if type(depth) is not int or not 0 <= depth <= MAX_DEPTH:
            self._refuse("caller.depth", f"a number from 0 to {MAX_DEPTH}")
        trace = said["trace"]
        if trace is not None:
            read = TraceContext.read(*trace) if isinstance(trace, list) and len(trace) == 2 else None
            if read is None or [read.parent, read.state] != trace:
                self._refuse("caller.trace", "a trace context")
            trace = read
        return Caller(kind, client, parent, depth, trace)

    def _timeout(self, value: Any) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            self._refuse("timeout", "seconds, more than 0")
        return value

    def _place(self, name: str, value: Any) -> Place:
        if not isinstance(value, list) or len(value) != 2 or value[0] not in set(SpaceName):
            self._refuse(name, "a space and a path")
        return SpaceName(value[0]), self._path(name, value[1])

    def _path(self, name: str, value: Any) -> str:
        """A path below the root of a space, which leads nowhere else wherever it is written to."""
        path = self._text(name, value, _MAX_PATH)
        segments = path.split("/")
        if segments[0] != _ROOT or not {"", ".", ".."}.isdisjoint(segments) or "\0" in path:
            self._refuse(name, f"a path below {_ROOT}/")
        return path

    def _text(self, name: str, value: Any, limit: int = _MAX_TEXT) -> str:
        if not isinstance(value, str) or len(value) > limit:
            self._refuse(name, f"text of at most {limit} characters")
        return value

    def _list(self, name: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            self._refuse(name, "a list")
        return value

    def _object(self, name: str, value: Any, keys: Sequence[str]) -> dict[str, Any]:
        if not isinstance(value, dict) or sorted(value) != sorted(keys):
            self._refuse(name, f"an object with {', '.join(keys)}")
        return value

    def _refuse(self, name: str, expected: str) -> NoReturn:
        raise _malformed(f"{name}: expected {expected}, found something else")


_KEYS: Final = (
    *("caller", "chain", "files", "lock", "marker", "package", "parameters", "permissions", "timeout"),
)


class BundleSpaces:
    """The spaces of this machine with the files of a bundle in place of those on the disk.

    A `ChainBuilder` finds the elements here, an `IntegrityVerifier` the files (`open_tree`).
    """

    def __init__(self, bundle: Bundle, local: Spaces) -> None:
        self._bundle = bundle
        self._local = local
        self._files = {(each.space, each.relative): each for each in bundle.files}

    def find(self, item_id: str) -> Found:
        """The tool of the bundle."""
        if item_id != self._bundle.item_id:
            raise RyeError("item_not_found", f"expected {item_id} in a bundle, found none", item_id=item_id)
        return self._found(self._bundle.chain[0])

    def find_executor(self, name: str, *, seen_from: SpaceName | None = None) -> Found:
        """The element of the chain that an `executor_id` names, in its space or below.

        A name without `/` that the system space of this machine knows means what it means there.
        """
        meant = None if "/" in name else self._in_system(name)
        for place in self._bundle.chain[1:]:
            item_id = parse_relative_path(place[1])[1]
            is_below = seen_from is None or place[0].precedence <= seen_from.precedence
            if not is_below or (meant is not None and (SpaceName.SYSTEM, meant) != (place[0], item_id)):
                continue
            if name in (item_id, item_id.rpartition("/")[2]):
                return self._found(place)
        raise RyeError("item_not_found", f"expected {name} in a bundle, found none", item_id=name)

    def open_tree(self, space: Space) -> BundleTree:
        """The files of a space."""
        marker = self._bundle.marker if space.name is self._bundle.chain[0][0] else None
        sources = (each for each in self._bundle.files if each.space is space.name)
        return BundleTree(space, {each.relative: each for each in sources}, marker)

    def _in_system(self, name: str) -> str | None:
        try:
            return self._local.find_executor(name, seen_from=SpaceName.SYSTEM).item.item_id
        except RyeError as exc:
            if exc.code != "item_not_found":
                raise
            return None

    def _found(self, place: Place) -> Found:
        space = self._local.space(place[0])
        item_type, item_id, extension = parse_relative_path(place[1])
        content, path = self._files[place].content, path_below(space.root, place[1])
        return Found(ItemFile(space, item_type, item_id, extension, path, content))


class BundleTree:
    """The files of one space in a bundle; none of them is on the disk."""

    def __init__(self, space: Space, files: Mapping[str, Source], marker: str | None) -> None:
        self._space = space
        self._files = files
        self._marker = marker

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """There is nothing to close."""

    def read(self, relative: str, *, limit: int) -> SourceFile | None:
        """A file; None if it is missing."""
        found = self._files.get(relative)
        if found is None:
            return None
        path = path_below(self._space.root, relative)
        if len(found.content) > limit:
            what = f"expected at most {limit} bytes in {relative!a} of a bundle, found more"
            raise RyeError("too_large", what)
        return SourceFile(path, found.content, found.executable)

    def holds(self, relative: str) -> bool:
        """Whether there is a file, or was one that counts by being there."""
        return relative in self._files or relative == self._marker

    def list(
        self, directory: str, *, recursive: bool = True, without: Collection[str] = ()
    ) -> list[SourceName]:
        """All files of a directory, and below it, by path."""
        found = []
        for relative in sorted(self._files):
            inside = relative.removeprefix(f"{directory}/").split("/") if directory else relative.split("/")
            if (directory and not relative.startswith(f"{directory}/")) or (not recursive and inside[1:]):
                continue
            hidden = any(name.startswith(".") or name == "__pycache__" for name in inside)
            if not hidden and set(without).isdisjoint(inside[:-1]):
                found.append(SourceName(relative, stat.S_IFREG))
        return found

    def unsafe(self, name: SourceName) -> RyeError:
        """Return the error for an unsafe name: a bundle holds only files."""
        raise ValueError(f"expected a name that is no file, found {name.relative}")
