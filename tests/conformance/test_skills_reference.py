"""The reference validator of agentskills.io and rye-mcp agree on its own examples, and on faults of ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.metadata import parse_metadata
from rye_mcp.spaces import Spaces
from tests.skill_world import write
from tests.trust_world import World

pytestmark = [pytest.mark.network, pytest.mark.timeout(300)]

PACKAGES = (
    "skills-ref==0.1.1",
    "strictyaml==1.7.3",
    "python-dateutil==2.9.0.post0",
    "six==1.17.0",
    "click==8.1.8",
)

_VALIDATE = """
import json, sys
from pathlib import Path
from skills_ref import validate
print(json.dumps({name: validate(Path(name)) for name in sys.argv[1:]}))
"""

_GOOD = "name: {name}\ndescription: A test skill\n"

EXAMPLES: dict[str, tuple[str, str]] = {
    # Those of the tests of the validator: the name of the directory, and the front matter.
    "valid": ("my-skill", _GOOD),
    "uppercase": ("MySkill", _GOOD),
    "too long a name": ("a" * 70, _GOOD),
    "leading hyphen": ("-my-skill", _GOOD),
    "trailing hyphen": ("my-skill-", _GOOD),
    "consecutive hyphens": ("my--skill", _GOOD),
    "underscore": ("my_skill", _GOOD),
    "another name": ("wrong-name", "name: correct-name\ndescription: A test skill\n"),
    "unexpected field": ("my-skill-2", _GOOD + "unknown_field: should not be here\n"),
    "all fields": ("my-skill-3", _GOOD + "license: MIT\nmetadata:\n  author: Test\n"),
    "allowed tools": ("my-skill-4", _GOOD + "allowed-tools: Bash(jq:*) Bash(git:*)\n"),
    "long description": ("my-skill-5", f"name: my-skill-5\ndescription: {'x' * 1100}\n"),
    "compatibility": ("my-skill-6", _GOOD + "compatibility: Requires Python 3.11+\n"),
    "long compatibility": ("my-skill-7", _GOOD + f"compatibility: {'x' * 550}\n"),
    "a version that is a number": ("my-skill-8", _GOOD + "metadata:\n  version: 1.0\n"),
    "no name": ("my-skill-9", "description: A test skill\n"),
    "no description": ("my-skill-10", "name: my-skill-10\n"),
    "a list": ("my-skill-11", "- just\n- a\n- list\n"),
    "broken": ("my-skill-12", "name: [invalid\ndescription: broken\n"),
    # And a few of ours.
    "blank description": ("my-skill-13", "name: my-skill-13\ndescription: ' '\n"),
    "the longest name": ("b" * 64, _GOOD),
    "the longest description": ("my-skill-14", f"name: my-skill-14\ndescription: {'x' * 1024}\n"),
    "hooks": ("my-skill-15", _GOOD + "hooks: x\n"),
    "a key twice": ("my-skill-16", _GOOD + "license: a\nlicense: b\n"),
    "a tag": ("my-skill-17", _GOOD + "license: !!str a\n"),
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The validator and what it needs, installed beside everything else."""
    place = tmp_path_factory.mktemp("skills-ref")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place), *PACKAGES]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip cannot install the validator: {done.stderr.strip()[-200:]}")
    return place


def _ours(world: World, name: str) -> bool:
    """Whether a directory is a skill for rye-mcp."""
    spaces = Spaces(world.space(), world.space(), world.space())
    try:
        parse_metadata(spaces.find(name, ItemType.SKILL).item)
    except RyeError:
        return False
    return True


def _theirs(packages: Path, directories: list[Path]) -> dict[str, bool]:
    command = [sys.executable, "-c", _VALIDATE, *map(str, directories)]
    done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(packages)})
    assert done.returncode == 0, done.stderr
    return {Path(path).name: not errors for path, errors in json.loads(done.stdout).items()}


def test_both_say_the_same_of_each_example(packages: Path, tmp_path: Path) -> None:
    world = World(tmp_path)
    skills = world.space().root / "skills"
    for name, front in EXAMPLES.values():
        write(skills / name, {"SKILL.md": f"---\n{front.format(name=name)}---\nBody\n"})
    write(skills / "no-front-matter", {"SKILL.md": "# No front matter here\n"})
    write(skills / "unclosed", {"SKILL.md": "---\nname: unclosed\ndescription: A test skill\n"})
    write(skills / "no-text", {"README.md": "Nothing.\n"})
    names = sorted(path.name for path in skills.iterdir())
    theirs = _theirs(packages, [skills / name for name in names])
    assert {name: _ours(world, name) for name in names} == theirs
    assert True in theirs.values()
    assert False in theirs.values()


def test_names_beyond_ascii_are_the_one_difference(packages: Path, tmp_path: Path) -> None:
    """The specification says a-z and 0-9, and so does rye-mcp; its validator takes letters of any script."""
    world = World(tmp_path)
    skill = write(
        world.space().root / "skills/навык", {"SKILL.md": f"---\n{_GOOD.format(name='навык')}---\nBody\n"}
    )
    assert _theirs(packages, [skill]) == {"навык": True}
    assert not _ours(world, "навык")
