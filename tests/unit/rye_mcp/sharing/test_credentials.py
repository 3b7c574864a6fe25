"""What Docker's configuration says of a registry, and who may be asked for it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.sharing.credentials import Credentials, DockerCredentials

HOST = "registry.example.com"
AUTH = base64.b64encode(b"bob:pass:word").decode()
HUB = "https://index.docker.io/v1/"


def configured(place: Path, configuration: object, **environment: str) -> DockerCredentials:
    """The credentials of somebody with this configuration."""
    docker = place / ".docker"
    docker.mkdir(exist_ok=True)
    text = configuration if isinstance(configuration, str) else json.dumps(configuration)
    (docker / "config.json").write_text(text)
    return DockerCredentials({"HOME": str(place), **environment}, lambda _: None)


def helper(place: Path, name: str, script: str) -> Path:
    """A credential helper in a directory of its own."""
    directory = place / "helpers"
    directory.mkdir(exist_ok=True)
    path = directory / f"docker-credential-{name}"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("configuration", "host", "expected"),
    [
        ({"auths": {HOST: {"auth": AUTH}}}, HOST, Credentials("bob", "pass:word")),
        ({"auths": {f"https://{HOST}": {"auth": AUTH}}}, HOST, Credentials("bob", "pass:word")),
        ({"auths": {HOST: {"username": "bob", "password": "p"}}}, HOST, Credentials("bob", "p")),
        ({"auths": {HOST: {"identitytoken": "t"}}}, HOST, Credentials(identity_token="t")),
        ({"auths": {HUB: {"auth": AUTH}}}, "docker.io", Credentials("bob", "pass:word")),
        ({"auths": {HOST: {"auth": AUTH}}}, "other.example.com", None),
        ({"auths": {HOST: {"auth": AUTH}}}, f"{HOST}:5000", None),
        ({"auths": {HOST: {"auth": "no base64"}}}, HOST, None),
        ({"auths": {HOST: {}}}, HOST, None),
        ({"auths": []}, HOST, None),
        ([], HOST, None),
        ({}, HOST, None),
    ],
)
async def test_what_is_configured_for_one_host_is_for_no_other(
    tmp_path: Path, configuration: object, host: str, expected: Credentials | None
) -> None:
    assert await configured(tmp_path, configuration).of(host) == expected


async def test_nobody_needs_a_configuration(tmp_path: Path) -> None:
    assert await DockerCredentials({"HOME": str(tmp_path)}, lambda _: None).of(HOST) is None


async def test_another_directory_may_hold_it(tmp_path: Path) -> None:
    configured(tmp_path, {"auths": {HOST: {"auth": AUTH}}})
    environment = {"HOME": "/nowhere", "DOCKER_CONFIG": str(tmp_path / ".docker")}
    assert await DockerCredentials(environment, lambda _: None).of(HOST) == Credentials("bob", "pass:word")


async def test_a_configuration_that_cannot_be_read_is_no_empty_one(tmp_path: Path) -> None:
    with pytest.raises(RyeError, match="expected Docker's configuration as JSON"):
        await configured(tmp_path, "{").of(HOST)


@pytest.mark.parametrize("key", ["credHelpers", "credsStore"])
@pytest.mark.parametrize(
    ("user", "expected"), [("bob", Credentials("bob", "s")), ("<token>", Credentials(identity_token="s"))]
)
async def test_a_helper_is_asked_for_one_server(
    tmp_path: Path, key: str, user: str, expected: Credentials
) -> None:
    answer = json.dumps({"ServerURL": HOST, "Username": user, "Secret": "s"})
    script = f"read server; [ $1 = get ] && [ $server = {HOST} ] && echo '{answer}'"
    program = helper(tmp_path, "test", script)
    value: Any = {HOST: "test"} if key == "credHelpers" else "test"
    credentials = configured(tmp_path, {key: value}, PATH=f"{program.parent}:/usr/bin:/bin")
    assert await credentials.of(HOST) == expected


async def test_a_helper_that_knows_nothing_gives_nothing(tmp_path: Path) -> None:
    program = helper(tmp_path, "test", "echo credentials not found in native keychain; exit 1")
    credentials = configured(tmp_path, {"credsStore": "test"}, PATH=f"{program.parent}:/usr/bin:/bin")
    assert await credentials.of(HOST) is None


@pytest.mark.parametrize("script", ["exit 1", "echo no json", "echo '{}'"])
async def test_a_helper_that_fails_is_said_so(tmp_path: Path, script: str) -> None:
    program = helper(tmp_path, "test", script)
    credentials = configured(tmp_path, {"credsStore": "test"}, PATH=f"{program.parent}:/usr/bin:/bin")
    with pytest.raises(RyeError) as caught:
        await credentials.of(HOST)
    assert caught.value.code == "registry_refused"


def test_no_secret_is_shown() -> None:
    shown = repr(Credentials("bob", "the-password", "the-token"))
    assert "the-password" not in shown
    assert "the-token" not in shown
