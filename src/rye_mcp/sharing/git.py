"""Fetches the `.ai` of one commit of a repository, and runs nothing of it.

Git fetches the objects of the commit into an empty repository of ours, under `/tmp` or where TMPDIR says:
there is no checkout, so no filter, hook, attribute or submodule counts. The objects are then read here, and
each one is compared with its name: from the commit that is pinned down to every file.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lilux import _files as whole_files
from lilux._dataclasses import dataclass
from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive, SubprocessResult
from rye_mcp.errors import RyeError, printable
from rye_mcp.items import ItemType
from rye_mcp.sharing.artifact import MAX_FILES, SharedFile
from rye_mcp.sharing.paths import check_path, check_paths, is_shared_path
from rye_mcp.sharing.programs import WhyNot, allowed_path, find_program
from rye_mcp.sharing.reference import GitReference, is_commit
from rye_mcp.trust.dependency_manifest import MAX_CARRIED_BYTES, MAX_LISTED_BYTES

__all__ = ["fetch_commit"]

FETCH_LIMIT_S: Final = 300
"""How long git may take."""

_SPACE: Final = ".ai"
_REF: Final = "refs/rye/pulled"
_MAX_PACKED: Final = MAX_LISTED_BYTES + (1 << 20)
_MAX_SMALL: Final = 8 << 20
_MAX_DEPTH: Final = 40
_HEADER: Final = re.compile(rb"(blob|tree|commit|tag) (\d{1,12})\0")
_ENTRY: Final = re.compile(rb"(\d{5,6}) ([^/\0]{1,255})\0", re.DOTALL)
_TREE_OF: Final = re.compile(rb"tree ([0-9a-f]{40})\n")
_TAGGED: Final = re.compile(rb"object ([0-9a-f]{40})\ntype commit\n")
_NAME_BYTES: Final = 20
_DIRECTORY, _FILE, _PROGRAM = b"40000", b"100644", b"100755"
_SHOWN: Final = 200

_OPTIONS: Final = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.sshCommand=false"),
    *("-c", "core.gitProxy=false"),
    *("-c", "credential.interactive=false"),
    *("-c", "fetch.unpackLimit=2147483647"),
    *("-c", "transfer.unpackLimit=2147483647"),
    *("-c", "fetch.recurseSubmodules=false"),
    *("-c", "fetch.writeCommitGraph=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "http.lowSpeedLimit=1"),
    *("-c", "http.lowSpeedTime=30"),
    *("-c", "init.defaultObjectFormat=sha1"),
    *("-c", "init.defaultRefFormat=files"),
)


async def fetch_commit(
    reference: GitReference, environment: Mapping[str, str], why_not: WhyNot
) -> tuple[str, tuple[SharedFile, ...]]:
    """The commit that a reference names, as `git:…`, and the files of its `.ai` that can be shared."""
    with tempfile.TemporaryDirectory(prefix="rye-git-") as directory:
        git = _Git.found(Path(directory) / "repository", reference, environment, why_not)
        await git.fetch()
        objects = _Objects(git.repository)
        commit = _commit_of(objects, git.fetched(), reference)
        return f"git:{commit}", tuple(_files(objects, commit, reference))


@dataclass(frozen=True, slots=True)
class _Git:
    """The program, and the empty repository that it works in."""

    program: str
    repository: Path
    reference: GitReference
    environment: Mapping[str, str]

    @classmethod
    def found(
        cls, repository: Path, reference: GitReference, environment: Mapping[str, str], why_not: WhyNot
    ) -> _Git:
        program, refused = find_program("git", environment, why_not)
        if program is None:
            raise RyeError("registry_unreachable", f"expected git, found {refused}", hint="install git")
        kept = {name: text for name, text in environment.items() if not name.startswith("GIT_")}
        own = {
            "PATH": allowed_path(environment, why_not),
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": reference.url.partition(":")[0],
            "GIT_DIR": str(repository),
        }
        return cls(program, repository, reference, {**kept, **own})

    async def fetch(self) -> None:
        """Fetch the objects of one commit, and no other."""
        await self._run("init", "--bare", "--quiet", "--template=", str(self.repository))
        await self._run(
            "fetch",
            *("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance"),
            "--",
            self.reference.url,
            f"{self.reference.revision}:{_REF}",
        )

    async def _run(self, *arguments: str) -> None:
        spec = ProcessSpec(
            command=self.program,
            args=(*_OPTIONS, *arguments),
            env=dict(self.environment),
            cwd=self.repository.parent,
            timeout=FETCH_LIMIT_S,
        )
        result = await SubprocessPrimitive().run(spec)
        if not result.success:
            raise self._failure(result)

    def _failure(self, result: SubprocessResult) -> RyeError:
        last = printable(result.stderr.strip().rpartition("\n")[2])[:_SHOWN]
        what = f"expected {self.reference} from git, found that it failed: {last!a}"
        is_missing = "couldn't find remote ref" in result.stderr or "not our ref" in result.stderr
        return RyeError("artifact_not_found" if is_missing else "registry_unreachable", what)

    def fetched(self) -> str:
        """The name of the object that the reference stands for."""
        return whole_files.read_capped(self.repository / _REF, 100).decode("ascii", "replace").strip()


class _Objects:
    """The loose objects of a repository, each compared with its name, within one limit for all."""

    def __init__(self, repository: Path) -> None:
        self._root = repository / "objects"
        self._room = MAX_CARRIED_BYTES

    def read(self, name: str, kind: bytes, limit: int) -> bytes:
        """The content of an object."""
        path = self._root / name[:2] / name[2:]
        try:
            packed = whole_files.read_capped(path, _MAX_PACKED)
            unpacker = zlib.decompressobj()
            data = unpacker.decompress(packed, limit + 64)
        except (OSError, zlib.error) as exc:
            raise _refused(f"the object {name}", "none that can be read") from exc
        header = _HEADER.match(data)
        if header is None or header[1] != kind:
            raise _refused(f"a {kind.decode()} as {name}", "another object")
        content = data[header.end() :]
        if len(content) != int(header[2]) or len(content) > limit:
            raise _refused(f"at most {limit} bytes in {name}", header[2].decode())
        if hashlib.sha1(data, usedforsecurity=False).hexdigest() != name:
            raise _refused(f"the object {name}", "other bytes")
        self._room -= len(content)
        if self._room < 0:
            raise _refused(f"at most {MAX_CARRIED_BYTES} bytes in all", "more")
        return content


def _commit_of(objects: _Objects, name: str, reference: GitReference) -> str:
    """The commit that was fetched, behind a tag too; it is the one that was asked for, if one was."""
    try:
        objects.read(name, b"commit", _MAX_SMALL)
        commit = name
    except RyeError:
        tagged = _TAGGED.match(objects.read(name, b"tag", _MAX_SMALL))
        if tagged is None:
            raise
        commit = tagged[1].decode()
    if is_commit(reference.revision) and commit != reference.revision:
        raise _refused(f"the commit {reference.revision}", commit)
    return commit


def _files(objects: _Objects, commit: str, reference: GitReference) -> Iterator[SharedFile]:
    found = _TREE_OF.match(objects.read(commit, b"commit", _MAX_SMALL))
    tree = None if found is None else found[1].decode()
    for part in (*filter(None, reference.directory.split("/")), _SPACE):
        below = {} if tree is None else dict(_entries(objects, tree))
        mode, tree = below.get(os.fsencode(part), (b"", None))
        if mode != _DIRECTORY:
            where = f"{reference.directory}/{_SPACE}".strip("/")
            what = f"expected the directory {where} in {reference}, found none"
            raise RyeError("artifact_not_found", what)
    files = list(_below(objects, tree or ""))
    check_paths([each.path for each in files])
    yield from files


def _entries(objects: _Objects, tree: str) -> Iterator[tuple[bytes, tuple[bytes, str]]]:
    """The names of a directory, each with its mode and its object."""
    data = objects.read(tree, b"tree", _MAX_SMALL)
    at = 0
    while at < len(data):
        entry = _ENTRY.match(data, at)
        at = len(data) if entry is None else entry.end() + _NAME_BYTES
        if entry is None or at > len(data):
            raise _refused("a directory of git", "something else")
        yield entry[2], (entry[1].lstrip(b"0"), data[entry.end() : at].hex())


def _below(objects: _Objects, tree: str) -> Iterator[SharedFile]:
    """Every file that can be shared; a link or a submodule among them is refused."""
    waiting = [("", tree, 0)]
    count = 0
    while waiting:
        above, tree, depth = waiting.pop()
        for name, (mode, entry) in _entries(objects, tree):
            count += 1
            if count > MAX_FILES or depth > _MAX_DEPTH:
                raise _refused(f"at most {MAX_FILES} files and directories", "more")
            path = f"{above}{name.decode('utf-8', 'backslashreplace')}"
            if not _is_looked_at(path):
                continue
            if mode == _DIRECTORY:
                waiting.append((f"{path}/", entry, depth + 1))
            elif mode in (_FILE, _PROGRAM):
                content = objects.read(entry, b"blob", MAX_LISTED_BYTES)
                yield SharedFile(check_path(path), content, mode == _PROGRAM)
            else:
                raise _refused(f"a file as {path}", f"mode {mode.decode()}")


def _is_looked_at(path: str) -> bool:
    """Whether this can be shared, or holds what can: hidden files count in skills alone."""
    if not is_shared_path(path):
        return False
    return path.startswith(f"{ItemType.SKILL.directory}/") or "/." not in path


def _refused(expected: str, found: str) -> RyeError:
    return RyeError("invalid_artifact", f"expected {expected}, found {found}")
