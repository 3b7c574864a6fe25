"""Attack: the id of a run, or the name of a stream, that leads somewhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.runs.live import LiveRuns, LiveView
from rye_mcp.runs.log import RunLog, RunRecord
from rye_mcp.runs.outputs import RunOutputs
from rye_mcp.runs.receipts import ReceiptStore
from rye_mcp.runs.shelf import Shelf
from rye_mcp.verbs.receipts import export_run
from rye_mcp.verbs.runs import OutputRequest, kill_run, read_output, show_run
from tests.people import Person

GOOD = "01m7r64xnv25r13hyhb9ccmrbf"
CANARY = "what is no output"

HOSTILE: list[Any] = [
    "",
    ".",
    "..",
    "/",
    "../canary",
    "../../canary",
    f"{GOOD}/../../canary",
    f"{GOOD}/",
    f"/{GOOD}",
    f"./{GOOD}",
    f"{GOOD}\n",
    f"{GOOD}\x00",
    f"{GOOD} ",
    GOOD.upper(),
    GOOD[:-1],
    GOOD + "0",
    GOOD[:-1] + "u",  # no digit of this alphabet
    "8" + GOOD[1:],  # more than 128 bits
    GOOD[:-1] + "\u0660",
    GOOD[:-1] + "\uff10",
    "*" * 26,
    "'; DROP TABLE runs; --",
    f"rye://runs/../{GOOD}/stdout",
    f"rye://runs/{GOOD}/../../canary",
    f"rye://runs/{GOOD}/stdout/../stderr",
    f"rye://runs/{GOOD}/",
    f"rye://runs//{GOOD}",
    f"file:///{GOOD}",
    "\ud800",
    None,
    0,
    True,
    GOOD.encode(),
    [GOOD],
    Path(GOOD),
]

STREAMS: list[Any] = [
    "",
    "..",
    "../canary",
    "stdin",
    "stdout\x00",
    "STDOUT",
    "stdout/",
    ".lock",
    1,
    b"stdout",
]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    state = tmp_path / "state"
    with RunLog(state) as log:
        log.append(RunRecord(run_id=GOOD, item_id="demo/hello", kind="exited", caller="person"))
    outputs = RunOutputs(state)
    (outputs.directory(GOOD) / "stdout").write_text("output")
    outputs.finish(GOOD)
    outputs.close()
    for place in (state, state / "outputs", state / "outputs" / GOOD):
        (place / "canary").write_text(CANARY)
    return state


DOORS: dict[str, Callable[[Path, Any], object]] = {
    "read": lambda state, run_id: RunOutputs(state).read(run_id),
    "kept": lambda state, run_id: RunOutputs(state).kept(run_id),
    "directory": lambda state, run_id: RunOutputs(state).directory(run_id),
    "finish": lambda state, run_id: RunOutputs(state).finish(run_id),
    "get": lambda state, run_id: RunLog(state).get(run_id),
    "read_output": lambda state, run_id: read_output(OutputRequest(run_id), Shelf.of_person(state)),
    "show_run": lambda state, run_id: show_run(run_id, RunLog(state), RunOutputs(state), LiveView(state)),
    "kill_run": lambda state, run_id: kill_run(run_id, RunLog(state), LiveView(state)),
    "kill": lambda state, run_id: LiveView(state).kill(run_id),
    "begin": lambda state, run_id: LiveRuns(state).begin(run_id),
    "receipt": lambda state, run_id: ReceiptStore(state).of(run_id),
    "export": lambda state, run_id: list(export_run(run_id, ReceiptStore(state))),
}


def everything_in(state: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in state.rglob("*") if path.is_file()}


@pytest.mark.each_once
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("run_id", HOSTILE, ids=ascii)
def test_it_is_refused_by_every_door(state: Path, door: str, run_id: Any) -> None:
    before = everything_in(state)
    with pytest.raises(RyeError) as refused:
        DOORS[door](state, run_id)
    assert refused.value.code in ("invalid_run_id", "output_not_found")
    assert CANARY not in str(refused.value.as_dict())
    assert everything_in(state) == before


@pytest.mark.parametrize("stream", STREAMS, ids=ascii)
def test_an_unknown_stream_is_refused(state: Path, stream: Any) -> None:
    with pytest.raises(RyeError) as refused:
        RunOutputs(state).read(GOOD, stream)
    assert refused.value.code == "output_not_found"
    for request in (OutputRequest(GOOD, stream), OutputRequest(f"rye://runs/{GOOD}/stdout", stream)):
        with pytest.raises(RyeError) as refused:
            read_output(request, Shelf.of_person(state))
        assert refused.value.code == "output_not_found"


@pytest.mark.first_case
@pytest.mark.parametrize("run_id", ["../canary", f"{GOOD}/../../canary", f"rye://runs/{GOOD}/../../canary"])
def test_the_command_refuses_it_too(tmp_path: Path, run_id: str) -> None:
    bob = Person("bob", tmp_path / "bob")
    for words in (("log", "show", run_id), ("log", "show", run_id, "--output")):
        found = bob.rye(*words, "--json", cwd=tmp_path, code=1).json
        assert found["code"] in ("invalid_run_id", "output_not_found")
