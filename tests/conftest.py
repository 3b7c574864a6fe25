"""What every test may rely on.

* An `async def` test runs under asyncio and under trio, each with the real event loop.
* `rounds` says how often an orphan or leak test repeats itself: a few times in `make test`, many in
  `make soak`.
* Tests of containment are `alone`: they measure when processes are gone, to a fraction of a second, and what
  memory is left. `make test` runs these one after the other, and then all others beside each other.
* A property has no deadline of its own: an example that takes long on a busy machine says nothing about the
  code, and one that hangs is ended like every other test.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

ROUNDS = 5
SOAK_ROUNDS = 200
SOAK_TIMEOUT_S = 3600

CONTAINMENT = Path(__file__).parent / "containment"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help=f"repeat orphan and leak tests {SOAK_ROUNDS} times")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that are alone, and those that have rounds, and give these the time for them."""
    for item in items:
        if item.path.is_relative_to(CONTAINMENT):
            item.add_marker("alone")
        if "rounds" not in getattr(item, "fixturenames", ()):
            continue
        item.add_marker("soak")
        if config.getoption("--soak"):
            item.add_marker(pytest.mark.timeout(SOAK_TIMEOUT_S), append=False)


@pytest.fixture(scope="session")
def rounds(request: pytest.FixtureRequest) -> int:
    """How often a test that looks for survivors or leaks repeats itself."""
    return SOAK_ROUNDS if request.config.getoption("--soak") else ROUNDS


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every asynchronous test under both event loops."""
    name: str = request.param
    return name
