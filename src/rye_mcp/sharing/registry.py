"""A repository of a registry, by the distribution specification of OCI: manifests and blobs in, and out.

Everything is fetched by digest and compared with it, except the manifest behind a tag, whose digest is what
gets pinned. Files go in before the manifest that names them, so a push that stops half-way shows nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar
from urllib.parse import urlencode, urlsplit

import anyio
import httpx

from rye_mcp.errors import RyeError
from rye_mcp.sharing.artifact import (
    EMPTY_CONFIG,
    MANIFEST_TYPE,
    MAX_MANIFEST_BYTES,
    Layer,
    SharedFile,
    check_bytes,
    digest_of,
    read_manifest,
    write_manifest,
)
from rye_mcp.sharing.connection import Connection, Reply
from rye_mcp.sharing.credentials import DockerCredentials
from rye_mcp.sharing.reference import Reference

__all__ = ["Registry", "opened"]

AT_ONCE: Final = 8
"""How many requests are under way at once."""

TRANSFER_LIMIT_S: Final = 900.0
"""How long one push or pull may take as a whole."""

_PULL, _PUSH = "pull", "pull,push"
_SOURCE_TYPE: Final = "application/octet-stream"

Each = TypeVar("Each")
Made = TypeVar("Made")


@asynccontextmanager
async def opened(
    reference: Reference, credentials: DockerCredentials, *, insecure: bool = False, writes: bool = False
) -> AsyncIterator[Registry]:
    """The repository that a reference names, until the block ends."""
    scope = f"repository:{reference.repository}:{_PUSH if writes else _PULL}"
    known = await credentials.of(reference.host)
    connection = Connection(reference.host, scope=scope, insecure=insecure, credentials=known)
    try:
        with anyio.fail_after(TRANSFER_LIMIT_S):
            yield Registry(reference, connection)
    except TimeoutError as exc:
        what = f"expected {reference.host} to be done within {TRANSFER_LIMIT_S:g} s, found that it is not"
        raise RyeError("registry_unreachable", what) from exc
    finally:
        with anyio.CancelScope(shield=True):
            await connection.close()


class Registry:
    """One repository, at the version that the reference names."""

    def __init__(self, reference: Reference, connection: Connection) -> None:
        self._reference = reference
        self._connection = connection
        self._base = f"/v2/{reference.repository}"

    async def pull(self) -> tuple[str, tuple[SharedFile, ...]]:
        """The digest of the artifact, and its files."""
        reference = self._reference
        reply = await self._connection.ask(
            "GET",
            f"{self._base}/manifests/{reference.version}",
            limit=MAX_MANIFEST_BYTES,
            headers={"Accept": MANIFEST_TYPE},
        )
        self._require(reply, {httpx.codes.OK}, f"give out {reference}")
        digest = digest_of(reply.body)
        if reference.digest is not None:
            check_bytes(reply.body, reference.digest, len(reply.body), f"the manifest of {reference}")
        layers = read_manifest(reply.body)
        contents = await self._blobs(layers)
        files = (SharedFile(each.path, contents[each.digest], each.executable) for each in layers)
        return digest, tuple(files)

    async def push(self, files: Sequence[SharedFile]) -> str:
        """Put these files there, then the manifest under the tag; the digest of the manifest."""
        manifest = write_manifest(files)
        blobs = {f"sha256:{each.sha256}": each.content for each in files}
        # A repository without this blob has none of ours, and need not be asked for each.
        if await self._has(digest_of(EMPTY_CONFIG)):
            await _all(self._put_new_blob, list(blobs.items()))
        else:
            await self._put_blob((digest_of(EMPTY_CONFIG), EMPTY_CONFIG))
            await _all(self._put_blob, list(blobs.items()))
        reply = await self._connection.ask(
            "PUT",
            f"{self._base}/manifests/{self._reference.tag}",
            limit=MAX_MANIFEST_BYTES,
            headers={"Content-Type": MANIFEST_TYPE},
            content=manifest,
        )
        self._require(reply, {httpx.codes.CREATED}, f"take {self._reference}")
        return digest_of(manifest)

    # --- blobs ------------------------------------------------------------------------

    async def _blobs(self, layers: Iterable[Layer]) -> dict[str, bytes]:
        """The bytes of each layer, by digest; layers of one digest have one size."""
        wanted: dict[str, Layer] = {}
        for each in layers:
            if wanted.setdefault(each.digest, each).size != each.size:
                raise RyeError(
                    "invalid_artifact", f"expected one size for {each.digest}, found that {each.path} differs"
                )
        return dict(await _all(self._blob, list(wanted.values())))

    async def _blob(self, layer: Layer) -> tuple[str, bytes]:
        reply = await self._connection.ask("GET", f"{self._base}/blobs/{layer.digest}", limit=layer.size)
        self._require(reply, {httpx.codes.OK}, f"give out {layer.path}")
        return layer.digest, check_bytes(reply.body, layer.digest, layer.size, layer.path)

    async def _has(self, digest: str) -> bool:
        reply = await self._connection.ask("HEAD", f"{self._base}/blobs/{digest}", limit=0)
        return reply.status == httpx.codes.OK

    async def _put_new_blob(self, blob: tuple[str, bytes]) -> None:
        if not await self._has(blob[0]):
            await self._put_blob(blob)

    async def _put_blob(self, blob: tuple[str, bytes]) -> None:
        digest, content = blob
        ask = self._connection.ask
        reply = await ask("POST", f"{self._base}/blobs/uploads/", limit=MAX_MANIFEST_BYTES, content=b"")
        self._require(reply, {httpx.codes.ACCEPTED}, "take a file")
        place = reply.headers.get("location")
        if place is None:
            raise RyeError("registry_failed", "expected a place for a file, found an answer without one")
        joined = "&" if urlsplit(place).query else "?"
        reply = await ask(
            "PUT",
            f"{place}{joined}{urlencode({'digest': digest})}",
            limit=MAX_MANIFEST_BYTES,
            headers={"Content-Type": _SOURCE_TYPE},
            content=content,
        )
        self._require(reply, {httpx.codes.CREATED}, "take a file")

    def _require(self, reply: Reply, expected: set[int], what: str) -> None:
        if reply.status not in expected:
            raise self._connection.refusal(reply, what)


async def _all(make: Callable[[Each], Awaitable[Made]], things: Sequence[Each]) -> list[Made]:
    """What is made of each, a few at a time; the first error ends the others."""
    made: list[Made] = []
    waiting = iter(things)

    async def work() -> None:
        for each in waiting:
            done = await make(each)
            made.append(done)

    try:
        async with anyio.create_task_group() as group:
            for _ in range(min(AT_ONCE, len(things))):
                group.start_soon(work)
    except BaseExceptionGroup as exc:
        raise _first(exc) from exc
    return made


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of several that came at once."""
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found
