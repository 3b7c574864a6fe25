"""The lines of the log: what stands in them, what never does, and that nobody waits for them."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from rye_mcp.mcp_server.logs import MAX_LINE_BYTES, JsonLines, facts_of, within

SECRET = "hunter2-hunter2"


def line(logger: str, message: str, *args: Any, level: int = logging.WARNING, **more: Any) -> dict[str, Any]:
    record = logging.getLogger(logger).makeRecord(
        logger, level, "file.py", 1, message, args, more.pop("exc_info", None), None, more.pop("extra", None)
    )
    text = JsonLines().format(record)
    assert "\n" not in text
    assert len(text.encode()) < MAX_LINE_BYTES
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_line_says_when_how_bad_what_and_in_which_call() -> None:
    with within(request="7", item="demo/hello", run=None):
        found = line("rye_mcp.x", "not offered", extra=facts_of(code="unsigned", ms=1.5, run=None))
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "warning",
        "event": "not offered",
        "logger": "rye_mcp.x",
        "request": "7",
        "item": "demo/hello",
        "code": "unsigned",
        "ms": 1.5,
    }
    assert "request" not in line("rye_mcp.x", "later")


def raised() -> BaseException:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as exc:
            raise ValueError(f"expected something else, found {SECRET}") from exc
    except ValueError as exc:
        return ExceptionGroup(SECRET, [exc])


def test_of_an_exception_the_types_and_the_places_are_told() -> None:
    error = raised()
    found = line("rye_mcp.x", "it failed", exc_info=(type(error), error, error.__traceback__))
    assert found["error"] == "ExceptionGroup < ValueError < KeyError"
    assert SECRET not in json.dumps(found)
    deep = line("rye_mcp.x", "deep", exc_info=deep_error())
    assert 0 < len(deep["at"]) <= 6
    assert "test_logs.py" in deep["at"][-1]


def deep_error() -> Any:
    def fall(depth: int) -> None:
        if not depth:
            raise ValueError(SECRET)
        fall(depth - 1)

    try:
        fall(200)
    except ValueError as exc:
        return type(exc), exc, exc.__traceback__


STRANGERS: dict[str, tuple[str, str, tuple[Any, ...], str]] = {
    "what was put in": (
        "mcp.server",
        "dropped %r: malformed params",
        (SECRET,),
        "dropped …: malformed params",
    ),
    "a number": ("mcp.server", "%d of %(name)-10.3s at 100%%", ({"name": SECRET},), "… of … at 100%"),
    "what was put in before": ("mcp.server", f"Invalid Host header: {SECRET}", (), "Invalid Host header"),
    "ids of sessions": ("mcp.server", "Session 0123456789abcdef crashed", (), "Session … crashed"),
    "further lines": ("asyncio", f"never retrieved\nfuture: {SECRET}", (), "never retrieved"),
    "warnings": (
        "py.warnings",
        "%s",
        (f"/lib/x.py:3: UserWarning: {SECRET}\n  code({SECRET})",),
        "/lib/x.py:3: UserWarning",
    ),
}


@pytest.mark.parametrize("what", STRANGERS)
def test_of_other_libraries_only_what_stands_in_their_source_is_told(what: str) -> None:
    logger, message, args, event = STRANGERS[what]
    assert line(logger, message, *args)["event"] == event


def test_a_line_is_short_and_hides_nothing() -> None:
    found = line(
        "rye_mcp.x", "a\nb\x1b[2J\u202e", extra=facts_of(item="é" * 10_000, at=["\U0001f600" * 500] * 9)
    )
    assert found["event"] == r"a\nb\x1b[2J\u202e"
    assert len(found["item"]) <= 400


WRITER = """
import logging, sys
from rye_mcp.mcp_server.logs import log_to_standard_error
log_to_standard_error()
log = logging.getLogger("rye_mcp.x")
for number in range(5000):
    log.warning("line %d", number)
logging.getLogger("mcp").info("nobody wants this")
print("done", flush=True)
sys.stdin.read(1)
log.warning("the last")
"""


def test_nobody_waits_for_a_reader_that_does_not_read() -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    assert writer.stderr is not None
    with writer, writer.stdout as out, writer.stderr as err:
        assert out.readline() == b"done\n"
        first = [json.loads(err.readline()) for _ in range(100)]
        writer.stdin.write(b"x")
        writer.stdin.close()
        rest = [json.loads(each) for each in err.read().splitlines()]
    lines = [*first, *rest]
    assert [each["event"] for each in lines[:2]] == ["line 0", "line 1"]
    assert lines[-1]["event"] == "the last"
    assert lines[-1]["left_out"] == 5000 - (len(lines) - 1)


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("error", ["error"]),
        ("", ["warning", "error"]),
        ("loud", ["expected RYE_LOG to be one of debug, info, warning, error", "warning", "error"]),
    ],
)
def test_the_environment_names_the_level(level: str, shown: list[str]) -> None:
    code = (
        "import logging; from rye_mcp.mcp_server.logs import *; log_to_standard_error()\n"
        "for name in LEVELS: getattr(logging.getLogger('rye_mcp'), name)(name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"RYE_LOG": level}, capture_output=True, check=True, timeout=30
    )
    assert [json.loads(each)["event"] for each in done.stderr.splitlines()] == shown


def test_what_ends_the_server_or_a_thread_is_a_line() -> None:
    code = (
        "import threading; from rye_mcp.mcp_server.logs import *; log_to_standard_error(); log_crashes()\n"
        f"def fail(): raise ValueError({SECRET!r})\n"
        "thread = threading.Thread(target=fail); thread.start(); thread.join(); fail()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=30)
    lines = [json.loads(each) for each in done.stderr.splitlines()]
    assert done.returncode == 1
    assert [(each["event"], each["error"]) for each in lines] == [
        ("a thread ended with an error", "ValueError"),
        ("the server ended with an error", "ValueError"),
    ]
    assert SECRET.encode() not in done.stderr
