"""Somebody wants a script of a skill to run: unsigned, changed, unlimited, or in the name of a person."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.items import ItemType
from rye_mcp.verbs.sign import SignRequest, sign
from rye_mcp.verbs.skill_tools import ToolRequest, make_tool
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts
from tests.skill_world import TEXT, directory_of, written
from tests.skill_world import write as write_files
from tests.trust_world import World, refused
from tests.verb_world import agent, person

ADD = '''\
"""Adds numbers."""
import argparse, json, pathlib, socket

parser = argparse.ArgumentParser()
parser.add_argument("--one", type=int, required=True)
parser.add_argument("--touch")
given = parser.parse_args()
here = pathlib.Path(__file__).parents[1]
reached = "no"
if given.touch:
    try:
        pathlib.Path(given.touch).write_text("x")
        reached = "yes"
    except OSError as exc:
        reached = type(exc).__name__
start = int((here / "assets/start.txt").read_text())
files = sorted(str(each.relative_to(here)) for each in here.rglob("*") if each.is_file())
print(json.dumps({"sum": start + given.one, "files": files, "reached": reached}))
'''

FILES = {"SKILL.md": TEXT.replace("brew-tea", "sums"), "scripts/add.py": ADD, "assets/start.txt": "100\n"}


def _put(workshop: Workshop, permissions: str = "{}") -> Path:
    """A signed skill with a script, and the signed tool of it."""
    skill = write_files(workshop.project / ".ai/skills/sums", FILES)
    workshop.sign("sums", "skill")
    workshop.person.rye(
        "skill", "tool", "sums", "scripts/add.py", "--permissions", permissions, cwd=workshop.project
    )
    workshop.sign("skills/sums/add")
    return skill


async def _run(workshop: Workshop, mode: Mode = "auto", **parameters: Any) -> dict[str, Any]:
    async with workshop.served(mode) as client:
        return facts(
            await client.call_tool("execute", {"item_id": "skills/sums/add", "parameters": parameters})
        )


@pytest.mark.anyio
async def test_a_script_runs_with_the_whole_skill_confined_and_on_record(workshop: Workshop) -> None:
    _put(workshop)
    target = workshop.project / "touched"
    found = await _run(workshop, one=3, touch=str(target))
    assert found["data"] == {"sum": 103, "files": sorted(FILES), "reached": found["data"]["reached"]}
    assert found["data"]["reached"] != "yes"
    assert not target.exists()
    log = workshop.person.rye("log", "--json", cwd=workshop.project).json
    assert log["runs"][0]["item_id"] == "skills/sums/add"


@pytest.mark.anyio
async def test_a_lockfile_of_a_script_pins_the_whole_skill(workshop: Workshop) -> None:
    skill = _put(workshop)
    workshop.person.rye("lock", "update", "skills/sums/add", cwd=workshop.project)
    workshop.sign("sums", "skill")  # the same files, signed once more
    assert (await _run(workshop, one=3))["data"]["sum"] == 103
    (skill / "assets/start.txt").write_text("200\n")
    workshop.sign("sums", "skill")
    assert (await _run(workshop, one=3))["code"] == "lock_mismatch"


def _changed(skill: Path) -> None:
    (skill / "assets/start.txt").write_text("200\n")


def _changed_script(skill: Path) -> None:
    (skill / "scripts/add.py").write_text("print('gotcha')\n")


def _added(skill: Path) -> None:
    (skill / "scripts/argparse.py").write_text("print('gotcha')\n")


def _removed(skill: Path) -> None:
    (skill / "assets/start.txt").unlink()


def _linked(skill: Path) -> None:
    (skill / "assets/more").symlink_to("/etc")


def _unsigned(skill: Path) -> None:
    skill.with_name("sums.rye.sig.yaml").unlink()


@pytest.mark.first_case
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("attack", "code"),
    [
        (_changed, "content_changed"),
        (_changed_script, "content_changed"),
        (_added, "content_changed"),
        (_removed, "content_changed"),
        (_linked, "unsafe_path"),
        (_unsigned, "unsigned"),
    ],
)
async def test_no_script_runs_of_a_skill_that_is_not_as_it_was_signed(
    workshop: Workshop, attack: Callable[[Path], None], code: str
) -> None:
    attack(_put(workshop))
    assert (await _run(workshop, one=3))["code"] == code


def _tool(world: World, **fields: str) -> None:
    said = {
        "executor_id": "rye/core/runtimes/python_script_runtime",
        "skill": "{name: sums, script: scripts/add.py}",
        "permissions": "{}",
    } | fields
    path = world.space().root / "tools/skills/sums/add.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}: {value}\n" for name, value in said.items() if value))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"permissions": ""}, "expected permissions"),
        ({"skill": "{name: other, script: scripts/add.py}"}, "expected an id below skills/other/"),
        ({"skill": "{name: sums}"}, "expected script"),
        ({"skill": "{script: scripts/add.py}"}, "expected the name of a skill"),
        ({"skill": "{name: ../x, script: a}"}, "expected"),
        ({"executor_id": ""}, "names its executor"),
    ],
)
def test_a_tool_of_a_script_says_all_that_it_has_to(world: World, fields: dict[str, str], said: str) -> None:
    written(world, FILES, "sums")
    _tool(world, **fields)
    error = refused("invalid_item", lambda: sign(SignRequest("skills/sums/add"), person(world)))
    assert said in error.message


def test_no_agent_makes_a_tool_of_a_script(world: World) -> None:
    written(world, FILES, "sums")
    _tool(world)
    refused("person_required", lambda: sign(SignRequest("skills/sums/add"), agent(world)))
    assert b"rye:signed" not in (world.space().root / "tools/skills/sums/add.yaml").read_bytes()


def test_a_persons_tool_runs_no_skill_of_an_agent(world: World) -> None:
    written(world, FILES, "sums", signed=False)
    sign(SignRequest("sums", ItemType.SKILL), agent(world))
    _tool(world)
    result = sign(SignRequest("skills/sums/add"), person(world))
    assert "out_of_scope" in {each.code for each in result.warnings}  # type: ignore[union-attr]


def test_a_script_that_the_skill_lacks_does_not_count(world: World) -> None:
    written(world, FILES, "sums")
    _tool(world, skill="{name: sums, script: ../../tools/skills/sums/add.yaml}")
    result = sign(SignRequest("skills/sums/add"), person(world))
    assert "invalid_item" in {each.code for each in result.warnings}  # type: ignore[union-attr]


def test_a_tool_is_made_of_what_passes_the_gate_alone(world: World) -> None:
    written(world, FILES, "sums")
    (directory_of(world, "sums") / "scripts/add.py").write_text("print('gotcha')\n")
    refused("content_changed", lambda: make_tool(ToolRequest("sums", "scripts/add.py", {}), person(world)))
