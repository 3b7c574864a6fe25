"""Where the spaces are, and which directories are no project."""

import json
from pathlib import Path

import pytest

import rye_mcp
from rye_mcp.items import SYSTEM_MANIFEST_KIND, SpaceName
from rye_mcp.spaces import Spaces
from tests.space_helpers import TOOL, Ground, refused


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground.in_directory(tmp_path)


def test_the_system_space_is_that_of_the_package_with_its_link_resolved() -> None:
    link = Path(rye_mcp.__file__).parent / ".ai"
    assert Spaces.locate().system.root == link.resolve()


def test_the_user_space_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("USER_SPACE", raising=False)
    assert Spaces.locate().user.root == tmp_path / "home/.ai"
    monkeypatch.setenv("USER_SPACE", str(tmp_path / "elsewhere"))
    assert Spaces.locate().user.root == tmp_path / "elsewhere/.ai"
    monkeypatch.setenv("USER_SPACE", "")
    assert Spaces.locate().user.root == tmp_path / "home/.ai"


def test_a_relative_user_space_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER_SPACE", "here")
    with refused("unsafe_path") as caught:
        Spaces.locate()
    assert "USER_SPACE" in caught.value.message


def test_spaces_need_not_exist(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    spaces = Spaces.locate(tmp_path / "project", user=tmp_path / "nobody", system=tmp_path / "nothing")
    for name in SpaceName:
        assert spaces.list(name).items == ()
    with refused("item_not_found"):
        spaces.find("demo/hello")


def test_the_user_space_may_be_a_link_itself(ground: Ground) -> None:
    path = ground.write("user", "tools/demo/hello.py")
    (ground.root / "linked").mkdir()
    (ground.root / "linked/.ai").symlink_to(ground.space("user"))
    spaces = Spaces.locate(user=ground.root / "linked", system=ground.space("system"))
    assert spaces.find("demo/hello").item.path == path


def test_without_a_project_the_other_spaces_are_searched(ground: Ground) -> None:
    path = ground.write("user", "tools/demo/hello.py")
    spaces = Spaces.locate(None, user=ground.root / "user", system=ground.space("system"))
    assert spaces.find("demo/hello").item.path == path
    assert [space.name for space in spaces.accessible()] == [SpaceName.USER, SpaceName.SYSTEM]
    with refused("no_project"):
        spaces.require_project()
    with refused("no_project"):
        spaces.find("demo/hello", only=SpaceName.PROJECT)
    with refused("no_project"):
        spaces.list(SpaceName.PROJECT)


def test_the_project_is_given_back_where_there_is_one(ground: Ground) -> None:
    assert ground.spaces.require_project().root == ground.space("project")
    assert ground.spaces.space(SpaceName.USER).root == ground.space("user")


@pytest.mark.parametrize("project", ["missing", "canary.py", "a\x00b"])
def test_what_is_no_directory_is_no_project(ground: Ground, project: str) -> None:
    spaces = Spaces.locate(ground.root / project, user=ground.root / "user", system=ground.space("system"))
    with refused("no_project", ground):
        spaces.require_project()


def test_the_directory_of_the_user_is_no_project(ground: Ground) -> None:
    spaces = Spaces.locate(ground.root / "user", user=ground.root / "user", system=ground.space("system"))
    assert spaces.project is None
    with refused("no_project") as caught:
        spaces.require_project()
    assert "user space" in caught.value.message


def test_the_directory_of_the_system_space_is_no_project(ground: Ground) -> None:
    spaces = Spaces.locate(ground.root / "system", user=ground.root / "user", system=ground.space("system"))
    assert spaces.project is None


def test_a_directory_with_a_system_manifest_is_no_project(ground: Ground) -> None:
    ground.write("project", "tools/demo/hello.py", TOOL)
    manifest = {"kind": SYSTEM_MANIFEST_KIND, "files": {}}
    ground.write("project", "manifest.json", json.dumps(manifest).encode())
    assert ground.spaces.project is None
    with refused("item_not_found"):
        ground.spaces.find("demo/hello")


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b"{}",
        b"[]",
        b'"rye-system-manifest"',
        b'{"kind": "website"}',
        b"\xff",
        b"\x00",
    ],
)
def test_any_other_manifest_makes_no_difference(ground: Ground, manifest: bytes) -> None:
    ground.write("project", "manifest.json", manifest)
    assert ground.spaces.project is not None


def test_a_loop_of_links_is_refused(ground: Ground) -> None:
    (ground.root / "loop").mkdir()
    (ground.root / "loop/.ai").symlink_to(ground.root / "loop/.ai")
    spaces = Spaces.locate(ground.root / "loop", user=ground.root / "user", system=ground.space("system"))
    with refused("unsafe_path"):
        spaces.require_project()
