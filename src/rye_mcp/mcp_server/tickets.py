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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar

import anyio

from lilux import _files as whole_files
from lilux import _trees
from lilux._dataclasses import dataclass
from rye_mcp.apart import off_loop
from rye_mcp.errors import RyeError
from rye_mcp.files import Tree, refusal
from rye_mcp.mcp_server.answers import QUESTION_LIFETIME_S
from rye_mcp.runs.questions import Questions

__all__ = [
    "WAIT_S",
    "AskedElsewhere",
    "Given",
    "Tickets",
    "ask_elsewhere",
]

MAX_RECORD_FILE_BYTES: Final = 64 << 20
"""How long a record may be, however its answers are escaped."""

MAX_RECORDS_BYTES: Final = 256 << 20
"""How long all records of a user may be together."""

_DIRECTORY: Final = "confirmations"
_RECORD: Final = ".calls"
_FORM: Final = re.compile(r"[0-9a-f]{32}")
_MODE: Final = 0o600
_PRIVATE: Final = 0o700
_FORBIDDEN: Final = 0o077


@dataclass(frozen=True, slots=True)
class Given:
    """The state of a question: its ticket, its mark, and the answers to others before, by their marks.

    It is `of_program` if a program had made calls, whose answers are kept by the ticket.
    """

    ticket: str
    mark: str
    before: Mapping[str, bool] = field(default_factory=dict)
    of_program: bool = False

    @classmethod
    def read(cls, state: str) -> Self:
        """That of a text which the SDK has unsealed: it is one of ours, but perhaps of long ago."""
        try:
            found = json.loads(state)
            before = {str(mark): bool(answer) for mark, answer in found.get("before", {}).items()}
            of_program = bool(found.get("of_program"))
            return cls(str(found["ticket"]), str(found["mark"]), before, of_program)
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            what = "expected the state of a question of this server, found another"
            raise RyeError("confirmation_outdated", what) from exc

    def text(self) -> str:
        """The state as it travels."""
        known = {"ticket": self.ticket, "mark": self.mark, "before": dict(self.before)}
        return json.dumps(known | {"of_program": self.of_program})


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
        _require_ticket(ticket)
        try:
            with self._opened() as directory:
                os.close(os.open(ticket, _trees.NEW_FILE, _MODE, dir_fd=directory))
                _sweep(directory)
        except FileExistsError as exc:
            what = "expected an answer that was not given before, found one that was"
            raise RyeError("confirmation_outdated", what) from exc
        except OSError as exc:
            raise self._not_written(exc) from exc

    def keep(self, ticket: str, record: bytes) -> None:
        """Keep what a program was answered before a question, for as long as that can be answered."""
        _require_ticket(ticket)
        try:
            with self._opened() as directory:
                path = self._state / _DIRECTORY / f"{ticket}{_RECORD}"
                whole_files.write_whole(path, record, mode=_MODE, directory=directory, durable=False)
                _sweep(directory)
        except OSError as exc:
            raise self._not_written(exc) from exc

    def take(self, ticket: str) -> bytes:
        """What was kept so, once; RyeError `confirmation_outdated` when it is gone."""
        _require_ticket(ticket)
        name = f"{ticket}{_RECORD}"
        try:
            with self._opened() as directory:
                path = self._state / _DIRECTORY / name
                data = _trees.read_in(directory, path, limit=MAX_RECORD_FILE_BYTES)
                os.unlink(name, dir_fd=directory)
        except FileNotFoundError as exc:
            what = "expected the answers that the program got before the question, found that they are gone"
            raise RyeError("confirmation_outdated", what, hint="call the program again") from exc
        except (OSError, _trees.UnsafeError) as exc:
            raise refusal(exc, self._state / _DIRECTORY / name) from exc
        return data

    def _opened(self) -> AbstractContextManager[int]:
        return Tree(self._state, forbidden=_FORBIDDEN).opened(_DIRECTORY, create_mode=_PRIVATE)

    def _not_written(self, exc: OSError) -> RyeError:
        where = self._state / _DIRECTORY
        return RyeError("write_failed", f"the system said: {exc.strerror}", where=where)


def _require_ticket(ticket: str) -> None:
    if not _FORM.fullmatch(ticket):
        raise RyeError("confirmation_outdated", "expected the ticket of a question, found none")


def _sweep(directory: int) -> None:
    """Remove what no seal is left for, and the oldest records when all together are too long."""
    oldest, room = time.time() - 2 * QUESTION_LIFETIME_S, MAX_RECORDS_BYTES
    with os.scandir(directory) as entries:
        found = sorted(_ages(entries), reverse=True)
    for made, size, name in found:
        room -= size
        if made < oldest or (size and room < 0):
            with suppress(FileNotFoundError):  # another process was faster
                os.unlink(name, dir_fd=directory)


def _ages(entries: Iterable[os.DirEntry[str]]) -> Iterator[tuple[float, int, str]]:
    for entry in entries:
        with suppress(FileNotFoundError):
            known = entry.stat(follow_symlinks=False)
            yield known.st_mtime, known.st_size, entry.name


# --- questions that are answered elsewhere ---
# Asks the person elsewhere, where a client cannot: on the page of `rye ui`, or at a terminal.
#
# A call waits only if somebody looks at the questions. Without an answer it is refused with the number of the
# question. A yes that comes later counts for the same call, once: any change gives the question another mark.


WAIT_S: Final = 50.0
"""How long a call waits for a person to answer its question: clients give up after a minute."""

_POLL_S: Final = 0.2

Answer = TypeVar("Answer")


class AskedElsewhere(Protocol):
    """What there is to ask."""

    @property
    def mark(self) -> str:
        """What stands for everything in it."""

    @property
    def action(self) -> str:
        """What would be done."""

    @property
    def item_id(self) -> str:
        """The item that it would be done to."""

    @property
    def text(self) -> str:
        """What the person is shown."""

    @property
    def command(self) -> str:
        """What does the same at a terminal."""


async def ask_elsewhere(
    question: AskedElsewhere, state: Path, *, wait_s: float = WAIT_S
) -> tuple[bool | None, int | None]:
    """Return the answer, or None with the number of the question that now waits, if it could be asked."""
    questions = Questions(state)
    answer = await _quietly(partial(questions.take, question.mark))
    if answer is not None:
        return answer, None
    ask = partial(questions.ask, question.mark, question.action, question.item_id)
    number = await _quietly(partial(ask, question.text, question.command))
    if number is None or not await off_loop(questions.is_watched):
        return None, number
    with anyio.move_on_after(wait_s):
        while answer is None:
            await anyio.sleep(_POLL_S)
            answer = await _quietly(partial(questions.take, question.mark))
    return answer, number


async def _quietly(work: Callable[[], Answer]) -> Answer | None:
    """Do this; None where the state directory cannot be used, so that the call is refused as without it."""
    try:
        return await off_loop(work)
    except RyeError:
        return None
