"""What tests of lockfiles share: a tool that is signed, and the stages that a run of it goes through."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rye_mcp.executor.chain.builder import ChainBuilder
from rye_mcp.executor.chain.validator import ValidChain, require_valid
from rye_mcp.executor.chain.verifier import IntegrityVerifier
from rye_mcp.executor.lock.resolver import LockfileResolver, PinnedChain
from rye_mcp.items import SpaceName
from rye_mcp.spaces import Spaces
from rye_mcp.trust.verify import Trust
from rye_mcp.verbs.context import Context
from tests.trust_world import World
from tests.verb_world import RUNTIME, person, put, tool

__all__ = ["ITEM_ID", "PACKAGE_VERSION", "LockWorld", "chain_of", "files_below", "resolver_of"]

ITEM_ID = "demo/hello"
PACKAGE_VERSION = "1.5.0"


@dataclass
class LockWorld:
    """A project with `demo/hello`, which runs under `my/runtime` of the same project."""

    world: World
    ran: list[str] = field(default_factory=list)

    @classmethod
    def make(cls, root: Path) -> LockWorld:
        """Everything is signed, and nothing is locked."""
        made = cls(World(root))
        made.write()
        put(made.world, RUNTIME, "my/runtime", ".yaml", signed=True)
        return made

    @property
    def context(self) -> Context:
        return person(self.world)

    @property
    def path(self) -> Path:
        """The lockfile of the tool in its version 1.2.0."""
        return self.in_space(SpaceName.PROJECT)

    def in_space(self, name: SpaceName, item_id: str = ITEM_ID, version: str = "1.2.0") -> Path:
        return self.world.space(name).root / f"lockfiles/{item_id}@{version}.lock.json"

    def write(self, text: str = "print('hello')", *, version: str = "1.2.0", signed: bool = True) -> None:
        """Write the tool; another text makes another hash."""
        content = tool(text, executor="my/runtime").replace(b"1.2.0", version.encode())
        put(self.world, content, signed=signed)

    def resolver(self, *, locked: bool = False, package_version: str = PACKAGE_VERSION) -> LockfileResolver:
        """As a new process would have it."""
        context = self.context
        return LockfileResolver(context.spaces, context.trust, package_version=package_version, locked=locked)

    def run(
        self, *, locked: bool = False, package_version: str = PACKAGE_VERSION, use_lockfile: bool = True
    ) -> PinnedChain:
        """Go through the stages of a run; what runs is noted in `ran`."""
        resolver = self.resolver(locked=locked, package_version=package_version)
        verifier = IntegrityVerifier(self.context.trust, self.world.project)
        builder = ChainBuilder(self.context.spaces, verifier.require_verified)
        root = builder.find(ITEM_ID)
        root_lock = resolver.check_root(root, use_lockfile=use_lockfile)
        pinned = resolver.pin(require_valid(verifier.verify_chain(builder.follow(root))), root_lock)
        self.ran.append(root.item_id)
        return resolver.create(pinned)

    def valid(self) -> ValidChain:
        """The chain, verified and valid."""
        return chain_of(self.context)

    def document(self) -> dict[str, Any]:
        """What the lockfile says."""
        document: dict[str, Any] = json.loads(self.path.read_bytes())
        return document

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change what the lockfile says."""
        document = self.document()
        change(document)
        self.path.write_text(json.dumps(document))


def chain_of(context: Context, item_id: str = ITEM_ID) -> ValidChain:
    """The chain of a tool that may run: verified and valid."""
    verifier = IntegrityVerifier(context.trust, context.project)
    builder = ChainBuilder(context.spaces, verifier.require_verified)
    return require_valid(verifier.verify_chain(builder.build(item_id)))


def resolver_of(project: str, user: str) -> LockfileResolver:
    """The lockfiles of a project, for a process that has nothing but its arguments."""
    spaces = Spaces.locate(Path(project), user=Path(user))
    trust = Trust(user_space=spaces.user.root, project=Path(project))
    return LockfileResolver(spaces, trust, package_version=PACKAGE_VERSION)


def files_below(directory: Path) -> dict[str, bytes]:
    """Every file below a directory, with what it says."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
