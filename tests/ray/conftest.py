"""One Ray cluster for all tests of this directory. They are skipped where Ray is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.ray_world import Grid, RaySite, network, short_directory

TIMEOUT_S = 200
"""A test may have to wait until the cluster of the tests beside it has started."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def grid() -> Iterator[Grid]:
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: make test-ray")
    with short_directory() as root:
        made = Grid(root, f"{network()}.2")
        try:
            made.add(f"{network()}.3", "--labels", "accel=a100")
            made.add(f"{network()}.4")
            yield made
        finally:
            made.stop()


@pytest.fixture
def site(tmp_path: Path, grid: Grid) -> RaySite:
    return RaySite(tmp_path.resolve(), grid)
