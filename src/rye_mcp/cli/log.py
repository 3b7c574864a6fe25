"""`rye log`: what has run, and what it wrote.

The log is that of the user, for all projects. It has no values of parameters and no environments, and of the
output only the end of standard error of what failed. Output that was cut is kept beside it for some days, and
`rye log show RUN --output` prints it. Times are local. What comes out of files and out of tools is shown with
its control characters spelled out; in a pipe, output comes as it is.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from lilux._dataclasses import dataclass
from rye_mcp.cli._command_groups import EXIT_INTERRUPTED, command_group
from rye_mcp.cli._options import JsonOption
from rye_mcp.cli._printing import drawn, print_json, print_table, print_warnings, say
from rye_mcp.runs.live import LiveView
from rye_mcp.runs.log import RunLog
from rye_mcp.runs.outputs import DEFAULT_LENGTH, MAX_LENGTH, RunOutputs
from rye_mcp.runs.records import RUNNING, RunRecord
from rye_mcp.runs.results import is_result_handle
from rye_mcp.runs.shelf import Shelf
from rye_mcp.verbs.runs import (
    DEFAULT_LIMIT,
    OutputRequest,
    RunList,
    RunsRequest,
    ShownRun,
    enforced_in_words,
    follow_runs,
    list_runs,
    read_output,
    runtime_in_words,
    show_run,
)
from rye_mcp.visible import visible, visible_lines

__all__ = ["LiveLines", "log"]

HEADERS: Final = ("BEGUN", "RUN", "ITEM", "STATUS", "TOOK", "WHO", "PROJECT")
FOLLOWED: Final = "{:<19}  {:<26}  {:<30}  {:<14}  {:>9}  {:<8}  {}"

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN: Final = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)

_EVERYTHING: Final = RunsRequest()

log = command_group("What has run, and what it wrote.")

RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="The id of a run, or a handle: rye://runs/…/stdout, rye://result/…."),
]


ItemOption = Annotated[
    str, typer.Option("--item", metavar="ID|GLOB", help="Only these items, such as 'demo/*'.")
]
OfProjectOption = Annotated[
    Path | None, typer.Option("--project", metavar="DIR", help="Only runs in this project.")
]
ClientOption = Annotated[
    str | None,
    typer.Option("--client", metavar="NAME", help="Only runs of this client; person for your own."),
]
StatusOption = Annotated[
    str | None,
    typer.Option("--status", metavar="STATUS", help="success, error, running, ended, or a code, as timeout."),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Started at this time or later: 2h, 3d, or 2026-11-18T14:00."
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Started before this time; the same forms.")
]
LimitOption = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, help="Show at most this many, the newest ones.")
]
FollowOption = Annotated[
    bool, typer.Option("--follow", "-f", help="Print every run that begins or ends, until Ctrl-C.")
]

TreeOption = Annotated[bool, typer.Option("--tree", help="Put what a run has called below it.")]

FollowedOutputOption = Annotated[
    bool, typer.Option("--output", help="With --follow: what they write too, as it comes.")
]

OutputOption = Annotated[
    bool, typer.Option("--output", help="Print what it wrote, as far as that was kept, and nothing else.")
]
StreamOption = Annotated[
    str | None, typer.Option("--stream", metavar="NAME", help="stdout (the default), stderr or result.")
]
PatternOption = Annotated[
    str | None, typer.Option("--pattern", metavar="REGEX", help="Only lines in which this is found.")
]
OffsetOption = Annotated[
    int,
    typer.Option(
        "--offset", metavar="BYTE", help="Start at this byte; a negative number counts from the end."
    ),
]
LengthOption = Annotated[
    int | None, typer.Option("--length", metavar="BYTES", min=1, help="Print at most this many bytes.")
]


@log.callback(invoke_without_command=True, no_args_is_help=False)
def runs(
    ctx: typer.Context,
    item: ItemOption = "*",
    project: OfProjectOption = None,
    client: ClientOption = None,
    status: StatusOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = DEFAULT_LIMIT,
    follow: FollowOption = False,
    tree: TreeOption = False,
    output: FollowedOutputOption = False,
    as_json: JsonOption = False,
) -> None:
    """List what has run, the newest first; or follow it."""
    if ctx.invoked_subcommand is not None:
        _require_no_options(ctx)
        return
    request = RunsRequest(
        item_id=item,
        project=None if project is None else Path(os.path.realpath(project)),
        client=client,
        status=status,
        since=_moment("--since", since),
        until=_moment("--until", until),
        limit=limit,
    )
    if output and not follow:
        raise typer.BadParameter("expected --follow with --output; for one run: rye log show RUN --output")
    with RunLog(_state()) as kept:
        if follow:
            lines = LiveLines(LiveView(kept.path.parent), as_json=as_json) if output else None
            _follow(request, kept, lines, as_json=as_json)
            return
        found = list_runs(request, kept)
    if as_json:
        print_json(found.as_dict())
    else:
        _print_runs(found, asked_for=request, tree=tree)


@log.command()
def show(
    run: RunArgument,
    output: OutputOption = False,
    stream: StreamOption = None,
    pattern: PatternOption = None,
    offset: OffsetOption = 0,
    length: LengthOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one run; or, with --output, what it wrote."""
    state = _state()
    if output or is_result_handle(run):
        shelf = Shelf.of_person(state)
        request = OutputRequest(run, stream, offset, DEFAULT_LENGTH if length is None else length, pattern)
        if as_json:
            print_json(read_output(request, shelf).as_dict())
        else:
            _print_output(request, shelf, everything=length is None)
        return
    with RunLog(state) as kept:
        shown = show_run(run, kept, RunOutputs(state), LiveView(state))
    if as_json:
        print_json(shown.as_dict())
    else:
        _print_run(shown)


def _require_no_options(ctx: typer.Context) -> None:
    """Options before the name of a subcommand would be ignored."""
    if any(_was_given(ctx, name) for name in ctx.params):
        raise typer.BadParameter(f"expected options after {ctx.invoked_subcommand}, found some before it")


def _was_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _state() -> Path:
    from rye_mcp.app import Settings

    return Settings.find().state


def _moment(option: str, text: str | None) -> datetime | None:
    """A time that a person has written: so long ago, or a date with or without a time of day."""
    if text is None:
        return None
    span = _SPAN.fullmatch(text)
    try:
        if span is not None:
            return datetime.now(UTC) - timedelta(**{_UNITS[span[2]]: int(span[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as exc:
        what = f"expected a time such as 2h, 3d or 2026-11-18T14:00 for {option}, found {text!r}"
        raise typer.BadParameter(what) from exc


def _follow(request: RunsRequest, kept: RunLog, lines: LiveLines | None, *, as_json: bool) -> None:
    if not as_json:
        typer.echo(FOLLOWED.format(*HEADERS))
    depths: dict[str, int] = {}
    try:
        for record in follow_runs(request, kept, pause=None if lines is None else lines.pause):
            if lines is not None:
                lines.saw(record)
            depth = depths[record.run_id] = depths.get(record.parent or "", -1) + 1
            typer.echo(json.dumps(record.as_dict()) if as_json else _line(record, depth))
            sys.stdout.flush()
            if record.status != RUNNING:
                del depths[record.run_id]
    except KeyboardInterrupt as exc:
        raise typer.Exit(EXIT_INTERRUPTED) from exc


def _print_runs(found: RunList, *, asked_for: RunsRequest, tree: bool) -> None:
    print_warnings(found.notices)
    if found.runs:
        shown = [*_tree(found.runs)] if tree else [(record, 0) for record in found.runs]
        red = (number for number, (record, _) in enumerate(shown) if record.status == "error")
        print_table(HEADERS, [_cells(record, depth) for record, depth in shown], red=red)
    else:
        typer.echo("no run yet" if asked_for == _EVERYTHING else "no such run")


def _print_run(shown: ShownRun) -> None:
    for label, text in _facts(shown):
        say(f"{label:<12}{text}")
    for line in _drawn_calls(shown):
        say(line)
    if shown.record.stderr_end is not None:
        typer.echo(f"\nwhat it last wrote on standard error:\n\n{visible_lines(shown.record.stderr_end)}")


def _drawn_calls(shown: ShownRun) -> Iterator[str]:
    """The calls of a program as a tree, with how each ended and how long it took."""
    below: dict[str | None, list[RunRecord]] = {}
    for each in shown.calls:
        below.setdefault(each.parent, []).append(each)

    def calls_of(record: RunRecord) -> list[RunRecord]:
        return below.get(record.run_id, [])

    def words(record: RunRecord) -> str:
        return f"{record.item_id}  {record.code or record.status}, {_took(_duration_ms(record))}"

    for number, line in enumerate(drawn(calls_of(shown.record), calls_of, words)):
        yield f"{'' if number else 'calls':<12}{line}"


def _line(record: RunRecord, depth: int) -> str:
    """A run on a line; what another run asked for stands further to the right, below it."""
    begun, run_id, item_id, *others = (visible(cell) for cell in _cells(record))
    return FOLLOWED.format(begun, run_id, "  " * depth + item_id, *others)


def _tree(runs: Sequence[RunRecord]) -> Iterator[tuple[RunRecord, int]]:
    """Each run with how deep it is, behind the run that has called it and in the order of the calls."""
    listed = {record.run_id for record in runs}
    below: dict[str | None, list[RunRecord]] = {}
    for record in reversed(runs):
        below.setdefault(record.parent if record.parent in listed else None, []).append(record)
    pending = [(record, 0) for record in below.get(None, ())]
    while pending:
        record, depth = pending.pop()
        yield record, depth
        pending += [(each, depth + 1) for each in reversed(below.get(record.run_id, ()))]


def _cells(record: RunRecord, depth: int = 0) -> tuple[str, ...]:
    return (
        f"{record.begun.astimezone():%Y-%m-%d %H:%M:%S}",
        record.run_id,
        "  " * depth + record.item_id,
        record.code or record.status,
        _took(_duration_ms(record)),
        record.client or record.caller,
        record.project or "-",
    )


def _duration_ms(record: RunRecord) -> float:
    """How long it took, or has been running."""
    if record.status != RUNNING:
        return record.duration_ms
    return (datetime.now(UTC) - record.begun).total_seconds() * 1000


def _took(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 10_000 else f"{milliseconds / 1000:.0f} s"


def _facts(shown: ShownRun) -> Iterator[tuple[str, str]]:
    record = shown.record
    yield "run", record.run_id
    yield "item", f"{record.item_id} ({record.item_type})"
    yield "status", _cells(record)[3]
    yield "exit", " ".join(f"{name} {value}" for name, value in _exit(record))
    yield "begun", record.begun.astimezone().isoformat(sep=" ", timespec="milliseconds")
    yield "took", _took(_duration_ms(record))
    yield from _used(record)
    if shown.processes:
        yield (
            "now",
            f"{shown.processes} processes, {shown.memory_kb} KiB; to end it: rye kill {record.run_id}",
        )
    yield "project", record.project or "-"
    yield "who", record.caller + (f" ({record.client})" if record.client else "")
    yield "signer", record.signer or "-"
    by = "" if record.node is None else f", as {record.node} says"
    yield "sealed", f"yes{by}" if record.sealed else "no"
    yield from _conditions(record)
    yield "parameters", ", ".join(record.parameters) or "-"
    yield from (("chain", f"{item_id} {digest}") for item_id, digest in record.chain)
    yield from (("sha256", f"{digest} {stream}") for stream, digest in record.digests)
    yield from _kept(shown)


def _conditions(record: RunRecord) -> Iterator[tuple[str, str]]:
    """How it ran, as far as that is known."""
    if record.enforced is not None:
        yield "enforced", enforced_in_words(record.enforced)
    runtime = runtime_in_words(record)
    if runtime is not None:
        yield "runtime", runtime
    if record.parent is not None:
        yield "parent", record.parent


def _used(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield the resources it used, where these were measured."""
    if record.user_ms is not None and record.system_ms is not None and record.max_rss_kb is not None:
        used = f"{record.user_ms:.0f} ms of user and {record.system_ms:.0f} ms of system time"
        yield "used", f"{used}, {record.max_rss_kb} KiB"


def _kept(shown: ShownRun) -> Iterator[tuple[str, str]]:
    """The output that is kept, with the command that prints it."""
    for stream, size in shown.kept.items():
        option = "" if stream == "stdout" else f" --stream {stream}"
        yield stream, f"{size} bytes: rye log show {shown.record.run_id} --output{option}"


def _exit(record: RunRecord) -> Iterable[tuple[str, object]]:
    facts = (("kind", record.kind), ("code", record.return_code), ("signal", record.signal))
    return ((name, value) for name, value in facts if value is not None)


def _print_bytes(request: OutputRequest, shelf: Shelf) -> None:
    """Write a result into a pipe as it is; it may be no text."""
    with shelf.results.opened(request.run_id) as descriptor:
        size = os.fstat(descriptor).st_size
        offset = max(0, size + request.offset) if request.offset < 0 else request.offset
        while block := os.pread(descriptor, MAX_LENGTH, offset):
            typer.echo(block, nl=False)
            offset += len(block)


def _print_output(request: OutputRequest, shelf: Shelf, *, everything: bool) -> None:
    """Print one piece, or all of them from its offset on."""
    in_terminal = sys.stdout.isatty()
    if is_result_handle(request.run_id) and not in_terminal and everything and request.pattern is None:
        _print_bytes(request, shelf)
        return
    request = replace(request, length=MAX_LENGTH) if everything else request
    while True:
        piece = read_output(request, shelf)
        typer.echo(visible_lines(piece.text) if in_terminal else piece.text.encode(), nl=False)
        if not everything or piece.next_offset is None:
            return
        request = replace(request, offset=piece.next_offset)


# --- live lines ---


_INTERVAL_S: Final = 0.05
_LONGEST_LINE: Final = 4096
_SHOWN_DIGITS: Final = 8


@dataclass(slots=True)
class _Followed:
    offset: int = 0
    rest: bytes = b""


class LiveLines:
    """The runs that go on, and how far each was shown."""

    def __init__(self, view: LiveView, *, as_json: bool) -> None:
        self._view = view
        self._as_json = as_json
        self._runs: dict[str, _Followed] = {}

    def saw(self, record: RunRecord) -> None:
        """A run has begun, or is over: then the last that it wrote is shown."""
        if record.status == RUNNING:
            self._runs[record.run_id] = _Followed()
        elif (followed := self._runs.pop(record.run_id, None)) is not None:
            self._show(record.run_id, followed, is_over=True)

    def pause(self) -> None:
        """Show what is new, and wait a little."""
        for run_id, followed in self._runs.items():
            self._show(run_id, followed, is_over=False)
        time.sleep(_INTERVAL_S)

    def _show(self, run_id: str, followed: _Followed, *, is_over: bool) -> None:
        piece = self._view.output(run_id, followed.offset)
        followed.offset = piece.offset
        if piece.skipped:
            self._print(run_id, f"[… {piece.skipped} bytes were left out …]")
        *lines, rest = (followed.rest + piece.data).split(b"\n")
        if rest and (is_over or len(rest) > _LONGEST_LINE):
            lines, rest = [*lines, rest], b""
        followed.rest = rest
        for line in lines:
            self._print(run_id, line.decode("utf-8", "replace"))
        sys.stdout.flush()

    def _print(self, run_id: str, line: str) -> None:
        if self._as_json:
            typer.echo(json.dumps({"run_id": run_id, "output": line}))
        else:
            typer.echo(f"{run_id[-_SHOWN_DIGITS:]} | {visible(line)}")
