"""A project brings an interpreter along, or makes the search for one lead into it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.call_world import SERVER, Call
from tests.trust_world import World, refused

VENV = """
config: {command: '${PYTHON}'}
env_config: {interpreter: {type: venv_python, var: PYTHON, fallback: none"""


def venv(directory: Path, interpreter: Path | str = "/bin/sh") -> Path:
    (directory / "bin").mkdir(parents=True)
    (directory / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="ascii")
    link = directory / "bin/python"
    link.symlink_to(interpreter)
    return link


def began(world: World, *, more: str = "", approved: bool = True) -> Call:
    call = Call.begin(world, runtime=f"{VENV}{more}}}}}")
    if approved:
        call.approve()
    return call


def interpreter(call: Call) -> str:
    environment = call.environment()
    assert not environment.project_used
    return call.process().spec.command


def git(directory: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(directory), *words], check=True, capture_output=True)


def test_in_a_project_that_nobody_approved(world: World) -> None:
    call = began(world, approved=False)
    venv(world.project / ".venv")
    world.project.joinpath(".env").write_text("A=1\n", encoding="ascii")
    assert interpreter(call) == "none"
    [notice] = call.environment().notices
    assert notice.code == "project_not_approved"
    assert "rye trust project" in notice.message
    assert ".venv" in notice.message
    assert ".env" in notice.message
    assert "A" not in call.environment().variables


def test_one_that_git_tracks(world: World) -> None:
    call = began(world)
    venv(world.project / ".venv")
    git(world.project, "init", "-q")
    assert call.process().spec.command != "none"
    git(world.project, "add", "-f", ".venv/pyvenv.cfg")
    assert interpreter(call) == "none"
    [notice] = call.environment().notices
    assert notice.code == "venv_not_used"
    assert "git tracks .venv" in notice.message


def test_one_under_another_name_is_looked_at_just_the_same(world: World) -> None:
    call = began(world, more=", venv_path: tools/env")
    venv(world.project / "tools/env")
    git(world.project, "init", "-q")
    git(world.project, "add", "-f", "tools/env")
    assert interpreter(call) == "none"


def test_one_whose_real_file_lies_in_the_project(world: World) -> None:
    call = began(world)
    evil = world.project / "bin/evil"
    evil.parent.mkdir()
    evil.touch(mode=0o755)
    venv(world.project / ".venv", evil)
    assert interpreter(call) == "none"


def test_one_without_a_configuration(world: World) -> None:
    call = began(world)
    venv(world.project / ".venv")
    (world.project / ".venv/pyvenv.cfg").unlink()
    assert interpreter(call) == "none"


def test_one_that_becomes_so_after_it_was_used(world: World) -> None:
    call = began(world)
    link = venv(world.project / ".venv")
    assert call.process().spec.command == str(link)
    evil = world.project / "evil"
    evil.touch(mode=0o755)
    link.unlink()
    link.symlink_to(evil)
    assert interpreter(call) == "none"
    link.unlink()
    link.symlink_to("/bin/sh")
    assert call.process().spec.command == str(link)
    approvals = call.trust.approvals
    assert approvals is not None
    approvals.approve_project(approved=False)
    assert interpreter(call) == "none"


NODE = """
config: {command: '${NODE}'}
env_config:
  interpreter: {type: node_modules, search_paths: [".", lib/node_modules], var: NODE, fallback: none}
"""


@pytest.mark.parametrize("place", ["node_modules/.bin/node", "lib/node_modules/.bin/node"])
@pytest.mark.parametrize("tracked", ["{place}", "node/node"], ids=["by its name", "its real file"])
def test_a_node_that_git_tracks(world: World, place: str, tracked: str) -> None:
    call = Call.begin(world, runtime=NODE)
    call.approve()
    real, link = world.project / "node/node", world.project / place
    for path in (real, link):
        path.parent.mkdir(parents=True)
    real.touch(mode=0o755)
    link.symlink_to(real)
    git(world.project, "init", "-q")
    assert call.process().spec.command == str(link), "it was installed here"
    git(world.project, "add", "-f", tracked.format(place=place))
    assert call.process().spec.command == "none"
    [notice] = call.environment().notices
    assert (notice.code, str(link) in notice.message) == ("node_not_used", True)


@pytest.mark.parametrize("entry", ["{bin}", "{bin}/", "{bin}/../.bin", "{link}"])
def test_the_path_of_a_node_that_git_tracks(world: World, entry: str) -> None:
    """As `npm run` sets it: what is not found by its place would be found there as the fallback."""
    program = world.project / "node_modules/.bin/node"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    link = world.root / "link"
    link.symlink_to(program.parent)
    call = Call.begin(world, runtime=NODE)
    call.approve()
    call.server = {**SERVER, "PATH": f"{entry.format(bin=program.parent, link=link)}:/usr/bin"}
    git(world.project, "init", "-q")
    git(world.project, "add", "-f", "node_modules/.bin/node")
    found = call.environment()
    assert found.variables["PATH"] == "/usr/bin"
    assert [notice.code for notice in found.notices] == ["node_not_used"]


@pytest.mark.parametrize("where", ["{project}/.venv", "{project}/x/../.venv"])
def test_an_absolute_path_into_a_project_that_nobody_approved(world: World, where: str) -> None:
    path = where.format(project=world.project)
    call = began(world, more=f", venv_path: '{path}'", approved=False)
    venv(world.project / ".venv")
    (world.project / "x").mkdir()
    refused("invalid_item", call.environment)


def test_a_program_of_the_project_by_its_absolute_path(world: World) -> None:
    program = world.project / "bin/tool"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    call = Call.begin(
        world,
        runtime=f"config: {{command: x}}\n"
        f"env_config: {{interpreter: {{type: system_binary, binary: '{program}', var: X}}}}",
    )
    refused("invalid_item", call.environment)


SYSTEM = """
config: {command: x}
env_config: {interpreter: {type: system_binary, binary: tool, var: X, fallback: none}}
"""


@pytest.mark.parametrize(
    "entry", ["{project}/bin", "{project}/bin/", "{project}/x/../bin", "bin", "", "{link}"]
)
def test_a_path_of_the_server_that_leads_into_it(world: World, entry: str) -> None:
    program = world.project / "bin/tool"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    (world.project / "x").mkdir()
    link = world.root / "link"
    link.symlink_to(program.parent)
    call = Call.begin(world, runtime=SYSTEM)
    shown = entry.format(project=world.project, link=link)
    call.server = {**SERVER, "PATH": f"{shown}:/usr/bin:/bin"}
    found = call.environment()
    assert found.variables["X"] == "none"
    assert found.variables["PATH"] == "/usr/bin:/bin"
    assert not found.project_used


@pytest.mark.parametrize("item_id", ["demo/tool", "base/subprocess"])
def test_a_path_of_the_server_that_leads_nowhere_else(
    world: World, monkeypatch: pytest.MonkeyPatch, item_id: str
) -> None:
    """Nothing is left of it, and it is not looked at any more: what is there was not approved."""
    path = str(world.project / "bin")
    monkeypatch.setenv("PATH", path)
    call = Call.begin(world, runtime="config: {command: tool}")
    call.server = {**SERVER, "PATH": path}
    direct = {"config": {"command": "tool"}} if item_id == "base/subprocess" else None
    spec = call.process(direct, item_id=item_id).spec
    assert "PATH" not in spec.env
    assert spec.search_path == os.defpath


@pytest.mark.parametrize("name", [".venv", "tools/env"])
def test_the_path_of_a_virtual_environment_that_may_not_be_used(world: World, name: str) -> None:
    call = Call.begin(world, runtime=SYSTEM)
    link = venv(world.project / name)
    link.with_name("tool").symlink_to("/bin/sh")
    call.server = {**SERVER, "PATH": f"{link.parent}:/usr/bin"}
    call.approve()
    assert call.environment().variables["X"] == str(link.with_name("tool"))
    assert call.environment().project_used
    git(world.project, "init", "-q")
    git(world.project, "add", "-f", name)
    assert call.environment().variables["X"] == "none"
    assert [notice.code for notice in call.environment().notices] == ["venv_not_used"]


def test_a_worktree_does_not_lend_the_interpreter_of_its_main_repository(world: World) -> None:
    main = world.root / "main"
    main.mkdir(parents=True)
    git(main, "init", "-q")
    (main / "python").touch(mode=0o755)
    git(main, "add", "python")
    git(main, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")
    git(main, "worktree", "add", "-q", str(world.project))
    call = began(world)
    venv(world.project / ".venv", main / "python")
    assert interpreter(call) == "none"
