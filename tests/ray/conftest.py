"""One Ray cluster for all tests of this directory. They are skipped where Ray is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.ray_world import Grid, RaySite


@pytest.fixture(scope="session")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: make test-ray")
    made = Grid(tmp_path_factory.mktemp("ray").resolve())
    try:
        made.add("127.0.0.3", "--labels", "accel=a100")
        made.add("127.0.0.4")
        yield made
    finally:
        made.stop()


@pytest.fixture
def site(tmp_path: Path, grid: Grid) -> RaySite:
    return RaySite(tmp_path.resolve(), grid)
