"""The page of `rye ui` in Chromium: a log of many runs, a run that prints, and a server that is pinged."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

import httpx

from harness.figures import percentile
from harness.memory import idle_percent
from harness.report import machine
from harness.server import Talk
from harness.targets import Target
from rye_mcp.runs.ids import is_run_id, new_run_id
from rye_mcp.runs.log import RunLog, RunRecord
from rye_mcp.runs.records import COLUMNS, row_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["main"]

SCRIPTS: Final = Path(sysconfig.get_path("scripts"))
ROWS: Final = 100_000
LINES: Final = 100
LOUD: Final = 10
QUIET_PERCENT: Final = 90

HEAD: Final = """#!/usr/bin/env bash
# /// rye
# version: 1.0.0
# description: Prints.
# executor_id: rye/core/runtimes/bash_runtime
# ///
"""
STAMPS: Final = 'for i in $(seq 1 400); do echo "at $(date +%s%3N)"; sleep 0.1; done\n'
FLOOD: Final = """python3 -c '
import sys, time
begun = time.monotonic()
for second in range(1, int(sys.argv[1]) * 20 + 1):
    sys.stdout.write("a line that says nothing of any interest to anybody\\n" * 50)
    sys.stdout.flush()
    time.sleep(max(0, begun + second / 20 - time.monotonic()))
' "${SECONDS_TO_PRINT:-6}"
"""
NOTE_PAINT: Final = """(() => {
  const note = () => { window.painted = performance.timeOrigin + performance.now(); };
  const after_this_frame = () => {
    const channel = new MessageChannel();
    channel.port1.onmessage = note;
    channel.port2.postMessage(0);
  };
  const observer = new MutationObserver(() => {
    if (!document.querySelector("[aria-label='Runs that are over']")) return;
    observer.disconnect();
    requestAnimationFrame(after_this_frame);
  });
  observer.observe(document, { childList: true, subtree: true });
})()"""
"""Notes when the list was painted: what a frame sends to itself arrives behind it."""

PAINTED: Final = """() => new Promise((done) => {
  const look = () => { window.painted ? done(window.painted) : setTimeout(look, 2); };
  look();
})"""
NOTE: Final = """() => {
  window.seen = [];
  const place = document.querySelector("[data-follow]");
  let rest = "";
  new MutationObserver((changes) => {
    const now = Date.now();
    for (const change of changes) for (const node of change.addedNodes) rest += node.textContent;
    const lines = rest.split("\\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("at ")) window.seen.push(now - Number(line.slice(3)));
  }).observe(place, { childList: true });
}"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured, in milliseconds; None without a browser."""

    first_view_ms: float | None
    version_ms: float
    line_p50_ms: float | None
    line_max_ms: float | None
    ping_p99_alone_ms: float
    ping_p99_followed_ms: float

    @property
    def targets(self) -> list[Target]:
        """What must be reached."""
        found = [Target("ping p99 while the page follows ten runs", 20, self.ping_p99_followed_ms, "ms")]
        if self.first_view_ms is not None:
            found.append(Target("first view with 100,000 runs", 300, self.first_view_ms, "ms"))
        if self.line_max_ms is not None:
            found.append(Target("a line on the screen, at most", 200, self.line_max_ms, "ms"))
        return found


def main(description: str) -> int:
    """Measure, print, write what was asked for."""
    options = _options(description)
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"this machine is busy ({idle:.0f} % idle): expect noise", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="rye-ui-") as place:
        measured = _measure(Path(place), 1 if options.quick else options.rounds, quick=options.quick)
    print(f"{machine()}\n")
    for name, value in asdict(measured).items():
        print(
            f"{name.removesuffix('_ms').replace('_', ' '):<24}{'-' if value is None else f'{value:8.1f} ms'}"
        )
    print()
    for target in measured.targets:
        state = "ok" if target.is_met else "MISSED"
        found = target.shown(round(target.measured, 1))
        print(f"{target.what:<44}{target.shown_limit():>10}{found:>12}  {state}")
    if options.json:
        report: dict[str, Any] = {"quick": options.quick, "machine": machine(), "idle_percent": idle}
        report |= {"figures": asdict(measured)}
        report |= {"targets": [asdict(each) | {"is_met": each.is_met} for each in measured.targets]}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return int(options.strict and not all(target.is_met for target in measured.targets))


def _options(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--strict", action="store_true", help="end with 1 if a target is missed")
    parser.add_argument("--quick", action="store_true", help="a few rounds, to see that it works")
    parser.add_argument("--rounds", type=int, default=7)
    return parser.parse_args()


def _measure(place: Path, rounds: int, *, quick: bool) -> Measured:
    environment = _environment(place)
    project = _project(place, environment)
    seconds = 2 if quick else 6
    alone, followed = _pings(project, {**environment, "SECONDS_TO_PRINT": str(seconds)}, 1 if quick else 3)
    with _chromium() as browser:
        delays = None if browser is None else _delays(browser, project, environment, 20 if quick else LINES)
        _fill(Path(environment["XDG_STATE_HOME"]) / "rye", ROWS // 100 if quick else ROWS)
        views, versions = [], []
        for _ in range(rounds):
            versions.append(_version_ms(environment))
            if browser is not None:
                views.append(_first_view_ms(browser, project, environment))
    return Measured(
        statistics.median(views) if views else None,
        statistics.median(versions),
        None if delays is None else statistics.median(delays),
        None if delays is None else max(delays),
        percentile(alone, 99),
        percentile(followed, 99),
    )


def _environment(place: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    home = place / "home"
    home.mkdir()
    return {
        **kept,
        "HOME": str(home),
        "USER_SPACE": str(home),
        "XDG_STATE_HOME": str(place / "state"),
        "XDG_CACHE_HOME": str(place / "cache"),
    }


def _project(place: Path, environment: Mapping[str, str]) -> Path:
    project = place / "project"
    tools = project / ".ai/tools/demo"
    project.mkdir()
    _rye("init", cwd=project, environment=environment)
    tools.mkdir(parents=True, exist_ok=True)
    (tools / "stamps.sh").write_text(HEAD + STAMPS)
    (tools / "flood.sh").write_text(HEAD + FLOOD)
    _rye("sign", "demo/*", cwd=project, environment=environment)
    return project


def _rye(*arguments: str, cwd: Path, environment: Mapping[str, str]) -> str:
    command = [str(SCRIPTS / "rye"), *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment, check=True, capture_output=True, text=True
    ).stdout


def _fill(state: Path, rows: int) -> None:
    """Put that many runs into the log, as many days of them as there would be."""
    with RunLog(state) as log:
        log.append(RunRecord(run_id=new_run_id(), item_id="demo/first", kind="exited", caller="agent"))
    names = ", ".join(COLUMNS)
    insert = f"INSERT INTO runs ({names}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - constants
    chain = tuple((f"demo/tool{number}", "0" * 64) for number in range(3))
    known: dict[str, Any] = {"kind": "exited", "return_code": 0, "caller": "agent", "client": "claude-code"}
    with sqlite3.connect(state / "runs.sqlite3") as connection:
        for number in range(rows):
            item_id = f"demo/tool{number % 50}"
            record = RunRecord(run_id=new_run_id(), item_id=item_id, duration_ms=12.5, chain=chain, **known)
            connection.execute(insert, row_of(record))
    connection.close()


# --- the page ---


@contextmanager
def _chromium() -> Iterator[Browser | None]:
    path = shutil.which("chromium")
    if path is None or find_spec("playwright") is None:
        print("expected chromium and playwright, found none: only pings are measured", file=sys.stderr)
        yield None
        return
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as drivers:
        browser = drivers.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@contextmanager
def _page(project: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """`rye ui`, and its address."""
    command = [str(SCRIPTS / "rye"), "ui", "--no-open"]
    with subprocess.Popen(
        command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _version_ms(environment: Mapping[str, str]) -> float:
    begun = time.perf_counter()
    subprocess.run([str(SCRIPTS / "rye"), "--version"], env=environment, check=True, capture_output=True)
    return (time.perf_counter() - begun) * 1000


def _first_view_ms(browser: Browser, project: Path, environment: Mapping[str, str]) -> float:
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(NOTE_PAINT)
    begun = time.time()
    with _page(project, environment) as address:
        page.goto(address, wait_until="commit")
        page.get_by_role("region", name="Runs that are over").wait_for()
        painted = page.evaluate(PAINTED)
        context.close()
    return float(painted) - begun * 1000


def _delays(browser: Browser, project: Path, environment: Mapping[str, str], lines: int) -> list[float]:
    """How old each line is when it stands in the document."""
    command = [str(SCRIPTS / "rye"), "run", "demo/stamps"]
    silent = subprocess.DEVNULL
    with (
        _page(project, environment) as address,
        subprocess.Popen(command, cwd=project, env=environment, stdout=silent, stderr=silent) as running,
    ):
        page = browser.new_context().new_page()
        page.goto(address)
        page.get_by_role("link", name="demo/stamps").click()
        page.get_by_text("at 1").first.wait_for()
        page.evaluate(NOTE)
        while page.evaluate("window.seen.length") < lines:  # a function that waits is a script of its own
            page.wait_for_timeout(100)
        delays: list[float] = page.evaluate("window.seen")
        running.terminate()
    return delays[1:]  # the first look comes with what was there already


# --- the server ---


def _pings(project: Path, environment: Mapping[str, str], rounds: int) -> tuple[list[float], list[float]]:
    alone: list[float] = []
    followed: list[float] = []
    call = ("execute", {"item_id": "demo/flood", "parameters": {}})
    for _ in range(rounds):
        for times, looks in ((alone, False), (followed, True)):
            with Talk([SCRIPTS / "rye-mcp"], environment, project) as server:
                server.call("search", query="print")
                follower = _Follower(project, environment) if looks else None
                times.extend(server.pings_among([call] * LOUD))
                if follower is not None:
                    follower.end()
    return alone, followed


class _Follower:
    """A page that follows every run that is going on, in threads of this process."""

    def __init__(self, project: Path, environment: Mapping[str, str]) -> None:
        self._is_over = False
        self._thread = Thread(target=self._follow, args=(project, environment))
        self._thread.start()

    def end(self) -> None:
        """Stop looking."""
        self._is_over = True
        self._thread.join()

    def _follow(self, project: Path, environment: Mapping[str, str]) -> None:
        with _page(project, environment) as address, httpx.Client(timeout=30) as client:
            base, _, secret = address.partition("/#")
            client.headers["origin"] = base
            client.post(f"{base}/session", content=secret)
            threads: dict[str, Thread] = {}
            while not self._is_over:
                live = Path(environment["XDG_STATE_HOME"]) / "rye/live"
                names = [each.name for each in live.iterdir()] if live.is_dir() else []
                for name in names:
                    if name not in threads and is_run_id(name):
                        threads[name] = Thread(target=_read, args=(client, f"{base}/runs/{name}/live"))
                        threads[name].start()
                time.sleep(0.05)
            for thread in threads.values():
                thread.join()


def _read(client: httpx.Client, address: str) -> None:
    with client.stream("GET", address) as events:
        for line in events.iter_lines():
            if line == "event: over":
                return
