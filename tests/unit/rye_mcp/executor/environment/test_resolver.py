"""The environment of a tool: what it comes from, in which order, and what is kept of it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.anchor import Anchor, EnvPaths
from rye_mcp.executor.environment.resolver import EnvironmentResolver
from tests.call_world import Call, Places, now
from tests.trust_world import World, old


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def codes(call: Call) -> list[str]:
    return [notice.code for notice in call.environment().notices]


def anchored(**paths: EnvPaths) -> Anchor:
    return Anchor("tool_dir", Path("/source"), None, paths)


def test_later_elements_of_the_chain_override_earlier_ones(world: World) -> None:
    runtime = 'env_config: {env: {A: runtime, B: runtime, C: "${A}+${SERVER}"}}'
    tool = 'env_config: {env: {B: tool, D: "${A}-${B}-${C}"}}'
    call = Call.begin(world, runtime=f"config: {{command: x}}\n{runtime}", tool=tool)
    call.server = {**call.server, "A": "server", "SERVER": "s"}
    found = call.environment().variables
    assert {name: found[name] for name in "ABCD"} == {
        "A": "runtime",
        "B": "tool",
        "C": "runtime+s",
        "D": "runtime-tool-runtime+s",
    }


def test_every_tool_is_told_where_it_stands_and_nothing_changes_that(world: World) -> None:
    told = "env_config: {env: {RYE_PROJECT_PATH: other, RYE_TOOL_SOURCE: other, RYE_RESULT_FD: '9'}}"
    call = Call.begin(world, tool=told)
    call.server = {**call.server, "RYE_PROJECT_PATH": "/other"}
    found = call.environment().variables
    assert found["RYE_PROJECT_PATH"] == str(world.project)
    assert found["RYE_TOOL_SOURCE"] == str(call.paths().tool_source)
    assert found["RYE_RESULT_FD"] == "3"


def test_a_wrong_env_config_names_its_element(world: World) -> None:
    call = Call.begin(world, runtime="config: {command: x}\nenv_config: {interpreter: {type: guess}}")
    with pytest.raises(RyeError) as caught:
        call.environment()
    assert caught.value.code == "invalid_item"
    assert "base/runtime" in caught.value.message


def test_a_path_keeps_only_absolute_entries_each_once(world: World) -> None:
    call = Call.begin(world)
    call.server = {"PATH": f":/usr/bin:bin:./x:/bin::/usr/bin:{os.curdir}"}
    assert call.environment().variables["PATH"] == "/usr/bin:/bin"
    other = Call.begin(world)
    other.server = {"PATH": ":."}
    assert "PATH" not in other.environment().variables


# --- anchors ---


def test_the_paths_of_an_anchor_stand_around_what_there_is_without_empty_ones(world: World) -> None:
    call = Call.begin(world, tool='env_config: {env: {MODULES: ":/own:", ALONE: ""}}')
    call.anchor = anchored(
        MODULES=EnvPaths(("{tool_dir}/lib", "{runtime_lib}"), ("{project_path}", "/own")),
        ALONE=EnvPaths(("{anchor_path}",)),
    )
    found = call.environment().variables
    tool_dir = call.paths().snapshot.tool_dir
    assert found["MODULES"] == f"{tool_dir}/lib:/own:{world.project}"
    assert "ALONE" not in found


@pytest.mark.parametrize("template", ["lib", "{unknown}/x", "./x", "/a:/b", "${MODULES}"])
def test_a_path_that_would_mean_the_working_directory_or_two_is_refused(world: World, template: str) -> None:
    call = Call.begin(world)
    call.anchor = anchored(MODULES=EnvPaths((template,)))
    with pytest.raises(RyeError, match=r"anchor\.env_paths\.MODULES"):
        call.environment()


def test_a_project_whose_path_would_be_two_paths_is_refused(tmp_path: Path) -> None:
    call = Call.begin(World(tmp_path / "a:b"))
    call.anchor = anchored(MODULES=EnvPaths(("{project_path}",)))
    with pytest.raises(RyeError, match="absolute path without :"):
        call.environment()


# --- what is kept ---


def python(directory: Path) -> Path:
    """An interpreter in a virtual environment, as `venv` makes it."""
    (directory / "bin").mkdir(parents=True)
    (directory / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="ascii")
    link = directory / "bin/python"
    link.symlink_to("/bin/sh")
    return link


VENV = "env_config: {interpreter: {type: venv_python, var: PYTHON, fallback: python3}}"
RUNTIME = f"config: {{command: x}}\n{VENV}"


def test_an_environment_is_kept_and_every_change_is_seen_at_once(world: World) -> None:
    call = Call.begin(world, runtime=RUNTIME)
    call.approve()
    assert call.environment().variables["PYTHON"] == "python3"
    link = python(world.project / ".venv")
    assert call.environment().variables["PYTHON"] == str(link)
    (world.project / ".env").write_text("GREETING=one\n", encoding="ascii")
    assert call.environment().variables["GREETING"] == "one"
    old(world.project / ".env", link.parent, link, world.project)
    first = call.environment()
    assert call.environment() == first
    (world.project / ".env").write_text("GREETING=two\n", encoding="ascii")
    assert call.environment().variables["GREETING"] == "two"
    (world.project / ".venv/pyvenv.cfg").unlink()
    assert call.environment().variables["PYTHON"] == "python3"
    assert codes(call) == ["venv_not_used"]
    (world.project / ".env").unlink()
    assert "GREETING" not in call.environment().variables


def test_an_environment_is_kept_for_one_chain_alone(world: World) -> None:
    call = Call.begin(world, tool="env_config: {env: {A: one}}")
    call.sign(
        "tools/demo/other.yaml", "tool_type: script\nexecutor_id: base/runtime\nenv_config: {env: {A: two}}\n"
    )
    assert call.environment().variables["A"] == "one"
    assert call.environment("demo/other").variables["A"] == "two"
    assert call.environment().variables["A"] == "one"


def test_nobody_changes_the_next_environment_through_one_that_was_given_out(world: World) -> None:
    call = Call.begin(world)
    found = call.environment().variables
    with pytest.raises(TypeError):
        found["INJECTED"] = "x"  # type: ignore[index]
    assert "INJECTED" not in call.environment().variables


def test_what_is_found_in_an_approved_project_is_used_and_said(world: World) -> None:
    call = Call.begin(world, runtime=RUNTIME)
    assert not call.environment().project_used
    link = python(world.project / ".venv")
    call.approve()
    found = call.environment()
    assert found.variables["PYTHON"] == str(link)
    assert found.project_used


def test_what_comes_into_a_project_that_nobody_approved_is_said_at_once(world: World) -> None:
    call = Call.begin(world, runtime=RUNTIME)
    assert codes(call) == []
    (world.project / ".env").write_text("A=1\n", encoding="ascii")
    assert codes(call) == ["project_not_approved"]
    python(world.project / ".venv")
    [notice] = call.environment().notices
    assert ".env and .venv" in notice.message


def test_node_of_an_approved_project_is_used(world: World) -> None:
    call = Call.begin(
        world,
        runtime="config: {command: x}\n"
        "env_config: {interpreter: {type: node_modules, var: NODE, fallback: n}}",
    )
    node = world.project / "node_modules/.bin/node"
    node.parent.mkdir(parents=True)
    node.touch(mode=0o755)
    assert call.environment().variables["NODE"] == "n"
    assert codes(call) == ["project_not_approved"]
    call.approve()
    assert call.environment().variables["NODE"] == str(node)
    assert call.environment().project_used


def test_packages_for_node_come_from_an_approved_project_and_only_for_its_tools(world: World) -> None:
    call = Call.begin(
        world,
        runtime="config: {command: x}\n"
        "env_config: {interpreter: {type: node_modules, var: NODE, fallback: n}}",
    )
    call.approve()
    assert (call.environment().packages, call.environment().project_used) == (None, False)
    packages = world.project / "node_modules"
    packages.mkdir()
    assert (call.environment().packages, call.environment().project_used) == (packages, True)
    packages.rmdir()
    packages.write_bytes(b"")
    assert (call.environment().packages, call.environment().project_used) == (None, False)


def test_a_tool_that_looks_for_no_node_in_the_project_gets_no_packages(world: World) -> None:
    call = Call.begin(world, runtime=RUNTIME)
    call.approve()
    (world.project / "node_modules").mkdir()
    assert (call.environment().packages, call.environment().project_used) == (None, False)


def test_without_a_project_nothing_of_one_is_looked_for(world: World) -> None:
    call = Call.begin(world, runtime=RUNTIME)
    valid, paths = call.valid(), call.paths()
    resolver = EnvironmentResolver(call.trust, call.server)
    found = now(resolver.resolve(valid.verified, replace(paths, project=None), None))
    assert "RYE_PROJECT_PATH" not in found.variables
    assert found.variables["PYTHON"] == "python3"


def test_a_dotenv_that_cannot_be_read_is_refused_not_left_out(world: World) -> None:
    call = Call.begin(world)
    call.approve()
    (world.project / ".env").write_bytes(b"A=\xff\n")
    with pytest.raises(RyeError, match=r"\.env"):
        call.environment()


def test_places_that_are_not_there_are_empty_names(world: World) -> None:
    named = Call.begin(world).paths().named()
    assert named["anchor_path"] == named["runtime_lib"] == ""
    assert named["tool_dir"] == str(Places(Path(named["tool_path"])).tool_dir)
