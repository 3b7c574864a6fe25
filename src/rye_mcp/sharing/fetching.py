"""Fetches what a reference names, from a registry or from a repository; nothing of it is verified yet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from lilux._dataclasses import dataclass
from rye_mcp.sharing.artifact import SharedFile
from rye_mcp.sharing.credentials import DockerCredentials
from rye_mcp.sharing.git import fetch_commit
from rye_mcp.sharing.programs import WhyNot
from rye_mcp.sharing.reference import GitReference, Reference
from rye_mcp.sharing.registry import Registry, opened

__all__ = ["Fetch", "Network"]

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
            return await fetch_commit(reference, self.environment, self.why_not)
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
