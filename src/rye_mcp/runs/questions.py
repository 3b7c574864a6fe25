"""Questions that wait for the person of this user, asked for clients that cannot ask their person themselves.

A server writes a question into the state directory, and `rye questions` or the page answers it. An answer is
for one mark, which stands for everything that was shown. It counts once, until the question is too old.

    questions = Questions(state)
    questions.ask(mark, "execute", "demo/hello", "Run demo/hello?", "rye run demo/hello")
    questions.take(mark)  # True or False once somebody has answered, else None
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from lilux import _files as whole_files
from lilux import _trees
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS, refusal
from rye_mcp.runs.hosts import is_gone, this_process

__all__ = ["LIFETIME_S", "MAX_WAITING", "Questions", "WaitingQuestion"]

LIFETIME_S: Final = 600.0
"""How long a question waits, and its answer counts."""

MAX_WAITING: Final = 100
"""How many questions wait at once; others are not asked."""

_DIRECTORY: Final = "questions"
_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_MAX_BYTES: Final = 1 << 20
_QUESTION: Final = ".json"
_WATCHER: Final = "watcher-"


class WaitingQuestion(msgspec.Struct, frozen=True):
    """A question as it was asked. `mark` stands for everything in `text`; `asked` is a time of the clock."""

    number: int
    mark: str
    action: str
    item_id: str
    text: str
    command: str
    asked: float
    agreed: bool | None = None


class Questions:
    """The questions of one user; every server and command of theirs sees the same ones."""

    def __init__(self, state: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._root = state / _DIRECTORY
        self._clock = clock

    def ask(self, mark: str, action: str, item_id: str, text: str, command: str) -> int:
        """Write a question down, unless it waits already; its number.

        RyeError `confirmation_required` if too many wait, `write_failed` if it cannot be written.
        """
        with self._locked() as directory:
            known = list(self._read(directory))
            for each in known:
                if each.mark == mark and each.agreed is None:
                    return each.number
            if sum(each.agreed is None for each in known) >= MAX_WAITING:
                what = f"expected at most {MAX_WAITING} questions that wait, found as many"
                raise RyeError("confirmation_required", what, hint="rye questions")
            number = max((each.number for each in known), default=0) + 1
            asked = WaitingQuestion(number, mark, action, item_id, text, command, self._clock())
            self._write(asked, directory)
            return number

    def waiting(self) -> tuple[WaitingQuestion, ...]:
        """Return the questions that nobody has answered, the oldest first."""
        if not self._root.is_dir():
            return ()
        with self._opened() as directory:
            return tuple(each for each in self._read(directory) if each.agreed is None)

    def get(self, number: int) -> WaitingQuestion:
        """Return a question that waits; RyeError `question_not_found` for any other number."""
        for each in self.waiting():
            if each.number == number:
                return each
        what = f"expected a question {number} that waits, found none: it was answered, or is older than "
        raise RyeError("question_not_found", f"{what}{LIFETIME_S / 60:g} minutes")

    def answer(self, number: int, mark: str, *, agreed: bool) -> None:
        """Answer a question as it was shown; RyeError `question_not_found` if it does not wait any more."""
        with self._locked() as directory:
            question = self.get(number)
            if question.mark != mark:
                raise RyeError(
                    "question_not_found", f"expected question {number} as it was shown, found another"
                )
            self._write(msgspec.structs.replace(question, agreed=agreed), directory)

    def take(self, mark: str) -> bool | None:
        """Use up the answer to the question with this mark; None if there is none."""
        if not self._root.is_dir():
            return None
        with self._locked() as directory:
            for each in self._read(directory):
                if each.mark == mark and each.agreed is not None:
                    os.unlink(f"{each.number}{_QUESTION}", dir_fd=directory)
                    return each.agreed
        return None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Say during a block that somebody looks at the questions, so that servers wait for an answer."""
        path = self._root / f"{_WATCHER}{os.getpid()}"
        with suppress(RyeError), self._locked() as directory:  # nobody waits, and everything else works
            process = this_process().encode()
            whole_files.write_whole(path, process, mode=_FILE_MODE, durable=False, directory=directory)
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()

    def is_watched(self) -> bool:
        """Whether somebody looks at the questions now."""
        try:
            names = [each.name for each in self._root.iterdir() if each.name.startswith(_WATCHER)]
            return any(not is_gone((self._root / each).read_text("ascii")) for each in names)
        except (OSError, ValueError):
            return False

    def _read(self, directory: int) -> Iterator[WaitingQuestion]:
        """What is there, by number; what is too old is removed."""
        names = os.listdir(directory)
        numbers = sorted(
            int(stem)
            for stem, suffix in map(os.path.splitext, names)
            if suffix == _QUESTION and stem.isdigit()
        )
        for number in numbers:
            name = f"{number}{_QUESTION}"
            try:
                data = _trees.read_in(directory, self._root / name, limit=_MAX_BYTES, forbidden=OTHERS)
                found = msgspec.json.decode(data, type=WaitingQuestion)
            except (OSError, _trees.UnsafeError, msgspec.DecodeError, ValueError):
                continue
            if self._clock() - found.asked <= LIFETIME_S:
                yield found
            else:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=directory)

    def _write(self, question: WaitingQuestion, directory: int) -> None:
        path = self._root / f"{question.number}{_QUESTION}"
        data = msgspec.json.encode(question)
        whole_files.write_whole(path, data, mode=_FILE_MODE, durable=False, directory=directory)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The directory, made when it is missing, and kept from other writers."""
        try:
            whole_files.make_directory(self._root.parent, mode=_MODE)
            whole_files.make_directory(self._root, mode=_MODE)
        except OSError as exc:
            raise RyeError("write_failed", f"the system said: {exc.strerror}", where=self._root) from exc
        with self._opened() as directory, whole_files.lock(directory):
            yield directory

    @contextmanager
    def _opened(self) -> Iterator[int]:
        try:
            with _trees.Tree(self._root, forbidden=OTHERS).opened() as directory:
                yield directory
        except _trees.UnsafeError as exc:
            raise refusal(exc, self._root) from exc
        except OSError as exc:
            raise RyeError("write_failed", f"the system said: {exc.strerror}", where=self._root) from exc
