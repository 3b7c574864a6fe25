"""The program that tries to get out, and a world around it."""

import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.isolation.world import World, users, world_of
from tests.containment.conftest import switched

__all__ = ["switched"]


@pytest.fixture(scope="session")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that tries every way out."""
    program = tmp_path_factory.mktemp("ways") / "ways"
    source = Path(__file__).with_name("ways.c")
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, source], check=True)
    return program


@pytest.fixture(scope="module", params=users(), ids=lambda uid: "root" if uid == 0 else "user")
def world(ways: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """A world of each user, with the installed supervisor."""
    binary = Path(sysconfig.get_path("scripts"), "lilux-proc")
    with world_of(binary, ways, request.param) as made:
        yield made
