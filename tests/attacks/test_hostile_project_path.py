"""Attack: a call names a directory as its project in which, or below which, rye-mcp keeps what it goes by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.app import App, Settings
from rye_mcp.errors import RyeError
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.mcp_server.projects import OpenProjects, Projects
from tests.file_system_world import at_desk
from tests.lock_world import LockWorld, files_below
from tests.people import Person
from tests.trust_world import World, refused

SPACE, KEPT, CACHE, COPIES, OTHER = (
    "your user space",
    "your decisions, logs and outputs",
    "the cache of rye-mcp",
    "the private copies of what runs",
    "the .ai of",
)
NAMED = {
    "home/.ai": ("inside", SPACE),
    "home/.ai/keys/person": ("inside", SPACE),
    ".": ("contains", SPACE),
    "state/rye": ("inside", KEPT),
    "state/rye/outputs": ("inside", KEPT),
    "state": ("contains", KEPT),
    "cache/rye/search": ("inside", CACHE),
    "run/rye": ("inside", COPIES),
    "project/.ai": ("inside", OTHER),
    "project/.ai/lockfiles": ("inside", OTHER),
    "another-name": ("inside", SPACE),
}


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has keys, decisions and a project, each in its directory."""
    for each in (*NAMED, "project"):
        if each != "another-name":
            (tmp_path / each).mkdir(parents=True, exist_ok=True)
    (tmp_path / "another-name").symlink_to("home/.ai/keys")
    (tmp_path / "home/.ai/keys/person/private.pem").write_text("a key")
    monkeypatch.setenv("USER_SPACE", str(tmp_path / "home"))
    for name, directory in {"STATE_HOME": "state", "CACHE_HOME": "cache", "RUNTIME_DIR": "run"}.items():
        monkeypatch.setenv(f"XDG_{name}", str(tmp_path / directory))
    return tmp_path


def over_mcp(project: Path) -> App:
    return OpenProjects(Projects().open).named(str(project))


def by_an_option(project: Path) -> App:
    return App.open(Settings.find(project=project))


@pytest.mark.parametrize("door", [over_mcp, by_an_option])
@pytest.mark.parametrize("named", NAMED)
def test_what_decides_is_in_no_project(ground: Path, door: Callable[[Path], App], named: str) -> None:
    where, what = NAMED[named]
    error = refused("no_project", lambda: door(ground / named))
    assert f"found a directory {where}" in error.message or f"a directory that {where}" in error.message
    assert what in error.message


@pytest.mark.parametrize("door", [over_mcp, by_an_option])
def test_a_project_that_the_user_space_links_into_does_not_count(
    ground: Path, door: Callable[[Path], App]
) -> None:
    """As with a repository of dotfiles."""
    (ground / "dotfiles").mkdir()
    (ground / "home/.ai").rename(ground / "dotfiles/ai")
    (ground / "home/.ai").symlink_to(ground / "dotfiles/ai")
    error = refused("no_project", lambda: door(ground / "dotfiles"))
    assert "a directory that contains your user space" in error.message


def test_the_command_line_says_why(ground: Path) -> None:
    bob = Person("bob", ground)
    for each in (bob.user_space, bob.place, bob.state / "rye"):
        each.mkdir(parents=True, exist_ok=True)
        error = bob.refused("no_project", "verify", "--project", str(each), cwd=ground / "project")
        assert "expected a project, found a directory" in str(error)


def test_an_embedding_program_opens_none_either(ground: Path) -> None:
    def opened(**more: Any) -> PrimitiveExecutor:
        return PrimitiveExecutor(user_space=ground / "home", state=ground / "state/rye", **more)

    for named in ("home/.ai/keys", ".", "state"):
        refused("no_project", lambda named=named: opened(project_path=ground / named))  # type: ignore[misc]
    assert isinstance(opened(project_path=ground / "project"), PrimitiveExecutor)


@pytest.mark.parametrize("leads", ["to another project", "inside"])
def test_a_clone_whose_space_is_a_link_is_refused(tmp_path: Path, leads: str) -> None:
    """What is signed and locked in it would be written where the link leads."""
    lock = LockWorld.make(tmp_path)
    mine, clone = lock.world.project, tmp_path / "clone"
    (clone / "inner").mkdir(parents=True)
    target = mine / ".ai" if leads == "to another project" else clone / "inner"
    (clone / ".ai").symlink_to(target)
    error = refused("unsafe_path", lambda: Settings.find(project=clone, user_directory=tmp_path / "home"))
    assert "symbolic link" in error.message
    assert not (target / "lockfiles").exists()


def test_a_space_that_becomes_a_link_after_it_was_opened_is_not_written_through(tmp_path: Path) -> None:
    lock = LockWorld.make(tmp_path)
    space, elsewhere = lock.world.project / ".ai", tmp_path / "elsewhere"
    resolver, valid = lock.resolver(), lock.valid()
    space.rename(elsewhere)
    space.symlink_to(elsewhere)
    before = files_below(elsewhere)
    with pytest.raises(RyeError) as caught:
        resolver.save_lockfile(resolver.create_lockfile(valid))
    assert caught.value.code == "unsafe_path"
    assert files_below(elsewhere) == before


@pytest.mark.parametrize("leads", ["home", "home/.ai/keys"])
async def test_a_link_that_takes_the_place_of_an_open_project_is_refused(ground: Path, leads: str) -> None:
    """An agent that may move files beside the project moves a link there that a clone has brought."""
    apps = OpenProjects(Projects().open)
    assert apps.named(str(ground / "project")).spaces.project is not None
    link_to(ground, leads)
    refused("no_project", lambda: apps.named(str(ground / "project")))
    await apps.close()


@pytest.mark.parametrize("linked", ["deep/project", "deep"])
@pytest.mark.parametrize("lifted", [False, True], ids=["confined", "unconfined"])
async def test_a_link_that_takes_its_place_during_a_call_is_not_followed_by_file_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: str, *, lifted: bool
) -> None:
    async with at_desk(tmp_path / "deep", monkeypatch, lifted=lifted) as desk:
        (tmp_path / "other/project/.ai").mkdir(parents=True)
        (tmp_path / "other/project/secret").write_text("a key")
        if lifted:
            World(tmp_path / "other").lift("rye/file-system/*")
        (tmp_path / linked).rename(tmp_path / "aside")
        (tmp_path / linked).symlink_to(tmp_path / linked.replace("deep", "other"))
        result = await desk.run("read", path="secret")
    assert result.code in {"spawn_failed", "tool_failed"}
    said = f"{result.error} {result.data}"
    assert any(words in said for words in ("a link is on the way", "found a link", "Not a directory"))
    assert "a key" not in said


def link_to(ground: Path, leads: str) -> None:
    (ground / "project").rename(ground / "aside")
    (ground / "project").symlink_to(ground / leads)


async def test_what_is_kept_for_the_user_is_read_by_no_file_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets below the project only after the project was opened: by a mount, say."""
    async with at_desk(tmp_path, monkeypatch, state=tmp_path / "project/sub") as desk:
        decided = desk.write("sub/rye/projects/decided.json", "a secret of the user")
        (desk.project / "way").symlink_to("sub/rye")
        edit = {"path": "way/projects/decided.json", "edits": [{"old_text": "a", "new_text": "b"}]}
        for tool, parameters in (
            ("read", {"path": "sub/rye/projects/decided.json"}),
            ("edit", edit),
            ("write", {"path": "sub/rye/new.json", "content": "{}"}),
            ("ls", {"path": "sub/rye"}),
            ("delete", {"path": "sub/rye", "recursive": True}),
            ("move", {"source": "sub/rye", "target": "taken"}),
        ):
            assert "keeps for the user" in await desk.refusal(tool, **parameters), tool
        for pattern in ("secret", "secre(?=t)"):
            assert (await desk.ask("grep", pattern=pattern, output="files"))["files"] == []
        assert (await desk.ask("glob", pattern="**/*.json"))["paths"] == []
        assert "decided" not in str(await desk.ask("ls", depth=5))
        assert decided.read_text() == "a secret of the user"


KEPT_FOR_THE_USER = {
    "keys": ("USER_SPACE", ".ai/keys/person/private.pem"),
    "documents of trust": ("USER_SPACE", ".ai/trusted_keys/ada.toml"),
    "settings": ("USER_SPACE", ".ai/config/rye.yaml"),
    "decisions": ("XDG_STATE_HOME", "rye/projects/decided.json"),
    "outputs of runs": ("XDG_STATE_HOME", "rye/outputs/run/stdout"),
    "the index": ("XDG_CACHE_HOME", "rye/search/index.sqlite3"),
    "private copies": ("XDG_RUNTIME_DIR", "rye/copy/tool.py"),
}


@pytest.mark.each_once
@pytest.mark.parametrize(("variable", "name"), KEPT_FOR_THE_USER.values(), ids=KEPT_FOR_THE_USER)
@pytest.mark.parametrize("lifted", [False, True], ids=["confined", "unconfined"])
async def test_nothing_of_the_kind_is_read_or_written_by_a_file_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, name: str, *, lifted: bool
) -> None:
    """By whichever name: a link of the project leads to it, and it is known by what it is."""
    below = tmp_path / "project/sub"
    state = below if variable == "XDG_STATE_HOME" else None
    monkeypatch.setenv(variable, str(below))
    async with at_desk(tmp_path, monkeypatch, state=state, lifted=lifted) as desk:
        kept = desk.write(f"sub/{name}", "what a person has decided")
        (desk.project / "way").symlink_to(kept.parent.relative_to(desk.project))
        for path in (f"sub/{name}", f"way/{kept.name}"):
            for tool, more in (("read", {}), ("write", {"content": "evil"})):
                result = await desk.run(tool, path=path, **more)
                assert not result.success, (tool, path)
                assert "what a person has decided" not in f"{result.data} {result.error}"
                assert "keeps for the user" in str(result.data), (tool, path)
        assert kept.read_text() == "what a person has decided"
