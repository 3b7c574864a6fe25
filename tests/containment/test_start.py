"""What can be started is started as it was asked for; what cannot be is refused with a reason of its own."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.containment.client import Client
from tests.containment.command_line import CommandLine
from tests.containment.nobody import Nobody, as_root

LONGEST = 131_071
TERMINATING = [
    number
    for number in signal.valid_signals()
    if number
    not in {
        signal.SIGCHLD,
        signal.SIGCONT,
        signal.SIGSTOP,
        signal.SIGTSTP,
        signal.SIGTTIN,
        signal.SIGTTOU,
        signal.SIGURG,
        signal.SIGWINCH,
    }
]


# --- as it was asked for --------------------------------------------------------


def test_arguments_arrive_as_they_are(client: Client, command_line: CommandLine) -> None:
    texts = ["", " ", "a b", "'", '"', "$HOME", "`id`", "*", "\\", "\n", "--help", "-n", "żółw", "{x} ${Y}"]
    script = 'for text; do printf "%s\\0" "$text"; done'
    assert client.shell(script, *texts).stdout.decode().split("\0")[:-1] == texts
    assert command_line.exec("/bin/sh", "-c", script, "sh", *texts)["stdout"].split("\0")[:-1] == texts


def test_arguments_need_not_be_text(client: Client) -> None:
    assert client.run("printf", "%s", {"b64": "//4="}).stdout == b"\xff\xfe"


def test_the_environment_is_exactly_what_was_given(client: Client) -> None:
    assert client.run("/usr/bin/env").stdout == b""
    assert client.run("/usr/bin/env", env={"B": "2", "A": "=\n"}).stdout == b"A==\n\nB=2\n"


def test_ten_thousand_environment_variables_arrive(client: Client, command_line: CommandLine) -> None:
    env = {f"VARIABLE_{number}": f"{number} ż" for number in range(10_000)}
    expected = sorted(f"{name}={value}" for name, value in env.items())
    assert sorted(client.run("/usr/bin/env", env=env).stdout.decode().splitlines()) == expected
    answer = command_line.request("exec", command="/usr/bin/env", env=env)
    assert sorted(answer["stdout"].splitlines()) == expected


def test_the_longest_argument_arrives_and_a_longer_one_is_refused_before_anything_is_forked(
    client: Client,
) -> None:
    ended = client.run("printf", "%s", "x" * LONGEST)
    assert ended.result["stdout"]["total"] == LONGEST
    before = client.status()
    refused = client.run("printf", "%s", "x" * (LONGEST + 1)).result
    assert (refused["error"]["code"], refused["error"]["stage"]) == ("argument_too_long", "prepare")
    assert (refused["error"]["errno"], refused["pid"]) == (errno.E2BIG, None)
    assert "argument 2" in refused["error"]["message"]
    assert client.status() | {"id": 0} == before | {"id": 0}


def test_every_exit_code_is_reported(client: Client) -> None:
    runs = [client.start_run("/bin/sh", "-c", f"exit {code}") for code in range(256)]
    results = [client.end_of(run).result for run in runs]
    assert [result["return_code"] for result in results] == list(range(256))
    assert {(result["kind"], result["signal"]) for result in results} == {("exited", None)}


@pytest.mark.parametrize("number", TERMINATING, ids=str)
def test_every_fatal_signal_is_reported(number: int, client: Client) -> None:
    result = client.shell(f"kill -{number} $$").result
    assert (result["kind"], result["return_code"], result["signal"]) == ("signaled", -number, number)


def test_a_stop_is_no_end_also_of_a_tool_that_is_traced_by_its_keeper(client: Client) -> None:
    """`PTRACE_TRACEME` makes the parent the tracer, which nobody has asked whether it wants to be that."""
    script = "import ctypes, os; ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.kill(os.getpid(), 19)"
    ended = client.run(sys.executable, "-c", script, timeout_ms=700)
    assert ended.result["kind"] == "timeout"
    assert ended.result["cleanup"] == {"state": "complete", "pids": []}


def test_programs_that_cores_are_piped_to_are_not_started_for_tools(client: Client) -> None:
    """They are for any limit but 1, as root and outside of everything: see `core(5)` and `do_coredump`."""
    script = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
    ended = client.run(sys.executable, "-c", script)
    assert ended.stdout == b"(1, 1)\n"


def test_no_tool_leaves_a_core_file(client: Client, tmp_path: Path) -> None:
    ended = client.shell("ulimit -c; ulimit -Hc; kill -SEGV $$", cwd=str(tmp_path))
    assert ended.stdout == b"0\n0\n"
    assert list(tmp_path.iterdir()) == []


def test_a_tool_starts_with_every_signal_at_its_default_and_none_blocked(binary: Path) -> None:
    ignoring = ["/bin/sh", "-c", "trap '' INT PIPE HUP USR1; exec \"$@\"", "sh"]
    with Client.start(binary, before=ignoring) as client:
        status = client.run("cat", "/proc/self/status").stdout.decode()
    masks = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    assert {name: int(masks[name], 16) for name in ("SigBlk", "SigIgn", "SigCgt", "SigPnd")} == dict.fromkeys(
        ("SigBlk", "SigIgn", "SigCgt", "SigPnd"), 0
    )


def test_a_tool_has_the_descriptor_limit_that_its_supervisor_was_started_with(binary: Path) -> None:
    lowered = ["/bin/sh", "-c", 'ulimit -Sn 200; exec "$@"', "sh"]
    with Client.start(binary, before=lowered) as client:
        assert client.shell("ulimit -n").stdout == b"200\n"


def test_a_tool_leads_a_session_and_a_group_of_its_own(client: Client) -> None:
    ended = client.run("cat", "/proc/self/stat")
    fields = ended.stdout.decode().rpartition(")")[2].split()
    assert fields[2] == fields[3] == str(ended.result["pid"])


def test_the_directory_of_the_tool_is_the_one_that_was_given(client: Client, tmp_path: Path) -> None:
    assert client.run("pwd", cwd=str(tmp_path)).stdout.decode().strip() == str(tmp_path.resolve())


# --- where a program is looked for ----------------------------------------------


def make_program(path: Path, content: str = "#!/bin/sh\necho canary\n", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(mode)
    return path


def test_relative_entries_of_the_path_are_never_searched(
    client: Client, command_line: CommandLine, tmp_path: Path
) -> None:
    make_program(tmp_path / "bin" / "canary")
    for path in ["", ":", ".", "bin", "./bin", ":bin:", "~/bin", "../" + tmp_path.name + "/bin"]:
        by_environment = client.run("canary", cwd=str(tmp_path), env={"PATH": path})
        by_request = client.run("canary", cwd=str(tmp_path), search_path=path)
        assert by_environment.error == by_request.error == "command_not_found"
        answer = command_line.call("exec", "--cmd", "canary", env={"PATH": path}, cwd=tmp_path).json
        assert (answer["error"]["code"], answer["stdout"]) == ("command_not_found", "")


def test_absolute_entries_of_the_path_are_searched_in_order(client: Client, tmp_path: Path) -> None:
    for name in ("first", "second"):
        make_program(tmp_path / name / "which", f"#!/bin/sh\necho {name}\n")
    make_program(tmp_path / "denied" / "which", mode=0o644)
    orders = {"first:second": b"first\n", "second:first": b"second\n", "denied:none:second": b"second\n"}
    for order, expected in orders.items():
        path = ":".join(str(tmp_path / entry) for entry in order.split(":"))
        assert client.run("which", search_path=path).stdout == expected
        assert client.run("which", env={"PATH": path}).stdout == expected
        assert client.run("which", search_path=path, env={"PATH": "/nowhere"}).stdout == expected


def test_a_path_is_taken_from_the_directory_of_the_tool(client: Client, tmp_path: Path) -> None:
    make_program(tmp_path / "bin" / "canary")
    assert client.run("./bin/canary", cwd=str(tmp_path)).stdout == b"canary\n"
    assert client.run("bin/canary", cwd=str(tmp_path)).stdout == b"canary\n"


# --- what cannot be started -----------------------------------------------------


def _binary_for_another_machine(directory: Path) -> dict[str, Any]:
    program = directory / "other"
    program.write_bytes(b"\x7fELF" + b"\2\1\1" + bytes(9) + b"\2\0\xff\xff" + bytes(100))
    program.chmod(0o755)
    return {"command": str(program)}


def _dangling(directory: Path) -> dict[str, Any]:
    (directory / "link").symlink_to("nowhere")
    return {"command": str(directory / "link")}


def _program(content: str, mode: int = 0o755) -> Callable[[Path], dict[str, Any]]:
    return lambda directory: {"command": str(make_program(directory / "program", content, mode))}


def _fields(**fields: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda directory: {
        name: value.replace("HERE", str(directory)) if isinstance(value, str) else value
        for name, value in fields.items()
    }


CANARY = "echo canary > canary; echo canary"
SCRIPT = f"#!/bin/sh\n{CANARY}\n"

REFUSALS: dict[str, tuple[Callable[[Path], dict[str, Any]], str, str]] = {
    "a missing program": (_fields(command="no-such-program"), "command_not_found", "no-such-program"),
    "a missing path": (_fields(command="HERE/nothing"), "command_not_found", "does not exist"),
    "a path through a file": (_fields(command="/etc/passwd/x"), "command_not_found", "/etc/passwd/x"),
    "no command": (_fields(command=""), "command_not_found", "command"),
    "a dangling link": (_dangling, "command_not_found", "link"),
    "a name that is too long for a message": (_fields(command="\x01" * LONGEST), "spawn_failed", "too long"),
    "a path that is too long for a message": (
        _fields(command="/" + "x" * (LONGEST - 1)),
        "spawn_failed",
        "too long",
    ),
    "a long search path": (
        _fields(command="no-such-program", search_path=":".join(["/" + "x" * 200] * 2000)),
        "command_not_found",
        "no-such-program",
    ),
    "a directory whose name is too long": (
        _fields(command="true", cwd="/" + "x" * (LONGEST - 1)),
        "spawn_failed",
        "too long",
    ),
    "a directory": (_fields(command="HERE"), "not_executable", "directory"),
    "a file that is not executable": (_program(SCRIPT, 0o644), "not_executable", "chmod"),
    "a missing interpreter": (
        _program("#!/nonexistent/interpreter -x\n" + CANARY),
        "interpreter_not_found",
        "/nonexistent/interpreter",
    ),
    "a file without a shebang": (_program(CANARY), "exec_format", "#!"),
    "an empty file": (_program(""), "exec_format", "#!"),
    "a program for another machine": (_binary_for_another_machine, "exec_format", "machine"),
    "a missing directory": (_fields(command="true", cwd="HERE/no"), "cwd_not_found", "HERE/no"),
    "a file as directory": (_fields(command="true", cwd="/etc/passwd"), "cwd_not_directory", "/etc/passwd"),
    "NUL in the command": (_fields(command="tr\0ue"), "nul_byte", "command"),
    "NUL in an argument": (_fields(command="echo", args=["a", "b\0c"]), "nul_byte", "argument 2"),
    "NUL in the environment": (_fields(command="true", env={"A": "\0"}), "nul_byte", "A"),
    "NUL in the directory": (_fields(command="true", cwd="/\0"), "nul_byte", "directory"),
    "a name with an equals sign": (_fields(command="true", env={"A=B": "c"}), "invalid_environment", "A=B"),
    "an empty name": (_fields(command="true", env={"": "c"}), "invalid_environment", "variable"),
    "a long argument": (
        _fields(command="echo", args=["x" * (LONGEST + 1)]),
        "argument_too_long",
        "argument 1",
    ),
    "a long variable": (_fields(command="true", env={"A": "x" * LONGEST}), "argument_too_long", "A"),
    "too much altogether": (
        _fields(command="echo", args=["x" * 100_000] * 62),
        "arguments_too_large",
        "standard input",
    ),
    "a path that is too long": (_fields(command="/" + "x" * 5000), "spawn_failed", "xxx"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_started_is_refused_with_its_own_reason(
    case: str, client: Client, command_line: CommandLine, tmp_path: Path
) -> None:
    make, code, mention = REFUSALS[case]
    fields = {"cwd": str(tmp_path), **make(tmp_path)}
    result = client.end_of(client.send("run", **fields)).result
    assert (result["kind"], result["return_code"], result["pid"]) == ("spawn_failed", -1, None)
    assert result["error"]["code"] == code, result["error"]
    assert mention.replace("HERE", str(tmp_path)) in result["error"]["message"]
    assert result["stdout"]["total"] == result["stderr"]["total"] == 0
    assert client.run("echo", "later").stdout == b"later\n"
    answer = command_line.request("exec", **fields)
    assert (answer["success"], answer["error"]) == (False, result["error"])
    assert answer["stderr"] == f"Failed to spawn: {result['error']['message']}"
    assert not (tmp_path / "canary").exists()


@as_root
def test_what_this_user_may_not_is_an_error_of_its_own(nobody: Nobody) -> None:
    closed = nobody.directory / "closed"
    program = make_program(closed / "program")
    closed.chmod(0o700)
    with nobody.client() as client:
        assert client.shell("id -u").stdout == b"65534\n"
        assert client.run("true", cwd=str(closed)).error == "cwd_denied"
        assert client.run(program).error == "permission_denied"


@as_root
@pytest.mark.parametrize("face", [["exec", "--cmd", "true"], ["serve"]])
def test_without_proc_nothing_is_started_since_nobody_could_be_found(face: list[str], binary: Path) -> None:
    script = 'umount -l /proc; exec "$@"'
    command = ["unshare", "-m", "/bin/sh", "-c", script, "sh", str(binary), *face]
    ended = subprocess.run(command, stdin=subprocess.PIPE, capture_output=True, timeout=30)
    assert (ended.returncode != 0, ended.stdout) == (True, b"")
    assert b"needs /proc" in ended.stderr


def test_an_inherited_variable_without_a_name_does_no_harm(binary: Path) -> None:
    """No shell makes one, but execve does not mind."""
    execve = (
        "import ctypes, sys\n"
        "texts = lambda *all: (ctypes.c_char_p * (len(all) + 1))(*all, None)\n"
        "path, *arguments = (argument.encode() for argument in sys.argv[1:])\n"
        "ctypes.CDLL(None).execve(path, texts(path, *arguments), texts(b'=a=b', b'A=1'))\n"
    )
    command = [sys.executable, "-c", execve, str(binary), "exec", "--cmd", "/usr/bin/env"]
    answer = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    assert answer["stdout"] == "A=1\n"
