"""Somebody puts a file into the system space, or changes what is there."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from rye_mcp.executor import PrimitiveExecutor
from rye_mcp.items import SYSTEM_MANIFEST_NAME, ItemFile, ItemType, Space, SpaceName
from rye_mcp.trust.manifest import render_manifest
from rye_mcp.trust.scope import Role
from rye_mcp.trust.sign import sign_content, sign_item
from rye_mcp.trust.verify import Trust
from scripts.reference import seal
from tests.trust_world import NOW, World, refused, stopped

pytestmark = pytest.mark.both_loops

ITEM = "rye/core/primitives/subprocess"


@dataclass
class Scene:
    """A copy of the real system space, and a user who trusts the package."""

    world: World
    root: Path

    def trust(self) -> Trust:
        return Trust(user_space=self.world.user_space, system_space=self.root, environment={})

    def file(self, item_id: str = ITEM, content: bytes | None = None) -> ItemFile:
        path = self.root / f"tools/{item_id}.yaml"
        space = Space(SpaceName.SYSTEM, self.root)
        data = path.read_bytes() if content is None else content
        return ItemFile(space, ItemType.TOOL, item_id, ".yaml", path, data)


@pytest.fixture
def scene(world: World) -> Scene:
    root = world.root / "system/.ai"
    shutil.copytree(seal.system_space_of_package(), root, ignore=shutil.ignore_patterns("__pycache__"))
    found = Scene(world, root)
    world.verify(found.file(), Role.PRIMITIVE, found.trust())
    return found


def test_a_file_that_the_manifest_does_not_list_does_not_exist(scene: Scene) -> None:
    file = scene.file("rye/core/primitives/evil", scene.file().content)
    stopped(scene.world, "not_in_manifest", file, trust=scene.trust())


def test_not_even_when_the_user_has_signed_it(scene: Scene) -> None:
    file = scene.file("rye/evil", b"name: evil\n")
    content = scene.world.signed(
        scene.world.file(file.content, item_id="rye/evil", extension=".yaml")
    ).content
    stopped(scene.world, "not_in_manifest", scene.file("rye/evil", content), trust=scene.trust())


@pytest.mark.parametrize("change", [b" ", b"\n# more\n"], ids=repr)
def test_a_changed_file_is_refused(scene: Scene, change: bytes) -> None:
    file = scene.file(content=scene.file().content + change)
    stopped(scene.world, "content_changed", file, trust=scene.trust())


def test_a_listed_file_under_another_listed_name_is_refused(scene: Scene) -> None:
    file = scene.file("rye/core/primitives/http_client", scene.file().content)
    stopped(scene.world, "content_changed", file, trust=scene.trust())


def test_a_manifest_that_lists_more_is_not_the_pinned_one(scene: Scene) -> None:
    evil = scene.root / "tools/rye/evil.yaml"
    evil.write_bytes(b"name: evil\n")
    (scene.root / SYSTEM_MANIFEST_NAME).write_bytes(render_manifest(seal.list_files(scene.root)))
    error = stopped(scene.world, "content_changed", scene.file("rye/evil"), trust=scene.trust())
    assert "manifest" in error.message
    stopped(scene.world, "content_changed", scene.file(), trust=scene.trust())


def test_without_a_manifest_there_is_no_system_space(scene: Scene) -> None:
    (scene.root / SYSTEM_MANIFEST_NAME).unlink()
    stopped(scene.world, "not_in_manifest", scene.file(), trust=scene.trust())


def test_a_manifest_that_is_a_link_does_not_count(scene: Scene) -> None:
    manifest = scene.root / SYSTEM_MANIFEST_NAME
    manifest.rename(scene.root / "elsewhere")
    manifest.symlink_to("elsewhere")
    stopped(scene.world, "unsafe_path", scene.file(), trust=scene.trust())


def test_the_system_space_is_not_signed(scene: Scene) -> None:
    key, file = scene.world.key(), scene.file()
    before = hashlib.sha256(file.path.read_bytes()).digest()
    refused("out_of_scope", lambda: sign_content(file, key, now=NOW))
    refused("out_of_scope", lambda: sign_item(file, key, scene.trust(), role=Role.PRIMITIVE))
    assert hashlib.sha256(file.path.read_bytes()).digest() == before


def test_a_copy_in_another_space_is_unsigned_like_any_file(scene: Scene) -> None:
    file = scene.world.file(scene.file().content, item_id=ITEM, extension=".yaml")
    stopped(scene.world, "unsigned", file, Role.PRIMITIVE)


LIBRARY = "tools/rye/core/runtimes/lib/python"


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("name", "code"), [("call_function.py", "content_changed"), ("json.py", "not_in_manifest")]
)
async def test_neither_in_the_library_of_a_runtime_that_stands_as_it_was(
    scene: Scene, name: str, code: str
) -> None:
    """The library runs beside each tool of the runtime, whose own file is as it was sealed."""
    text = b"__version__ = '1.0.0'\n__executor_id__ = 'rye/core/runtimes/python_function_runtime'\n"
    world = scene.world
    world.stored(world.signed(world.file(text + b"def execute(params, project): return 1\n")))
    executor = PrimitiveExecutor(
        world.project, user_space=world.user_space.parent, system_space=scene.root, state=world.state
    )
    try:
        assert (await executor.execute("demo/hello")).data == 1
        with (scene.root / LIBRARY / name).open("ab") as file:
            file.write(b"\nraise SystemExit('unlisted code')\n")
        result = await executor.execute("demo/hello")
        assert (result.code, result.run_id) == (code, None)
    finally:
        await executor.close()
