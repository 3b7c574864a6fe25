"""A record of questions: each answer counts once, and the other answers for the same call are kept.

A ticket is used up by a file in the state directory of its user, so it counts once in all workers. A client
of 2026 answers by calling again; what a program asked before travels along in the state, which is sealed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Final, Self

from lilux import _trees
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.files import Tree
from rye_mcp.mcp_server.answers import QUESTION_LIFETIME_S

__all__ = ["Given", "Tickets"]

_DIRECTORY: Final = "confirmations"
_FORM: Final = re.compile(r"[0-9a-f]{32}")
_MODE: Final = 0o600
_PRIVATE: Final = 0o700
_FORBIDDEN: Final = 0o077


@dataclass(frozen=True, slots=True)
class Given:
    """The state of a question: its ticket, its mark, and the answers to others before, by their marks."""

    ticket: str
    mark: str
    before: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def read(cls, state: str) -> Self:
        """That of a text which the SDK has unsealed: it is one of ours, but perhaps of long ago."""
        try:
            found = json.loads(state)
            before = {str(mark): bool(answer) for mark, answer in found.get("before", {}).items()}
            return cls(str(found["ticket"]), str(found["mark"]), before)
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            what = "expected the state of a question of this server, found another"
            raise RyeError("confirmation_outdated", what) from exc

    def text(self) -> str:
        """The state as it travels."""
        return json.dumps({"ticket": self.ticket, "mark": self.mark, "before": dict(self.before)})


class Tickets:
    """The tickets of one user; `state` is their state directory."""

    def __init__(self, state: Path) -> None:
        self._state = Path(os.path.realpath(state))

    @staticmethod
    def new() -> str:
        """A ticket that nobody has used, and nobody can guess."""
        return secrets.token_hex(16)

    def use(self, ticket: str) -> None:
        """Use it up; RyeError `confirmation_outdated` when somebody has."""
        if not _FORM.fullmatch(ticket):
            raise RyeError("confirmation_outdated", "expected the ticket of a question, found none")
        try:
            with Tree(self._state, forbidden=_FORBIDDEN).opened(
                _DIRECTORY, create_mode=_PRIVATE
            ) as directory:
                os.close(os.open(ticket, _trees.NEW_FILE, _MODE, dir_fd=directory))
                _sweep(directory)
        except FileExistsError as exc:
            what = "expected an answer that was not given before, found one that was"
            raise RyeError("confirmation_outdated", what) from exc
        except OSError as exc:
            where = self._state / _DIRECTORY
            raise RyeError("write_failed", f"the system said: {exc.strerror}", where=where) from exc


def _sweep(directory: int) -> None:
    """Remove what no seal is left for."""
    oldest = time.time() - 2 * QUESTION_LIFETIME_S
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                if entry.stat(follow_symlinks=False).st_mtime < oldest:
                    os.unlink(entry.name, dir_fd=directory)
            except FileNotFoundError:
                continue  # another process was faster
