"""Past runs and their output: the rows of the log, and output that was kept because it was too long.

A handle opens what was kept for whoever may see the run: a person, or an agent in the run's project. The log
has all ids and is for people; agents see its rows without ids and parameters (`RunList.for_agent`).

    read_output(OutputRequest(run_id, pattern="^ERROR"), shelf).as_dict()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from lilux._dataclasses import dataclass
from rye_mcp.errors import ERRORS, RyeError
from rye_mcp.items import check_item_id
from rye_mcp.notices import Notice
from rye_mcp.runs.ids import StreamName, check_stream, handle_of, parse_handle
from rye_mcp.runs.live import LiveView
from rye_mcp.runs.log import RunFilter, RunLog, RunPage, RunRecord
from rye_mcp.runs.outputs import DEFAULT_LENGTH, OutputPiece, RunOutputs
from rye_mcp.runs.records import ENDED, RUNNING
from rye_mcp.runs.results import is_result_handle
from rye_mcp.runs.shelf import Shelf
from rye_mcp.verbs._selection import EVERYTHING, is_pattern, matches, require_pattern

__all__ = [
    "OutputRequest",
    "RunList",
    "RunsRequest",
    "ShownRun",
    "enforced_in_words",
    "follow_runs",
    "kill_run",
    "list_runs",
    "page_of_runs",
    "read_output",
    "runtime_in_words",
    "show_run",
]

SUCCESS = "success"
ERROR = "error"

_FOR_AGENTS = (
    "item_id", "type", "status", "code", "begun", "duration_ms", "exit", "usage", "sealed", "caller",
)  # fmt: skip

DEFAULT_LIMIT = 50
"""How many runs are listed when nobody says how many."""


@dataclass(frozen=True, slots=True)
class OutputRequest:
    """A piece of kept output; `run_id` may be any handle, which names the stream or the result too.

    An `offset` below 0 counts from the end. With a `pattern`, only lines that match.
    """

    run_id: str
    stream: str | None = None
    offset: int = 0
    length: int = DEFAULT_LENGTH
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class RunsRequest:
    """A selection of runs: of items by id or pattern, of a project or client, by status or code, by time."""

    item_id: str = EVERYTHING
    project: Path | None = None
    client: str | None = None
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class RunList:
    """Runs, the newest first, and what happened to the log."""

    runs: tuple[RunRecord, ...]
    notices: tuple[Notice, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        answer: dict[str, Any] = {"status": "success", "runs": [record.as_dict() for record in self.runs]}
        if self.notices:
            answer["notices"] = [notice.as_dict() for notice in self.notices]
        return answer

    def for_agent(self) -> dict[str, Any]:
        """Return it as data for an agent: what ran and how it ended, and no id that opens its output."""
        shown = (record.as_dict() for record in self.runs)
        return {"runs": [{name: record[name] for name in _FOR_AGENTS} for record in shown]}


@dataclass(frozen=True, slots=True)
class ShownRun:
    """One run, and how many bytes of which streams were kept; what it holds now, while it is going on."""

    record: RunRecord
    kept: Mapping[StreamName, int]
    processes: int = 0
    memory_kb: int = 0
    calls: tuple[RunRecord, ...] = ()
    """The runs that it has asked for, and what those asked for."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as data. Its status is that of the run."""
        output = {
            stream: {"handle": handle_of(self.record.run_id, stream), "bytes": size}
            for stream, size in self.kept.items()
        }
        now = {"processes": self.processes, "memory_kb": self.memory_kb}
        answer = self.record.as_dict() | {"stderr_end": self.record.stderr_end, "output": output}
        answer |= {"now": now} if self.processes else {}
        known = ("run_id", "item_id", "parent", "status", "code", "duration_ms")
        calls = [{name: each[name] for name in known} for each in (call.as_dict() for call in self.calls)]
        return answer | ({"calls": calls} if calls else {})


def read_output(request: OutputRequest, shelf: Shelf) -> OutputPiece:
    """Read a piece of what was kept. It may take as long as a search may; not for an event loop."""
    is_result = is_result_handle(request.run_id)
    source, named = (request.run_id, None) if is_result else parse_handle(request.run_id)
    stream = named or "stdout"
    if request.stream is not None:
        if is_result:
            raise _malformed("no stream beside the handle of a result", request.stream, "stream")
        stream = check_stream(request.stream)
        if named not in (None, stream):
            raise _malformed("the same stream as in the handle", request.stream, "stream")
    _require_number("offset", request.offset)
    _require_number("length", request.length)
    if request.pattern is not None and not isinstance(request.pattern, str):
        raise _malformed("a regular expression", request.pattern, "pattern")
    return shelf.read(source, stream, offset=request.offset, length=request.length, pattern=request.pattern)


def list_runs(request: RunsRequest, log: RunLog) -> RunList:
    """The runs that are meant, the newest first."""
    return RunList(log.list(_filter(request)), log.notices)


def page_of_runs(request: RunsRequest, log: RunLog, *, before: int | None = None) -> RunPage:
    """A page of the runs that are meant: those before a row, which the page before it names."""
    return log.page(_filter(request), before=before)


def follow_runs(
    request: RunsRequest, log: RunLog, *, pause: Callable[[], object] | None = None
) -> Iterator[RunRecord]:
    """The last runs that are meant, the oldest first, then each new one when it begins and when it ends."""
    wanted = _filter(request)
    return log.follow(wanted) if pause is None else log.follow(wanted, pause=pause)


def show_run(run_id: str, log: RunLog, outputs: RunOutputs, live: LiveView) -> ShownRun:
    """One run, by its id or by a handle of its output."""
    run_id, _ = parse_handle(run_id)
    record = log.get(run_id)
    holds = live.processes(run_id) if record.status == RUNNING else (0, 0)
    return ShownRun(record, outputs.kept(run_id), *holds, calls=log.within(record))


def kill_run(run_id: str, log: RunLog, live: LiveView) -> str:
    """End a run of this user, in whatever server or command; the signal that did it.

    RyeError `run_not_live` for one that is over, or that has no process of its own.
    """
    run_id, _ = parse_handle(run_id)
    record = log.get(run_id)
    if record.status != RUNNING:
        what = f"expected a run that is going on, found that {run_id} is over: {record.code or record.status}"
        raise RyeError("run_not_live", what, run_id=run_id)
    return live.kill(run_id)


def runtime_in_words(record: RunRecord) -> str | None:
    """Whether it ran warm, and why it did not; None where nothing was started."""
    from rye_mcp.executor.warm.reasons import WHY_COLD

    if record.runtime is None:
        return None
    runtime, _, why = record.runtime.partition(" ")
    return f"{runtime}: {WHY_COLD.get(why, why)}" if why else runtime


def enforced_in_words(enforced: Mapping[str, Any]) -> str:
    """How much stood between a run and the machine, on one line."""
    net = enforced.get("net")
    facts = {
        "by": enforced.get("by"),
        "project": enforced.get("project"),
        "net": ", ".join(net) if isinstance(net, list) else net,
        "without": ", ".join(enforced.get("unenforced", ())),
    }
    told = [f"{name} {value}" for name, value in facts.items() if value]
    return "; ".join([str(enforced.get("level")), *told])


def _filter(request: RunsRequest) -> RunFilter:
    if request.status is not None and request.status not in (SUCCESS, ERROR, RUNNING, ENDED, *ERRORS):
        raise _malformed(f"{SUCCESS}, {ERROR}, {RUNNING}, {ENDED} or a code", request.status, "status")
    _require_number("limit", request.limit)
    return RunFilter(
        item=_matcher(request.item_id),
        project=None if request.project is None else str(request.project),
        client=request.client,
        status=request.status,
        since=request.since,
        until=request.until,
        limit=request.limit,
    )


def _matcher(item_id: str) -> Callable[[str], bool] | None:
    if item_id == EVERYTHING:
        return None
    if is_pattern(item_id):
        require_pattern(item_id)
        return partial(matches, item_id)
    return check_item_id(item_id).__eq__


def _require_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _malformed("a whole number", value, name)


def _malformed(expected: str, found: object, name: str) -> RyeError:
    what = f"expected {expected} as {name}, found {found!r:.60}"
    return RyeError("invalid_parameters", what, hint=f"give {expected} as {name}, or leave it out")
