"""Attack: a project, or somebody who can write to PATH, brings the program that is asked for passwords."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.sharing.credentials import DockerCredentials
from rye_mcp.sharing.programs import allowed_path
from tests.registry_world import member_in
from tests.verb_world import app_of

HOST = "registry.example.com"


def planted(directory: Path, canary: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / "docker-credential-test"
    program.write_text(f"#!/bin/sh\ntouch {canary}\n")
    program.chmod(0o755)
    return directory


@pytest.mark.parametrize("where", ["project", "linked", "relative", "by name"])
async def test_a_helper_of_a_project_is_not_started(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary, clone = tmp_path / "canary", tmp_path / "clone"
    (clone / ".ai").mkdir(parents=True)
    directory = planted(clone / "bin", canary)
    if where == "linked":
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine/docker-credential-test").symlink_to(directory / "docker-credential-test")
        directory = tmp_path / "mine"
    monkeypatch.chdir(clone)
    path = "bin:." if where == "relative" else str(directory)
    name = "../clone/bin/docker-credential-test" if where == "by name" else "test"
    home = tmp_path / "home"
    (home / ".docker").mkdir(parents=True)
    (home / ".docker/config.json").write_text(json.dumps({"credsStore": name}))
    why_not = app_of(member_in(tmp_path / "bob").world).trust.directories.why_not
    with pytest.raises(RyeError) as caught:
        await DockerCredentials({"HOME": str(home), "PATH": f"{path}:/usr/bin:/bin"}, why_not).of(HOST)
    assert caught.value.code == "registry_refused"
    assert not canary.exists()


@pytest.mark.parametrize("where", ["project", "relative", "here", "linked directory", "linked"])
async def test_a_helper_of_the_user_starts_nothing_of_a_project(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A helper may be a script that starts `gpg` by its name, or reads a file of where it stands."""
    canary, clone, mine, home = (tmp_path / each for each in ("canary", "clone", "mine", "home"))
    (clone / ".ai").mkdir(parents=True)
    planted(clone / "bin", canary)
    (clone / "bin/docker-credential-test").rename(clone / "bin/gpg")
    mine.mkdir()
    helper = mine / "docker-credential-test"
    answer = json.dumps({"Username": "alice", "Secret": "secret"})
    asks = "./bin/gpg" if where == "here" else "gpg"
    helper.write_text(f"#!/bin/sh\n{asks} --version >/dev/null 2>&1\necho '{answer}'\n")
    helper.chmod(0o755)
    (home / ".docker").mkdir(parents=True)
    (home / ".docker/config.json").write_text(json.dumps({"credsStore": "test"}))
    monkeypatch.chdir(clone)
    links = tmp_path / "links"
    if where == "linked":
        links.mkdir()
        (links / "gpg").symlink_to(clone / "bin/gpg")
    elif where == "linked directory":
        links.symlink_to(clone / "bin")
    first = {"project": f"{clone}/bin:", "relative": "bin:", "here": ""}.get(where, f"{links}:")
    why_not = app_of(member_in(tmp_path / "bob").world).trust.directories.why_not
    environment = {"HOME": str(home), "PATH": f"{first}{mine}:/usr/bin:/bin"}
    found = await DockerCredentials(environment, why_not).of(HOST)
    assert found is not None
    assert found.user == "alice"
    assert not canary.exists()


def test_the_path_has_the_directories_that_were_looked_at(tmp_path: Path) -> None:
    """A link could lead elsewhere once it was looked at."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    found = allowed_path({"PATH": f"{tmp_path}/link:{tmp_path}/mine:{tmp_path}/none"}, lambda _: None)
    assert found == str(tmp_path / "mine")
