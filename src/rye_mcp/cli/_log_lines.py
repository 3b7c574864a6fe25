"""Prints what libraries log while a command runs: one line each on standard error, in which nothing hides.

As in the server's log, a line has only text that stands in the source of the library. With `RYE_TRACEBACK`
the traceback follows, if the library gave one.
"""

from __future__ import annotations

import logging
import os
import threading
import traceback
from typing import Any

from rye_mcp.cli import TRACEBACK_VARIABLE
from rye_mcp.cli._printing import say

__all__ = ["handle_logs"]


def handle_logs() -> None:
    """Have warnings, errors and what ends a thread printed by one handler from now on."""
    root = logging.getLogger()
    if not any(isinstance(each, _Lines) for each in root.handlers):
        root.addHandler(_Lines(logging.WARNING))
    logging.captureWarnings(capture=True)
    threading.excepthook = _thread_ended


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        from rye_mcp.mcp_server.logs import told_text

        level = "error" if record.levelno >= logging.ERROR else "warning"
        say(f"rye: {level}: {record.name}: {told_text(record)}", err=True)
        if record.exc_info and record.exc_info[0] is not None and os.environ.get(TRACEBACK_VARIABLE):
            for line in "".join(traceback.format_exception(*record.exc_info)).splitlines():
                say(line, err=True)


def _thread_ended(found: Any) -> None:
    logging.getLogger(__name__).error("a thread ended with %s", found.exc_type.__name__)
