"""One program run to its end by a caller that has no event loop."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lilux import _supervisor
from lilux._protocol import RunRequest
from lilux.primitives.errors import SupervisorError

SECRET = "s3cret-of-the-environment"


def execute(command: str, *args: str, timeout_ms: int | None = 5000, **env: str) -> dict[str, object]:
    request = RunRequest(command=command, args=args, env=env, timeout_ms=timeout_ms)
    return _supervisor.execute(_supervisor.find_lilux_proc(), request)


def test_a_program_is_run_to_its_end_and_its_output_returned() -> None:
    answer = execute("/bin/sh", "-c", 'printf "%s" "$GREETING"', GREETING="hello")
    assert (answer["success"], answer["stdout"], answer["return_code"]) == (True, "hello", 0)


def test_a_program_that_fails_is_an_answer_and_no_error() -> None:
    answer = execute("/bin/sh", "-c", "exit 7")
    assert (answer["success"], answer["kind"], answer["return_code"]) == (False, "exited", 7)


def test_a_program_that_is_not_there_is_an_answer_and_no_error() -> None:
    assert execute("/nowhere/at/all")["kind"] == "spawn_failed"


def test_a_program_that_takes_too_long_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    started = time.monotonic()
    answer = execute("/bin/sh", "-c", f"sleep 60 & echo $! > '{mark}'; sleep 60", timeout_ms=700)
    assert answer["kind"] == "timeout"
    assert time.monotonic() - started < 10
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_the_environment_stands_in_no_argument_list() -> None:
    answer = execute("/bin/sh", "-c", "tr '\\0' '\\n' < /proc/*/cmdline 2>/dev/null; true", TOKEN=SECRET)
    assert SECRET not in str(answer["stdout"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#!/bin/sh\necho no such thing >&2; exit 3\n", "exit code 3, 'no such thing"),
        ("#!/bin/sh\necho '[1]'\n", "keys"),
        ("#!/bin/sh\necho '{\"success\": true}'\n", "exit code 0"),
        ("#!/nowhere/at/all\n", "No such file or directory"),
    ],
)
def test_what_is_no_lilux_proc_is_a_typed_error(tmp_path: Path, text: str, found: str) -> None:
    fake = tmp_path / "lilux-proc"
    fake.write_text(text)
    fake.chmod(0o755)
    with pytest.raises(SupervisorError, match=found) as caught:
        _supervisor.execute(str(fake), RunRequest(command="/bin/true"))
    assert caught.value.code == "spawn_failed"


def test_a_supervisor_that_does_not_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "lilux-proc"
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setattr(_supervisor, "SPAWN_LIMIT_S", 0.2)
    with pytest.raises(SupervisorError, match=r"nothing within 0\.3 s"):
        _supervisor.execute(str(fake), RunRequest(command="/bin/true", timeout_ms=100))
