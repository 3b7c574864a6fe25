"""The verbs about runs: requests are checked, and items are meant as everywhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.runs.ids import handle_of, new_run_id
from rye_mcp.runs.live import LiveView
from rye_mcp.runs.log import RunLog, RunRecord
from rye_mcp.runs.outputs import RunOutputs
from rye_mcp.runs.shelf import Shelf
from rye_mcp.verbs.runs import OutputRequest, RunsRequest, follow_runs, list_runs, read_output, show_run


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def record(item_id: str = "demo/hello", **more: Any) -> RunRecord:
    return RunRecord(run_id=new_run_id(), item_id=item_id, kind="exited", caller="agent", **more)


def kept(state: Path, **streams: str) -> str:
    outputs, run = RunOutputs(state), record()
    directory = outputs.directory(run.run_id)
    for name, text in streams.items():
        (directory / name).write_text(text)
    outputs.finish(run.run_id)
    outputs.close()
    with RunLog(state) as log:
        log.append(run)
    return run.run_id


def test_a_handle_names_the_stream_and_an_id_means_standard_output(state: Path) -> None:
    run_id = kept(state, stdout="out", stderr="err", result="res")
    shelf = Shelf.of_person(state)
    for request, text in [
        (OutputRequest(run_id), "out"),
        (OutputRequest(run_id, "result"), "res"),
        (OutputRequest(handle_of(run_id, "stderr")), "err"),
        (OutputRequest(handle_of(run_id, "stderr"), "stderr", offset=1, length=100), "rr"),
    ]:
        assert read_output(request, shelf).text == text


def test_what_is_read_is_told_with_where_to_go_on(state: Path) -> None:
    run_id = kept(state, stdout="one\ntwo\n")
    assert read_output(OutputRequest(run_id, length=4), Shelf.of_person(state)).as_dict() == {
        "status": "success",
        "handle": handle_of(run_id, "stdout"),
        "content": "one\n",
        "offset": 0,
        "next_offset": 4,
        "total": 8,
        "encoding": "utf-8",
    }


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"offset": "0"}, "offset"),
        ({"offset": True}, "offset"),
        ({"offset": 1.0}, "offset"),
        ({"length": None}, "length"),
        ({"pattern": 7}, "pattern"),
        ({"pattern": ["a"]}, "pattern"),
    ],
)
def test_a_malformed_request_is_refused_with_its_field(state: Path, more: dict[str, Any], field: str) -> None:
    run_id = kept(state, stdout="out")
    with pytest.raises(RyeError, match=f"as {field}") as refused:
        read_output(OutputRequest(run_id, **more), Shelf.of_person(state))
    assert refused.value.code == "invalid_parameters"


def test_a_stream_beside_a_handle_of_another_is_refused(state: Path) -> None:
    run_id = kept(state, stdout="out", stderr="err")
    with pytest.raises(RyeError) as refused:
        read_output(OutputRequest(handle_of(run_id, "stderr"), "stdout"), Shelf.of_person(state))
    assert refused.value.code == "invalid_parameters"


@pytest.mark.parametrize("offset", [10**30, -(10**30)])
def test_an_offset_beyond_every_file_is_an_end_of_it(state: Path, offset: int) -> None:
    piece = read_output(OutputRequest(kept(state, stdout="out"), offset=offset), Shelf.of_person(state))
    assert (piece.text, piece.next_offset) == ("" if offset > 0 else "out", None)


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (RunsRequest(), ["x/c", "demo/b", "demo/a"]),
        (RunsRequest("demo/*"), ["demo/b", "demo/a"]),
        (RunsRequest("demo/?"), ["demo/b", "demo/a"]),
        (RunsRequest("demo/a"), ["demo/a"]),
        (RunsRequest("nowhere/a"), []),
        (RunsRequest(project=Path("/p")), ["demo/b"]),
        (RunsRequest(status="error"), ["x/c"]),
        (RunsRequest(status="timeout"), ["x/c"]),
        (RunsRequest(since=datetime.now(UTC) + timedelta(days=1)), []),
        (RunsRequest(limit=1), ["x/c"]),
    ],
)
def test_runs_are_meant_by_item_project_status_and_time(
    state: Path, request_: RunsRequest, found: list[str]
) -> None:
    with RunLog(state) as log:
        for run in (record("demo/a"), record("demo/b", project="/p"), record("x/c", code="timeout")):
            log.append(run)
        answer = list_runs(request_, log).as_dict()
    assert [run["item_id"] for run in answer["runs"]] == found


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (RunsRequest("../x"), "invalid_id"),
        (RunsRequest("demo/[a-z]*"), "invalid_id"),
        (RunsRequest("*" * 10_000), "invalid_id"),
        (RunsRequest(status="succes"), "invalid_parameters"),
        (RunsRequest(limit="1"), "invalid_parameters"),  # type: ignore[arg-type]
    ],
)
def test_what_no_run_can_be_meant_by_is_refused(state: Path, request_: RunsRequest, code: str) -> None:
    with RunLog(state) as log, pytest.raises(RyeError) as refused:
        list_runs(request_, log)
    assert refused.value.code == code


def test_what_happened_to_the_log_is_told(state: Path) -> None:
    state.mkdir(0o700)
    (state / "runs.sqlite3").write_bytes(b"no database" * 1000)
    (state / "runs.sqlite3").chmod(0o600)
    with RunLog(state) as log:
        answer = list_runs(RunsRequest(), log).as_dict()
    assert [notice["code"] for notice in answer["notices"]] == ["run_log_damaged"]


def test_one_run_is_shown_with_what_was_kept(state: Path) -> None:
    run_id = kept(state, stderr="error")
    with RunLog(state) as log:
        for name in (run_id, handle_of(run_id, "stderr")):
            shown = show_run(name, log, RunOutputs(state), LiveView(state)).as_dict()
            assert shown["output"] == {"stderr": {"handle": handle_of(run_id, "stderr"), "bytes": 5}}
            assert (shown["item_id"], shown["status"], shown["usage"]) == ("demo/hello", "success", None)


def test_runs_are_followed_by_the_same_filter(state: Path) -> None:
    with RunLog(state) as log:
        log.append(record("x/y"))
        log.append(record("demo/a"))
        new = iter([record("x/z"), record("demo/b")])
        followed = follow_runs(RunsRequest("demo/*"), log, pause=lambda: log.append(next(new)))
        assert [next(followed).item_id for _ in range(2)] == ["demo/a", "demo/b"]
