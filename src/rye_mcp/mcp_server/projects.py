"""The projects that a server was given when it was started, and which of them a call may name.

Rules:

- Who starts the server over standard input and output is whoever talks to it, and may name any project. Over
  HTTP a call may name those of the start and no other: what a path would lead to is not even looked at.
- A call that names none gets the first one that was named, else what the surroundings of the server say.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rye_mcp.errors import RyeError, printable

if TYPE_CHECKING:
    from rye_mcp.app import App

__all__ = ["Projects"]

_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Projects:
    """What was named at the start; `no_other` when a call may name nothing else."""

    named: tuple[Path, ...] = ()
    no_other: bool = False

    def open(self, asked: Path | None) -> App:
        """The parts for the project that a call names, or for none; RyeError `no_project`."""
        from rye_mcp.app import App, Settings

        return App.open(Settings.find(project=self._chosen(asked)))

    def _chosen(self, asked: Path | None) -> Path | None:
        if asked is None:
            return self.named[0] if self.named else None
        if not self.no_other:
            return asked
        for known in self.named:
            if str(asked) in (str(known), os.path.realpath(known)):
                return known
        found = printable(asked)[:_SHOWN_CHARACTERS]
        choice = ", ".join(os.path.realpath(known) for known in self.named)
        raise RyeError(
            "no_project",
            f"expected one of the projects that this server was started with, found {found}",
            hint=f"leave project_path out, or name one of: {choice}" if choice else "leave project_path out",
        )
