"""A world for each test of trust."""

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
