"""The programs that the tests of containment need, each built once."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containment.client import Client
from tests.containment.command_line import CommandLine
from tests.containment.nobody import Nobody
from tests.containment.scene import ROOT, Programs

BUILD_LIMIT_S = 600
"""A first build of the supervisor counts as part of the first test that asks for it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"switched", "programs"} & {*getattr(item, "fixturenames", ())} and not list(
            item.iter_markers("timeout")
        ):
            item.add_marker(pytest.mark.timeout(BUILD_LIMIT_S))


@pytest.fixture(scope="session")
def binary() -> Path:
    """The supervisor as it was installed."""
    return Path(sysconfig.get_path("scripts"), "lilux-proc")


@pytest.fixture
def client(binary: Path) -> Iterator[Client]:
    """A client of a supervisor of its own."""
    with Client.start(binary) as started:
        yield started


@pytest.fixture
def command_line(binary: Path) -> CommandLine:
    return CommandLine(binary)


@pytest.fixture
def nobody(binary: Path) -> Iterator[Nobody]:
    """Another user. Only for tests `as_root`."""
    with Nobody.enter(binary) as entered:
        yield entered


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """A FIFO: whoever reads it waits until somebody has written to it."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@pytest.fixture(scope="session")
def switched() -> Path:
    """A supervisor whose guards can be switched off one by one, see `switches.rs`."""
    options = ["--locked", "--features", "switches", "--target-dir", "target/switches"]
    command = ["cargo", "build", "--quiet", *options, "--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    (executable,) = [message["executable"] for message in messages if message.get("executable")]
    return Path(executable)


@pytest.fixture(scope="session")
def misbehave(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tool that tries to get away."""
    program = tmp_path_factory.mktemp("misbehave") / "misbehave"
    source = Path(__file__).with_name("misbehave.c")
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, source], check=True)
    return program


@pytest.fixture(scope="session")
def switched_python(switched: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python environment in which `lilux` finds that supervisor."""
    directory = tmp_path_factory.mktemp("switched") / "venv"
    venv.create(directory, symlinks=True)
    (directory / "bin" / "lilux-proc").symlink_to(switched)
    return directory / "bin" / "python"


@pytest.fixture(scope="session")
def programs(binary: Path, misbehave: Path, request: pytest.FixtureRequest) -> Programs:
    return Programs(binary, misbehave, Path(sys.executable), request.getfixturevalue)
