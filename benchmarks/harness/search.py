"""Measures the search index: how long it takes to build, to follow a change, and to answer queries."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.figures import IncorrectError, percentile
from harness.memory import idle_percent
from harness.report import machine
from harness.search_scene import Scene, query_kinds
from harness.search_server import measure_server
from harness.search_shared import measure_first_index, measure_shared
from rye_mcp.catalog import Catalog, SearchQuery
from rye_mcp.queries import read_query

SIZES = (200, 10_000, 100_000)
QUICK_SIZES = (50,)
QUERIES = 60
QUICK_QUERIES = 3
QUIET_PERCENT = 90
CHANGES = 15

MAX_FIRST_INDEX_S = {10_000: 5.0, 100_000: 45.0}
MAX_VISIBLE_MS = 100.0
MAX_PING_MS = 20.0
MAX_P50_MS = {
    "one word": {10_000: 3.0, 100_000: 4.0},
    "three words": {10_000: 4.0, 100_000: 6.0},
    "twelve words": {10_000: 6.0, 100_000: 12.0},
    "three sentences": {10_000: 9.0, 100_000: 15.0},
    "prefix": {10_000: 20.0, 100_000: 20.0},
}
"""How long a query of each kind may take, for so many items."""


MAX_OF_A_SERVER = {
    "one word over stdio, 10 verified results, p50": {10_000: 10.0},
    "three words over stdio, 10 verified results, p50": {10_000: 10.0},
    "twelve words over stdio, 10 verified results, p50": {10_000: 15.0},
}
"""The same for a client of the server, which gets ten results that have passed the gate."""


def main(doc: str) -> int:
    """Measure, print, write what was asked for."""
    options = _options(doc)
    if (idle := idle_percent()) < QUIET_PERCENT:
        print(f"this machine is busy ({idle:.0f} % idle): expect noise", file=sys.stderr)
    print(f"{machine()}\n")
    sizes = options.items or (QUICK_SIZES if options.quick else SIZES)
    figures: list[dict[str, Any]] = []
    try:
        for size in sizes:
            with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
                for figure in measure(Path(directory), size, quick=options.quick):
                    figures.append(figure)
                    print(_line(figure), flush=True)
    except IncorrectError as exc:
        print(f"INCORRECT: {exc}", file=sys.stderr)
        return 1
    if options.json:
        report = {"quick": options.quick, "machine": machine(), "idle_percent": idle, "figures": figures}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return int(options.strict and any(figure["is_met"] is False for figure in figures))


def measure(directory: Path, size: int, *, quick: bool) -> Iterator[dict[str, Any]]:
    """Everything about so many items."""
    scene = Scene.written(directory, size)
    seconds, slowest_ms, idle_ms = measure_first_index(scene)
    yield _figure(size, "first index", seconds, "s", MAX_FIRST_INDEX_S.get(size))
    yield _figure(size, "slowest ping meanwhile", slowest_ms, "ms", MAX_PING_MS)
    yield _figure(size, "slowest ping of an idle process meanwhile", idle_ms, "ms", None)
    yield _figure(size, "disk", scene.disk_mib(), "MiB", None)
    with scene.catalog() as catalog:
        catalog.refresh()
        yield _figure(size, "memory", _resident_mib(), "MiB", None)
        yield from _queries(catalog, scene, QUICK_QUERIES if quick else QUERIES)
        visible_ms, refresh_ms = _changes(catalog, scene, 2 if quick else CHANGES)
        yield _figure(size, "a change until it is found, p50", visible_ms, "ms", MAX_VISIBLE_MS)
        yield _figure(size, "a look at files that are as they were, p50", refresh_ms, "ms", None)
    shared = measure_shared(scene, 3 if quick else 20)
    yield _figure(size, "four readers and two writers: a search, p95", shared, "ms", None)
    for name, value, unit in measure_server(scene, QUICK_QUERIES if quick else QUERIES):
        yield _figure(size, name, value, unit, MAX_OF_A_SERVER.get(name, {}).get(size))
    if scan_ms := _scan_ms(scene):
        yield _figure(size, "ripgrep through all files, p50", scan_ms, "ms", None)


def _queries(catalog: Catalog, scene: Scene, count: int) -> Iterator[dict[str, Any]]:
    for kind, queries in query_kinds(count).items():
        times, working = [], []
        for text, fuzzy in queries:
            read = read_query(text)
            query = SearchQuery(read.tree, read.wish, fuzzy=fuzzy)
            catalog.search(query)
            started, begun = time.perf_counter(), time.thread_time()
            page = catalog.search(query)
            working.append((time.thread_time() - begun) * 1e3)
            times.append((time.perf_counter() - started) * 1e3)
            if page.total < len(page.hits) or (kind == "one word" and not page.hits):
                raise IncorrectError(f"{text!r}: expected hits, found {page.total}")
        limit = MAX_P50_MS.get(kind, {}).get(scene.size)
        yield _figure(scene.size, f"{kind}, p50", percentile(times, 50), "ms", limit)
        yield _figure(scene.size, f"{kind}, p50 of processor time", percentile(working, 50), "ms", None)
        yield _figure(scene.size, f"{kind}, p95", percentile(times, 95), "ms", None)


def _changes(catalog: Catalog, scene: Scene, count: int) -> tuple[float, float]:
    """How long it takes from noticing a change to finding it, and to see that nothing else has changed."""
    visible, looks = [], []
    chance = random.Random(7)  # noqa: S311 - the same in every run
    for number in range(count):
        item_id = scene.write(chance.randrange(scene.size), f"novelty{number}")
        wish = read_query(f"find the novelty{number} for me please")
        started = time.perf_counter()
        catalog.note_changed(scene.place(item_id))  # as a server does, which the system tells of changes
        page = catalog.search(SearchQuery(wish.tree, wish.wish))
        visible.append((time.perf_counter() - started) * 1e3)
        if page.total != 1 or page.hits[0].item_id != item_id:
            raise IncorrectError(f"expected {item_id}, which has changed, found {page.hits}")
        started = time.perf_counter()
        catalog.refresh()
        looks.append((time.perf_counter() - started) * 1e3)
    return percentile(visible, 50), percentile(looks, 50)


def _scan_ms(scene: Scene) -> float | None:
    """How long ripgrep takes for three words; None when there is none."""
    ripgrep = shutil.which("rg")
    if ripgrep is None:
        return None
    times = []
    for text, _ in query_kinds(5)["three words"]:
        command = [ripgrep, "--files-with-matches", "--ignore-case", "|".join(text.split()), str(scene.tools)]
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=False)
        times.append((time.perf_counter() - started) * 1e3)
    return percentile(times, 50)


def _resident_mib() -> float:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _figure(size: int, name: str, value: float, unit: str, limit: float | None) -> dict[str, Any]:
    is_met = None if limit is None else value <= limit
    return {"items": size, "name": name, "value": value, "unit": unit, "limit": limit, "is_met": is_met}


def _line(figure: dict[str, Any]) -> str:
    verdict = {True: "ok", False: "MISSED", None: ""}[figure["is_met"]]
    limit = "" if figure["limit"] is None else f"≤ {figure['limit']:g} {figure['unit']}"
    value = f"{figure['value']:10.2f} {figure['unit']:<4}"
    return f"{figure['items']:>8,} items  {figure['name']:<46}{value} {limit:<12}{verdict}".rstrip()


def _options(doc: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, for scripts")
    parser.add_argument("--strict", action="store_true", help="a missed target is exit code 1")
    parser.add_argument("--quick", action="store_true", help="see that it works; the figures mean nothing")
    parser.add_argument(
        "--items", type=int, nargs="+", metavar="N", help="how many items (default: all sizes)"
    )
    return parser.parse_args()
