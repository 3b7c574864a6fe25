"""The whole product where no cell can be made, and where nothing can be enforced."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.app import App, Settings
from rye_mcp.items import ItemType
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs.sign import SignRequest, sign
from tests.attacks.isolation.conftest import ways
from tests.attacks.isolation.test_surroundings import LANDLOCK, OWN_NAMESPACE
from tests.people import SCRIPTS, Person

__all__ = ["ways"]

TOOL = '''\
"""Says where it is at home, and tries to write elsewhere."""

import os
import tempfile

__tool_type__ = "python"
__executor_id__ = "python_function_runtime"
__version__ = "1.0.0"
{permissions}
CONFIG_SCHEMA = {{"type": "object", "properties": {{"elsewhere": {{"type": "string"}}}}}}


def is_writable(path):
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write("planted")
    except OSError:
        return False
    return True


def execute(params, project_path):
    home = os.environ["HOME"]
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join(home, ".cache"))
    return {{
        "home": home,
        "temporary": tempfile.gettempdir(),
        "cache": cache,
        "cached": is_writable(os.path.join(cache, "file")),
        "kept": is_writable(os.path.join(home, "file")),
        "inside": is_writable(os.path.join(project_path, "made")),
        "planted": is_writable(params["elsewhere"]),
    }}
'''
REPOSITORY = Path(__file__).resolve().parents[2]
NOT_IN_WALLS = ["protected_paths", "metadata_outside", "cmdlines"]

IN_WALLS = [
    *OWN_NAMESPACE,
    "sh",
    "-ec",
    'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all "$@"',
    "sh",
]
"""An ordinary user for whom there are no namespaces."""


class Place:
    """A person's project, with a tool in it."""

    def __init__(self, root: Path) -> None:
        self.ada, self.project = Person("ada", root / "ada"), root / "project"
        self.ada.begin(self.project)
        self.elsewhere = root / "elsewhere"

    def tool(self, permissions: str | None, kind: SignerKind = SignerKind.PERSON) -> None:
        """A signed tool that declares this."""
        file = self.project / ".ai/tools/demo/tries.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        line = "" if permissions is None else f"PERMISSIONS = {permissions}\n"
        file.write_text(TOOL.format(permissions=line))
        settings = Settings.find(
            project=self.project,
            user_directory=self.ada.user_space.parent,
            state=self.ada.state / "rye",
            environment=self.ada.environment,
        )
        context = App.open(settings).context(kind)
        sign(SignRequest("demo/tries", ItemType.TOOL), context)

    def expects(self, around: Sequence[str | Path]) -> dict[str, Any]:
        """What `rye explain --json` says would be enforced."""
        before = [str(each) for each in around]
        answer = self.ada.rye("explain", "demo/tries", "--json", cwd=self.project, before=before)
        expected: dict[str, Any] = answer.json["call"]["enforceable"]
        return expected

    def run_in_a_cell(self) -> dict[str, Any]:
        """What `rye run --json` says that is itself confined in a cell, with this project and all of ours."""
        shown = {sys.prefix, sys.base_prefix, str(REPOSITORY), str(self.project.parent)}
        words = ["run", "demo/tries", "--json", "--elsewhere", str(self.elsewhere)]
        request = {
            "command": str(SCRIPTS / "rye"),
            "args": words,
            "cwd": str(self.project),
            "env": self.ada.environment,
            "policy": {"tier": "cell", "require": "cell", "write": sorted(shown)},
        }
        ran = subprocess.run(
            [SCRIPTS / "lilux-proc", "exec", "--request", "-"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        answer = json.loads(ran.stdout)
        assert answer["success"], answer
        found: dict[str, Any] = json.loads(answer["stdout"])
        return found

    def run(self, around: Sequence[str | Path], code: int = 0) -> dict[str, Any]:
        """What `rye run --json` says."""
        answer = self.ada.rye(
            "run",
            "demo/tries",
            "--json",
            "--elsewhere",
            str(self.elsewhere),
            cwd=self.project,
            code=code,
            before=[str(each) for each in around],
        )
        return answer.json


@pytest.fixture
def place(tmp_path: Path) -> Place:
    if shutil.which("setpriv") is None:
        pytest.skip("this machine has no setpriv")
    return Place(tmp_path)


@pytest.fixture
def in_nothing(ways: Path) -> list[str | Path]:
    return [*IN_WALLS, ways, "without", str(LANDLOCK)]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [SignerKind.PERSON, SignerKind.AGENT], ids=["declared", "agent"])
def test_in_walls_a_tool_is_confined_and_what_is_missing_is_said(place: Place, kind: SignerKind) -> None:
    place.tool('{"project": "write"}' if kind is SignerKind.PERSON else None, kind)
    answer = place.run(IN_WALLS)
    enforced, found = answer["enforced"], answer["data"]
    assert (enforced["level"], enforced["project"], enforced["net"]) == ("walls", "write", "none")
    assert set(NOT_IN_WALLS) <= set(enforced["unenforced"])
    assert "namespaces" in enforced["reason"]
    assert (found["kept"], found["inside"], found["planted"]) == (True, True, False)
    assert not place.elsewhere.exists()


@pytest.mark.thorough
def test_in_walls_a_tool_has_a_home_of_its_own_that_is_gone_afterwards(place: Place) -> None:
    place.tool("{}")
    found = place.run(IN_WALLS)["data"]
    assert found["home"] == found["temporary"]
    assert found["home"] != place.ada.environment["HOME"]
    assert (found["kept"], found["inside"]) == (True, False)
    assert not Path(found["home"]).exists()


@pytest.mark.thorough
@pytest.mark.parametrize("use", ["cache", "temp"])
def test_in_walls_what_a_tool_keeps_is_where_its_variables_say(place: Place, use: str) -> None:
    place.tool(f'{{"uses": ["{use}"]}}')
    found = place.run(IN_WALLS)["data"]
    assert found["cached"]
    assert Path(found["cache"], "file").exists() == (use == "cache")
    assert Path(found["temporary"]).exists() == (use == "temp")


@pytest.mark.thorough
@pytest.mark.parametrize("permissions", ['{"project": "write"}', '{"net": ["api.example.org"]}'])
def test_what_will_be_enforced_is_said_before_as_it_is_afterwards(place: Place, permissions: str) -> None:
    place.tool(permissions)
    before, after = place.expects(IN_WALLS), place.run(IN_WALLS)["enforced"]
    assert (before["level"], before["reason"]) == (after["level"], after["reason"])
    missing = set(after["unenforced"])
    assert set(before["unenforced"]) == missing - {"truncate", "device_ioctls", "signals"}
    assert ("protected_paths" in missing) == ("write" in permissions)
    assert "hosts" not in missing or "net" in permissions


@pytest.mark.thorough
def test_what_was_enforced_is_as_the_page_of_results_says(place: Place) -> None:
    page = (REPOSITORY / "docs/results.md").read_text("utf-8")
    [cell, walls] = [json.loads(found) for found in re.findall(r'`"enforced": ({.*})`', page)]
    place.tool('{"project": "read"}')
    shown = ("level", "project", "net", "unenforced", "reason")
    after = place.run(IN_WALLS)["enforced"]
    assert {name: after[name] for name in shown} == walls
    cells = place.run(["env"])["enforced"]
    if cells["level"] == "cell":
        assert {name: cells[name] for name in cell} == cell


def test_inside_a_cell_of_ours_the_product_works_in_walls(place: Place) -> None:
    place.tool('{"project": "write"}')
    answer = place.run_in_a_cell()
    assert (answer["enforced"]["level"], answer["data"]["inside"]) == ("walls", True)
    assert (answer["data"]["planted"], place.elsewhere.exists()) == (False, False)


def test_in_walls_what_requires_a_cell_is_refused(place: Place) -> None:
    place.tool('{"require": "cell"}')
    refused = place.run(IN_WALLS, code=1)
    assert refused["code"] == "isolation_unavailable"
    assert refused["hint"]


def test_where_nothing_is_enforced_an_agents_tool_is_refused(
    place: Place, in_nothing: list[str | Path]
) -> None:
    place.tool(None, SignerKind.AGENT)
    refused = place.run(in_nothing, code=1)
    assert refused["code"] == "isolation_unavailable"
    assert refused["hint"]
    assert not (place.project / "made").exists()


@pytest.mark.first_case
@pytest.mark.parametrize("permissions", [None, '{"project": "read"}'], ids=["undeclared", "declared"])
def test_where_nothing_is_enforced_a_persons_tool_runs_and_that_is_said(
    place: Place, in_nothing: list[str | Path], permissions: str | None
) -> None:
    place.tool(permissions)
    answer = place.run(in_nothing)
    assert answer["data"]["planted"] is True
    assert answer["enforced"]["level"] == "none"
    assert answer["enforced"].get("unenforced") == (None if permissions is None else ["everything"])


@pytest.mark.thorough
def test_the_doctor_says_what_is_enforced_and_what_to_do(place: Place, in_nothing: list[str | Path]) -> None:
    def said(around: list[str | Path]) -> dict[str, Any]:
        answer = place.ada.rye(
            "doctor", "--json", cwd=place.project, code=None, before=[str(each) for each in around]
        )
        found: dict[str, dict[str, Any]] = {each["check"]: each for each in answer.json["findings"]}
        return found["isolation"]

    walls, nothing = said([*IN_WALLS]), said(in_nothing)
    assert (walls["state"], walls["hint"]) == ("warning", "sudo sysctl user.max_user_namespaces=15000")
    assert walls["message"].startswith("tools run in walls, since no cell can be made: ")
    assert nothing["message"].startswith("nothing confines tools, and what an agent signed is refused: ")
