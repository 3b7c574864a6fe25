"""`rye install` in a home of its own: what it writes and leaves, and what the command it names answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.people import SCRIPTS, Person

FILES = {
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers", False),
    "claude-code": (".claude.json", "mcpServers", True),
    "cursor": (".cursor/mcp.json", "mcpServers", False),
    "vscode": (".config/Code/User/mcp.json", "servers", True),
}


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return Person("ada", tmp_path / "ada")


@pytest.fixture
def project(tmp_path: Path, ada: Person) -> Path:
    project = tmp_path / "a project"
    project.mkdir()
    ada.begin(project)
    return project


def home(person: Person) -> Path:
    return Path(person.environment["HOME"])


def configuration(person: Person, client: str) -> Path:
    return home(person) / FILES[client][0]


def server_in(person: Person, client: str, project: Path | None) -> dict[str, Any]:
    found = json.loads(configuration(person, client).read_text())
    if client == "claude-code" and project is not None:
        found = found["projects"][str(project)]
    server: dict[str, Any] = found[FILES[client][1]]["rye"]
    return server


@pytest.mark.parametrize("client", FILES)
def test_a_client_gets_absolute_paths_the_project_and_the_user_space(
    ada: Person, project: Path, client: str
) -> None:
    answer = ada.rye("install", client, "--json", cwd=project / ".ai").json
    server = server_in(ada, client, project)
    assert answer["server"] == server
    assert server["command"] == str(SCRIPTS / "rye-mcp")
    assert server["args"] == ["--project", str(project)]
    assert server["env"] == {"USER_SPACE": str(ada.place / "space"), "XDG_STATE_HOME": str(ada.state)}
    assert server.get("type") == ("stdio" if FILES[client][2] else None)
    assert configuration(ada, client).stat().st_mode & 0o777 == 0o600


def test_an_entry_for_another_project_is_replaced_and_it_is_said_how_to_have_both(
    ada: Person, project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other one"
    other.mkdir()
    ada.begin(other)
    assert ada.rye("install", "cursor", "--json", cwd=project).json["note"] is None
    assert "it was for" not in ada.rye("install", "cursor", cwd=project).out
    told = ada.rye("install", "cursor", cwd=other).out
    assert f"it was for the project {project};" in told
    assert f"rye install cursor --name NAME --project '{project}'" in told
    back = ada.rye("install", "cursor", "--json", cwd=project).json
    assert f"it was for the project {other};" in back["note"]
    ada.rye("install", "cursor", cwd=other)
    ada.rye("install", "cursor", "--name", "first", "--project", str(project), cwd=other)
    servers = json.loads(configuration(ada, "cursor").read_text())["mcpServers"]
    assert {name: each["args"][1] for name, each in servers.items()} == {
        "rye": str(other),
        "first": str(project),
    }


@pytest.mark.parametrize(
    ("old", "told"),
    [
        ({"command": "npx", "args": ["a-secret"]}, "started something else"),
        ({"command": "/x/rye-mcp"}, "it was for no project"),
        ({"command": "/x/rye-mcp", "args": ["--project=/p"]}, "it was for the project /p;"),
        ({"command": 1, "args": 2}, "started something else"),
    ],
)
def test_what_is_told_of_an_entry_that_was_there_is_what_it_says(
    ada: Person, project: Path, old: dict[str, Any], told: str
) -> None:
    file = configuration(ada, "cursor")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"mcpServers": {"rye": old}}))
    shown = ada.rye("install", "cursor", cwd=project).out
    assert told in shown
    assert "a-secret" not in shown
    assert "note" in ada.rye("install", "cursor", "--remove", "--json", cwd=project).json


@pytest.mark.thorough
@pytest.mark.parametrize("client", FILES)
def test_the_command_that_it_names_answers_in_an_empty_environment(
    ada: Person, project: Path, client: str
) -> None:
    ada.rye("install", client, cwd=project)
    server = server_in(ada, client, project)
    parameters = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}
    done = subprocess.run(
        [server["command"], *server["args"]],
        cwd="/",
        env=server["env"],
        input=json.dumps(message) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
    )
    answer = json.loads(done.stdout)
    assert answer["result"]["serverInfo"]["name"] == "rye-mcp", done.stderr


@pytest.mark.parametrize("client", FILES)
def test_everything_else_stays_byte_by_byte_and_comes_back(ada: Person, project: Path, client: str) -> None:
    file = configuration(ada, client)
    file.parent.mkdir(parents=True, exist_ok=True)
    before = (
        '{"zoom" : 1.50,\n\n   "name": "\\u00e9", "mcpServers": {"other": {"env": {"KEY": "secret"}}} }\n'
    )
    file.write_text(before)
    file.chmod(0o640)
    ada.rye("install", client, cwd=project)
    after = file.read_text()
    assert all(
        part in after
        for part in ('"zoom" : 1.50,\n\n   "name": "\\u00e9"', '{"other": {"env": {"KEY": "secret"}}')
    )
    backup = file.with_name(f"{file.name}.before-rye")
    assert (backup.read_text(), backup.stat().st_mode & 0o777) == (before, 0o640)
    assert file.stat().st_mode & 0o777 == 0o640
    again = ada.rye("install", client, "--json", cwd=project).json
    assert (again["changed"], again["backup"], file.read_text()) == (False, None, after)
    assert backup.read_text() == before
    told = ada.rye("install", client, "--remove", cwd=project).out
    assert told.splitlines()[-1].endswith("may use it until you start it again")
    left = json.loads(file.read_text())
    assert {name: left[name] for name in json.loads(before)} == json.loads(before)
    assert "rye-mcp" not in file.read_text()


def test_outside_of_a_project_and_in_the_usual_place_there_is_nothing_to_name(tmp_path: Path) -> None:
    eve = Person("eve", tmp_path / "eve")
    place = eve.environment["HOME"]
    answer = eve.rye("install", "claude-code", cwd=tmp_path, USER_SPACE=place, XDG_STATE_HOME="")
    assert answer.err.startswith("no project is named: ")
    server = server_in(eve, "claude-code", None)
    assert server == {"type": "stdio", "command": str(SCRIPTS / "rye-mcp"), "args": []}


def test_a_restriction_of_the_terminal_holds_in_the_client_too(ada: Person, project: Path) -> None:
    ada.rye("install", "cursor", cwd=project, RYE_LOCKED="1", API_KEY="secret")
    assert server_in(ada, "cursor", project)["env"]["RYE_LOCKED"] == "1"
    assert "secret" not in configuration(ada, "cursor").read_text()


def test_print_shows_what_to_put_in_and_changes_nothing(ada: Person, project: Path) -> None:
    answer = ada.rye("install", "vscode", "--print", cwd=project)
    assert answer.json["servers"]["rye"]["args"] == ["--project", str(project)]
    assert str(configuration(ada, "vscode")) in answer.err
    assert "no project" not in answer.err
    assert not configuration(ada, "vscode").exists()
    ada.rye("install", "vscode", "--print", "--remove", cwd=project, code=2)
    ada.rye("install", "emacs", cwd=project, code=2)


@pytest.mark.parametrize(
    "content",
    [b'{\n  // mine\n  "servers": {}\n}', b'{"servers": {},}', b"\xff{}", b'{"servers": []}', b"[]"],
)
def test_what_cannot_be_changed_without_loss_is_refused(ada: Person, project: Path, content: bytes) -> None:
    file = configuration(ada, "vscode")
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    refused = ada.refused("client_configuration", "install", "vscode", cwd=project)
    assert "--print" in refused["hint"]
    assert (file.read_bytes(), list(file.parent.iterdir())) == (content, [file])


def test_a_link_is_followed_and_stays_one(ada: Person, project: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    link = configuration(ada, "cursor")
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    ada.rye("install", "cursor", cwd=project)
    assert link.is_symlink()
    assert "rye-mcp" in real.read_text()


def test_a_file_that_cannot_be_written_is_said_and_stays(ada: Person, project: Path) -> None:
    file = configuration(ada, "cursor")
    file.parent.parent.mkdir(parents=True, exist_ok=True)
    file.parent.write_text("a file in the place of the directory")
    assert ada.refused("read_failed", "install", "cursor", cwd=project)["where"] == str(file)
