"""A world for each test of verbs."""

from pathlib import Path

import pytest

from tests.trust_world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)
