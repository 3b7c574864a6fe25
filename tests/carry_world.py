"""What tests of dependencies and snapshots share: a tool in a project, its runtime, and files beside it.

All of it is on the disk and signed, the runtime and the primitive by the person, everything else by whom a
test says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rye_mcp.executor.chain.builder import Chain, ChainBuilder
from rye_mcp.executor.chain.files import BundledFiles, bundled_files
from rye_mcp.executor.chain.verifier import IntegrityVerifier
from rye_mcp.items import ItemFile, Space, SpaceName, parse_relative_path
from rye_mcp.spaces import Spaces
from rye_mcp.trust.dependency_manifest import manifest_file, render_listing
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.scope import Role
from rye_mcp.trust.verify import Trust, verify_item
from tests.trust_world import World

__all__ = ["ANCHOR", "Scene", "sha256"]

PRIMITIVE = b"tool_type: primitive\nexecutor_id: null\n"
ANCHOR = """\
anchor:
  mode: auto
  markers_any: ["__init__.py"]
verify_deps:
  scope: anchor
  extensions: [".py"]
"""


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Scene:
    """A tool `demo/report` in a project, on a runtime of the project."""

    world: World
    space_name: SpaceName = SpaceName.PROJECT
    tool: str = "demo/report"

    @classmethod
    def begin(
        cls,
        world: World,
        runtime: str = ANCHOR,
        *,
        says: str = "",
        key: SigningKey | None = None,
        tool: str = "demo/report",
        space: SpaceName = SpaceName.PROJECT,
    ) -> Scene:
        """Write the chain; `runtime` is YAML for the runtime, `says` Python for the tool."""
        scene = cls(world, space, tool)
        scene.sign("tools/base/primitive.yaml", PRIMITIVE)
        head = "tool_type: runtime\nexecutor_id: base/primitive\n"
        scene.sign("tools/base/runtime.yaml", (head + runtime).encode())
        text = f'__executor_id__ = "base/runtime"\n{says}\nprint("a report")\n'
        scene.sign(f"tools/{tool}.py", text.encode(), key)
        return scene

    @property
    def space(self) -> Space:
        return Space(self.space_name, self.world.space(self.space_name).root.resolve())

    @property
    def root(self) -> Path:
        return self.space.root

    @property
    def directory(self) -> Path:
        """The directory of the tool."""
        return (self.root / "tools" / self.tool).parent

    def sign(self, relative: str, content: bytes, key: SigningKey | None = None) -> bytes:
        """Write an item, signed; what was written."""
        item_type, item_id, extension = parse_relative_path(relative)
        path = self.root / relative
        file = ItemFile(self.space, item_type, item_id, extension, path, content)
        return self.world.stored(self.world.signed(file, key)).content

    def write(self, relative: str, content: bytes = b"x = 1\n") -> Path:
        """Write a file that nobody signed."""
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def list_files(
        self, files: Mapping[str, bytes], directory: str | None = None, key: SigningKey | None = None
    ) -> ItemFile:
        """Write the manifest of a directory, signed; by default that of the tool."""
        directory = directory or self.directory.relative_to(self.root).as_posix()
        listing = render_listing({path: sha256(content) for path, content in files.items()})
        return self.world.stored(self.world.signed(manifest_file(self.space, directory, listing), key))

    def bring(self, files: Mapping[str, bytes], directory: str | None = None) -> None:
        """Write files below a directory, and the manifest that lists them."""
        directory = directory or self.directory.relative_to(self.root).as_posix()
        for path, content in files.items():
            self.write(f"{directory}/{path}", content)
        self.list_files(files, directory)

    def chain(self, trust: Trust) -> Chain:
        spaces = Spaces.locate(self.world.project, user=self.world.user_space.parent)
        verifier = IntegrityVerifier(trust, self.world.project)
        return ChainBuilder(spaces, verifier.require_verified).build(self.tool)

    def carried(self, trust: Trust | None = None) -> BundledFiles:
        """Everything that the tool brings along, as a new process finds it."""
        trust = trust or self.world.trust()
        chain = self.chain(trust)
        roles = (Role.TOOL, Role.RUNTIME, Role.PRIMITIVE)
        items = [
            verify_item(element.file, trust, role=role)
            for element, role in zip(chain.elements, roles, strict=True)
        ]
        return bundled_files(chain, items, trust, self.world.project)

    def names(self) -> list[str]:
        """What is carried besides the tool, below its directory."""
        above = self.directory.relative_to(self.root).as_posix() + "/"
        return [file.relative.removeprefix(above) for file in self.carried().files[1:]]
