"""What every test may rely on.

* `tests/tiers.py` says which test waits for `make test-all`; `--tier` selects. Without it, pytest runs
  all that it was asked for.
* An `async def` test runs under asyncio. A test of lilux runs under trio too: in `make test` its first case.
  One that is marked `both_loops` does so in `make test-all`.
* `rounds` says how often an orphan or leak test repeats itself: twice in `make test`, a few times in
  `make test-all`, many times in `make soak`.
* A test that is `alone` measures to a fraction of a second, or counts memory: nothing runs beside it.
* What collection has made is no garbage: walking through it takes up to 0.7 s of whatever thread happens to
  fill the youngest generation, which is twice what `lilux.schemas` allows a validation.
* `make test` tries fewer examples of a property than `make test-all`. A property has no deadline of its own:
  an example that takes long on a busy machine says nothing about the code, and one that hangs is ended like
  every other test.
* `make test` waits for no disk: in its own processes `fsync` returns at once, as no test can see what is left
  on a machine that loses its power. `make test-all` waits, and so do the programs that tests start.
* A shell starts background jobs with Ctrl-C switched off, and their children inherit that. The tests of
  Ctrl-C need it on, so it is switched on again for a suite in the background.
"""

import gc
import os
import pwd
import signal
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, settings

from tests import tiers

settings.register_profile("all", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("all"), max_examples=20)
settings.load_profile("all")

ROUNDS = 5
QUICK_ROUNDS = 2
SOAK_ROUNDS = 200
SOAK_TIMEOUT_S = 3600

TESTS = Path(__file__).parent
OF_LILUX = (TESTS / "unit/lilux", TESTS / "integration/lilux", TESTS / "containment")
"""Tests of what holds under both event loops: `make test` shows it under both."""

VARIED = ("anyio_backend", "mode")
"""Parameters that `pytest_generate_tests` gives to tests."""

NOT_RUN: pytest.StashKey[Counter[str]] = pytest.StashKey()
FIRST_CASES: pytest.StashKey[dict[tuple[object, str], dict[str, object]]] = pytest.StashKey()
_REPORTED = "not_run"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help=f"repeat orphan and leak tests {SOAK_ROUNDS} times")
    parser.addoption(
        "--tier", choices=tiers.TIERS, default="all", help="quick: what `make test` runs; rest: all others"
    )
    parser.addoption("--alone", choices=tiers.ALONE_OR_NOT, help="only tests that are alone, or none of them")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()
    config.stash[NOT_RUN] = Counter()
    config.stash[FIRST_CASES] = {}
    if config.getoption("--tier") == "quick":
        settings.load_profile("quick")
        os.fsync = without_waiting
    for name, why in {**tiers.LATER, **tiers.OTHER}.items():
        config.addinivalue_line("markers", f"{name}: {why}")


def without_waiting(fd: Any) -> None:
    """What `fsync` does for a descriptor that is not open: an OSError; for all others, nothing."""
    os.fstat(fd)


# Last, so that it counts only what `-k` and `-m` have left.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select what the tier runs, and count what it leaves out."""
    tier = config.getoption("--tier")
    chosen: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (chosen if tiers.runs_in(tier, _marks(item)) else left).append(item)
    chosen, apart = _of_this_run(config, chosen)
    if tier == "quick":
        config.stash[NOT_RUN].update(why for item in left if (why := tiers.reason(_marks(item))))
    if left or apart:
        config.hook.pytest_deselected(items=[*left, *apart])
        items[:] = chosen


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def _of_this_run(
    config: pytest.Config, items: list[pytest.Item]
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Those that run now, and those that another run of `scripts/run_tests.py` has."""
    wanted = config.getoption("--alone")
    if wanted is None:
        return items, []
    alone = [item for item in items if item.get_closest_marker(tiers.ALONE)]
    others = [item for item in items if not item.get_closest_marker(tiers.ALONE)]
    return (alone, others) if wanted == "only" else (others, alone)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the event loops of an asynchronous test, and the eras of the protocol that a client speaks."""
    test = metafunc.definition
    if "anyio_backend" in metafunc.fixturenames:
        also = _of_lilux(test.path) or test.get_closest_marker("both_loops")
        later = None if _of_lilux(test.path) else "loops"
        metafunc.parametrize("anyio_backend", _variants("asyncio", also and "trio", later), indirect=True)
    if "mode" in metafunc.fixturenames and not _is_parametrized(test, "mode"):
        later = None if test.get_closest_marker("both_eras") else "eras"
        metafunc.parametrize("mode", _variants("auto", "legacy", later), indirect=True)


def _variants(first: str, second: object, later: str | None) -> list[object]:
    """The values of a parameter; the second has the mark for which it waits, if it does."""
    marks = [getattr(pytest.mark, later)] if later else []
    return [first, pytest.param(second, marks=marks)] if second else [first]


def _is_parametrized(test: pytest.Item, name: str) -> bool:
    return any(name in names for names in _parameters(test, ()))


def _of_lilux(path: Path) -> bool:
    return any(map(path.is_relative_to, OF_LILUX))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each test the marks of its directory, and those that follow from what it uses."""
    for name in tiers.DIRECTORIES.get(item.path.relative_to(TESTS).parts[0], ()):
        item.add_marker(name)
    if why := _later_case(item):
        item.add_marker(why)
    if "rounds" in getattr(item, "fixturenames", ()):
        item.add_marker("soak")
        if item.config.getoption("--soak"):
            item.add_marker(pytest.mark.timeout(SOAK_TIMEOUT_S), append=False)


def _later_case(item: pytest.Item) -> str | None:
    """The mark of a case that waits, because `make test` tries another case of the same test."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return None
    params: dict[str, object] = item.callspec.params
    first = item.config.stash[FIRST_CASES].setdefault((item.parent, item.originalname), params)
    varied = {name for name in VARIED if not _is_parametrized(item, name)}
    later = {name for name in params if params[name] is not first[name]} - varied
    if (mark := item.get_closest_marker("first_case")) and later.intersection(mark.args or later):
        return "thorough"
    if (
        item.get_closest_marker("each_once")
        and sum(not later.isdisjoint(names) for names in _parameters(item, params)) > 1
    ):
        return "thorough"
    return "loops" if later and params.get("anyio_backend") == "trio" else None


def _parameters(item: pytest.Item, names: Collection[str]) -> list[Sequence[str]]:
    """The parameters of a test; those that are given together, together."""
    marks = item.iter_markers("parametrize")
    given = [mark.args[0] if mark.args else mark.kwargs["argnames"] for mark in marks]
    together = [each.replace(",", " ").split() if isinstance(each, str) else each for each in given]
    return [*together, *([name] for name in names if not any(name in each for each in together))]


def _marks(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


# --- the closing line; under xdist, only the workers collect --------------------------------


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        counts = session.config.stash[NOT_RUN]
        output[_REPORTED] = dict(counts)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Take over what a worker has counted; every worker collects the same tests."""
    config: pytest.Config = node.config  # type: ignore[attr-defined]
    config.stash[NOT_RUN] = Counter(getattr(node, "workeroutput", {}).get(_REPORTED, {}))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say what was left out, below everything that pytest itself prints."""
    counts = config.stash[NOT_RUN]
    if counts and not hasattr(config, "workerinput"):
        config.get_terminal_writer().line(tiers.left_out(counts))


@pytest.fixture
def own_place() -> Iterator[Path]:
    """A directory that has no directory above it in which other users can write, as `tmp_path` has."""
    above = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    with tempfile.TemporaryDirectory(prefix=".rye-tests-", dir=above) as directory:
        yield Path(os.path.realpath(directory))


@pytest.fixture(scope="session")
def rounds(request: pytest.FixtureRequest) -> int:
    """How often a test that looks for survivors or leaks repeats itself."""
    if request.config.getoption("--soak"):
        return SOAK_ROUNDS
    return QUICK_ROUNDS if request.config.getoption("--tier") == "quick" else ROUNDS


@pytest.fixture(scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop of a test: see `pytest_generate_tests`."""
    name: str = request.param
    return name


@pytest.fixture
def mode(request: pytest.FixtureRequest) -> Literal["auto", "legacy"]:
    """The era of the protocol: see `pytest_generate_tests`."""
    era: Literal["auto", "legacy"] = request.param
    return era
