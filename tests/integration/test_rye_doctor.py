"""`rye doctor` on a machine where all is well, and where one thing after the other is not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.log import RunLog, RunRecord
from tests.people import SCRIPTS, Person


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return Person("ada", tmp_path / "ada")


@pytest.fixture
def project(tmp_path: Path, ada: Person) -> Path:
    project = tmp_path / "a project"
    project.mkdir()
    ada.begin(project)
    return project


def findings(person: Person, cwd: Path, *, code: int = 0, **variables: Any) -> dict[str, dict[str, Any]]:
    """What each check says, by its name."""
    answer = person.rye("doctor", "--json", cwd=cwd, code=code, **variables).json
    assert answer["healthy"] is (code == 0)
    for each in answer["findings"]:
        assert (each["state"] == "ok") == ("hint" not in each), each
    return {each["check"]: each for each in answer["findings"]}


@pytest.mark.thorough
def test_where_all_is_well_nothing_is_broken_and_nothing_is_changed(ada: Person, project: Path) -> None:
    before = _everything_in(ada.place) | _everything_in(project)
    found = findings(ada, project)
    expected = {
        "supervisor",
        "isolation",
        "server",
        "execution",
        "system space",
        "project",
        "key",
        "state",
        "clock",
        "bash",
    }
    assert expected <= found.keys()
    assert {each["state"] for name, each in found.items() if name in expected} == {"ok"}
    assert _everything_in(ada.place) | _everything_in(project) == before


@pytest.mark.thorough
def test_it_says_whether_interpreters_wait_for_calls_and_what_that_brings(ada: Person, project: Path) -> None:
    def told(**variables: Any) -> str:
        return str(findings(ada, project, **variables)["warm calls"]["message"])

    assert told() == "interpreters wait for the calls of a server"
    with RunLog(Path(ada.environment["XDG_STATE_HOME"]) / "rye") as log:
        for runtime, took in (("cold first_call", 40), ("warm", 3), ("warm", 5), ("warm", 4)):
            log.append(_run("demo/one", runtime, took))
        log.append(_run("demo/other", "cold not_offered", 900))
    assert told().endswith(": 3 of the last 4 runs of tools that had one were warm (4 ms warm, 40 ms cold)")
    assert "RYE_WARM is 0" in told(RYE_WARM="0")
    (ada.user_space / "config").mkdir(exist_ok=True)
    (ada.user_space / "config/rye.yaml").write_text("warm: false\n")
    assert "warm: false" in told()
    (ada.user_space / "config/rye.yaml").write_text("warm: lukewarm\n")
    assert "expected warm to be true or false" in findings(ada, project, code=1)["warm calls"]["message"]


def _run(item_id: str, runtime: str, took: float) -> RunRecord:
    return RunRecord(
        run_id=new_run_id(), item_id=item_id, kind="exited", duration_ms=took, caller="agent", runtime=runtime
    )


@pytest.mark.thorough
def test_people_read_what_is_broken_and_what_to_do(ada: Person, project: Path) -> None:
    (ada.user_space / "keys").chmod(0o777)
    shown = ada.rye("doctor", cwd=project, code=1).out
    assert "broken   keys: others may write there" in shown
    assert f"hint: chmod go-w {ada.user_space}/keys" in shown
    assert shown.splitlines()[-1].startswith(tuple(f"{number} checks: " for number in range(10, 40)))


def _loose_key(ada: Person, _: Path) -> None:
    (ada.user_space / "keys/person/private_key.pem").chmod(0o644)


def _no_state(ada: Person, _: Path) -> None:
    shutil.rmtree(ada.state, ignore_errors=True)
    ada.state.write_text("a file in its place")


def _user_space_of_all(ada: Person, _: Path) -> None:
    ada.user_space.chmod(0o777)


def _state_in_a_directory_of_all(ada: Person, _: Path) -> None:
    ada.user_space.parent.chmod(0o777)


def _clock_behind(ada: Person, _: Path) -> None:
    later = 4_000_000_000
    os.utime(ada.user_space, (later, later))


def _lost_command(ada: Person, project: Path) -> None:
    ada.rye("install", "claude-code", cwd=project)
    file = Path(ada.environment["HOME"]) / ".claude.json"
    file.write_text(file.read_text().replace(str(SCRIPTS), "/nowhere"))


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("breaks", "check", "hint"),
    [
        (_loose_key, "key", "chmod"),
        (_no_state, "state", "ls -la"),
        (_user_space_of_all, "user space", "chmod go-w"),
        (_state_in_a_directory_of_all, "user space", "namei -l"),
        (_clock_behind, "clock", "timedatectl"),
        (_lost_command, "Claude Code", "rye install claude-code"),
    ],
)
def test_what_is_broken_is_found(
    ada: Person, project: Path, breaks: Callable[[Person, Path], None], check: str, hint: str
) -> None:
    assert findings(ada, project).get(check, {"state": "ok"})["state"] == "ok"
    breaks(ada, project)
    found = findings(ada, project, code=1)[check]
    assert found["state"] == "broken"
    assert hint in found["hint"]


@pytest.mark.thorough
def test_a_client_that_starts_this_server_is_named(ada: Person, project: Path) -> None:
    ada.rye("install", "cursor", cwd=project)
    assert findings(ada, project)["Cursor"]["message"] == f"starts {SCRIPTS / 'rye-mcp'}"


@pytest.mark.thorough
def test_without_keys_and_a_project_there_is_something_to_do_and_nothing_broken(tmp_path: Path) -> None:
    eve = Person("eve", tmp_path / "eve")
    found = findings(eve, tmp_path)
    assert {name: found[name]["hint"] for name in ("key", "project")} == {
        "key": "rye init",
        "project": "rye init",
    }


@pytest.mark.thorough
def test_what_only_the_terminal_finds_is_told(ada: Person, project: Path, tmp_path: Path) -> None:
    own = tmp_path / "own bin"
    own.mkdir()
    (own / "uv").write_text("#!/bin/sh\n")
    (own / "uv").chmod(0o755)
    if any(Path(directory, "uv").exists() for directory in ("/usr/local/bin", "/usr/bin", "/bin")):
        pytest.skip("this machine has uv where every program finds it")
    found = findings(ada, project, PATH=f"{own}:{ada.environment['PATH']}")["uv"]
    assert found["state"] == "warning"
    assert str(own) in found["hint"]


def _everything_in(place: Path) -> dict[str, bytes]:
    """Every file that somebody keeps; what is in the cache may come and go."""
    return {
        str(path): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file() and "cache" not in str(path) and ".db" not in path.name
    }
