"""A world for each test of trust."""

from pathlib import Path

import pytest

from lilux import _stamps
from tests.trust_world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def quick_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change is old enough after 50 ms, more than any clock of a file system that tests run on needs."""
    monkeypatch.setattr(_stamps, "SETTLED_NS", 50_000_000)
