"""Somebody changes what a call found before, long after it was found: the next call sees each change."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rye_mcp
from lilux import _stamps
from lilux._footprints import Footprint, _footprint, unnoted
from lilux._stamps import KeptFile
from rye_mcp.errors import RyeError
from rye_mcp.executor.decider import Decider
from rye_mcp.executor.lock.resolver import LockfileResolver
from rye_mcp.files import OTHERS, Tree
from rye_mcp.items import SpaceName
from rye_mcp.permissions import Permissions
from rye_mcp.runs.results import KeptResults, owner_of
from rye_mcp.spaces import Spaces
from rye_mcp.trust.approvals import Approvals, Decision
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.trust.trust_store import revoke
from rye_mcp.trust.verify import Trust
from tests.trust_world import World, new_key, old, refused
from tests.verb_world import RUNTIME, put, tool

IDENTITY = ("-c", "user.name=leo", "-c", "user.email=leo@example.org", "-c", "commit.gpgsign=false")
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
        for case in (*CASES, UNCHANGED):
            put(world, RUNTIME, f"{case}/x/runtime", ".yaml", space=SpaceName.USER, signed=True)
            put(world, tool(executor=f"{case}/x/runtime"), f"{case}/x/hello", signed=True)
            (world.project / f".ai/lockfiles/{case}/x").mkdir(parents=True)
        for case in OF_LIBRARIES:
            put(world, tool(executor=f"rye/core/runtimes/{case}"), f"{case}/x/hello", signed=True)
        friend = new_key()
        world.trust_key(TrustDocument.create(friend.public, "mia"))
        for case in OF_FRIENDS:
            world.stored(world.signed(world.file(tool(), item_id=f"{case}/x/hello"), friend))
        return cls.of(world, system, friend.public.key_id)

    @classmethod
    def of(cls, world: World, system: Path, friend: str = "") -> Scene:
        """One whose project is there already."""
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
        return cls(world, system, decider, friend)

    def path(self, case: str, name: str = "hello.py", space: SpaceName = SpaceName.PROJECT) -> Path:
        return self.world.space(space).root / f"tools/{case}/x/{name}"

    def lock(self, case: str, version: str = "1.2.0") -> Path:
        return self.world.project / f".ai/lockfiles/{case}/x/hello@{version}.lock.json"

    def found(self, case: str) -> list[str]:
        """Where the elements of the chain are that a call of the case gets; or the code of its refusal.

        What is new is agreed to.
        """
        try:
            judged = self.judged(case)
        except RyeError as exc:
            return [exc.code]
        if judged.comparison.widened:
            return ["permissions_widened"]
        judged.comparison.keep(self.decider.trust)
        return [element.space.value for element in judged.pinned.valid.verified.chain.elements]

    def judged(self, case: str) -> Any:
        """What a call of the case is decided by, whatever its parameters are."""
        return self.decider._judge(f"{case}/x/hello", validate_chain=True, use_lockfile=True)


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


def revoked(scene: Scene, case: str) -> None:
    revoke(scene.world.user_space, scene.friend, "lost")


def not_trusted_any_more(scene: Scene, case: str) -> None:
    [document] = (
        each
        for each in (scene.world.user_space / "trusted_keys").iterdir()
        if b'owner = "mia"' in each.read_bytes()
    )
    document.unlink()


def agreed_to_less(scene: Scene, case: str) -> None:
    file = scene.judged(case).pinned.valid.verified.root.file
    scene.decider.trust.agreed_permissions.write(file, "tool", Permissions())


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
UNCHANGED = "unchanged"
OF_LIBRARIES = {
    "python_function_runtime": (edit_library, ["content_changed"]),
    "bash_runtime": (add_to_library, ["not_in_manifest"]),
}


OF_FRIENDS: dict[str, tuple[Callable[[Scene, str], None], str]] = {
    "agreed": (agreed_to_less, "permissions_widened"),
    "revoked": (revoked, "revoked_key"),
    "untrusted": (not_trusted_any_more, "untrusted_key"),
}
"""What is decided about a tool of somebody else, in files that are none of its own."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return found_scene(tmp_path_factory.mktemp("scene"))


def found_scene(root: Path) -> Scene:
    """A scene in which every tool was found, and everything that was looked at is old enough to be kept."""
    made = Scene.make(root)
    expected = {
        **{case: ["project", "user", "system"] for case in (*CASES, UNCHANGED)},
        **{case: ["project", "system", "system"] for case in OF_LIBRARIES},
        **{case: ["project", "system"] for case in OF_FRIENDS},
    }
    for _ in range(2):  # the first time, everything is agreed to
        assert {case: made.found(case) for case in expected} == expected
        old(*made.world.root.rglob("*"))
    assert {case: made.found(case) for case in expected} == expected
    return made


def is_remembered(scene: Scene, case: str) -> bool:
    """Whether a call of the case is decided by what was found before."""
    return scene.judged(case) is scene.judged(case)


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
@pytest.mark.parametrize("case", OF_FRIENDS)
def test_what_is_decided_about_a_signer_counts_although_no_file_of_the_tool_has_changed(
    tmp_path: Path, case: str
) -> None:
    scene = found_scene(tmp_path)
    change, expected = OF_FRIENDS[case]
    assert is_remembered(scene, case)
    change(scene, case)
    assert scene.found(case) == [expected]


def written_by_everybody(directory: Path) -> None:
    directory.chmod(0o777)


def given_to_a_group_of_others(directory: Path) -> None:
    os.chown(directory, -1, SHARED)


SHARED = 65534
"""A group that has members of its own."""


@pytest.mark.parametrize(
    "change",
    [
        written_by_everybody,
        pytest.param(
            given_to_a_group_of_others,
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give it away"),
        ),
    ],
)
def test_others_that_can_exchange_what_was_decided_are_noticed_above_it(
    scene: Scene, change: Callable[[Path], None]
) -> None:
    """No file of the state, of the user space or of the tool has changed: only who can rename all of them."""
    above = scene.world.root
    before = above.stat()
    above.chmod(0o770)
    try:
        assert is_remembered(scene, UNCHANGED)
        change(above)
        assert scene.found(UNCHANGED) == ["unsafe_permissions"]
    finally:
        os.chown(above, -1, before.st_gid)
        above.chmod(before.st_mode & 0o7777)
    assert scene.found(UNCHANGED) == ["project", "user", "system"]


def test_others_that_can_exchange_it_are_noticed_where_a_link_leads_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_stamps, "SETTLED_NS", -(10**12))
    way, elsewhere = tmp_path / "way", tmp_path / "elsewhere"
    for directory in (way, way / "state", elsewhere):
        directory.mkdir(mode=0o700)
    (way / "state/decided").touch(0o600)
    kept = KeptFile(Tree(way / "state", forbidden=OTHERS), "decided", lambda data, _: data, limit=1)
    assert kept.value() == b""
    way.rename(elsewhere / "way")
    way.symlink_to(elsewhere / "way")
    assert kept.value() == b""
    elsewhere.chmod(0o777)
    refused("unsafe_permissions", kept.value)


@pytest.mark.thorough
def test_a_call_in_a_worktree_is_decided_again_when_its_repository_is_no_longer_approved(
    tmp_path: Path,
) -> None:
    """That others can write there is said by the mode of a directory which no stage looks into."""
    world, repository, key = World(tmp_path), tmp_path / "main", new_key()
    commands = (
        ("init", str(repository)),
        ("-C", str(repository), *IDENTITY, "commit", "--allow-empty", "-m", "first"),
        ("-C", str(repository), "worktree", "add", str(world.project)),
    )
    for each in commands:
        subprocess.run(("git", *each), check=True, capture_output=True)
    world.key()
    document = TrustDocument.create(key.public, "mia")
    world.propose(document)
    world.stored(world.signed(world.file(tool(), item_id="demo/hello"), key))
    Approvals(repository, world.state).approve_project()
    scene = Scene.of(world, Spaces.locate(world.project, user=world.user_space.parent).system.root)
    scene.decider.trust.store.decide(document, Decision.ACCEPTED)

    def judged() -> Any:
        return scene.decider._judge("demo/hello", validate_chain=True, use_lockfile=True)

    judged().comparison.keep(scene.decider.trust)
    old(*world.root.rglob("*"))
    assert judged() is judged()
    repository.chmod(0o777)
    refused("untrusted_key", judged)


LOOKS = ("open", "stat", "lstat", "scandir", "listdir", "readlink", "access")
"""How files are looked at by name. What is looked at through a descriptor was opened by name before."""


def test_whatever_remembered_work_looks_at_is_in_its_footprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene.make(tmp_path)
    for once in ("manifest", "system_signer"):  # in a process
        getattr(scene.decider.trust, once)
    seen, noted = set[str](), set[str]()
    readlink = os.readlink

    def looking(look: Callable[..., Any]) -> Callable[..., Any]:
        def looked(path: Any, *args: Any, **options: Any) -> Any:
            if _footprint.get() is not None and not isinstance(path, int):
                directory = options.get("dir_fd")
                above = "" if directory is None else readlink(f"/proc/self/fd/{directory}")
                seen.add(os.path.normpath(Path(above, os.fspath(path))))
            return look(path, *args, **options)

        return looked

    def noting(add: Callable[[Footprint, str], None]) -> Callable[[Footprint, str], None]:
        def noted_first(footprint: Footprint, path: str) -> None:
            noted.add(path)
            with unnoted():  # the stamp is no look of the work
                add(footprint, path)

        return noted_first

    for name in ("add", "add_way"):
        monkeypatch.setattr(Footprint, name, noting(getattr(Footprint, name)))
    for name in LOOKS:
        monkeypatch.setattr(os, name, looking(getattr(os, name)))
    for case in (*CASES, *OF_LIBRARIES, *OF_FRIENDS):
        scene.found(case)
    monkeypatch.undo()
    assert len(seen) > len(CASES)
    assert seen <= noted
