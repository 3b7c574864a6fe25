"""A world for each test of trust."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.people import Publication
from tests.trust_world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Publication:
    """What Alice has made, for everybody to clone."""
    return Publication.make(tmp_path_factory.mktemp("published"))


@pytest.fixture
def everybody() -> Iterator[Path]:
    """A directory to which every user may write, and which all can enter."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    shared = place / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    yield shared
    shutil.rmtree(place)
