"""What `SubprocessPrimitive` makes of real programs: results, failures, environment, input, output, time."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from lilux.primitives import subprocess as public
from lilux.primitives.errors import ConfigurationError
from lilux.primitives.subprocess import Policy, ProcessSpec, Spool, SubprocessPrimitive, SubprocessResult

ENV = {"PATH": os.environ.get("PATH", os.defpath)}


def sh(script: str, *args: str, **fields: Any) -> ProcessSpec:
    """A shell script with its arguments and an exact environment."""
    fields = {"env": ENV, "timeout": 30, **fields}
    return ProcessSpec(command="/bin/sh", args=["-c", script, "sh", *args], **fields)


def is_alive(pid: int) -> bool:
    """True while the process is there, be it only to be fetched."""
    return Path("/proc", str(pid)).exists()


@pytest.fixture
def primitive() -> SubprocessPrimitive:
    return SubprocessPrimitive()


def test_the_public_names_are_those_listed() -> None:
    assert sorted(public.__all__) == [
        "Bind",
        "CALL_DESCRIPTOR",
        "CONFIG_KEYS",
        "CallSpec",
        "Cleanup",
        "Dialogue",
        "Enforced",
        "Fact",
        "Facts",
        "Failure",
        "Groups",
        "Halves",
        "HostTraffic",
        "Hosts",
        "KillResult",
        "Limits",
        "Network",
        "NotParked",
        "Observed",
        "OnBegun",
        "OnOutput",
        "OnStarted",
        "ParkSpec",
        "Parked",
        "Policy",
        "Ports",
        "ProcessSpec",
        "RuntimeSpec",
        "SpawnResult",
        "Spool",
        "StatusResult",
        "StreamCounts",
        "SubprocessPrimitive",
        "SubprocessResult",
        "Usage",
        "Zygote",
        "ZygoteFacts",
        "ZygoteSpec",
        "execute",
        "render",
    ]
    assert all(hasattr(public, name) for name in public.__all__)


def test_running_a_process_loads_no_client_of_anything_else() -> None:
    others = "{'httpx', 'cryptography', 'jsonschema', 'referencing', 'regex', 'platformdirs'}"
    source = f"import sys, lilux.primitives.subprocess; print({{*sys.modules}} & {others})"
    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


# --- results --------------------------------------------------------------------


async def test_the_example_of_the_specification_works(primitive: SubprocessPrimitive) -> None:
    result = await primitive.execute({"command": "echo", "args": ["{message}"]}, {"message": "hello"})
    assert (result.success, result.stdout, result.stderr, result.return_code) == (True, "hello\n", "", 0)
    assert result.duration_ms > 0


async def test_the_module_has_a_primitive_of_its_own() -> None:
    result = await public.execute({"command": "echo", "args": ["{message}"]}, {"message": "hello"})
    assert result.stdout == "hello\n"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exit 0", {"success": True, "return_code": 0, "kind": "exited", "signal": None}),
        ("exit 1", {"success": False, "return_code": 1, "kind": "exited", "signal": None}),
        ("exit 255", {"success": False, "return_code": 255, "kind": "exited"}),
        ("kill -KILL $$", {"success": False, "return_code": -9, "kind": "signaled", "signal": 9}),
        ("kill -TERM $$", {"success": False, "return_code": -15, "kind": "signaled", "signal": 15}),
        (
            "echo out; echo err >&2",
            {"stdout": "out\n", "stderr": "err\n", "truncated": False, "encoding": "utf-8"},
        ),
        ("printf 'a\\r\\nb\\0c'", {"stdout": "a\r\nb\0c"}),
        ("printf 'Gr\\303\\274\\303\\237e'", {"stdout": "Grüße", "encoding": "utf-8"}),
        ("printf '\\377'", {"stdout": "\ufffd", "encoding": "lossy"}),
        ("cat", {"stdout": "", "return_code": 0}),
        ("echo result >&3", {"result": None}),
    ],
)
async def test_a_program_that_ran_is_a_result(
    script: str, expected: dict[str, Any], primitive: SubprocessPrimitive
) -> None:
    result = await primitive.run(sh(script))
    assert {name: getattr(result, name) for name in expected} == expected
    assert (result.error, result.cleanup) == (None, public.Cleanup("complete", []))
    assert result.pid is not None
    assert result.usage is not None
    assert result.usage.max_rss_kb > 0


async def test_what_is_written_to_descriptor_three_is_the_result(primitive: SubprocessPrimitive) -> None:
    result = await primitive.run(sh("printf '{\"ok\": true}' >&3; echo log", result_fd=True))
    assert (result.result, result.stdout) == ('{"ok": true}', "log\n")


async def test_digests_cover_every_byte_and_are_made_only_when_asked_for(
    primitive: SubprocessPrimitive,
) -> None:
    script = "head -c 1000000 /dev/zero; printf log >&2"
    written = {"stdout": bytes(1_000_000), "stderr": b"log", "result": b""}
    asked = await primitive.run(sh(script, result_fd=True, digests=True, max_output=1024))
    assert asked.streams["stdout"].kept == 1024
    assert {name: counts.sha256 for name, counts in asked.streams.items()} == {
        name: hashlib.sha256(data).hexdigest() for name, data in written.items()
    }
    plain = await primitive.run(sh(script))
    assert [counts.sha256 for counts in plain.streams.values()] == [None, None]


# --- what cannot be run ---------------------------------------------------------


@pytest.mark.parametrize("config", [{}, {"command": ""}, {"command": None}, {"command": " ", "shell": True}])
async def test_without_a_command_nothing_is_started(
    config: dict[str, Any], primitive: SubprocessPrimitive
) -> None:
    result = await primitive.execute(config, {})
    assert (result.success, result.return_code, result.stderr) == (False, -1, "No command specified")


def unstartable(tmp_path: Path) -> dict[str, tuple[ProcessSpec, str]]:
    """Programs that cannot be started, and the code that says why."""
    (tmp_path / "plain").write_text("no program")
    (tmp_path / "plain").chmod(0o644)
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "text").write_text("echo no shebang\n")
    for name in ("script", "text"):
        (tmp_path / name).chmod(0o755)
    return {
        "missing": (ProcessSpec(command="no-such-program", env=ENV), "command_not_found"),
        "missing path": (ProcessSpec(command=str(tmp_path / "nope"), env=ENV), "command_not_found"),
        "not executable": (ProcessSpec(command=str(tmp_path / "plain"), env=ENV), "not_executable"),
        "no interpreter": (ProcessSpec(command=str(tmp_path / "script"), env=ENV), "interpreter_not_found"),
        "no format": (ProcessSpec(command=str(tmp_path / "text"), env=ENV), "exec_format"),
        "missing cwd": (sh("true", cwd=tmp_path / "nope"), "cwd_not_found"),
        "cwd is a file": (sh("true", cwd=tmp_path / "plain"), "cwd_not_directory"),
        "long argument": (sh("true", "x" * 131_072), "argument_too_long"),
        "long arguments": (
            ProcessSpec(command="true", args=["x" * 100_000] * 100, env=ENV),
            "arguments_too_large",
        ),
        "NUL in argument": (ProcessSpec(command="true", args=["a\0b"], env=ENV), "nul_byte"),
        "NUL in command": (ProcessSpec(command="tr\0ue", env=ENV), "nul_byte"),
        "NUL in value": (ProcessSpec(command="true", env={**ENV, "A": "\0"}), "nul_byte"),
        "= in name": (ProcessSpec(command="true", env={**ENV, "A=B": "x"}), "invalid_environment"),
    }


async def test_what_cannot_be_started_is_a_result_that_says_why(
    primitive: SubprocessPrimitive, tmp_path: Path
) -> None:
    found = {}
    cases = unstartable(tmp_path)
    for name, (spec, _) in cases.items():
        result = await primitive.run(spec)
        assert (result.success, result.return_code, result.kind, result.stdout) == (
            False,
            -1,
            "spawn_failed",
            "",
        )
        assert result.error is not None
        assert result.stderr == f"Failed to spawn: {result.error.message}"
        found[name] = result.error.code
    assert found == {name: code for name, (_, code) in cases.items()}
    assert (await primitive.run(sh("echo fine"))).stdout == "fine\n"


async def test_a_malformed_configuration_starts_nothing(
    primitive: SubprocessPrimitive, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await primitive.execute({"command": "touch", "args": [str(tmp_path / "made"), 7]}, {})
    assert caught.value.field == "args[1]"
    assert not await anyio.Path(tmp_path / "made").exists()


# --- environment and directory --------------------------------------------------


async def test_a_specification_has_exactly_its_environment(primitive: SubprocessPrimitive) -> None:
    result = await primitive.run(ProcessSpec(command="/usr/bin/env", env={"A": "1", "B": "x y\n$A"}))
    assert result.stdout == "A=1\nB=x y\n$A\n"


async def test_a_configuration_adds_few_variables_to_those_of_this_process(
    primitive: SubprocessPrimitive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INHERITED_HERE", "outer")
    script = 'echo "$INHERITED_HERE $ADDED"'
    result = await primitive.execute({"command": "sh", "args": ["-c", script], "env": {"ADDED": "inner"}}, {})
    assert result.stdout == "outer inner\n"


async def test_a_complete_environment_is_all_the_program_has(
    primitive: SubprocessPrimitive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INHERITED_HERE", "outer")
    complete = {f"V{number}": "x" for number in range(50)}
    result = await primitive.execute({"command": "env", "env": complete}, {})
    assert sorted(result.stdout.split()) == sorted(f"{name}=x" for name in complete)


async def test_ten_thousand_variables_arrive(primitive: SubprocessPrimitive) -> None:
    env = {f"V{number}": str(number) for number in range(10_000)}
    result = await primitive.run(ProcessSpec(command="/usr/bin/env", env=env))
    assert result.stdout.split() == [f"{name}={value}" for name, value in sorted(env.items())]


async def test_a_program_stands_where_this_process_does(
    primitive: SubprocessPrimitive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    await primitive.run(sh("true"))  # the supervisor is there before this process goes elsewhere
    monkeypatch.chdir(tmp_path)
    assert (await primitive.run(sh("pwd"))).stdout == f"{tmp_path}\n"
    assert (await primitive.run(sh("pwd", cwd="sub"))).stdout == f"{tmp_path / 'sub'}\n"


async def test_texts_that_are_no_utf8_arrive_as_they_are(
    primitive: SubprocessPrimitive, tmp_path: Path
) -> None:
    name = os.fsdecode(b"caf\xe9")
    (tmp_path / name).mkdir()
    show = 'printf %s "$1$V" | od -An -tx1'
    shown = await primitive.run(sh(show, name, env={**ENV, "V": name}, cwd=tmp_path / name))
    assert shown.stdout.split() == ["63", "61", "66", "e9"] * 2


async def test_a_value_reaches_a_shell_command_as_one_word(primitive: SubprocessPrimitive) -> None:
    hostile = "a 'b' \"c\" $(id) `id` ; touch x # {y} ${HOME}"
    config = {"command": "printf '%s|' {x} \"$1\"", "args": ["{x}"], "shell": True}
    result = await primitive.execute(config, {"x": hostile, "y": "WRONG"})
    assert result.stdout == f"{hostile}|{hostile}|"


# --- standard input -------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 262_144, 262_145, 10_000_000])
async def test_input_of_any_size_arrives_whole(size: int, primitive: SubprocessPrimitive) -> None:
    data = os.urandom(size)
    result = await primitive.run(sh("sha256sum", input=data))
    assert result.stdout.split()[0] == hashlib.sha256(data).hexdigest()


async def test_a_program_that_never_reads_keeps_nobody_waiting(primitive: SubprocessPrimitive) -> None:
    result = await primitive.run(sh("exec sleep 0.2", input=bytes(10_000_000)))
    assert (result.return_code, result.kind) == (0, "exited")
    result = await primitive.run(sh("exec sleep 30", input=bytes(10_000_000), timeout=0.2))
    assert result.kind == "timeout"


async def test_input_that_is_not_read_stays_where_it_is(primitive: SubprocessPrimitive) -> None:
    spec = sh("exec sleep 0.2", input=bytes(10_000_000))
    await primitive.run(sh("true"))
    tracemalloc.start()
    try:
        await primitive.run(spec)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000, "at most the window of 256 KiB is under way, and copied once or twice"


async def test_input_data_is_a_template_when_it_is_text(primitive: SubprocessPrimitive) -> None:
    result = await primitive.execute({"command": "cat", "input_data": "Hello, {name}!"}, {"name": "{name}"})
    assert result.stdout == "Hello, {name}!"


# --- output ---------------------------------------------------------------------


async def test_output_beyond_the_cap_keeps_its_ends_and_says_what_is_missing(
    primitive: SubprocessPrimitive,
) -> None:
    result = await primitive.run(sh("echo begin; yes x | head -n 100000; echo end", max_output=2048))
    counts = result.streams["stdout"]
    assert (counts.total, counts.total - counts.kept, result.truncated) == (200_010, counts.omitted, True)
    assert counts.mark == f"\n[… {counts.omitted} bytes omitted …]\n"
    assert counts.mark in result.stdout
    assert result.stdout.startswith("begin\nx\n")
    assert result.stdout.endswith("x\nend\n")
    assert not result.streams["stderr"].omitted


async def test_a_spool_has_what_the_result_has_not(primitive: SubprocessPrimitive, tmp_path: Path) -> None:
    result = await primitive.run(sh("yes x | head -n 10000", max_output=1024, spool=Spool(dir=str(tmp_path))))
    counts = result.streams["stdout"]
    assert (counts.spooled, counts.lost) == (20_000, 0)
    assert (tmp_path / "stdout").read_bytes() == b"x\n" * 10_000


async def test_the_largest_output_that_is_kept_arrives_whole(primitive: SubprocessPrimitive) -> None:
    script = "head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2"
    result = await primitive.run(sh(script, max_output=4_000_000))
    assert (result.stdout, result.stderr) == ("\0" * 3_000_000, "\0" * 2_000_000)
    assert not result.truncated


async def test_output_is_seen_while_the_program_runs(primitive: SubprocessPrimitive, tmp_path: Path) -> None:
    seen: list[tuple[str, bytes]] = []

    def on_output(stream: str, data: bytes, skipped: int) -> None:
        seen.append((stream, data))
        (tmp_path / "seen").touch()

    script = f"echo first; while ! [ -e '{tmp_path}/seen' ]; do sleep 0.01; done; echo second >&2"
    result = await primitive.run(sh(script, on_output=on_output))
    assert (result.stdout, result.stderr) == ("first\n", "second\n")
    assert seen == [("stdout", b"first\n"), ("stderr", b"second\n")]


async def test_nothing_is_told_of_a_program_that_ends_within_its_quiet_time(
    primitive: SubprocessPrimitive,
) -> None:
    heard: list[object] = []
    spec = sh(
        "echo first; echo second >&2",
        on_output=lambda *output: heard.append(output),
        on_started=lambda *started: heard.append(started),
        quiet=600,
    )
    result = await primitive.run(spec)
    assert (result.stdout, result.stderr) == ("first\n", "second\n")
    assert not heard


async def test_a_program_that_outlasts_its_quiet_time_is_heard_from_its_beginning(
    primitive: SubprocessPrimitive, tmp_path: Path
) -> None:
    heard: list[object] = []

    def on_output(stream: str, data: bytes, skipped: int) -> None:
        heard.append((stream, data, skipped))
        (tmp_path / "heard").touch()

    script = f"echo first; while ! [ -e '{tmp_path}/heard' ]; do sleep 0.01; done; echo second >&2"
    spec = sh(script, on_output=on_output, on_started=lambda *_: heard.append("started"), quiet=0.05)
    result = await primitive.run(spec)
    assert result.success
    assert heard == ["started", ("stdout", b"first\n", 0), ("stderr", b"second\n", 0)]


async def test_of_a_flood_nothing_is_left_out_when_all_of_it_is_wanted(
    primitive: SubprocessPrimitive,
) -> None:
    taken: dict[str, int] = {"stdout": 0, "stderr": 0}
    left_out: list[int] = []

    def on_output(stream: str, data: bytes, skipped: int) -> None:
        taken[stream] += len(data)
        left_out.append(skipped)

    script = "head -c 5000001 /dev/zero; head -c 3000001 /dev/zero >&2"
    result = await primitive.run(sh(script, on_output=on_output, whole_output=True, max_output=1024))
    assert result.success
    assert (taken, set(left_out)) == ({"stdout": 5_000_001, "stderr": 3_000_001}, {0})


async def test_a_flood_is_streamed_as_far_as_it_is_taken_and_the_rest_is_counted(
    primitive: SubprocessPrimitive,
) -> None:
    taken = skipped = 0

    def on_output(stream: str, data: bytes, left_out: int) -> None:
        nonlocal taken, skipped
        taken, skipped = taken + len(data), skipped + left_out

    result = await primitive.run(sh("head -c 20000000 /dev/zero", on_output=on_output))
    assert result.streams["stdout"].total == 20_000_000
    assert 0 < taken + skipped <= 20_000_000


async def test_a_reader_of_the_stream_gets_more_than_is_under_way_at_once(
    primitive: SubprocessPrimitive, tmp_path: Path
) -> None:
    """It goes on only when its last piece was taken, so nothing comes once no credit is given back."""
    taken, piece, pieces = 0, 64 * 1024, 6

    def on_output(_: str, data: bytes, skipped: int) -> None:
        nonlocal taken
        taken += len(data)
        assert not skipped
        if taken % piece == 0:
            (tmp_path / str(taken // piece)).touch()

    script = """
        i=1
        while [ $i -le "$2" ]; do
            head -c "$1" /dev/zero
            while [ ! -e "$3/$i" ]; do sleep 0.01; done
            i=$((i+1))
        done
    """
    spec = sh(script, str(piece), str(pieces), str(tmp_path), on_output=on_output, timeout=20)
    result = await primitive.run(spec)
    assert (result.kind, taken) == ("exited", piece * pieces)


@pytest.mark.parametrize("callback", ["on_output", "on_started"])
async def test_a_callback_that_raises_ends_its_run_and_is_heard(
    callback: str, primitive: SubprocessPrimitive, tmp_path: Path
) -> None:
    def refuse(*_: object) -> None:
        raise LookupError("not this")

    script = f"echo $$ | tee '{tmp_path}/pid'; exec sleep 60"
    with pytest.raises(LookupError, match="not this"):
        await primitive.run(sh(script, **{callback: refuse}))
    written = anyio.Path(tmp_path / "pid")
    assert not await written.exists() or not is_alive(int(await written.read_text() or -1))
    assert (await primitive.run(sh("echo fine"))).stdout == "fine\n"


# --- time -----------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [1, 0.3])
async def test_a_timeout_keeps_what_was_printed_and_is_named_as_given(
    timeout: float, primitive: SubprocessPrimitive
) -> None:
    config = {"command": "sh", "args": ["-c", "echo out; printf err >&2; exec sleep 60"], "timeout": timeout}
    result = await primitive.execute(config, {})
    assert (result.success, result.return_code, result.kind) == (False, -1, "timeout")
    assert (result.stdout, result.stderr) == ("out\n", f"err\nCommand timed out after {timeout} seconds")


async def test_a_timeout_without_output_says_only_that(primitive: SubprocessPrimitive) -> None:
    result = await primitive.run(sh("exec sleep 60", timeout=0.1))
    assert result.stderr == "Command timed out after 0.1 seconds"


# --- many at once ---------------------------------------------------------------


@pytest.mark.thorough
async def test_a_thousand_runs_at_once_do_not_mix_their_answers(primitive: SubprocessPrimitive) -> None:
    results: dict[int, SubprocessResult] = {}

    async def run(number: int) -> None:
        code = str(number % 256)
        spec = sh('cat; echo "$1" >&2; exit "$2"', str(number), code, input=b"in %d" % number)
        results[number] = await primitive.run(spec)

    async with anyio.create_task_group() as tasks:
        for number in range(1000):
            tasks.start_soon(run, number)
    expected = {number: (f"in {number}", f"{number}\n", number % 256) for number in range(1000)}
    assert {
        n: (result.stdout, result.stderr, result.return_code) for n, result in results.items()
    } == expected


# --- what is enforced -----------------------------------------------------------


async def test_what_can_be_enforced_is_what_is_enforced(primitive: SubprocessPrimitive) -> None:
    facts = await primitive.probe()
    strongest: Literal["cell", "walls", "none"] = (
        "cell" if facts.cell else "walls" if facts.landlock else "none"
    )
    spec = ProcessSpec(command="/bin/true", cwd="/", policy=Policy(tier="cell"))
    result = await primitive.run(spec)
    assert result.success, result.stderr
    assert result.enforced is not None
    assert (result.enforced.level, result.enforced.reason) == (strongest, facts.no_cell)


async def test_a_run_without_a_policy_says_nothing_of_one(primitive: SubprocessPrimitive) -> None:
    assert (await primitive.run(ProcessSpec(command="/bin/true"))).enforced is None


async def test_a_program_out_of_sight_is_told_from_one_that_is_not_there(
    primitive: SubprocessPrimitive, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n", "utf-8")
    program.chmod(0o755)
    codes = []
    for command in (program, tmp_path / "missing"):
        result = await primitive.run(ProcessSpec(command=str(command), cwd="/", policy=Policy(tier="cell")))
        assert result.error is not None
        codes.append(result.error.code)
    assert codes == ["command_hidden", "command_not_found"]


async def test_a_link_on_the_way_to_a_granted_place_is_refused(
    primitive: SubprocessPrimitive, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    policy = Policy(tier="cell", write=[str(tmp_path / "link")])
    result = await primitive.run(ProcessSpec(command="/bin/true", policy=policy))
    assert result.error is not None
    assert (result.error.code, result.error.errno) == ("policy_path", errno.ELOOP)


async def test_a_working_directory_out_of_sight_is_told_as_that(primitive: SubprocessPrimitive) -> None:
    facts = await primitive.probe()
    result = await primitive.run(ProcessSpec(command="/bin/true", cwd="/root", policy=Policy(tier="cell")))
    hidden = result.error is not None and result.error.code == "cwd_hidden"
    assert hidden == (facts.cell is not None)


async def test_a_process_that_outlives_this_one_is_never_left_unconfined_by_mistake(
    primitive: SubprocessPrimitive,
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await primitive.start(ProcessSpec(command="/bin/true", policy=Policy(tier="walls")))
    assert caught.value.field == "policy"
