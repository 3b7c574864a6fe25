"""Fetches what a reference names, from a registry or from a repository; nothing of it is verified yet.

Of a repository, it takes the `.ai` of one commit, as far as that can be shared.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.sharing.artifact import MAX_FILES, SharedFile
from rye_mcp.sharing.credentials import DockerCredentials
from rye_mcp.sharing.git import DIRECTORY, FILE, PROGRAM, Commit, fetched
from rye_mcp.sharing.paths import check_path, check_paths, is_shared_path
from rye_mcp.sharing.programs import WhyNot
from rye_mcp.sharing.reference import GitReference, Reference
from rye_mcp.sharing.registry import Registry, opened
from rye_mcp.trust.dependency_manifest import MAX_CARRIED_BYTES, MAX_LISTED_BYTES

__all__ = ["Fetch", "Network"]

_SPACE: Final = ".ai"

Fetch = Callable[[Reference | GitReference], Awaitable[tuple[str, tuple[SharedFile, ...]]]]
"""Fetches what a reference names: the digest of the version that it found, and the files."""


@dataclass(frozen=True, slots=True)
class Network:
    """The way to registries and repositories, for one user.

    `why_not` says why nothing may be started from a directory, None where it may. `insecure` are the
    registries, by host and port, that are reached without TLS.
    """

    environment: Mapping[str, str]
    why_not: WhyNot
    insecure: Collection[str] = ()

    async def fetch(self, reference: Reference | GitReference) -> tuple[str, tuple[SharedFile, ...]]:
        """The digest of what a reference names, and its files."""
        if isinstance(reference, GitReference):
            directory = f"{reference.directory}/{_SPACE}".strip("/")
            async with fetched(reference, directory, self.environment, self.why_not) as commit:
                return f"git:{commit.name}", tuple(_files(commit, directory, reference))
        async with self._opened(reference) as registry:
            return await registry.pull()

    async def put(self, reference: Reference, files: Sequence[SharedFile]) -> str:
        """Put files into a registry under a tag; the digest of the artifact."""
        async with self._opened(reference, writes=True) as registry:
            return await registry.push(files)

    def _opened(self, reference: Reference, *, writes: bool = False) -> AbstractAsyncContextManager[Registry]:
        credentials = DockerCredentials(self.environment, self.why_not)
        insecure = reference.host in self.insecure
        return opened(reference, credentials, insecure=insecure, writes=writes)


def _files(commit: Commit, directory: str, reference: GitReference) -> Iterator[SharedFile]:
    """Every file that can be shared; a link or a submodule among them is refused."""
    tree = commit.directory(directory)
    if tree is None:
        what = f"expected the directory {directory} in {reference}, found none"
        raise RyeError("artifact_not_found", what)
    entries = [each for each in commit.below(tree, _is_looked_at) if each.mode != DIRECTORY]
    if len(entries) > MAX_FILES:
        raise RyeError("invalid_artifact", f"expected at most {MAX_FILES} files, found {len(entries)}")
    check_paths([check_path(each.path) for each in entries])
    room = MAX_CARRIED_BYTES
    for each in entries:
        if each.mode not in (FILE, PROGRAM):
            what = f"expected a file as {each.path}, found mode {each.mode.decode()}"
            raise RyeError("invalid_artifact", what)
        content = commit.read(each.name, b"blob", min(room, MAX_LISTED_BYTES))
        room -= len(content)
        yield SharedFile(each.path, content, each.mode == PROGRAM)


def _is_looked_at(path: str) -> bool:
    """Whether this can be shared, or holds what can: hidden files count in skills alone."""
    if not is_shared_path(path):
        return False
    return path.startswith(f"{ItemType.SKILL.directory}/") or "/." not in path
