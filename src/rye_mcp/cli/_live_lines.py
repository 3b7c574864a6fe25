"""The output of runs while somebody follows them, line by line, each with the name of its run."""

from __future__ import annotations

import json
import sys
import time
from typing import Final

import typer

from lilux._dataclasses import dataclass
from rye_mcp.runs.live import LiveView
from rye_mcp.runs.records import RUNNING, RunRecord
from rye_mcp.visible import visible

__all__ = ["LiveLines"]

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
