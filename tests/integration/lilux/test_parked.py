"""A process that was parked does for its call what one that is started for it does, once."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskStatus

from lilux.primitives.errors import ConfigurationError, SupervisorError
from lilux.primitives.subprocess import (
    CallSpec,
    Halves,
    NotParked,
    Parked,
    ParkSpec,
    Policy,
    RuntimeSpec,
    Spool,
    SubprocessPrimitive,
    SubprocessResult,
    ZygoteSpec,
)

PREFIXES = sorted({os.path.realpath(place) for place in (sys.prefix, sys.base_prefix)})
"""What the interpreter of the tests consists of."""

TIERS = [
    ("started", "none"),
    ("started", "walls"),
    ("started", "cell"),
    ("forked", "none"),
    ("forked", "walls"),
    ("forked", "cell"),
]
WAYS = ("started", "forked")
"""How what waits came to be: started early, or forked from a zygote."""

TELL = """
import _locale, json, os, sys
streams = sys.stdin, sys.stdout, sys.stderr
descriptors = sorted(number for number in range(1024) if os.path.lexists(f"/proc/self/fd/{number}"))
told = {
    "argv": sys.argv, "orig": sys.orig_argv, "path": sys.path, "cwd": os.getcwd(), "input": sys.stdin.read(),
    "env": dict(os.environ), "name": __name__, "file": __file__, "names": sorted(globals()),
    "umask": os.umask(0), "flags": str(sys.flags), "encoding": [sys.stdout.encoding, sys.stdout.errors],
    "descriptors": descriptors, "leads": os.getsid(0) == os.getpid(),
    "streams": [[each.name, each.mode, each.seekable(), each.line_buffering] for each in streams],
    "locale": _locale.setlocale(_locale.LC_CTYPE),
}
print(json.dumps(told))
sys.stderr.write("to the error stream")
"""
SCRIPTS = {
    "tells": TELL,
    "raises": "def deep():\n    raise ValueError('no')\n\ndeep()\n",
    "exits": "import sys\nsys.exit(7)\n",
    "exits_with_words": "import sys\nsys.exit('words')\n",
    "is_no_python": "this is no python\n",
    "kills_itself": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nsignal.pause()\n",
    "interrupts_itself": "raise KeyboardInterrupt\n",
    "says_goodbye": "import atexit, threading\natexit.register(print, 'bye')\n"
    "printed = threading.Event()\nthreading.Thread(target=lambda: (printed.wait(), print('later'))).start()\n"
    "print('first')\nprinted.set()\n",
    "leaves_a_file_open": "import sys\nkept = open(sys.argv[1], 'w')\nkept.write('kept')\n",
    "forks": "import os, sys\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\n"
    "print('parent' if pid else 'child')\nsys.exit(0)\n",
}


@pytest.fixture
def primitive() -> SubprocessPrimitive:
    return SubprocessPrimitive()


def script_of(place: Path, source: str) -> Path:
    place.mkdir(exist_ok=True)
    script = place / "script.py"
    script.write_text(source)
    return script


def policy_of(tier: str, place: Path) -> Policy | None:
    if tier == "none":
        return None
    level: Any = tier
    return Policy(tier=level, require=level, read=PREFIXES, write=[str(place.resolve())])


def spec_of(tier: str, place: Path, **fields: Any) -> ParkSpec:
    runtime = RuntimeSpec(command=sys.executable, args=["-s", "-B"], env={"PYTHONUTF8": "1"})
    return ParkSpec(runtime=runtime, policy=policy_of(tier, place), language="python", **fields)


def call_of(spec: ParkSpec, script: Path, *args: str, **fields: Any) -> CallSpec:
    fields = {"timeout": 60, "cwd": "/", "policy": spec.policy, "result_fd": spec.result_fd, **fields}
    return CallSpec(args=[str(script), *args], **fields)


async def parked_by(way: str, primitive: SubprocessPrimitive, spec: ParkSpec) -> Parked[SubprocessResult]:
    """What waits for its call. A zygote ends with the event loop."""
    if way == "started":
        return await primitive.park(spec)
    zygote = await primitive.zygote(ZygoteSpec(runtime=spec.runtime, policy=spec.policy))
    return await zygote.park(
        policy=spec.policy, result_fd=spec.result_fd, descriptors=spec.descriptors, limit=spec.limit
    )


def facts_of(pid: int) -> list[str]:
    """The state of a process, its parent, and more."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


async def cold(primitive: SubprocessPrimitive, spec: ParkSpec, call: CallSpec) -> SubprocessResult:
    return await primitive.run(Halves(spec.runtime, call).whole())


def comparable(result: SubprocessResult) -> tuple[Any, ...]:
    return result.kind, result.return_code, result.signal, result.stdout, result.stderr, result.enforced


@pytest.mark.thorough
@pytest.mark.parametrize(("way", "tier"), TIERS)
@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_parked_interpreter_does_what_one_does_that_is_started_for_the_call(
    primitive: SubprocessPrimitive, tmp_path: Path, way: str, tier: str, name: str
) -> None:
    place = tmp_path / "copy"
    script = script_of(place, SCRIPTS[name])
    spec = spec_of(tier, place, result_fd=True)
    env = {"A": "1", "PYTHONPATH": f"{place}{os.pathsep}/srv", "LANG": "C.UTF-8", "TZ": "Asia/Tokyo"}
    call = call_of(spec, script, str(place / "kept"), "a b", env=env, cwd=place, input=b"words")
    expected = await cold(primitive, spec, call)
    parked = await parked_by(way, primitive, spec)
    result = await parked.run(call)
    if name == "tells":
        assert json.loads(result.stdout) == json.loads(expected.stdout)
    assert comparable(result) == comparable(expected)
    if name == "leaves_a_file_open":
        assert (place / "kept").read_text() == "kept"


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_has_the_locale_that_its_variables_name(
    primitive: SubprocessPrimitive, tmp_path: Path, way: str
) -> None:
    script, spec = script_of(tmp_path / "copy", SCRIPTS["tells"]), spec_of("none", tmp_path)
    told = []
    for locale in ("C.UTF-8", "POSIX"):
        parked = await parked_by(way, primitive, spec)
        call = call_of(spec, script, env={"LC_ALL": locale})
        warm, started = await parked.run(call), await cold(primitive, spec, call)
        assert json.loads(warm.stdout)["locale"] == json.loads(started.stdout)["locale"]
        told.append(json.loads(started.stdout)["locale"])
    assert told == ["C.UTF-8", "C"]


@pytest.mark.parametrize("way", WAYS)
async def test_what_site_sets_at_the_start_is_there_for_the_call(
    primitive: SubprocessPrimitive, tmp_path: Path, way: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['BY_SITE'] = 'set'\n")
    script = script_of(tmp_path / "copy", SCRIPTS["tells"])
    env = {"PYTHONPATH": str(tmp_path)}
    spec = ParkSpec(runtime=RuntimeSpec(command=sys.executable, args=["-B"], env=env), language="python")
    call = call_of(spec, script, env={"A": "1"})
    parked = await parked_by(way, primitive, spec)
    warm, started = await parked.run(call), await cold(primitive, spec, call)
    found = json.loads(warm.stdout)["env"]
    assert found["BY_SITE"] == "set"
    assert found == json.loads(started.stdout)["env"]


@pytest.mark.parametrize(("way", "tier"), TIERS)
async def test_what_is_written_into_a_directory_after_parking_is_there_for_the_call(
    primitive: SubprocessPrimitive, tmp_path: Path, way: str, tier: str
) -> None:
    place = tmp_path / "copy"
    place.mkdir()
    parked = await parked_by(way, primitive, spec := spec_of(tier, place))
    script = script_of(place, "print('came later')")
    assert (await parked.run(call_of(spec, script))).stdout == "came later\n"


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_carries_all_that_a_run_carries(
    primitive: SubprocessPrimitive, tmp_path: Path, way: str
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        spec = spec_of("none", tmp_path, descriptors={7: theirs.fileno()}, result_fd=True)
        parked = await parked_by(way, primitive, spec)
        source = "import os, sys\nos.write(7, b'seven')\nos.write(3, b'three')\nprint('x' * 5000)\n"
        seen: list[bytes] = []
        pids: list[int] = []
        call = call_of(
            spec,
            script_of(tmp_path, source),
            descriptors=spec.descriptors,
            max_output=1024,
            digests=True,
            spool=Spool(dir=str(tmp_path)),
            on_output=lambda _stream, data, _skipped: seen.append(data),
            on_started=lambda pid, _enforced: pids.append(pid),
        )
        result = await parked.run(call)
        assert ours.recv(100) == b"seven"
    assert (result.result, result.truncated, pids) == ("three", True, [parked.pid])
    assert result.streams["stdout"].sha256 is not None
    assert (tmp_path / "stdout").read_bytes() == b"x" * 5000 + b"\n"
    assert sorted(b"".join(seen)) == sorted(b"three" + b"x" * 5000 + b"\n")


@pytest.mark.parametrize("way", WAYS)
async def test_nothing_is_told_of_a_call_that_ends_within_its_quiet_time(
    primitive: SubprocessPrimitive, tmp_path: Path, way: str
) -> None:
    parked = await parked_by(way, primitive, spec := spec_of("none", tmp_path))
    heard: list[object] = []
    call = call_of(
        spec,
        script_of(tmp_path, "print('done')"),
        on_output=lambda *output: heard.append(output),
        on_started=lambda *started: heard.append(started),
        quiet=600,
    )
    assert (await parked.run(call)).stdout == "done\n"
    assert not heard


@pytest.mark.parametrize("way", WAYS)
async def test_a_long_input_and_a_long_call_arrive(
    primitive: SubprocessPrimitive, tmp_path: Path, way: str
) -> None:
    parked = await parked_by(way, primitive, spec := spec_of("none", tmp_path))
    script = script_of(tmp_path, "import sys\nprint(len(sys.stdin.read()), len(sys.argv[1]))")
    result = await parked.run(call_of(spec, script, "y" * 200_000, input=b"x" * 1_000_000))
    assert result.stdout == "1000000 200000\n"


@pytest.mark.parametrize("way", WAYS)
async def test_bytes_that_are_no_text_arrive(
    primitive: SubprocessPrimitive, tmp_path: Path, way: str
) -> None:
    parked = await parked_by(way, primitive, spec := spec_of("none", tmp_path))
    script = script_of(tmp_path, "import os, sys\nprint(os.fsencode(sys.argv[1]), os.environb[b'B'])")
    result = await parked.run(call_of(spec, script, "\udcff", env={"B": "\udcfe"}))
    assert result.stdout == "b'\\xff' b'\\xfe'\n"


@pytest.mark.parametrize("way", WAYS)
async def test_it_takes_one_call_only(primitive: SubprocessPrimitive, tmp_path: Path, way: str) -> None:
    parked = await parked_by(way, primitive, spec := spec_of("none", tmp_path))
    call = call_of(spec, script_of(tmp_path, "print(1)"))
    assert parked.is_waiting
    await parked.run(call)
    assert not parked.is_waiting
    with pytest.raises(NotParked) as caught:
        await parked.run(call)
    assert caught.value.code == "parked_gone"


@pytest.mark.parametrize("way", WAYS)
async def test_one_that_has_ended_gets_no_call(
    primitive: SubprocessPrimitive, tmp_path: Path, way: str
) -> None:
    spec = spec_of("none", tmp_path, limit=0.05)
    parked = await parked_by(way, primitive, spec)
    await parked.ended()
    with pytest.raises(NotParked) as caught:
        await parked.run(call_of(spec, tmp_path / "never.py"))
    assert caught.value.code == "parked_gone"


@pytest.mark.parametrize("way", WAYS)
async def test_one_that_is_killed_while_it_waits_gets_no_call(
    primitive: SubprocessPrimitive, tmp_path: Path, way: str
) -> None:
    parked = await parked_by(way, primitive, spec := spec_of("none", tmp_path))
    await primitive.kill(parked.pid, grace=0)
    await parked.ended()
    with pytest.raises(NotParked):
        await parked.run(call_of(spec, tmp_path / "never.py"))


@pytest.mark.parametrize("way", WAYS)
async def test_one_whose_end_nobody_has_heard_of_gets_no_call(
    primitive: SubprocessPrimitive, tmp_path: Path, way: str
) -> None:
    parked = await parked_by(way, primitive, spec := spec_of("none", tmp_path))
    keeper = int(facts_of(parked.pid)[1])
    os.kill(keeper, signal.SIGSTOP)
    try:
        os.kill(parked.pid, signal.SIGKILL)
        while facts_of(parked.pid)[0] != "Z":
            await anyio.lowlevel.checkpoint()

        async def go_on() -> None:
            await primitive.status(os.getpid())  # answered after the call has come
            os.kill(keeper, signal.SIGCONT)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go_on)
            with pytest.raises(NotParked) as caught:
                await parked.run(call_of(spec, tmp_path / "never.py"))
    finally:
        os.kill(keeper, signal.SIGCONT)
    assert caught.value.code == "parked_gone"


@pytest.mark.parametrize("way", WAYS)
async def test_one_that_is_not_needed_is_ended(
    primitive: SubprocessPrimitive, tmp_path: Path, way: str
) -> None:
    parked = await parked_by(way, primitive, spec_of("cell", tmp_path))
    await parked.end()
    assert not (await primitive.status(parked.pid)).alive
    await parked.end()


@pytest.mark.parametrize("way", WAYS)
async def test_a_cancelled_call_is_ended(primitive: SubprocessPrimitive, tmp_path: Path, way: str) -> None:
    parked = await parked_by(way, primitive, spec := spec_of("none", tmp_path))
    script = script_of(tmp_path, "import time\ntime.sleep(600)")
    with anyio.move_on_after(0.2):
        await parked.run(call_of(spec, script))
    assert not (await primitive.status(parked.pid)).alive


async def test_what_cannot_be_started_says_why(primitive: SubprocessPrimitive) -> None:
    with pytest.raises(NotParked) as caught:
        await primitive.park(ParkSpec(runtime=RuntimeSpec(command="/nope")))
    assert caught.value.code == "command_not_found"


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("policy", {"policy": Policy(tier="cell")}),
        ("result_fd", {"result_fd": True}),
        ("descriptors", {"descriptors": {5: 1}}),
        ("observe", {"observe": []}),
    ],
)
async def test_a_call_that_is_not_one_for_what_was_parked_is_refused(
    primitive: SubprocessPrimitive, tmp_path: Path, field: str, fields: dict[str, Any]
) -> None:
    parked = await primitive.park(spec := spec_of("none", tmp_path))
    with pytest.raises(ConfigurationError) as caught:
        await parked.run(call_of(spec, tmp_path / "never.py", **fields))
    assert caught.value.field == field
    assert parked.is_waiting
    await parked.end()


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "LD_LIBRARY_PATH", "PYTHONUTF8"])
async def test_a_variable_that_is_read_at_the_start_only_is_refused(
    primitive: SubprocessPrimitive, tmp_path: Path, name: str
) -> None:
    parked = await primitive.park(spec := spec_of("none", tmp_path))
    with pytest.raises(NotParked) as caught:
        await parked.run(call_of(spec, tmp_path / "never.py", env={name: "0"}))
    assert caught.value.code == "parked_environment"
    await parked.end()


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_being_given_up_gets_no_call(
    primitive: SubprocessPrimitive, tmp_path: Path, way: str
) -> None:
    spec = spec_of("none", tmp_path)
    parked = await parked_by(way, primitive, spec)

    async def given_up(*, task_status: TaskStatus[None]) -> None:
        task_status.started()
        await parked.end()

    async with anyio.create_task_group() as tasks:
        await tasks.start(given_up)  # it is asked to end, and has not ended yet
        with pytest.raises(NotParked) as caught:
            await parked.run(call_of(spec, script_of(tmp_path / "copy", "print(1)")))
    assert caught.value.code == "parked_gone"


async def test_a_spool_that_does_not_work_is_an_error_of_the_call(
    primitive: SubprocessPrimitive, tmp_path: Path
) -> None:
    parked = await primitive.park(spec := spec_of("none", tmp_path))
    with pytest.raises(SupervisorError) as caught:
        await parked.run(call_of(spec, tmp_path / "never.py", spool=Spool(dir="/nope")))
    assert caught.value.code == "spool_failed"


def test_a_loop_that_ends_waits_for_nothing_that_is_parked(tmp_path: Path) -> None:
    async def park() -> int:
        return (await SubprocessPrimitive().park(spec_of("none", tmp_path))).pid

    pid = anyio.run(park)
    assert not Path(f"/proc/{pid}").exists()
