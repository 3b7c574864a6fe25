"""The kept output and results of runs, as far as one caller may see them.

A person sees everything. An agent sees what runs of the project made that it works in.

    Shelf.of_person(state).read("rye://runs/01m7r64xnv25r13hyhb9ccmrbf/stdout")
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self

from rye_mcp.runs._pieces import OutputPiece, piece_of
from rye_mcp.runs.ids import check_run_id, check_stream
from rye_mcp.runs.outputs import DEFAULT_LENGTH, RunOutputs, not_kept
from rye_mcp.runs.results import KeptResults, is_result_handle

__all__ = ["Shelf"]


class Shelf:
    """`may_see` says whether the caller may see a run, by its id."""

    def __init__(
        self, outputs: RunOutputs, results: KeptResults, may_see: Callable[[str], bool] = lambda _: True
    ) -> None:
        self.outputs = outputs
        self.results = results
        self._may_see = may_see

    @classmethod
    def of_person(cls, state: Path) -> Self:
        """The one for the user whose state this is."""
        return cls(RunOutputs(state), KeptResults(state, None))

    def read(
        self,
        source: str,
        stream: str = "stdout",
        *,
        offset: int = 0,
        length: int = DEFAULT_LENGTH,
        pattern: str | None = None,
    ) -> OutputPiece:
        """A piece of a result, by its handle, or of a stream of a run, by its id."""
        if is_result_handle(source):
            with self.results.opened(source) as descriptor:
                return piece_of(descriptor, source, offset=offset, length=length, pattern=pattern)
        name = check_stream(stream)
        if not self._may_see(check_run_id(source)):
            raise not_kept(source, name)
        return self.outputs.read(source, name, offset=offset, length=length, pattern=pattern)
