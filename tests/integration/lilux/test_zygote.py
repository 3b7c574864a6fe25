"""What is forked from a zygote knows nothing of calls before it, and differs where it must."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from lilux.primitives.subprocess import (
    CallSpec,
    NotParked,
    Policy,
    RuntimeSpec,
    SubprocessPrimitive,
    SubprocessResult,
    Zygote,
    ZygoteSpec,
)

PREFIXES = sorted({os.path.realpath(place) for place in (sys.prefix, sys.base_prefix)})
TIERS = ("none", "walls", "cell")

CHANGES = """
import builtins, os, random, signal, sys, json
if sys.argv[1] == "change":
    builtins.print = lambda *args: None
    json.dumps = None
    os.environ["LEFT"] = "behind"
    os.umask(0)
    os.chdir("/usr")
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    sys.setrecursionlimit(77777)
    sys.modules["left_behind"] = sys
    sys.path.append("/left/behind")
    random.seed(1)
    if os.fork() == 0:
        os.setsid()
        signal.pause()
else:
    os.umask(mask := os.umask(0))
    print(json.dumps([
        os.environ.get("LEFT"), mask, os.getcwd(), str(signal.getsignal(signal.SIGUSR1)),
        sys.getrecursionlimit(), "left_behind" in sys.modules, "/left/behind" in sys.path,
    ]))
"""

SEARCH = """
import os, sys
# Never whole in the memory of the search itself.
first, second = (bytes(each ^ 1 for each in bytes.fromhex(half)) for half in sys.argv[1].split("-"))
found = 0
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        place, modes, *_ = line.split()
        start, end = (int(each, 16) for each in place.split("-"))
        if "r" in modes and "[v" not in line:
            memory.seek(start)
            try:
                data = memory.read(end - start)
            except OSError:
                continue
            place = data.find(first)
            while place >= 0:
                found += data[place + len(first) :].startswith(second)
                place = data.find(first, place + 1)
print(found)
"""
SECRET = b"c5f1-a-secret-of-one-call"
HIDDEN = "-".join(bytes(each ^ 1 for each in half).hex() for half in (SECRET[:12], SECRET[12:]))

RANDOM = """
import random, ssl, tempfile, uuid, sys
print(random.random(), ssl.RAND_bytes(16).hex(), uuid.uuid4(), next(tempfile._get_candidate_names()))
"""


@pytest.fixture
def primitive() -> SubprocessPrimitive:
    return SubprocessPrimitive()


def policy_of(tier: str, place: Path) -> Policy | None:
    if tier == "none":
        return None
    level: Any = tier
    return Policy(tier=level, require=level, read=[*PREFIXES, str(place.resolve())])


def spec_of(tier: str, place: Path, **fields: Any) -> ZygoteSpec:
    runtime = RuntimeSpec(command=sys.executable, args=["-s", "-B"], env={"PYTHONUTF8": "1"})
    return ZygoteSpec(**{"runtime": runtime, "policy": policy_of(tier, place), **fields})


async def run(
    zygote: Zygote[SubprocessResult],
    policy: Policy | None,
    source: str,
    place: Path,
    *args: str,
    awaited: bool = False,
    **fields: Any,
) -> SubprocessResult:
    script = place / "tool.py"
    script.write_text(source)
    parked = await zygote.park(policy=policy, awaited=awaited)
    call = CallSpec(args=[str(script), *args], cwd="/", policy=policy, timeout=60, **fields)
    result = await parked.run(call)
    assert result.success, result.stderr
    return result


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("tier", TIERS)
async def test_what_a_tool_changes_is_not_seen_by_the_next(
    primitive: SubprocessPrimitive, tmp_path: Path, tier: str, awaited: bool
) -> None:
    zygote = await primitive.zygote(spec := spec_of(tier, tmp_path))
    before = await run(zygote, spec.policy, CHANGES, tmp_path, "look")
    changed = await run(zygote, spec.policy, CHANGES, tmp_path, "change", awaited=awaited)
    after = await run(zygote, spec.policy, CHANGES, tmp_path, "look", awaited=awaited)
    assert json.loads(after.stdout) == json.loads(before.stdout)
    assert changed.cleanup is not None
    assert changed.cleanup.ended == 1


@pytest.mark.parametrize("tier", TIERS)
async def test_a_secret_of_one_call_is_not_in_the_memory_of_the_next(
    primitive: SubprocessPrimitive, tmp_path: Path, tier: str
) -> None:
    zygote = await primitive.zygote(spec := spec_of(tier, tmp_path))
    fields: dict[str, Any] = {"env": {"SECRET": SECRET.decode()}, "input": SECRET}
    with_it = await run(zygote, spec.policy, SEARCH, tmp_path, HIDDEN, **fields)
    assert int(with_it.stdout) > 0, "the search would find it"
    without = await run(zygote, spec.policy, SEARCH, tmp_path, HIDDEN)
    assert int(without.stdout) == 0


async def test_what_a_call_waits_for_touches_less_memory_than_what_rehearses_one(
    primitive: SubprocessPrimitive, tmp_path: Path
) -> None:
    """A page that was touched is copied, which is most of what a fork costs."""
    source = "import resource\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)\n"
    zygote = await primitive.zygote(spec_of("none", tmp_path))
    rehearsed = await run(zygote, None, source, tmp_path)
    awaited = await run(zygote, None, source, tmp_path, awaited=True)
    assert int(awaited.stdout) < int(rehearsed.stdout)


async def test_what_is_random_differs_in_everything_that_is_forked(
    primitive: SubprocessPrimitive, tmp_path: Path
) -> None:
    draws = "import ssl, tempfile\nssl.RAND_bytes(1)\nnext(tempfile._get_candidate_names())\n"
    (tmp_path / "draws.py").write_text(draws)
    runtime = RuntimeSpec(command=sys.executable, args=["-s", "-B"], env={"PYTHONPATH": str(tmp_path)})
    zygote = await primitive.zygote(ZygoteSpec(runtime=runtime, preload=["random", "uuid", "draws"]))
    drawn = [(await run(zygote, None, RANDOM, tmp_path)).stdout.split() for _ in range(3)]
    for numbers in zip(*drawn, strict=True):
        assert len({*numbers}) == 3


async def test_what_is_preloaded_and_known_is_there(primitive: SubprocessPrimitive, tmp_path: Path) -> None:
    source = "import sys\nprint('decimal' in sys.modules, __file__, (lambda: 0).__code__.co_filename)\n"
    zygote = await primitive.zygote(spec_of("none", tmp_path, preload=["decimal"], scripts=[source.encode()]))
    script = str(tmp_path / "tool.py")
    assert (await run(zygote, None, source, tmp_path)).stdout == f"True {script} {script}\n"


async def test_a_call_has_its_own_mask_whatever_was_preloaded(
    primitive: SubprocessPrimitive, tmp_path: Path
) -> None:
    (tmp_path / "changes_the_mask.py").write_text("import os\nos.umask(0o77)\n")
    runtime = RuntimeSpec(command=sys.executable, args=["-s", "-B"], env={"PYTHONPATH": str(tmp_path)})
    zygote = await primitive.zygote(ZygoteSpec(runtime=runtime, preload=["changes_the_mask"]))
    os.umask(mask := os.umask(0))
    shown = await run(zygote, None, "import os\nprint(os.umask(0))\n", tmp_path)
    assert int(shown.stdout) == mask


LAST = """
import gc, sys
class Last:
    def __del__(self, print=print):
        print("gone", flush=True)
last = Last()
last.itself = last
"""


@pytest.mark.parametrize(
    "then",
    [
        "",
        "gc.collect(); gc.collect()  # it has grown old",
        "sys.modules.popitem()  # the last one of the zygote",
        "sys.modules = {}",
    ],
)
async def test_what_is_left_at_the_end_is_collected(
    primitive: SubprocessPrimitive, tmp_path: Path, then: str
) -> None:
    """In the script, and in a module that it has imported."""
    zygote = await primitive.zygote(spec_of("none", tmp_path))
    (tmp_path / "imported.py").write_text(LAST)
    assert (await run(zygote, None, f"import imported\n{LAST}{then}\n", tmp_path)).stdout == "gone\ngone\n"


@pytest.mark.parametrize(
    ("preload", "said"),
    [
        ("raises", "ValueError: no"),
        ("not_there_at_all", "ModuleNotFoundError"),
        ("starts_a_thread", "expected one thread"),
    ],
)
async def test_what_cannot_be_prepared_says_why(
    primitive: SubprocessPrimitive, tmp_path: Path, preload: str, said: str
) -> None:
    (tmp_path / "raises.py").write_text("raise ValueError('no')")
    thread = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    (tmp_path / "starts_a_thread.py").write_text(thread)
    runtime = RuntimeSpec(command=sys.executable, args=["-s", "-B"], env={"PYTHONPATH": str(tmp_path)})
    with pytest.raises(NotParked) as caught:
        await primitive.zygote(ZygoteSpec(runtime=runtime, preload=[preload]))
    assert caught.value.code == "zygote_failed"
    assert said in caught.value.message


async def test_one_waits_at_a_time(primitive: SubprocessPrimitive, tmp_path: Path) -> None:
    zygote = await primitive.zygote(spec_of("none", tmp_path))
    parked = await zygote.park()
    with pytest.raises(NotParked) as caught:
        await zygote.park()
    assert caught.value.code == "zygote_busy"
    await parked.end()
    await (await zygote.park()).end()
    assert zygote.facts.forks == 2
    assert zygote.facts.memory_at_start_kb > 0


async def test_a_zygote_forks_under_no_other_policy(primitive: SubprocessPrimitive, tmp_path: Path) -> None:
    zygote = await primitive.zygote(spec_of("walls", tmp_path))
    for policy in (None, Policy(tier="walls", require="walls", read=["/"]), Policy(tier="none")):
        with pytest.raises(NotParked) as caught:
            await zygote.park(policy=policy)
        assert caught.value.code in {"zygote_profile", "invalid_request"}
    assert zygote.is_alive


async def test_each_in_a_cell_has_its_own_view(primitive: SubprocessPrimitive, tmp_path: Path) -> None:
    """Its own files, temporary files, processes and shared memory; what the zygote saw it does not see."""
    first, second = tmp_path / "first", tmp_path / "second"
    source = (
        "import os, sys\nplaces = [*sys.argv[1:], '/tmp/left', '/dev/shm/left']\n"
        "print([os.path.exists(each) for each in places], len([*filter(str.isdigit, os.listdir('/proc'))]))\n"
        "open('/tmp/left', 'w').close(); open('/dev/shm/left', 'w').close()\n"
    )
    zygote = await primitive.zygote(spec_of("cell", tmp_path))
    for place, seen in ((first, [True, False]), (second, [False, True])):
        place.mkdir()
        policy = policy_of("cell", place)
        result = await run(zygote, policy, source, place, str(first), str(second))
        assert result.stdout == f"{[*seen, False, False]} 2\n"
        assert result.enforced is not None
        assert (result.enforced.level, result.enforced.proc, result.enforced.unenforced) == (
            "cell",
            "private",
            [],
        )


async def test_what_was_forked_goes_on_without_its_zygote(
    primitive: SubprocessPrimitive, tmp_path: Path
) -> None:
    zygote = await primitive.zygote(spec_of("none", tmp_path))
    parked = await zygote.park()
    os.kill(zygote.facts.pid, signal.SIGKILL)
    script = tmp_path / "tool.py"
    script.write_text("print('here')")
    result = await parked.run(CallSpec(args=[str(script)], cwd="/", timeout=60))
    assert result.stdout == "here\n"
    with pytest.raises(NotParked) as caught:
        await zygote.park()
    # Its end may be known already, or be the answer to the question.
    assert caught.value.code in {"zygote_lost", "zygote_failed"}


async def test_closing_a_zygote_ends_what_waits(primitive: SubprocessPrimitive, tmp_path: Path) -> None:
    zygote = await primitive.zygote(spec_of("none", tmp_path))
    parked = await zygote.park()
    await zygote.close()
    assert not zygote.is_alive
    assert not parked.is_waiting
    for pid in (zygote.facts.pid, parked.pid):
        assert not (await primitive.status(pid)).alive
    await zygote.close()
