"""What tests of parameters, environments and configurations share: a call up to what would run.

The tool, its runtime and the primitive are on the disk and signed: by a person unless a test says otherwise.
Nothing is copied: `{tool_path}` is the tool itself.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import rye_mcp
from lilux.primitives.subprocess import Halves, ProcessSpec
from rye_mcp.executor.chain.anchor import Anchor
from rye_mcp.executor.chain.builder import ChainBuilder
from rye_mcp.executor.chain.validator import ValidChain, require_valid
from rye_mcp.executor.chain.verifier import IntegrityVerifier
from rye_mcp.executor.configuration.builder import Built, build_process
from rye_mcp.executor.configuration.parameters import Parameters, check_parameters
from rye_mcp.executor.decider import granted
from rye_mcp.executor.environment.resolver import Environment, EnvironmentResolver, Paths
from rye_mcp.items import ItemFile, SpaceName, parse_relative_path
from rye_mcp.permissions import Isolation
from rye_mcp.spaces import Spaces
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.verify import Trust
from tests.trust_world import World

__all__ = ["Call", "Places", "now"]

PRIMITIVES = Path(rye_mcp.__file__).parent / ".ai/tools/rye/core/primitives"
SERVER = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nowhere/home"}

Answer = TypeVar("Answer")


def now(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """The answer of what never waits."""
    try:
        coroutine.send(None)
    except StopIteration as exc:
        answer: Answer = exc.value
        return answer
    raise AssertionError("it waits for something")


@dataclass(frozen=True)
class Places:
    """Where the copy of a tool would be."""

    tool_path: Path
    anchor_path: Path | None = None
    runtime_lib: Path | None = None
    output_dir: Path | None = None

    @property
    def tool_dir(self) -> Path:
        return self.tool_path.parent


@dataclass
class Call:
    """A tool `demo/tool` of a project, on the runtime `base/runtime` and a primitive `base/<its name>`."""

    world: World
    primitive: str = "subprocess"
    server: Mapping[str, str] = field(default_factory=lambda: dict(SERVER))
    anchor: Anchor | None = None
    _trust: Trust | None = None
    _resolver: EnvironmentResolver | None = None

    @classmethod
    def begin(
        cls,
        world: World,
        *,
        tool: str = "",
        runtime: str = "config: {command: /bin/true}",
        primitive: str = "subprocess",
        key: SigningKey | None = None,
    ) -> Call:
        """Write the chain: `tool` and `runtime` are YAML beside what both have to say."""
        call = cls(world, primitive)
        call.sign(f"tools/base/{primitive}.yaml", (PRIMITIVES / f"{primitive}.yaml").read_text("utf-8"))
        call.sign(
            "tools/base/runtime.yaml", f"tool_type: runtime\nexecutor_id: base/{primitive}\n{runtime}\n"
        )
        call.sign("tools/demo/tool.yaml", f"tool_type: script\nexecutor_id: base/runtime\n{tool}\n", key)
        return call

    def sign(self, relative: str, content: str, key: SigningKey | None = None) -> None:
        """Write an item of the project, signed."""
        item_type, item_id, extension = parse_relative_path(relative)
        space = self.world.space(SpaceName.PROJECT)
        file = ItemFile(space, item_type, item_id, extension, space.root / relative, content.encode())
        self.world.stored(self.world.signed(file, key))

    @property
    def trust(self) -> Trust:
        if self._trust is None:
            self._trust = self.world.trust()
        return self._trust

    @property
    def project(self) -> Path:
        return self.world.project

    def valid(self, item_id: str = "demo/tool") -> ValidChain:
        """The chain, found, verified and validated as it is on the disk now."""
        spaces = Spaces.locate(self.project, user=self.world.user_space.parent)
        verifier = IntegrityVerifier(self.trust, self.project)
        chain = ChainBuilder(spaces, verifier.require_verified).build(item_id)
        return require_valid(verifier.verify_chain(chain))

    def paths(self) -> Paths:
        tool = self.project / ".ai/tools/demo/tool.yaml"
        return Paths(self.project, self.world.user_space, self.world.root / "system", tool, Places(tool))

    def parameters(self, values: Mapping[str, Any] | None = None, item_id: str = "demo/tool") -> Parameters:
        return check_parameters(self.valid(item_id).verified.chain.root, values)

    def environment(self, item_id: str = "demo/tool") -> Environment:
        """As a server with the environment `server` resolves it; it keeps what one server keeps."""
        if self._resolver is None:
            self._resolver = EnvironmentResolver(self.trust, self.server)
        verified = self.valid(item_id).verified
        _, permitted, notices = granted(tuple(verified.pairs), Isolation())
        found = now(self._resolver.resolve(verified, self.paths(), self.anchor, permitted))
        return replace(found, notices=(*notices, *found.notices))

    def process(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        item_id: str = "demo/tool",
    ) -> Built[ProcessSpec]:
        """What would run."""
        built = self.halves(values, timeout=timeout, item_id=item_id)
        return Built(built.spec.whole(), built.notices)

    def halves(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        item_id: str = "demo/tool",
    ) -> Built[Halves]:
        """The same, in its halves."""
        valid = self.valid(item_id)
        parameters = check_parameters(valid.verified.chain.root, values)
        environment = self.environment(item_id)
        return build_process(valid, parameters, environment, self.paths(), self.anchor, timeout=timeout)

    def approve(self) -> None:
        """Approve the project, as a person does."""
        approvals = self.trust.approvals
        assert approvals is not None
        approvals.approve_project()
