"""A log of many receipts: made, verified by the command, and listed by the page."""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from harness.figures import IncorrectError
from harness.memory import idle_percent
from harness.report import machine
from harness.targets import Target
from rye_mcp.receipts.runner import RunnerNotary
from rye_mcp.receipts.statement import Element, RunFacts
from rye_mcp.runs import chain
from rye_mcp.runs._database import RunDatabase
from rye_mcp.runs.chain import Link, MarkFile
from rye_mcp.runs.ids import new_run_id
from rye_mcp.runs.log import MAX_KEPT_ROWS, RunLog, RunRecord
from rye_mcp.runs.receipts import ReceiptStore
from rye_mcp.runs.records import COLUMNS, named, row_of

__all__ = ["main"]

RECEIPTS: Final = 1_000_000
QUICK_RECEIPTS: Final = 2_000
BATCH: Final = 1_000
PAGE_ROWS: Final = 50
QUIET_PERCENT: Final = 90
RYE: Final = Path(sysconfig.get_path("scripts")) / "rye"
PAGE: Final = Path(__file__).resolve().parents[2] / "docs/performance.md"
BEGIN, END = "<!-- benchmark:receipts -->\n", "<!-- /benchmark:receipts -->"

ELEMENTS: Final = tuple(
    Element(name, digit * 64, digit * 64, signer, digit * 64 if signer == "person" else None, "1.0.0")
    for name, digit, signer in (
        ("demo/report", "1", "person"),
        ("rye/core/runtimes/python_runtime", "2", "system"),
        ("rye/core/primitives/subprocess", "3", "system"),
    )
)
FACTS: Final = RunFacts(
    elements=ELEMENTS, parameters=b'{"texts":["to be"]}', variables=("HOME", "LANG", "PATH")
)
ENFORCED: Final = {"level": "cell", "project": "write", "net": "none", "proc": "private", "unenforced": []}


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured."""

    receipts: int
    bytes: int
    written_us: float
    verified_cpu_s: float
    verified_s: float
    page_p50_ms: float

    @property
    def targets(self) -> list[Target]:
        """What is to be reached."""
        count = f"{self.receipts:,} receipts"
        return [
            Target(f"{count}: verified, CPU time of one core", 60, round(self.verified_cpu_s, 1), "s"),
            Target(f"{count}: a page of {PAGE_ROWS}, p50", 50, round(self.page_p50_ms, 2), "ms"),
        ]


def main(description: str) -> int:
    """Measure, print, write what was asked for."""
    options = _options(description)
    idle = idle_percent()
    if idle < QUIET_PERCENT:
        print(f"this machine is busy ({idle:.0f} % idle): expect noise", file=sys.stderr)
    try:
        with tempfile.TemporaryDirectory(prefix="rye-receipts-", dir=options.place) as place:
            measured = _measure(Path(place), options.receipts, options.rounds)
    except IncorrectError as exc:
        print(f"wrong: {exc}", file=sys.stderr)
        return 1
    print(f"{machine()}\n")
    print(f"written: {measured.written_us:.0f} µs a receipt; the log has {measured.bytes / 1e6:,.0f} MB")
    print(f"verified in {measured.verified_s:.1f} s, with {measured.verified_cpu_s:.1f} s of CPU\n")
    for target in measured.targets:
        state = "ok" if target.is_met else "MISSED"
        print(f"{target.what:<58}{target.shown_limit():>10}{target.shown(target.measured):>12}  {state}")
    if options.json:
        options.json.write_text(json.dumps(_report(measured, idle), indent=2) + "\n", encoding="utf-8")
    if options.write:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        page = f"{head}{BEGIN}{_section(measured, idle)}{END}{rest.partition(END)[2]}"
        PAGE.write_text(page, encoding="utf-8")
    return int(options.strict and not all(target.is_met for target in measured.targets))


def _options(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--strict", action="store_true", help="end with 1 if a target is missed")
    parser.add_argument("--quick", action="store_true", help="few receipts, to see that it works")
    parser.add_argument("--rounds", type=int, default=50, help="how often each page is listed")
    parser.add_argument("--receipts", type=int, help=f"how many, instead of {RECEIPTS:,}")
    parser.add_argument("--place", type=Path, help="where the log is made; it needs 2 KB for each receipt")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/performance.md")
    found = parser.parse_args()
    found.receipts = found.receipts or (QUICK_RECEIPTS if found.quick else RECEIPTS)
    if found.write and found.receipts < RECEIPTS:
        parser.error("figures of fewer receipts are not for the page")
    return found


def _report(measured: Measured, idle: float) -> dict[str, Any]:
    targets = [asdict(each) | {"is_met": each.is_met} for each in measured.targets]
    return {
        "machine": machine(),
        "idle_percent": idle,
        "figures": asdict(measured),
        "targets": targets,
    }


def _section(measured: Measured, idle: float) -> str:
    rows = [
        f"| {each.what} | {each.shown_limit()} | {each.shown(each.measured)} | "
        f"{'ok' if each.is_met else 'MISSED'} |"
        for each in measured.targets
    ]
    return "\n".join(
        [
            "Written by `python benchmarks/receipts.py --write`.",
            f"{machine()}; before it, the machine was idle for {idle:.0f} % of the time.",
            "",
            "|  | target | measured |  |",
            "| --- | ---: | ---: | ---: |",
            *rows,
            "",
        ]
    )


def _measure(place: Path, receipts: int, rounds: int) -> Measured:
    state = place / "state/rye"
    written_us = _write(state, receipts)
    cpu_s, wall_s = _verify(place, receipts)
    with ReceiptStore(state) as store:
        page_ms = _page_ms(store, receipts, rounds)
    _require_found(place, state, receipts)
    size = (state / "runs.sqlite3").stat().st_size
    return Measured(receipts, size, written_us, cpu_s, wall_s, page_ms)


# --- the log ---


def _write(state: Path, receipts: int) -> float:
    """Make the log; how long each receipt took, in µs of CPU."""
    notary = RunnerNotary(state)
    with RunLog(state, notary=notary) as log:  # the first one makes the key, the file and its mark
        log.attest(_record(0), FACTS)
    begun = time.process_time()
    database = RunDatabase(state)
    for first in range(1, receipts, BATCH):
        numbers = range(first, min(receipts, first + BATCH))
        link = _write_batch(database, state, notary, numbers, receipts - MAX_KEPT_ROWS)
        MarkFile(state).raise_to(link)
        database.close()  # a checkpoint of such transactions would hold up the next one for too long
    took = time.process_time() - begun
    return took / max(1, receipts - 1) * 1e6


def _write_batch(
    database: RunDatabase, state: Path, notary: RunnerNotary, numbers: range, first_row: int
) -> chain.Mark:
    """Write some receipts; the rows of runs only where a log of that length still has them."""
    names = ", ".join(COLUMNS)
    insert = f"INSERT INTO runs ({names}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - constants
    last: list[Link] = []

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        link = chain.next_link(connection, MarkFile(state))
        for number in numbers:
            record = _record(number)
            row = row_of(record)
            receipt = notary.attest(record, named(row), link, FACTS)
            chain.add(connection, receipt)
            if number >= first_row:
                connection.execute(insert, row)
            link = Link(receipt.number + 1, receipt.digest)
        connection.execute("COMMIT")
        last.append(link)

    database.write(work)
    return chain.Mark(last[-1].number - 1, last[-1].previous or "")


def _record(number: int) -> RunRecord:
    return RunRecord(
        run_id=new_run_id(),
        item_id=f"demo/report{number % 50}",
        project="/home/ada/project",
        chain=tuple((each.item_id, each.signed_sha256) for each in ELEMENTS),
        signer="person ada",
        kind="exited",
        return_code=0,
        duration_ms=12.5,
        user_ms=9.0,
        system_ms=3.0,
        max_rss_kb=20_000,
        parameters=("texts",),
        caller="agent",
        client="claude-code 1.0",
        sealed=True,
        digests=(("stdout", "4" * 64), ("stderr", "5" * 64)),
        enforced=ENFORCED,
        runtime="warm",
    )


# --- what reads it ---


def _verify(place: Path, receipts: int) -> tuple[float, float]:
    """Run the command: its CPU time and its time, in seconds."""
    begun = time.perf_counter()
    with subprocess.Popen(_command(), cwd=place, env=_environment(place), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - begun
    if (process.returncode, said.get("receipts"), said.get("problems")) != (0, receipts, []):
        raise IncorrectError(f"expected {receipts} receipts without a problem, found {said}"[:500])
    return usage.ru_utime + usage.ru_stime, wall


def _require_found(place: Path, state: Path, receipts: int) -> None:
    """Change one byte of the oldest receipt: the command has to find that."""
    with closing(sqlite3.connect(state / "runs.sqlite3")) as connection, connection:
        connection.execute(
            "UPDATE receipts SET payload = CAST(replace(payload, 'runtime', 'runtimf') AS BLOB) "
            "WHERE number = 1"
        )
    ran = subprocess.run(
        _command(), cwd=place, env=_environment(place), capture_output=True, text=True, check=False
    )
    if ran.returncode != 1 or "receipt 1 was changed" not in ran.stdout:
        raise IncorrectError(f"expected that receipt 1 of {receipts} was changed, found {ran.stdout[:300]}")


def _command() -> Sequence[str]:
    return [str(RYE), "receipt", "verify", "--all", "--json"]


def _environment(place: Path) -> Mapping[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    homes = {"HOME": str(place), "USER_SPACE": str(place), "XDG_CACHE_HOME": str(place / "cache")}
    return {**kept, **homes, "XDG_STATE_HOME": str(place / "state")}


def _page_ms(store: ReceiptStore, receipts: int, rounds: int) -> float:
    """The median of how long a page takes, of the slowest place in the log."""
    times: dict[int, list[float]] = {receipts + 1: [], receipts // 2: [], PAGE_ROWS + 1: []}
    for _ in range(rounds):
        for before, found in times.items():
            begun = time.perf_counter()
            page = store.page(before=before, limit=PAGE_ROWS)
            found.append((time.perf_counter() - begun) * 1000)
            if [each.number for each in page] != list(range(before - 1, before - 1 - PAGE_ROWS, -1)):
                raise IncorrectError(f"expected {PAGE_ROWS} receipts below {before}, found others")
    return max(map(statistics.median, times.values()))
