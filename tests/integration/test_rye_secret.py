"""`rye secret`, and the question of `rye run`."""

from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.secret_store import SecretStore
from tests.people import Person

TOOL = '''"""Say how long a secret is."""

import os

__version__ = "1.0.0"
__executor_id__ = "python_runtime"
PERMISSIONS = {"secrets": ["WEATHER_API_KEY"]}
CONFIG_SCHEMA = {"type": "object", "properties": {}}


def main():
    return {"length": len(os.environ["WEATHER_API_KEY"])}
'''
NAME, SECRET = "WEATHER_API_KEY", "not-a-real-key"


@pytest.fixture
def bob(tmp_path: Path) -> Person:
    return Person("bob", tmp_path / "bob")


@pytest.fixture
def project(bob: Person, tmp_path: Path) -> Path:
    project = bob.begin(tmp_path / "project")
    tool = project / ".ai/tools/site/weather.py"
    tool.parent.mkdir(parents=True)
    tool.write_text(TOOL)
    bob.sign("site/weather", project)
    return project


def test_a_secret_is_kept_listed_used_and_removed(bob: Person, project: Path) -> None:
    kept = bob.rye("secret", "set", NAME, "--json", cwd=project, given=f"{SECRET}\r\n".encode())
    assert kept.json == {"status": "kept", "name": NAME}
    assert bob.rye("secret", "list", cwd=project).out == f"{NAME}\n"
    assert bob.rye("run", "site/weather", "--json", cwd=project).json["data"] == {"length": len(SECRET)}
    assert f"{NAME} (set)" in bob.rye("explain", "site/weather", cwd=project).out
    assert bob.rye("secret", "remove", NAME, cwd=project).out == f"removed {NAME}\n"
    error = bob.refused("secret_missing", "run", "site/weather", cwd=project)
    assert (error["hint"], error["secrets"]) == (f"rye secret set {NAME}", [NAME])
    shown = bob.rye("explain", "site/weather", cwd=project, code=1).shown
    assert f"{NAME} (not set: rye secret set {NAME})" in shown
    bob.refused("secret_missing", "secret", "remove", NAME, cwd=project)


@pytest.mark.first_case
@pytest.mark.parametrize(("keep", "asked_again"), [("y", False), ("n", True)])
def test_a_person_at_a_terminal_is_asked_once(
    bob: Person, project: Path, keep: str, asked_again: bool
) -> None:
    answers = [(f"Value of {NAME}: ", f"{SECRET}\n"), (f"Keep {NAME}", f"{keep}\n")]
    shown = bob.types(answers, "run", "site/weather", cwd=project).out
    assert f'"length": {len(SECRET)}' in shown
    assert SECRET not in shown
    assert bool(SecretStore(bob.user_space).lacking([NAME])) is asked_again


def test_a_value_that_is_typed_is_not_shown(bob: Person, project: Path) -> None:
    shown = bob.types([(f"Value of {NAME}: ", f"{SECRET}\n")], "secret", "set", NAME, cwd=project).out
    assert SECRET not in shown
    assert SecretStore(bob.user_space).values([NAME]) == {NAME: SECRET}


def test_what_is_signed_with_a_persons_name_says_which_secrets_it_gets(bob: Person, project: Path) -> None:
    assert (
        f"site/weather gets {NAME} of your store of secrets"
        in bob.rye("sign", "site/weather", cwd=project).out
    )


@pytest.mark.parametrize("name", ["A-B", "1A", "LD_PRELOAD", "RYE_LOCKED"])
def test_a_name_that_no_tool_could_get_is_wrong_use(bob: Person, project: Path, name: str) -> None:
    assert "Invalid value" in bob.rye("secret", "set", name, cwd=project, code=2, given=b"x").err


def test_a_dry_run_asks_nothing(bob: Person, project: Path) -> None:
    shown = bob.types([], "run", "site/weather", "--dry-run", cwd=project, code=1).out
    assert "secret_missing" in shown
    assert "Value of" not in shown
