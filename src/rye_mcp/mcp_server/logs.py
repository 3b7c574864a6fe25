"""The log of the server: one line of JSON each, on standard error.

`RYE_LOG`, or an option, names the first level that is logged. No line holds the value of a parameter, output
of a tool or a secret: of exceptions only types and places are told, and of other libraries' messages only the
text in their source. A line goes out whole or not at all; the next line counts those that were left out.
"""

from __future__ import annotations

import json
import logging
import os
import re
import select
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

from rye_mcp.visible import visible

__all__ = [
    "DEFAULT_LEVEL",
    "LEVELS",
    "LEVEL_VARIABLE",
    "MAX_LINE_BYTES",
    "JsonLines",
    "facts_of",
    "log_crashes",
    "log_to_standard_error",
    "told_text",
    "within",
]

LEVELS: Final = ("debug", "info", "warning", "error")

DEFAULT_LEVEL: Final = "warning"

LEVEL_VARIABLE: Final = "RYE_LOG"
"""The environment variable that names the level."""

MAX_LINE_BYTES: Final = select.PIPE_BUF
"""How long a line may be: so much goes into a pipe whole, and without waiting, or not at all."""

MAX_CHARACTERS: Final = 400
"""How long one value may be."""

_MAX_FRAMES: Final = 6
_MAX_CAUSES: Final = 4

_OURS: Final = ("rye_mcp", "lilux")
_FACTS: Final = "rye_facts"
"""Where a record holds what `facts_of` gave it."""

_TOKEN: Final = re.compile(r"(?=\S*\d)\S{16,}")
"""A word that may be an id of a session, or a secret."""

_PLACEHOLDER: Final = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[hlL]?[a-zA-Z%]")
"""Where a value would stand in the text of a record."""

_WARNING: Final = re.compile(r"(.*:\d+: \w+):")
"""Where a warning of Python comes from, and its category."""

_call: ContextVar[Mapping[str, Any]] = ContextVar("rye_mcp_call")


def facts_of(**facts: Any) -> dict[str, Any]:
    """Facts for a log line besides its event: `_log.warning("not offered", extra=facts_of(item=…))`."""
    return {_FACTS: facts}


@contextmanager
def within(**facts: Any) -> Iterator[None]:
    """Say this in every line that is logged in the block, and in what is begun there."""
    token = _call.set({**_call.get({}), **{name: each for name, each in facts.items() if each is not None}})
    try:
        yield
    finally:
        _call.reset(token)


def log_to_standard_error(level: str | None = None) -> None:
    """Log like this from now on, from `level` on, or from the one that the environment names."""
    named = level or os.environ.get(LEVEL_VARIABLE, "").strip().lower() or DEFAULT_LEVEL
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, _Lines)]:
        root.removeHandler(handler)
    root.addHandler(_Lines())
    root.setLevel((named if named in LEVELS else DEFAULT_LEVEL).upper())
    logging.captureWarnings(capture=True)
    if named not in LEVELS:
        expected = f"expected {LEVEL_VARIABLE} to be one of {', '.join(LEVELS)}"
        logging.getLogger(__name__).warning(expected, extra=facts_of(found=named))


def log_crashes() -> None:
    """Have what ends this process, or a thread of it, in the log too, instead of a page of its own."""
    log = logging.getLogger(__name__)

    def crashed(kind: type[BaseException], error: BaseException, _: Any) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            log.critical("the server ended with an error", exc_info=error)

    def thread_crashed(found: threading.ExceptHookArgs) -> None:
        log.error("a thread ended with an error", exc_info=found.exc_value)

    sys.excepthook = crashed
    threading.excepthook = thread_crashed


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line: dict[str, Any] = {
            "time": _time(record.created),
            "level": "error" if record.levelno > logging.ERROR else record.levelname.lower(),
            "event": _shown(told_text(record)),
            "logger": record.name,
            **_call.get({}),
            **getattr(record, _FACTS, {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line |= _told_of(record.exc_info[1])
        return _encoded({name: _shown_value(value) for name, value in line.items() if value is not None})


class _Lines(logging.Handler):
    """Writes to standard error what it takes without waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Take what we say, and of others what is wrong."""
        return (_is_ours(record) or record.levelno >= logging.WARNING) and bool(super().filter(record))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it."""
        if sys.__stderr__ is None:  # it was closed: its descriptor may be anything by now
            return
        if self._left_out:
            record = logging.makeLogRecord(record.__dict__)
            vars(record)[_FACTS] = {**getattr(record, _FACTS, {}), "left_out": self._left_out}
        with suppress(OSError, ValueError):
            if not _takes_a_line(2):
                self._left_out += 1
                return
            os.write(2, f"{self.format(record)}\n".encode())
            self._left_out = 0


def _takes_a_line(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(event & select.POLLOUT for _, event in poll.poll(0))


def _time(created: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created))
    return f"{whole}.{int(created % 1 * 1000):03d}Z"


def told_text(record: logging.LogRecord) -> str:
    """Return our own text; of another library's record, the text in its source without the values."""
    if _is_ours(record):
        return record.getMessage()
    text = str(record.msg)
    if record.name == "py.warnings":
        found = _WARNING.match(str(record.args[0]) if isinstance(record.args, tuple) and record.args else "")
        return found[1] if found else "a warning"
    first = text.partition("\n")[0]
    return (
        _PLACEHOLDER.sub(_without_value, first) if record.args else _TOKEN.sub("…", first.partition(": ")[0])
    )


def _without_value(placeholder: re.Match[str]) -> str:
    return "%" if placeholder[0] == "%%" else "…"


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] in _OURS


def _told_of(error: BaseException) -> dict[str, Any]:
    """The types of an exception and of what caused it, and where it came from; never a text of theirs."""
    kinds: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(kinds) < _MAX_CAUSES:
        inner = getattr(cause, "exceptions", ())
        kinds.append(type(cause).__name__)
        cause = inner[0] if inner else cause.__cause__ or cause.__context__
    frames = traceback.extract_tb(error.__traceback__)[-_MAX_FRAMES:]
    places = [f"{'/'.join(each.filename.split('/')[-2:])}:{each.lineno} {each.name}" for each in frames]
    return {"error": " < ".join(kinds), "at": places}


def _shown_value(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return value
    return [_shown(str(each)) for each in value] if isinstance(value, list) else _shown(str(value))


def _shown(text: str) -> str:
    text = visible(text[: MAX_CHARACTERS + 1])
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"


def _encoded(line: dict[str, Any]) -> str:
    """The line, without its longest values where it would be too long."""
    while len(text := json.dumps(line, ensure_ascii=True)) >= MAX_LINE_BYTES:
        longest = max(line, key=lambda name: len(json.dumps(line[name])))
        line[longest] = "…"
    return text
