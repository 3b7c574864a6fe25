"""How commands print refusals, tables, results of tools, and what tools print while they run.

Text from files and tools is shown with its control characters spelled out; a pipe gets output as it is. In a
table no cell is cut: columns that do not fit the terminal go on in the next line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from rye_mcp.errors import ERRORS, RyeError
from rye_mcp.notices import Notice
from rye_mcp.visible import visible, visible_lines

if TYPE_CHECKING:
    from rye_mcp.executor.dry_run import DryRun
    from rye_mcp.executor.results import ExecutionResult
    from rye_mcp.verbs.execute import Instructions, Knowledge

__all__ = [
    "JSON_WANTED",
    "LONG_WORK",
    "Live",
    "drawn",
    "print_facts",
    "print_json",
    "print_result",
    "print_table",
    "print_warnings",
    "report",
    "say",
    "table_lines",
    "tracked",
    "warn",
]

JSON_WANTED: Final = "rye.json"
"""The key of a command's context that says whether `--json` was given."""


def print_json(value: Mapping[str, Any]) -> None:
    """Print one object on standard output."""
    typer.echo(json.dumps(value, indent=2))


def say(text: str, *, err: bool = False) -> None:
    """Print a line, with the control characters of files and other people spelled out."""
    typer.echo(visible(text), err=err)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    say(f"rye: warning: {text}", err=True)


def print_warnings(notices: Iterable[Notice]) -> None:
    """Print what should be known of something that succeeded."""
    for notice in notices:
        warn(f"{notice.code}: {notice.message}")


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print each fact behind its label."""
    for label, text in facts:
        say(f"{label:<12}{text}".rstrip())


def report(error: RyeError, *, as_json: bool = False) -> None:
    """Say what was refused, and what fixes it."""
    if as_json:
        print_json(error.as_dict())
        return
    issues = error.details.get("issues")
    said = error.details.get("said") or ()
    message = ERRORS[error.code].sentence if issues else error.message
    # Other programs' lines follow one by one, further in than anything of ours.
    message = message.removesuffix("\\n".join(said)).rstrip() if said else message
    code = typer.style(error.code, fg=typer.colors.RED, bold=True)
    typer.echo(f"rye: {code}: {visible(message)}", err=True)
    for line in said:
        typer.echo(f"    {visible(line)}", err=True)
    for line in _lines(issues or ()):
        typer.echo(f"  {visible(line)}", err=True)
    if error.where is not None:
        typer.echo(f"  where: {visible(error.where)}", err=True)
    if error.hint:
        typer.echo(f"  hint:  {visible(error.hint)}", err=True)


def _lines(issues: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"{_place(issue)}{issue['message']}" for issue in issues]


def _place(issue: Mapping[str, Any]) -> str:
    """Where in a file, or in what was given, an issue is."""
    if "line" in issue:
        column = f", column {issue['column']}" if "column" in issue else ""
        return f"line {issue['line']}{column}: "
    return f"{issue['path']}: " if issue.get("path") else ""


LONG_WORK = 200
"""From how many items on progress is shown."""

Element = TypeVar("Element")

_GAP = 2
_CONTINUED = "  "


def table_lines(
    rows: Sequence[Sequence[str]], *, width: int | None = None, measure: Callable[[str], int] = len
) -> list[list[str]]:
    """The lines of each row, the headers among them. `measure` says how wide a text is shown."""
    widths = [max(map(measure, column)) for column in zip(*rows, strict=True)]
    groups = list(_beside_each_other(widths, width))
    return [list(_lines_of(row, widths, groups, measure)) for row in rows]


def _beside_each_other(widths: Sequence[int], limit: int | None) -> Iterator[range]:
    """Return the columns that share a line: as many as fit, at least one."""
    begin, used = 0, widths[0]
    for column, width in enumerate(widths[1:], 1):
        used += _GAP + width
        if limit is not None and used > limit:
            yield range(begin, column)
            begin, used = column, len(_CONTINUED) + width
    yield range(begin, len(widths))


def _lines_of(
    row: Sequence[str], widths: Sequence[int], groups: Sequence[range], measure: Callable[[str], int]
) -> Iterator[str]:
    for number, columns in enumerate(groups):
        cells = (row[column] + " " * (widths[column] - measure(row[column])) for column in columns)
        line = (" " * _GAP).join(cells).rstrip()
        if number == 0:
            yield line
        elif line:
            yield _CONTINUED + line


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, red: Iterable[int] = ()) -> None:
    """Print rows below headers; those whose numbers are in `red` are what is wrong."""
    cells = [headers, *([visible(cell) for cell in row] for row in rows)]
    if not sys.stdout.isatty():
        typer.echo("\n".join(line for lines in table_lines(cells) for line in lines))
        return
    from rich.cells import cell_len

    styles: dict[int, dict[str, Any]] = {number + 1: {"fg": "red"} for number in red}
    styles[0] = {"bold": True}
    for number, lines in enumerate(table_lines(cells, width=get_terminal_size().columns, measure=cell_len)):
        text = "\n".join(lines)
        typer.echo(typer.style(text, **styles[number]) if number in styles else text)


def tracked(items: Sequence[Element], label: str) -> Iterable[Element]:
    """The items, with a bar on the terminal when there are many of them."""
    if len(items) < LONG_WORK or not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, label, console=Console(stderr=True), transient=True)


class Live:
    """Passes on the output of a tool as it comes."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self.shown: set[str] = set()
        self._is_open_line = False

    def show(self, stream: str, data: bytes, _offset: int) -> None:
        """Pass on a piece of one stream; to a terminal with its control characters spelled out."""
        if self._quiet or stream not in ("stdout", "stderr"):
            return
        self.shown.add(stream)
        target = sys.stdout if stream == "stdout" else sys.stderr
        if target.isatty():
            self._is_open_line = not data.endswith(b"\n")
            typer.echo(visible_lines(data.decode("utf-8", "replace")), file=target, nl=False)
        else:
            target.buffer.write(data)
            target.flush()

    def on_call(self, number: int, of: int, item_id: str) -> None:
        """Say at a terminal that a program makes a call."""
        if not self._quiet and sys.stderr.isatty():
            self.end_line()
            say(f"rye: {number} of {of}: {item_id}", err=True)

    def end_line(self) -> None:
        """At a terminal, let what follows begin in a line of its own; a file gets what was printed, alone."""
        if self._is_open_line:
            typer.echo(err=not sys.stdout.isatty())
        self._is_open_line = False


def print_result(result: ExecutionResult | DryRun | Instructions | Knowledge, live: Live) -> None:
    """Print the result of a call; the output of the tool was passed on already."""
    from rye_mcp.executor.results import ExecutionResult

    if not isinstance(result, ExecutionResult):
        _print_facts(result.as_dict())
        return
    live.end_line()
    for notice in result.notices:
        say(f"rye: {notice.code}: {notice.message}", err=True)
    for kept in result.kept:
        say(f"rye: {visible(kept.name)} ({kept.size} bytes): rye log show {kept.handle}", err=True)
    printed = "stdout" in live.shown and result.metadata.get("data_from") != "result"
    if result.data is not None and not printed:
        _print_data(result.data)
    if not result.success:
        said = result.metadata.get("said", ())
        report(RyeError(result.code or "internal", result.error or "", hint=result.hint, said=said))


def _print_facts(facts: Mapping[str, Any]) -> None:
    for name in ("instructions", "content"):
        if name in facts:
            _print_text(facts[name])
            return
    print_json(facts)


def _print_data(data: Any) -> None:
    text = data if isinstance(data, str) else json.dumps(data, indent=2, ensure_ascii=False)
    if text:
        _print_text(text)


def _print_text(text: str) -> None:
    """Print it for a person to see; a pipe gets it as it is."""
    shown = visible_lines(text) if sys.stdout.isatty() else text
    typer.echo(shown, nl=not text.endswith("\n"))


Node = TypeVar("Node")


def drawn(
    nodes: Sequence[Node], below: Callable[[Node], Sequence[Node]], words: Callable[[Node], str]
) -> Iterator[str]:
    """The lines of some trees beside each other.

    >>> list(drawn(["a", "b"], lambda node: ["c"] if node == "a" else [], str))
    ['├─ a', '│  └─ c', '└─ b']
    """
    for node in nodes:
        is_last = node is nodes[-1]
        yield f"{'└─' if is_last else '├─'} {words(node)}"
        for line in drawn(below(node), below, words):
            yield f"{'   ' if is_last else '│  '}{line}"
