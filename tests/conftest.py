"""What every test may rely on.

* An `async def` test runs under asyncio and under trio, each with the real event loop.
* `rounds` says how often an orphan or leak test repeats itself: a few times in `make test`, many in
  `make soak`.
* Tests that measure time, memory or what processes do stand in one group: whoever runs tests beside each
  other (`make test` does) runs these one after the other, and begins with them, since they take longest.
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

ONE_BY_ONE = "one by one"
TESTS = Path(__file__).parent
MEASURING = (
    "containment/",
    "integration/test_benchmark",
    "integration/test_demo",
    "integration/test_subprocess",
)
"""Where tests are that measure, below `tests/`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help=f"repeat orphan and leak tests {SOAK_ROUNDS} times")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put those that measure first and together; mark those that have rounds, and give them time for them."""
    items.sort(key=lambda item: not is_measuring(item))
    for item in items:
        if is_measuring(item):
            item.add_marker(pytest.mark.xdist_group(ONE_BY_ONE))
        if "rounds" not in getattr(item, "fixturenames", ()):
            continue
        item.add_marker("soak")
        if config.getoption("--soak"):
            item.add_marker(pytest.mark.timeout(SOAK_TIMEOUT_S), append=False)


def is_measuring(item: pytest.Item) -> bool:
    return item.path.relative_to(TESTS).as_posix().startswith(MEASURING)


@pytest.fixture(scope="session")
def rounds(request: pytest.FixtureRequest) -> int:
    """How often a test that looks for survivors or leaks repeats itself."""
    return SOAK_ROUNDS if request.config.getoption("--soak") else ROUNDS


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every asynchronous test under both event loops."""
    name: str = request.param
    return name
