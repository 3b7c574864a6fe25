"""What libraries log while a command runs: one line, without values, in which nothing hides."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator

import pytest

from rye_mcp.cli._log_lines import handle_logs

HOSTILE = "\x1b[2Jowned\u202e\U000e0041"


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    root = logging.getLogger()
    before, excepthook = list(root.handlers), threading.excepthook
    root.handlers = []
    handle_logs()
    handle_logs()
    yield
    root.handlers, threading.excepthook = before, excepthook
    logging.captureWarnings(capture=False)


def test_a_record_is_one_line_without_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("a.library")
    log.warning("cannot read %s", HOSTILE)
    log.error(f"{HOSTILE} was said: {HOSTILE}")
    log.info("nothing of this")
    assert capsys.readouterr().err.splitlines() == [
        "rye: warning: a.library: cannot read …",
        "rye: error: a.library: \\x1b[2Jowned\\u202e\\U000e0041 was said",
    ]


def test_who_asks_for_tracebacks_gets_them_line_by_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RYE_TRACEBACK", "1")
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("a.library").exception("it failed")
    first, second, *_, last = capsys.readouterr().err.splitlines()
    assert (first, second) == ("rye: error: a.library: it failed", "Traceback (most recent call last):")
    assert last == "ValueError: \\x1b[2Jowned\\u202e\\U000e0041"


def test_no_traceback_and_no_warning_of_python_is_printed_as_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("a.library").exception("it failed")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        handle_logs()  # pytest catches warnings, too
        warnings.warn(HOSTILE, UserWarning, stacklevel=1)
    thread = threading.Thread(target=lambda: [][HOSTILE == ""])
    thread.start()
    thread.join()
    shown = capsys.readouterr().err
    assert "owned" not in shown
    assert [line.partition(": ")[2].partition(":")[0] for line in shown.splitlines()] == [
        "error",
        "warning",
        "error",
    ]
    assert shown.endswith("a thread ended with IndexError\n")
