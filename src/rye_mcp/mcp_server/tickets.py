"""Answers that were given already: each counts once, whichever worker it reaches.

A ticket is a random id that goes out with a question and comes back with the answer. Using it makes a file of
that name in the state directory, which only one process can do; a sealed answer that is sent again finds it
there. Files are removed when the seal of their question is long past its time.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from pathlib import Path
from typing import Final

from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.answers import QUESTION_LIFETIME_S
from rye_mcp.trust.files import opened_directory

__all__ = ["Tickets"]

_DIRECTORY: Final = "confirmations"
_FORM: Final = re.compile(r"[0-9a-f]{32}")
_FLAGS: Final = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE: Final = 0o600
_PRIVATE: Final = 0o700
_FORBIDDEN: Final = 0o077


class Tickets:
    """The tickets of one user; `state` is their state directory."""

    def __init__(self, state: Path) -> None:
        self._state = Path(os.path.realpath(state))

    @staticmethod
    def new() -> str:
        """One that nobody has used, and nobody can guess."""
        return secrets.token_hex(16)

    def use(self, ticket: str) -> None:
        """Use it up; RyeError `confirmation_outdated` when somebody has."""
        if not _FORM.fullmatch(ticket):
            raise RyeError("confirmation_outdated", "expected the ticket of a question, found none")
        try:
            with opened_directory(
                self._state, _DIRECTORY, forbidden=_FORBIDDEN, create_mode=_PRIVATE
            ) as directory:
                os.close(os.open(ticket, _FLAGS, _MODE, dir_fd=directory))
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
