"""Fetches one commit of a repository, and reads its files without a checkout: nothing of it runs.

Git fetches one pack into an empty repository of ours, under `/tmp` or where TMPDIR says, so no filter, hook,
attribute or submodule counts. The kernel ends git where a file gets larger than the limit. The objects are
then read here, and each one is compared with its name: from the commit down to every file.
"""

from __future__ import annotations

import hashlib
import os
import re
import resource
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO, Final

from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive, SubprocessResult
from rye_mcp.errors import RyeError, printable
from rye_mcp.sharing.programs import WhyNot, allowed_path, find_program
from rye_mcp.sharing.reference import GitReference, is_commit

__all__ = ["DIRECTORY", "FILE", "LINK", "PROGRAM", "Commit", "Entry", "fetched", "limits"]

FETCH_LIMIT_S: Final = 300
"""How long git may take."""

MAX_FETCHED_BYTES: Final = 512 << 20
"""How large each file may be that git writes: the one pack, and the objects that are read."""

MAX_MEMORY_BYTES: Final = 2 << 30
"""How much memory git may have for what a server sends."""

MAX_ENTRIES: Final = 50_000
"""How many files and directories may be read."""

DIRECTORY, FILE, PROGRAM, LINK = b"40000", b"100644", b"100755", b"120000"
"""The modes of what is in a directory."""

_REF: Final = "refs/rye/pulled"
_MAX_SMALL: Final = 8 << 20
_MAX_DEPTH: Final = 40
_MAX_LISTED: Final = 64 << 20
_NAME_BYTES: Final = 20
_SHOWN: Final = 200
_TREE_ENTRY: Final = re.compile(rb"(\d{5,6}) ([^/\0]{1,255})\0", re.DOTALL)
_TREE_OF: Final = re.compile(rb"tree ([0-9a-f]{40})\n")
_TAGGED: Final = re.compile(rb"object ([0-9a-f]{40})\ntype commit\n")
_OBJECT: Final = re.compile(rb"([0-9a-f]{40}) (blob|tree|commit|tag) (\d{1,12})\n")
_LISTED: Final = re.compile(rb"\d{6} (?:blob|tree) ([0-9a-f]{40})\t")
_MAX_HEADER: Final = 100
_OF_THE_USER: Final = frozenset(
    {"GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSL_CERT", "GIT_SSL_KEY", "GIT_PROXY_SSL_CAINFO"}
)
"""The only variables of git that count: which authorities vouch for servers, and who the user is to them."""

_LIMITED: Final = 'ulimit -f "$1" && ulimit -d "$2" || exit 125; out=$3; shift 3; exec "$@" > "$out"'
_BLOCK_BYTES: Final = 512
_KIBIBYTE: Final = 1024

_OPTIONS: Final = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "credential.interactive=false"),
    *("-c", "fetch.unpackLimit=1"),
    *("-c", "transfer.unpackLimit=1"),
    *("-c", "transfer.bundleURI=false"),
    *("-c", "fetch.uriProtocols="),
    *("-c", "fetch.recurseSubmodules=false"),
    *("-c", "fetch.writeCommitGraph=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "http.lowSpeedLimit=1"),
    *("-c", "http.lowSpeedTime=30"),
    *("-c", "init.defaultObjectFormat=sha1"),
    *("-c", "init.defaultRefFormat=files"),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a directory or a link of a commit: its path, its mode and its object."""

    path: str
    mode: bytes
    name: str


class Commit:
    """One commit, with every object of the directory that was asked for."""

    def __init__(self, name: str, objects: _Objects) -> None:
        self.name = name
        self.read = objects.read

    def directory(self, path: str) -> str | None:
        """The object of a directory; None if there is no such directory, or a link in its place."""
        found = _TREE_OF.match(self.read(self.name, b"commit", _MAX_SMALL))
        tree = None if found is None else found[1].decode()
        for part in filter(None, path.split("/")):
            below = {} if tree is None else {each.path: each for each in self._entries(tree, "")}
            entry = below.get(part)
            tree = None if entry is None or entry.mode != DIRECTORY else entry.name
        return tree

    def below(self, tree: str, is_wanted: Callable[[str], bool] = bool) -> Iterator[Entry]:
        """Everything wanted in a directory and in those below it, each directory before what it holds."""
        waiting = [("", tree, 0)]
        count = 0
        while waiting:
            above, tree, depth = waiting.pop()
            for entry in self._entries(tree, above):
                count += 1
                if count > MAX_ENTRIES or depth > _MAX_DEPTH:
                    raise _refused(f"at most {MAX_ENTRIES} files and directories", "more")
                if not is_wanted(entry.path):
                    continue
                yield entry
                if entry.mode == DIRECTORY:
                    waiting.append((f"{entry.path}/", entry.name, depth + 1))

    def _entries(self, tree: str, above: str) -> Iterator[Entry]:
        data = self.read(tree, b"tree", _MAX_SMALL)
        at = 0
        while at < len(data):
            entry = _TREE_ENTRY.match(data, at)
            at = len(data) if entry is None else entry.end() + _NAME_BYTES
            if entry is None or at > len(data) or entry[2] in (b".", b".."):
                raise _refused("a directory of git", "something else")
            path = f"{above}{entry[2].decode('utf-8', 'backslashreplace')}"
            yield Entry(path, entry[1].lstrip(b"0"), data[entry.end() : at].hex())


class _Objects:
    """The objects that git wrote to a file, each compared with its name, within one limit for all reading."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._room = MAX_FETCHED_BYTES
        self._places: dict[str, tuple[bytes, int, int]] = {}
        while header := stream.readline(_MAX_HEADER):
            found = _OBJECT.fullmatch(header)
            if found is None:
                raise _refused("every object of the commit", "that one is missing")
            size = int(found[3])
            self._places[found[1].decode()] = (found[2], stream.tell(), size)
            stream.seek(size + 1, os.SEEK_CUR)

    def kind(self, name: str) -> bytes | None:
        """The kind of an object."""
        return self._places[name][0] if name in self._places else None

    def read(self, name: str, kind: bytes, limit: int) -> bytes:
        """The content of an object; RyeError `invalid_artifact` when it is not what its name says."""
        found, at, size = self._places.get(name, (b"", 0, 0))
        if found != kind:
            raise _refused(f"a {kind.decode()} as {name}", "another object, or none")
        self._room -= size
        if size > limit or self._room < 0:
            raise _refused(f"at most {limit} bytes in {name}, and {MAX_FETCHED_BYTES} in all", "more")
        self._stream.seek(at)
        content = self._stream.read(size)
        data = b"%b %d\0%b" % (kind, size, content)
        if hashlib.sha1(data, usedforsecurity=False).hexdigest() != name:
            raise _refused(f"the object {name}", "other bytes")
        return content


@asynccontextmanager
async def fetched(
    reference: GitReference, directory: str, environment: Mapping[str, str], why_not: WhyNot
) -> AsyncIterator[Commit]:
    """The commit that a reference names, with all objects of a directory, for as long as the block lasts.

    `why_not` says why nothing may be started from a directory, None where it may.
    """
    with tempfile.TemporaryDirectory(prefix="rye-git-") as place:
        git = _Git.found(Path(place), reference, environment, why_not)
        await git.fetch()
        with (await git.objects(directory)).open("rb") as stream:
            yield _commit(_Objects(stream), git.fetched(), reference)


def _commit(objects: _Objects, name: str, reference: GitReference) -> Commit:
    """The commit that was fetched, behind a tag too; it is the one that was asked for, if one was."""
    if objects.kind(name) == b"tag":
        tagged = _TAGGED.match(objects.read(name, b"tag", _MAX_SMALL))
        if tagged is None:
            raise _refused(f"a commit as {reference.revision}", "the tag of something else")
        name = tagged[1].decode()
    objects.read(name, b"commit", _MAX_SMALL)
    if is_commit(reference.revision) and name != reference.revision:
        raise _refused(f"the commit {reference.revision}", name)
    return Commit(name, objects)


@dataclass(frozen=True, slots=True)
class _Git:
    """The program, and the empty repository that it works in."""

    program: str
    place: Path
    reference: GitReference
    environment: Mapping[str, str]

    @classmethod
    def found(
        cls, place: Path, reference: GitReference, environment: Mapping[str, str], why_not: WhyNot
    ) -> _Git:
        program, refused = find_program("git", environment, why_not)
        if program is None:
            hint = "install git, or clone the repository yourself"
            raise RyeError("registry_unreachable", f"expected git on the PATH, found {refused}", hint=hint)
        own = {
            "PATH": allowed_path(environment, why_not),
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": reference.protocol,
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_DIR": str(place / "repository"),
        }
        return cls(program, place, reference, {**_kept(environment), **own})

    async def fetch(self) -> None:
        """Fetch the objects of one commit, and no other."""
        await self._run("init", "--bare", "--quiet", "--template=", str(self.place / "repository"))
        await self._run(
            "fetch",
            *("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance"),
            *("--no-write-fetch-head", "--"),
            self.reference.url,
            f"{self.reference.revision}:{_REF}",
        )

    def fetched(self) -> str:
        """The name of the object that the reference stands for."""
        text = (self.place / "repository" / _REF).read_bytes()[: 2 * _NAME_BYTES]
        return text.decode("ascii", "replace")

    async def objects(self, directory: str) -> Path:
        """The file into which git wrote the commit, and every object of a directory and of the way to it."""
        place = f"{directory}/" if directory else "."
        await self._run("ls-tree", "-r", "-t", "-z", "--full-tree", _REF, "--", place)
        with self._output.open("rb") as stream:
            rows = stream.read(_MAX_LISTED).split(b"\0")
        names = {row[1].decode(): None for row in map(_LISTED.match, rows) if row is not None}
        if len(names) > MAX_ENTRIES:
            what = f"expected at most {MAX_ENTRIES} files and directories, found {len(names)}"
            raise RyeError("too_large", what, hint="name the directory that you mean, after #")
        wanted = (_REF, f"{_REF}^{{commit}}", f"{_REF}^{{tree}}", *names)
        await self._run("cat-file", "--batch", given=wanted)
        return self._output

    @property
    def _output(self) -> Path:
        return self.place / "output"

    async def _run(self, *arguments: str, given: Iterable[str] = ()) -> None:
        """Let git write what it says to a file; RyeError where it fails, or would write too large a file."""
        largest, memory = limits()
        start = (
            "sh",
            str(largest // _BLOCK_BYTES),
            str(memory // _KIBIBYTE),
            str(self._output),
            self.program,
        )
        spec = ProcessSpec(
            command="/bin/sh",
            args=("-c", _LIMITED, *start, *_OPTIONS, *arguments),
            env=dict(self.environment),
            cwd=self.place,
            timeout=FETCH_LIMIT_S,
            input="".join(f"{each}\n" for each in given).encode(),
        )
        result = await SubprocessPrimitive().run(spec)
        if not result.success:
            raise self._failure(result)

    def _failure(self, result: SubprocessResult) -> RyeError:
        largest, _ = limits()
        if any(path.lstat().st_size >= largest for path in self.place.rglob("*")):
            what = f"expected at most {largest} bytes of {self.reference}, found more"
            return RyeError("too_large", what, hint="clone it yourself, and take what you need from there")
        last = printable(result.stderr.strip().rpartition("\n")[2])[:_SHOWN] or result.kind
        what = f"expected {self.reference} from git, found that it failed: {last!a}"
        is_missing = "couldn't find remote ref" in result.stderr or "not our ref" in result.stderr
        return RyeError("artifact_not_found" if is_missing else "registry_unreachable", what)


def limits() -> tuple[int, int]:
    """The largest file that git may write, and its memory; only root can raise a limit of the user's."""
    wanted = {resource.RLIMIT_FSIZE: MAX_FETCHED_BYTES, resource.RLIMIT_DATA: MAX_MEMORY_BYTES}
    hard = {which: resource.getrlimit(which)[1] for which in wanted}
    largest, memory = (
        limit if hard[which] == resource.RLIM_INFINITY else min(limit, hard[which])
        for which, limit in wanted.items()
    )
    return largest, memory


def _kept(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that git gets: no setting of one changes what it reads or starts."""
    return {
        name: text
        for name, text in environment.items()
        if not name.startswith("GIT_") or (name in _OF_THE_USER and text.startswith("/"))
    }


def _refused(expected: str, found: str) -> RyeError:
    return RyeError("invalid_artifact", f"expected {expected}, found {found}")
