"""Somebody changes what a call found before, long after it was found: the next call sees each change."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rye_mcp
from lilux._footprints import Footprint, _footprint
from rye_mcp.errors import RyeError
from rye_mcp.executor.decider import Decider
from rye_mcp.executor.lock.resolver import LockfileResolver
from rye_mcp.items import SpaceName
from rye_mcp.runs.results import KeptResults, owner_of
from rye_mcp.spaces import Spaces
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import revoke
from rye_mcp.trust.verify import Trust
from tests.trust_world import World, new_key, old
from tests.verb_world import RUNTIME, put, tool

LIBRARIES = "tools/rye/core/runtimes/lib"


@dataclass
class Scene:
    """A project in which each case has a directory with a tool `CASE/x/hello`, on a runtime of the user."""

    world: World
    system: Path
    decider: Decider
    friend: str

    @classmethod
    def make(cls, root: Path) -> Scene:
        world = World(root)
        world.key()
        system = root / "system"
        shutil.copytree((Path(rye_mcp.__file__).parent / ".ai").resolve(), system)
        for case in CASES:
            put(world, RUNTIME, f"{case}/x/runtime", ".yaml", space=SpaceName.USER, signed=True)
            put(world, tool(executor=f"{case}/x/runtime"), f"{case}/x/hello", signed=True)
            (world.project / f".ai/lockfiles/{case}/x").mkdir(parents=True)
        for case in OF_LIBRARIES:
            put(world, tool(executor=f"rye/core/runtimes/{case}"), f"{case}/x/hello", signed=True)
        friend = new_key()
        world.trust_key(TrustDocument.create(friend.public, "mia"))
        world.stored(world.signed(world.file(tool(), item_id="friend/x/hello"), friend))
        spaces = Spaces.locate(world.project, user=world.user_space.parent, system=system)
        trust = Trust(
            user_space=world.user_space,
            project=world.project,
            system_space=system,
            state=world.state,
            environment={},
        )
        locks = LockfileResolver(spaces, trust, package_version="1.0.0")
        results = KeptResults(world.state, owner_of(world.project))
        decider = Decider(spaces, trust, world.project, locks, results)
        return cls(world, system, decider, friend.public.key_id)

    def path(self, case: str, name: str = "hello.py", space: SpaceName = SpaceName.PROJECT) -> Path:
        return self.world.space(space).root / f"tools/{case}/x/{name}"

    def lock(self, case: str, version: str = "1.2.0") -> Path:
        return self.world.project / f".ai/lockfiles/{case}/x/hello@{version}.lock.json"

    def found(self, case: str) -> list[str]:
        """Where the elements of the chain are that a call of the case gets; or the code of its refusal."""
        try:
            pinned, _ = self.decider.pinned(f"{case}/x/hello")
        except RyeError as exc:
            return [exc.code]
        return [element.space.value for element in pinned.valid.verified.chain.elements]


def edited(scene: Scene, case: str) -> None:
    path = scene.path(case)
    path.write_bytes(path.read_bytes() + b"import evil\n")


def edited_in_the_same_second(scene: Scene, case: str) -> None:
    path = scene.path(case)
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"hello'", b"HELLO'"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def exchanged(scene: Scene, case: str) -> None:
    path = scene.path(case)
    other = path.with_name("other")
    other.write_bytes(path.read_bytes() + b"import evil\n")
    other.rename(path)


def linked(scene: Scene, case: str) -> None:
    path = scene.path(case)
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def in_a_linked_directory(scene: Scene, case: str) -> None:
    directory = scene.path(case).parent
    directory.rename(directory.with_name("moved"))
    directory.symlink_to(directory.with_name("moved"))


def gone(scene: Scene, case: str) -> None:
    scene.path(case).unlink()


def with_a_twin(scene: Scene, case: str) -> None:
    scene.path(case, "hello.sh").write_text("echo evil\n")


def on_an_edited_runtime(scene: Scene, case: str) -> None:
    path = scene.path(case, "runtime.yaml", SpaceName.USER)
    path.write_bytes(path.read_bytes() + b"config: {command: evil}\n")


def on_a_runtime_of_the_project(scene: Scene, case: str) -> None:
    put(scene.world, RUNTIME, f"{case}/x/runtime", ".yaml", signed=True)


def locked(scene: Scene, case: str) -> None:
    scene.lock(case).write_text("{}")


def locked_in_a_newer_version(scene: Scene, case: str) -> None:
    scene.lock(case, "2.0.0").write_text("{}")


def edit_library(libraries: Path) -> None:
    path = libraries / "python/call_function.py"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b"import evil\n")


def add_to_library(libraries: Path) -> None:
    (libraries / "bash/evil.sh").write_text("evil\n")


CASES: dict[str, tuple[Callable[[Scene, str], None], list[str]]] = {
    "edited": (edited, ["content_changed"]),
    "same_time": (edited_in_the_same_second, ["content_changed"]),
    "exchanged": (exchanged, ["content_changed"]),
    "linked": (linked, ["unsafe_path"]),
    "linked_directory": (in_a_linked_directory, ["unsafe_path"]),
    "gone": (gone, ["item_not_found"]),
    "twin": (with_a_twin, ["ambiguous_item"]),
    "runtime": (on_an_edited_runtime, ["content_changed"]),
    "shadowed": (on_a_runtime_of_the_project, ["project", "project", "system"]),
    "locked": (locked, ["malformed_lockfile"]),
    "newer": (locked_in_a_newer_version, ["lock_mismatch"]),
}
OF_LIBRARIES = {
    "python_function_runtime": (edit_library, ["content_changed"]),
    "bash_runtime": (add_to_library, ["not_in_manifest"]),
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return found_scene(tmp_path_factory.mktemp("scene"))


def found_scene(root: Path) -> Scene:
    """A scene in which every tool was found, and everything that was looked at is old enough to be kept."""
    made = Scene.make(root)
    old(*made.world.root.rglob("*"))
    for case in CASES:
        assert made.found(case) == ["project", "user", "system"]
    for case in OF_LIBRARIES:
        assert made.found(case) == ["project", "system", "system"]
    assert made.found("friend") == ["project", "system"]
    return made


def is_remembered(scene: Scene, case: str) -> bool:
    """Whether nothing has changed by itself of what a call of the case looks at."""
    footprint, _ = scene.decider.builder._roots._kept[f"{case}/x/hello"]
    return footprint.holds()


@pytest.mark.parametrize("case", CASES)
def test_what_has_changed_since_it_was_found_is_found_again(scene: Scene, case: str) -> None:
    change, expected = CASES[case]
    assert is_remembered(scene, case)
    change(scene, case)
    assert scene.found(case) == expected


@pytest.mark.parametrize("case", OF_LIBRARIES)
def test_a_library_of_the_package_that_has_changed_is_read_again(scene: Scene, case: str) -> None:
    change, expected = OF_LIBRARIES[case]
    assert is_remembered(scene, case)
    change(scene.system / LIBRARIES)
    assert scene.found(case) == expected


@pytest.mark.thorough
def test_a_key_that_is_revoked_counts_although_no_file_of_the_tool_has_changed(tmp_path: Path) -> None:
    scene = found_scene(tmp_path)
    assert is_remembered(scene, "friend")
    revoke(scene.world.user_space, scene.friend, "lost")
    assert scene.found("friend") == ["revoked_key"]


LOOKS = ("open", "stat", "lstat", "scandir", "listdir", "readlink", "access")
"""How files are looked at by name. What is looked at through a descriptor was opened by name before."""


def test_whatever_remembered_work_looks_at_is_in_its_footprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene.make(tmp_path)
    seen, noted = set[str](), set[str]()
    add, readlink = Footprint.add, os.readlink

    def looking(look: Callable[..., Any]) -> Callable[..., Any]:
        def looked(path: Any, *args: Any, **options: Any) -> Any:
            if _footprint.get() is not None and not isinstance(path, int):
                directory = options.get("dir_fd")
                above = "" if directory is None else readlink(f"/proc/self/fd/{directory}")
                seen.add(os.path.normpath(Path(above, os.fspath(path))))
            return look(path, *args, **options)

        return looked

    def noting(footprint: Footprint, path: str) -> None:
        noted.add(path)
        token = _footprint.set(None)  # the stamp is no look of the work
        add(footprint, path)
        _footprint.reset(token)

    monkeypatch.setattr(Footprint, "add", noting)
    for name in LOOKS:
        monkeypatch.setattr(os, name, looking(getattr(os, name)))
    for case in (*CASES, *OF_LIBRARIES, "friend"):
        scene.found(case)
    monkeypatch.undo()
    assert len(seen) > len(CASES)
    assert seen <= noted
