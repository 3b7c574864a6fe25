"""Calls in interpreters that waited for them are those that would have been started cold; nothing is left."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.start import share_memory
from tests.runtime_workshop import Workshop
from tests.trust_world import World

FUNCTION, SCRIPT = "rye/core/runtimes/python_function_runtime", "rye/core/runtimes/python_script_runtime"


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(World(tmp_path))


def tool(workshop: Workshop, body: str, *, name: str = "a", runtime: str = FUNCTION, more: str = "") -> str:
    head = f'"""Does what a test needs."""\n\n__executor_id__ = "{runtime}"\n{more}\n\n'
    return workshop.sign(f"demo/{name}.py", head + body)


def function(code: str) -> str:
    lines = "\n    ".join(code.splitlines())
    return f"import os, sys\n\n\ndef execute(params, project_path):\n    {lines}\n"


class Calls:
    """An executor, and what it says of its calls."""

    def __init__(self, executor: PrimitiveExecutor) -> None:
        self.executor = executor

    async def run(self, item_id: str, **parameters: Any) -> ExecutionResult:
        """One call, after which everything waits that is going to wait."""
        result = await self.executor.execute(item_id, parameters)
        await self.executor.settle()
        return result

    async def runtime(self, item_id: str, **parameters: Any) -> str:
        """How a call ran that succeeds: `warm`, or the word for why it did not."""
        result = await self.run(item_id, **parameters)
        assert result.success, (result.error, result.stderr)
        assert result.runtime is not None
        return "warm" if result.runtime.is_warm else str(result.runtime.why_cold)

    async def data(self, item_id: str, **parameters: Any) -> Any:
        """The data of a call that runs warm."""
        result = await self.run(item_id, **parameters)
        assert result.success, (result.error, result.stderr)
        assert result.runtime is not None
        assert result.runtime.is_warm, result.runtime
        return result.data


@asynccontextmanager
async def calls(workshop: Workshop, **environment: str) -> AsyncIterator[Calls]:
    world = workshop.world
    executor = PrimitiveExecutor(
        workshop.project,
        user_space=world.user_space.parent,
        state=world.state,
        environment={**os.environ, **environment},
    )
    try:
        yield Calls(executor)
    finally:
        await executor.close()


async def test_the_second_call_of_a_kind_runs_warm_and_so_does_another_tool_of_it(workshop: Workshop) -> None:
    one, other = tool(workshop, function("return 1")), tool(workshop, function("return 2"), name="b")
    async with calls(workshop) as run:
        assert await run.runtime(one) == "first_call"
        assert await run.data(one) == 1
        assert await run.data(other) == 2


async def test_a_script_runs_warm_too(workshop: Workshop) -> None:
    item_id = tool(workshop, "import sys\nprint(len(sys.argv))\n", runtime=SCRIPT)
    async with calls(workshop) as run:
        assert await run.runtime(item_id) == "first_call"
        assert await run.data(item_id) == 5


async def test_the_log_says_how_a_call_ran(workshop: Workshop) -> None:
    item_id = tool(workshop, function("return 1"))
    async with calls(workshop) as run:
        cold, warm = await run.run(item_id), await run.run(item_id)
    from rye_mcp.runs.log import RunLog

    with RunLog(workshop.world.state) as log:
        assert [log.get(str(each.run_id)).runtime for each in (cold, warm)] == ["cold first_call", "warm"]
    assert cold.as_dict()["runtime"] == "cold"
    assert cold.as_dict()["why_cold"] == "first_call"
    assert warm.as_dict()["runtime"] == "warm"
    assert "why_cold" not in warm.as_dict()


@pytest.mark.thorough
async def test_a_tool_of_other_permissions_has_interpreters_of_its_own(workshop: Workshop) -> None:
    wide = tool(
        workshop, function("return os.listdir(project_path) != []"), more='PERMISSIONS = {"project": "read"}'
    )
    narrow = tool(
        workshop, function("return os.path.exists(project_path)"), name="b", more="PERMISSIONS = {}"
    )
    async with calls(workshop) as run:
        assert await run.runtime(wide) == "first_call"
        assert await run.runtime(narrow) == "first_call"
        assert await run.data(wide) is True
        assert await run.data(narrow) is False
        result = await run.run(narrow)
    assert result.enforced is not None
    assert result.enforced.level != "none"


LEAVES = """\
import builtins, gc, json, random, signal
found = [getattr(builtins, "left", None), os.environ.get("LEFT"), getattr(json, "left", None)]
found += [str(signal.getsignal(signal.SIGUSR1)), os.umask(0o22), os.getcwd(), sys.argv[1:], sys.path[1:]]
found += [os.environ.get("RYE_TOOL_SOURCE"), sorted(os.listdir("/proc/self/fd"))]
builtins.left = json.left = os.environ["LEFT"] = "left"
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
os.umask(0)
os.chdir("/")
sys.path.append("/left")
if os.fork() == 0:
    signal.pause()
return [found, random.random()]
"""
"""Changes everything that the next call could see, and leaves a process behind."""


async def test_nothing_of_one_call_is_there_in_the_next(workshop: Workshop) -> None:
    item_id = tool(workshop, function(LEAVES))
    async with calls(workshop) as run:
        cold = (await run.run(item_id)).data
        first, second = await run.data(item_id), await run.data(item_id)
    assert cold[0] == first[0] == second[0]
    assert first[1] != second[1]


async def test_each_warm_call_is_a_process_of_its_own(workshop: Workshop) -> None:
    item_id = tool(workshop, function("return [os.getpid(), os.stat('/proc/self').st_ctime_ns]"))
    async with calls(workshop) as run:
        await run.run(item_id)
        found = [tuple(await run.data(item_id)) for _ in range(3)]
    assert len(set(found)) == 3


async def test_variables_of_a_call_are_not_in_the_environment_that_it_waited_with(workshop: Workshop) -> None:
    item_id = tool(workshop, function("return open('/proc/self/environ', 'rb').read().decode('latin-1')"))
    async with calls(workshop) as run:
        await run.run(item_id)
        assert "RYE_TOOL_SOURCE" not in await run.data(item_id)


# --- what makes the next call cold ---


def environment_of_its_own(workshop: Workshop) -> Path:
    """A virtual environment of the user, which the runtime finds."""
    venv = workshop.world.user_space.parent / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    [packages] = venv.glob("lib/python3*/site-packages")
    return packages


USES_VENV = 'ENV_CONFIG = {"interpreter": {"type": "venv_python", "search": ["user"], "var": "RYE_PYTHON"}}'


async def test_a_package_that_is_installed_or_upgraded_is_the_new_one_in_the_next_call(
    workshop: Workshop,
) -> None:
    packages = environment_of_its_own(workshop)
    item_id = tool(workshop, function("import thing\nreturn thing.version"), more=USES_VENV)
    async with calls(workshop, HOME=str(packages.parents[3])) as run:
        for version in (1, 2):
            (packages / "thing.py").unlink(missing_ok=True)
            (packages / "thing.py").write_text(f"version = {version}\n")
            (packages / f"thing-{version}.dist-info").mkdir()
            result = await run.run(item_id)
            assert result.data == version, result.error
            assert result.runtime is not None
            assert result.runtime.why_cold == ("first_call" if version == 1 else "packages")
            assert await run.data(item_id) == version


async def test_a_pth_file_that_is_edited_counts_in_the_next_call(workshop: Workshop) -> None:
    packages = environment_of_its_own(workshop)
    item_id = tool(workshop, function("return getattr(sys, 'by_pth', None)"), more=USES_VENV)
    start = "import sys; sys.by_pth = '{}'\n"
    (packages / "own.pth").write_text(start.format("one"))
    async with calls(workshop, HOME=str(packages.parents[3])) as run:
        assert (await run.run(item_id)).data == "one"
        assert await run.data(item_id) == "one"
        (packages / "own.pth").write_text(start.format("another"))
        result = await run.run(item_id)
        assert (result.data, result.runtime and result.runtime.why_cold) == ("another", "packages")
        assert await run.data(item_id) == "another"


async def test_another_interpreter_runs_the_next_call(workshop: Workshop) -> None:
    packages = environment_of_its_own(workshop)
    item_id = tool(workshop, function("return sys.version_info[0]"), more=USES_VENV)
    async with calls(workshop, HOME=str(packages.parents[3])) as run:
        await run.run(item_id)
        assert await run.data(item_id) == 3
        python = packages.parents[2] / "bin/python"
        copy = python.with_name("copy")
        shutil.copy(python, copy)
        copy.replace(python)
        assert await run.runtime(item_id) == "interpreter"


async def test_a_lockfile_that_changes_makes_the_next_call_cold(workshop: Workshop) -> None:
    item_id = tool(workshop, function("return 1"))
    async with calls(workshop) as run:
        assert [await run.runtime(item_id) for _ in range(3)] == ["first_call", "warm", "warm"]
        [lockfile] = workshop.project.glob(".ai/lockfiles/**/*.json")
        copy = lockfile.with_name("copy")
        shutil.copy(lockfile, copy)
        copy.replace(lockfile)
        assert [await run.runtime(item_id) for _ in range(2)] == ["lockfile", "warm"]


async def test_what_an_agent_tampers_with_does_not_run_warm_either(workshop: Workshop) -> None:
    item_id = tool(workshop, function("return 1"))
    async with calls(workshop) as run:
        await run.run(item_id)
        [file] = workshop.project.glob(".ai/tools/demo/a.py")
        file.write_text(file.read_text().replace("return 1", "return 2"))
        result = await run.run(item_id)
    assert result.code == "content_changed"


# --- what is imported before ---

PRELOADS = """\
name: own_runtime
version: "1.0.0"
description: Has modules imported before there is a call.
tool_type: runtime
executor_id: rye/core/runtimes/python_function_runtime
env_config: {interpreter: {type: venv_python, search: [user], var: RYE_PYTHON}}
warm: {prepare: python, preload: [thing, numpy]}
"""
THING = "import os\nimported_in = os.getpid()\n"
NUMPY = "import os\n\n\ndef seed():\n    global drawn\n    drawn = os.urandom(8).hex()\n\n\nseed()\n"


def with_modules_imported_before(workshop: Workshop, body: str, more: str = "") -> tuple[Path, str]:
    """A tool of a runtime that preloads modules of its environment, and where that has its packages."""
    packages = environment_of_its_own(workshop)
    (packages / "thing.py").write_text(THING)
    (packages / "numpy").mkdir()
    (packages / "numpy/__init__.py").write_text("from . import random\n")
    (packages / "numpy/random.py").write_text(NUMPY)
    workshop.sign("demo/own_runtime.yaml", PRELOADS)
    return packages, tool(workshop, function(body), runtime="demo/own_runtime", more=more)


@pytest.mark.parametrize(
    "confined", [pytest.param("", id="free"), pytest.param("PERMISSIONS = {}", id="confined")]
)
async def test_what_a_runtime_preloads_was_imported_before_the_call(
    workshop: Workshop, confined: str
) -> None:
    body = "import thing\nimport numpy\nreturn [thing.imported_in == os.getpid(), numpy.random.drawn]"
    packages, item_id = with_modules_imported_before(workshop, body, confined)
    async with calls(workshop, HOME=str(packages.parents[3])) as run:
        cold = (await run.run(item_id)).data
        first, second = await run.data(item_id), await run.data(item_id)
    assert [cold[0], first[0], second[0]] == [True, False, False]
    assert len({cold[1], first[1], second[1]}) == 3, "each has random numbers of its own"


async def test_a_preloaded_package_that_is_upgraded_is_the_new_one_in_the_next_call(
    workshop: Workshop,
) -> None:
    packages, item_id = with_modules_imported_before(
        workshop, "import thing\nreturn getattr(thing, 'new', 0)"
    )
    async with calls(workshop, HOME=str(packages.parents[3])) as run:
        await run.run(item_id)
        assert await run.data(item_id) == 0
        (packages / "thing.py").unlink()
        (packages / "thing.py").write_text(f"{THING}new = 1\n")
        result = await run.run(item_id)
        assert (result.data, result.runtime and result.runtime.why_cold) == (1, "packages")
        assert await run.data(item_id) == 1


async def test_a_module_of_a_tool_is_never_imported_before(workshop: Workshop) -> None:
    packages, item_id = with_modules_imported_before(workshop, "import thing\nreturn thing.imported_in")
    (packages / "thing.py").unlink()
    workshop.write("demo/thing.py", THING)
    workshop.write("demo/__init__.py", "")
    workshop.sign_listing("demo", "__init__.py", "thing.py")
    async with calls(workshop, HOME=str(packages.parents[3])) as run:
        await run.run(item_id)
        result = await run.run(item_id)
    assert result.success, (result.error, result.stderr)
    assert result.runtime is not None
    assert result.runtime.why_cold == "not_parked", "a zygote has no module of that name"


# --- who wants none ---


async def test_a_variable_switches_it_off(workshop: Workshop) -> None:
    item_id = tool(workshop, function("return 1"))
    async with calls(workshop, RYE_WARM="0") as run:
        assert [await run.runtime(item_id) for _ in range(2)] == ["off", "off"]


async def test_a_runtime_that_does_not_say_it_keeps_none(workshop: Workshop) -> None:
    item_id = workshop.sign("demo/b.sh", BASH)
    async with calls(workshop) as run:
        assert [await run.runtime(item_id) for _ in range(2)] == ["not_offered", "not_offered"]


BASH = """\
# /// rye
# executor_id: rye/core/runtimes/bash_runtime
# description: Says a word.
# ///
echo '"a"'
"""


async def test_a_call_that_is_only_looked_at_takes_no_interpreter(workshop: Workshop) -> None:
    item_id = tool(workshop, function("return 1"))
    async with calls(workshop) as run:
        await run.run(item_id)
        await run.executor.dry_run(item_id)
        assert await run.runtime(item_id) == "warm"


# --- the end ---


def waiting() -> set[str]:
    """The interpreters below this process that wait for a call."""
    return {place.name for place in Path("/proc").glob("[0-9]*") if _waits(place) and _is_below(place.name)}


def _waits(place: Path) -> bool:
    try:
        words = (place / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"-c" in words and bool({b"call", b"zygote"} & {*words})


def _is_below(pid: str) -> bool:
    while pid not in ("0", "1", str(os.getpid())):
        try:
            pid = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            return False
    return pid == str(os.getpid())


async def test_closing_ends_what_waits_and_leaves_no_directory(workshop: Workshop) -> None:
    item_id = tool(workshop, function("return list(__file__)"), more="PERMISSIONS = 'unconfined'")
    async with calls(workshop) as run:
        place = Path("".join((await run.run(item_id)).data))
        assert waiting()
        station = next(each for each in place.parents if each.name.startswith("rye-"))
        assert station.exists()
    assert not waiting()
    assert not station.exists()


MAX_GROWTH_KB = 2048
WARMING_UP = 400
"""As many calls as it takes until caches are full, and as many zygotes wait as are needed."""


def descriptors() -> list[str]:
    """What this process has open; but for the log, which each thread that works with files opens once."""
    places = Path("/proc/self/fd").iterdir()
    opened = sorted(str(place.readlink()) for place in places if os.path.lexists(place))
    return [each for each in opened if "runs.sqlite3" not in each]


def memory_kb() -> int:
    """What this process, and those that look after its runs, take for themselves."""
    pids = ["self", *(pid for pid in family() if "lilux" in fact(pid, "Name"))]
    return sum(int(fact(pid, "RssAnon").split()[0]) for pid in pids)


def zombies() -> list[str]:
    return [pid for pid in family() if fact(pid, "State").startswith("Z")]


def family() -> list[str]:
    """The processes below this one."""
    return [each.name for each in Path("/proc").glob("[0-9]*") if _is_below(each.name)]


def fact(pid: str, name: str) -> str:
    """What the kernel says of a process; nothing of one that has just gone."""
    try:
        lines = Path("/proc", pid, "status").read_text().splitlines()
    except OSError:
        return "0"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), "0")


@pytest.mark.thorough
async def test_many_warm_calls_leave_nothing(workshop: Workshop, rounds: int) -> None:
    """Ten thousand with `make soak`: no descriptor, no zombie, and no more memory."""
    share_memory()  # as the server does when it starts
    item_id, count = tool(workshop, function("return params['number']")), 50 * rounds
    async with calls(workshop) as run:

        async def many(count: int) -> int:
            ran = [await run.executor.execute(item_id, {"number": number}) for number in range(count)]
            assert [each.data for each in ran] == [*range(count)]
            await run.executor.settle()
            return sum(each.runtime is not None and each.runtime.is_warm for each in ran)

        await many(max(count // 5, WARMING_UP))
        before, taken = descriptors(), memory_kb()
        warm = sum([await many(count // 10) for _ in range(10)])
        assert warm > count * 0.9
        assert descriptors() == before
        assert not zombies()
        assert memory_kb() - taken <= MAX_GROWTH_KB


# --- the same as cold, whatever a tool does ---

STATEMENTS = (
    "found.append(sorted(vars(__import__('builtins')))[:40])",
    "found.append([sys.flags.no_user_site, sys.flags.dont_write_bytecode, sys.flags.utf8_mode])",
    "found.append([sys.stdin.encoding, sys.stdout.encoding, sys.stderr.errors, sys.stdout.line_buffering])",
    "found.append([sys.getfilesystemencoding(), sys.getrecursionlimit(), sys.orig_argv[1:3], sys.prefix])",
    "found.append(sorted(each for each in os.environ if not each.startswith('RYE_')))",
    "found.append([os.environ.get('RYE_PROJECT_PATH'), os.environ.get('RYE_RESULT_FD')])",
    "found.append([os.getcwd(), os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid()])",
    "found.append(sorted(int(each) for each in os.listdir('/proc/self/fd'))[:4])",
    "import signal; found.append([str(signal.getsignal(each)) for each in (2, 10, 12, 13, 15, 17)])",
    "import gc; found.append([gc.isenabled(), gc.get_threshold()])",
    "import locale; found.append([locale.setlocale(locale.LC_ALL), locale.getpreferredencoding()])",
    "import resource; found.append([resource.getrlimit(each) for each in range(8)])",
    "import threading; found.append([threading.active_count(), threading.current_thread().name])",
    "found.append([__name__, __doc__, __file__.rpartition('/')[2], sorted(globals())])",
    "import warnings; found.append([each[0] for each in warnings.filters])",
    "import random; random.seed(4); found.append(random.random())",
    "sys.stdout.write('printed\\n'); sys.stderr.write('warned\\n')",
    "found.append(sys.stdin.read())",
    "import tempfile, time; found.append([tempfile.gettempdir(), time.tzname])",
    "found.append([os.nice(0), os.sched_getaffinity(0) != set(), oct(os.umask(0o22))])",
    "import subprocess; found.append(subprocess.run(['true'], check=True).returncode)",
    "import asyncio; found.append(asyncio.run(asyncio.sleep(0, 'slept')))",
    "import atexit; atexit.register(print, 'at the end')",
    "raise ValueError('of the tool')",
    "sys.exit(3)",
    "os.kill(os.getpid(), 9)",
)
"""What a tool may look at or do."""


def random_tool(number: int) -> str:
    """A tool that does some of it; the same number gives the same tool."""
    chosen = random.Random(number)  # noqa: S311 - not a secret
    return function("\n".join(["found = []", *chosen.sample(STATEMENTS, 5), "return found"]))


def seen(result: ExecutionResult) -> tuple[object, ...]:
    """What a caller sees of a call, but for its times and its id."""
    ended = None if result.exit is None else result.exit.as_dict()
    return result.success, result.data, result.code, result.error, result.stdout, result.stderr, ended


@pytest.mark.first_case
@pytest.mark.parametrize(
    "confined", [pytest.param("", id="free"), pytest.param("PERMISSIONS = {}", id="confined")]
)
async def test_a_tool_does_the_same_warm_and_cold(workshop: Workshop, confined: str, rounds: int) -> None:
    first = tool(workshop, function("return 1"), more=confined)
    tools = [
        tool(workshop, random_tool(each), name=f"t{each}", more=confined) for each in range(20 * rounds // 5)
    ]
    async with calls(workshop, RYE_WARM="0") as cold, calls(workshop) as warm:
        await warm.run(first)
        for item_id in tools:
            found, expected = await warm.run(item_id), await cold.run(item_id)
            assert found.runtime is not None
            assert found.runtime.is_warm, found.runtime
            assert seen(found) == seen(expected)


@pytest.mark.parametrize(
    "confined", [pytest.param("", id="free"), pytest.param("PERMISSIONS = {}", id="confined")]
)
async def test_a_secret_of_one_call_is_not_in_what_waits_for_the_next(
    workshop: Workshop, confined: str
) -> None:
    value = "".join(("se", "cret-of-", "one-call-", "7f3a"))
    item_id = tool(workshop, function("return len(params['value'])"), more=confined)
    async with calls(workshop) as run:
        await run.run(item_id, value=value)
        for _ in range(3):
            assert await run.data(item_id, value=value) == len(value)
            found = waiting()
            assert found
            for pid in found:
                assert not holds(pid, value.encode())


def holds(pid: str, text: bytes) -> bool:
    """Whether a text is anywhere in the memory of a process."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
        for line in Path("/proc", pid, "maps").read_text().splitlines():
            span, access, *_ = line.split()
            begin, end = (int(each, 16) for each in span.split("-"))
            if not access.startswith("rw"):
                continue
            memory.seek(begin)
            if text in memory.read(end - begin):
                return True
    return False


async def test_the_search_finds_what_is_there() -> None:
    text = os.urandom(24)
    assert holds(str(os.getpid()), text)
