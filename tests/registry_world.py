"""A small registry inside a test, which can be told to lie; and two people who share items through it.

    async with registry() as there:
        await author.push(there.reference(), "demo/*")
        there.faults.append(shortened)
        await reader.pull(there.reference())

A fault is asked before each answer: it answers itself and returns true, or returns false.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rye_mcp.sharing.artifact import SharedFile, digest_of, write_manifest
from rye_mcp.sharing.fetching import Network
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.verbs.pull import Pulled, PullRequest, Synced, SyncRequest, pull, sync
from rye_mcp.verbs.push import Pushed, PushRequest, push
from tests.http_server import Connection, Request, Server, serve
from tests.trust_world import World
from tests.verb_world import person, put, tool

__all__ = [
    "Fault",
    "Member",
    "RegistryServer",
    "author_in",
    "commit",
    "git",
    "member_in",
    "registry",
    "url",
]

Fault = Callable[["RegistryServer", Connection, Request], Awaitable[bool]]

REPOSITORY = "team/tools"


@dataclass
class RegistryServer:
    """A registry that keeps what it is given in memory."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    uploads: int = 0
    server: Server = field(init=False)

    @property
    def host(self) -> str:
        return f"{self.server.host}:{self.server.port}"

    @property
    def requests(self) -> list[Request]:
        return self.server.requests

    def reference(self, tag: str = "1") -> str:
        return f"{self.host}/{REPOSITORY}:{tag}"

    def put(self, *files: SharedFile, tag: str = "1", manifest: bytes | None = None) -> str:
        """Keep files without asking anybody whether they are good; the digest of the manifest."""
        manifest = write_manifest(files) if manifest is None else manifest
        self.blobs |= {f"sha256:{each.sha256}": each.content for each in files}
        return self.put_manifest(manifest, tag)

    def put_manifest(self, manifest: bytes, tag: str = "1") -> str:
        digest = digest_of(manifest)
        self.manifests |= {tag: manifest, digest: manifest}
        return digest

    async def answer(self, connection: Connection, request: Request) -> None:
        for fault in self.faults:
            if await fault(self, connection, request):
                return
        path, _, query = request.target.partition("?")
        kind, _, name = path.removeprefix(f"/v2/{REPOSITORY}/").partition("/")
        match request.method, kind:
            case "GET" | "HEAD", "manifests":
                await self._give(connection, request, self.manifests.get(name))
            case "GET" | "HEAD", "blobs":
                await self._give(connection, request, self.blobs.get(name))
            case "POST", "blobs":
                self.uploads += 1
                place = f"/v2/{REPOSITORY}/blobs/uploads/{self.uploads}?state=secret"
                await connection.reply("202 Accepted", headers={"Location": place})
            case "PUT", "blobs":
                digest = query.rpartition("digest=")[2].replace("%3A", ":")
                assert digest == digest_of(request.body)
                self.blobs[digest] = request.body
                await connection.reply("201 Created")
            case "PUT", "manifests":
                self.put_manifest(request.body, name)
                await connection.reply("201 Created")
            case _:
                await connection.reply("405 Method Not Allowed")

    async def _give(self, connection: Connection, request: Request, found: bytes | None) -> None:
        if found is None:
            body = json.dumps({"errors": [{"code": "BLOB_UNKNOWN"}]}).encode()
            await connection.reply("404 Not Found", b"" if request.method == "HEAD" else body)
        elif request.method == "HEAD":
            await connection.reply(headers={"Content-Length": str(len(found))})
        else:
            await connection.reply(body=found)


@contextlib.asynccontextmanager
async def registry() -> AsyncIterator[RegistryServer]:
    """A registry for the time of the block."""
    made = RegistryServer()
    async with serve(made.answer) as server:
        made.server = server
        yield made


@dataclass
class Member:
    """Somebody with keys, a project, and a way to registries."""

    world: World

    @property
    def network(self) -> Network:
        environment = {
            "HOME": str(self.world.root / "home"),
            "PATH": "/usr/bin:/bin",
            **self.world.environment,
        }
        return Network(environment, lambda _: None)

    @property
    def space(self) -> Path:
        return self.world.project / ".ai"

    @property
    def key_id(self) -> str:
        return self.world.key().public.key_id

    @property
    def document(self) -> TrustDocument:
        return TrustDocument.create(self.world.key().public, "alice")

    async def push(self, reference: str, *patterns: str, **options: Any) -> Pushed:
        request = PushRequest(reference, patterns, **options)
        return await push(request, person(self.world), self.network.put)

    async def pull(self, reference: str, **options: Any) -> Pulled:
        return await pull(PullRequest(reference, **options), person(self.world), self.network.fetch)

    async def sync(self, **options: Any) -> Synced:
        return await sync(SyncRequest(**options), person(self.world), self.network.fetch)

    def approve(self) -> None:
        approvals = person(self.world).trust.approvals
        assert approvals is not None
        approvals.approve_project()

    def trusts(self, other: Member) -> None:
        """Trust somebody's key in every project."""
        self.world.trust_key(other.document)

    def files(self) -> Mapping[str, bytes]:
        """Everything in the project's space, by path."""
        found = (path for path in self.space.rglob("*") if path.is_file())
        return {path.relative_to(self.space).as_posix(): path.read_bytes() for path in found}

    def shared(
        self, item_id: str = "demo/hello", content: bytes | None = None
    ) -> tuple[SharedFile, SharedFile]:
        """A signed tool and the key of its signer, as they would be shared; not written."""
        file = self.world.signed(self.world.file(content or tool(), item_id=item_id))
        path = file.path.relative_to(self.space).as_posix()
        key = SharedFile(f"trusted_keys/{self.document.file_name}", self.document.data)
        return SharedFile(path, file.content), key

    def write(self, item_id: str = "demo/hello", text: str = "print('hello')", **options: Any) -> None:
        """Put a signed tool into the project."""
        put(self.world, tool(text), item_id, signed=True, **options)


def member_in(place: Path) -> Member:
    """Somebody new, with a project that they approved."""
    member = Member(World(place))
    member.world.keys.ensure(SignerKind.PERSON, owner="leo")
    member.space.mkdir(parents=True)
    member.approve()
    return member


def author_in(place: Path) -> Member:
    """The same, with two signed tools and a proposal of their own key."""
    author = member_in(place)
    author.world.propose(author.document)
    author.write()
    author.write("demo/bye", "print('bye')")
    return author


def git(directory: Path, *arguments: str) -> str:
    """Run git as somebody without a configuration."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    environment = {"HOME": str(directory.parent), "PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1"}
    ran = subprocess.run(
        ["git", *identity, *arguments], cwd=directory, env=environment, check=True, capture_output=True
    )
    return ran.stdout.decode().strip()


def commit(project: Path) -> str:
    """Commit everything; the name of the commit."""
    if not (project / ".git").exists():
        git(project, "init", "--quiet")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "change")
    return git(project, "rev-parse", "HEAD")


def url(member: Member) -> str:
    """What names the repository of somebody's project."""
    return f"git+file://{member.world.project}"
