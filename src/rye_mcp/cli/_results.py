"""What a tool prints while it runs, and what came of it: as a person at a terminal, or a pipe, gets it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from rye_mcp.cli._errors import print_json, report, visible, visible_lines
from rye_mcp.errors import RyeError

if TYPE_CHECKING:
    from rye_mcp.executor.preparation import DryRun
    from rye_mcp.executor.results import ExecutionResult
    from rye_mcp.verbs.execute import Instructions, Knowledge

__all__ = ["Live", "print_result"]


class Live:
    """What a tool prints, passed on as it comes."""

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

    def end_line(self) -> None:
        """At a terminal, let what follows begin in a line of its own; a file gets what was printed, alone."""
        if self._is_open_line:
            typer.echo(err=not sys.stdout.isatty())
        self._is_open_line = False


def print_result(result: ExecutionResult | DryRun | Instructions | Knowledge, live: Live) -> None:
    """Print what came of a call; what the tool printed itself was passed on already."""
    from rye_mcp.executor.results import ExecutionResult

    if not isinstance(result, ExecutionResult):
        _print_facts(result.as_dict())
        return
    live.end_line()
    for notice in result.notices:
        typer.echo(visible(f"rye: {notice.code}: {notice.message}"), err=True)
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
