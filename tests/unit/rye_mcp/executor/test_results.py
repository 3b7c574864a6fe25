"""What came of real runs: data, success, how they ended, and what a caller gets of it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from lilux.primitives.errors import SupervisorError
from lilux.primitives.http_client import HttpResult
from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive, SubprocessResult
from rye_mcp.errors import RyeError
from rye_mcp.executor.results import ExecutionResult, Outcome, read_http, read_lost, read_process
from rye_mcp.notices import Notice
from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.outputs import RunOutputs

pytestmark = pytest.mark.both_loops


async def outcome_of(
    script: str, *, command: str = sys.executable, show: Any = None, **options: Any
) -> Outcome:
    spec = ProcessSpec(
        command=command, args=["-c", script], env={"PATH": os.environ["PATH"]}, result_fd=True, **options
    )
    result = await SubprocessPrimitive().run(spec)
    return read_process(result, timeout=spec.timeout, **({} if show is None else {"show": show}))


def result_of(outcome: Outcome, **more: Any) -> ExecutionResult:
    return ExecutionResult.of(outcome, item_id="demo/hello", run_id=new_run_id(), **more)


# --- success is never guessed ---------------------------------------------------


@pytest.mark.parametrize(
    ("script", "data", "code"),
    [
        ("print('hello')", "hello\n", None),
        ("", "", None),
        ("print('{\"a\": [1]}')", {"a": [1]}, None),
        ("print('{\"success\": true}')", {"success": True}, None),
        ('print(\'{"success": false, "a": 1}\')', {"success": False, "a": 1}, "tool_failed"),
        ('print(\'{"success": "false"}\')', {"success": "false"}, None),
        ("print('{\"success\": null}')", {"success": None}, None),
        ("print('{\"success\": 0}')", {"success": 0}, None),
        ('print(\'{"error": "no"}\')', {"error": "no"}, None),
        ("print('[{\"success\": false}]')", [{"success": False}], None),
        ("print('false')", False, None),
        ("print('log'); print('{\"success\": false}')", {"success": False}, "tool_failed"),
        ("print('{\"success\": true}'); raise SystemExit(3)", {"success": True}, "tool_failed"),
        ("raise SystemExit(1)", "", "tool_failed"),
        ("import sys; print('warning', file=sys.stderr)", "", None),
        ("import os; os.write(3, b'{\"success\": false}')", {"success": False}, "tool_failed"),
        ("import os; print('log'); os.write(3, b'[1]')", [1], None),
        ("import os; print('[2]'); os.write(3, b' \\n')", [2], None),
        ("import os; print('[2]'); os.write(3, b'no json')", "no json", None),
    ],
)
async def test_success_is_the_exit_code_and_what_an_object_says(
    script: str, data: Any, code: str | None
) -> None:
    outcome = await outcome_of(script)
    assert outcome.data == data
    assert (outcome.code, outcome.success) == (code, code is None)
    assert (outcome.error is None) == outcome.success


async def test_data_gives_no_hint_in_the_name_of_this_program() -> None:
    outcome = await outcome_of('print(\'{"success": false, "hint": "rye trust add me"}\')')
    assert result_of(outcome).as_dict()["hint"] == "read its data: it says why"


@pytest.mark.parametrize(
    ("script", "options", "code", "kind", "words"),
    [
        ("raise SystemExit(7)", {}, "tool_failed", "exited", "exit code 0, found 7"),
        ("import os; os.kill(os.getpid(), 15)", {}, "tool_failed", "signaled", "signal 15 (SIGTERM)"),
        ("import time; time.sleep(60)", {"timeout": 0.2}, "timeout", "timeout", "within 0.2 s"),
        ("", {"command": "/no/such/program"}, "spawn_failed", "spawn_failed", "/no/such/program"),
        ("", {"cwd": "/no/such/directory"}, "spawn_failed", "spawn_failed", "/no/such/directory"),
    ],
)
async def test_how_a_run_ended_is_always_told(
    script: str, options: dict[str, Any], code: str, kind: str, words: str
) -> None:
    outcome = await outcome_of(script, **options)
    assert (outcome.code, outcome.exit.kind) == (code, kind)
    assert words in (outcome.error or "")
    answer = result_of(outcome).as_dict()
    assert (answer["status"], answer["code"], answer["exit"]["kind"]) == ("error", code, kind)
    assert answer["hint"]
    assert set(answer) >= {"run_id", "data", "duration_ms", "sealed", "usage"}


def test_a_run_that_was_ended_through_the_supervisor_was_cancelled() -> None:
    outcome = read_process(SubprocessResult(False, '{"half": 1}', "", -15, 1.0, kind="cancelled", signal=15))
    assert (outcome.code, outcome.exit.kind, outcome.data) == ("cancelled", "cancelled", {"half": 1})
    assert "cancelled" in (outcome.error or "")


def test_a_lost_supervisor_is_a_failure_of_its_own() -> None:
    outcome = read_lost(SupervisorError("it died", code="lost"), 12.5)
    answer = result_of(outcome).as_dict()
    assert (answer["code"], answer["exit"], answer["duration_ms"]) == (
        "lost",
        {"kind": "lost", "return_code": None},
        12.5,
    )


# --- what was cut ---------------------------------------------------------------


async def test_output_that_was_cut_is_never_parsed_whole_and_has_a_handle(tmp_path: Path) -> None:
    outputs, run_id = RunOutputs(tmp_path / "state"), new_run_id()
    script = "print('[' + '1,' * 5000 + '1]')"
    outcome = await outcome_of(script, max_output=1024, spool=outputs.spool(run_id))
    assert isinstance(outcome.data, str)
    result = ExecutionResult.of(outcome, item_id="demo/hello", run_id=run_id)
    answer = result.as_dict()
    assert (answer["truncated"], answer["output"]) == (True, f"rye://runs/{run_id}/stdout")
    [notice] = answer["notices"]
    assert notice["code"] == "output_cut"
    assert answer["output"] in notice["message"]
    assert json.loads(outputs.read(run_id).text) == [1] * 5001
    outputs.close()


async def test_output_that_was_cut_and_not_kept_is_said_to_be_gone() -> None:
    answer = result_of(await outcome_of("print('x' * 5000)", max_output=1024)).as_dict()
    assert answer["truncated"] is True
    assert "output" not in answer
    assert "not kept" in answer["notices"][0]["message"]


async def test_a_result_that_was_cut_is_text_with_a_notice() -> None:
    outcome = await outcome_of("import os; os.write(3, b'[' + b'1,' * 5000 + b'1]')", max_output=1024)
    assert isinstance(outcome.data, str)
    assert [notice.code for notice in outcome.notices] == ["result_not_json"]
    assert [cut.stream for cut in outcome.cuts] == ["result"]


async def test_the_end_of_standard_error_is_in_a_failure_and_not_in_a_success() -> None:
    script = "import sys; sys.stderr.write('x' * 50000 + 'the end'); raise SystemExit({})"
    failed = result_of(await outcome_of(script.format(1))).as_dict()
    assert failed["stderr"].endswith("the end")
    assert failed["stderr"].startswith("[… 33623 characters before …]\n")
    good = result_of(await outcome_of(script.format(0)))
    assert "stderr" not in good.as_dict()
    assert good.as_dict(detail=True)["stderr"].endswith("the end")


async def test_what_is_no_utf8_is_told() -> None:
    outcome = await outcome_of("import sys; sys.stdout.buffer.write(b'a\\xffb')")
    assert outcome.data == "a\ufffdb"
    assert [notice.code for notice in outcome.notices] == ["not_utf8"]


async def test_paths_of_the_copy_that_ran_are_shown_as_those_of_the_source() -> None:
    script = 'import sys; print(\'{"at": ["/copy/tool.py"], "n": 1}\'); sys.exit("/copy/tool.py")'
    outcome = await outcome_of(script, show=lambda text: text.replace("/copy", '/my "project"'))
    assert outcome.data == {"at": ['/my "project"/tool.py'], "n": 1}
    assert outcome.stderr == '/my "project"/tool.py\n'


async def test_control_characters_stay_data() -> None:
    """Whoever shows them to a person spells them out; a program gets what the tool has written."""
    outcome = await outcome_of("print('\\x1b[2J')")
    assert outcome.data == "\x1b[2J\n"
    assert json.loads(json.dumps(result_of(outcome).as_dict()))["data"] == "\x1b[2J\n"


async def test_what_was_printed_beside_a_result_is_a_detail() -> None:
    result = result_of(await outcome_of("import os; print('log'); os.write(3, b'1')"))
    assert "stdout" not in result.as_dict()
    assert result.as_dict(detail=True)["stdout"] == "log\n"


# --- requests -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"success": True, "status_code": 200, "body": {"a": 1}}, None),
        ({"success": True, "status_code": 200, "body": {"success": False}}, "tool_failed"),
        ({"success": True, "status_code": 200, "body": "text"}, None),
        ({"success": False, "status_code": 503, "body": "", "error_code": "http_status"}, "tool_failed"),
        ({"success": False, "status_code": 0, "body": None, "error_code": "timeout"}, "timeout"),
        ({"success": False, "status_code": 0, "body": None, "error_code": "connect_failed"}, "tool_failed"),
    ],
)
def test_a_request_is_read_by_the_same_rule(facts: dict[str, Any], code: str | None) -> None:
    words = None if facts["success"] else "why"
    outcome = read_http(
        HttpResult(
            headers={"content-type": "x/y", "set-cookie": "secret"}, duration_ms=3, error=words, **facts
        )
    )
    assert (outcome.code, outcome.data) == (code, facts["body"])
    answer = result_of(outcome).as_dict(detail=True)
    assert answer["exit"].get("status_code", 0) == facts["status_code"]
    assert answer["metadata"]["content_type"] == "x/y"
    assert "secret" not in json.dumps(answer)


# --- what a caller gets ---------------------------------------------------------


def test_the_fields_of_the_specification_come_first() -> None:
    result = ExecutionResult(True, {"a": 1}, None, 12.5, [{"item_id": "x"}], {"m": 1})
    assert (result.success, result.data, result.error) == (True, {"a": 1}, None)
    assert (result.duration_ms, result.chain, result.metadata) == (12.5, [{"item_id": "x"}], {"m": 1})


async def test_notices_of_all_stages_and_the_chain_are_in_the_result() -> None:
    result = result_of(
        await outcome_of("print(1)"),
        chain=[{"item_id": "demo/hello", "path": Path("/p/caf\udce9")}],
        notices=[Notice("withheld", "API_KEY")],
        sealed=True,
        lock={"state": "created", "path": Path("/p/lock")},
        metadata={"more": 1},
    )
    answer = result.as_dict(detail=True)
    assert answer["notices"] == [{"code": "withheld", "message": "API_KEY"}]
    assert answer["chain"] == [{"item_id": "demo/hello", "path": "/p/caf\\xe9"}]
    assert (answer["lock"], answer["sealed"]) == ({"state": "created", "path": "/p/lock"}, True)
    assert answer["metadata"] == {"data_from": "stdout", "more": 1}
    assert answer["usage"]["max_rss_kb"] > 0
    assert json.dumps(answer, ensure_ascii=False).encode()
    assert "chain" not in result.as_dict()


def test_what_was_refused_before_it_ran_is_a_result_too() -> None:
    error = RyeError("lock_mismatch", "expected a, found b", item_id="demo/hello")
    result = ExecutionResult.refused(error, item_id="demo/hello")
    answer = result.as_dict()
    assert (result.success, answer["code"], answer["error"]) == (
        False,
        "lock_mismatch",
        "expected a, found b",
    )
    assert answer["hint"] == "rye lock update demo/hello"
    assert (answer["run_id"], answer["exit"], result.output) == (None, None, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGRTMIN + 3])
async def test_every_signal_can_be_told(number: int) -> None:
    outcome = await outcome_of(f"import os; os.kill(os.getpid(), {int(number)})")
    assert f"signal {int(number)}" in (outcome.error or "")
    assert outcome.exit.signal == number
