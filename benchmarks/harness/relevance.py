"""Makes items of a set of tools, asks for them, and counts how many of the right ones come first."""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rye_mcp.app import App, Settings
from rye_mcp.items import SpaceName
from rye_mcp.verbs.search import SearchRequest, search

TARGETS = {"sealtools": (0.850, 0.890), "toole": (0.630, 0.560)}
"""R@5 and nDCG@10 that have to be reached on the sets that have a name here."""

RECALL_RANKS = 5
GAIN_RANKS = 10
"""How many hits count, of the project alone: a set knows nothing of the tools that the package has."""
MAX_SEGMENT = 64

_NO_SEGMENT = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class Relevance:
    """What one set came to."""

    name: str
    tools: int
    queries: int
    recall: float
    gain: float
    p50_ms: float

    @property
    def is_met(self) -> bool | None:
        """Whether the targets were reached; None for a set without any."""
        if self.name not in TARGETS:
            return None
        recall, gain = TARGETS[self.name]
        return self.recall >= recall and self.gain >= gain

    @property
    def line(self) -> str:
        """How it is printed."""
        verdict = {True: "ok", False: "MISSED", None: ""}[self.is_met]
        recall, gain = TARGETS.get(self.name, (0.0, 0.0))
        figures = f"R@5 {self.recall:.3f} ≥ {recall:.3f}  nDCG@10 {self.gain:.3f} ≥ {gain:.3f}"
        return (
            f"{self.name:<20}{self.tools:>7,} tools {self.queries:>6,} queries  {figures}  {verdict}".rstrip()
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it for a report."""
        return asdict(self) | {"is_met": self.is_met}


def main(doc: str) -> int:
    """Measure the sets of a directory, print them, write what was asked for."""
    options = _options(doc)
    names = options.set or sorted(path.name.removesuffix(".tools.jsonl") for path in _sets(options.directory))
    if not names:
        print(f"expected NAME.tools.jsonl in {options.directory}, found none")
        return 2
    found = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as root:
            found.append(measure(options.directory, name, Path(root)))
        print(found[-1].line, flush=True)
    if options.json:
        report = {"sets": [each.as_dict() for each in found]}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return int(options.strict and any(each.is_met is False for each in found))


def measure(directory: Path, name: str, root: Path) -> Relevance:
    """One set, made into items below `root`."""
    tools = list(_lines(directory / f"{name}.tools.jsonl"))
    queries = list(_lines(directory / f"{name}.queries.jsonl"))
    ids = {write_item(root / "project", tool): tool["id"] for tool in tools}
    app = App.open(_settings(root))
    recalls, gains, times = [], [], []
    with app.catalog() as catalog:
        catalog.refresh()
        for query in queries:
            started = time.perf_counter()
            request = SearchRequest(query["query"], space=SpaceName.PROJECT, limit=GAIN_RANKS)
            answer = search(request, app.context(), catalog)
            times.append(time.perf_counter() - started)
            ranked = [ids.get(each.item_id, "") for each in answer.results]
            recalls.append(recall(ranked, query["relevant"]))
            gains.append(gain(ranked, query["relevant"]))
    p50_ms = statistics.median(times) * 1e3
    return Relevance(
        name, len(tools), len(queries), statistics.fmean(recalls), statistics.fmean(gains), p50_ms
    )


def write_item(project: Path, tool: dict[str, Any]) -> str:
    """Write a tool as a file of a project; its item id."""
    item_id = _NO_SEGMENT.sub("_", tool["id"])[:MAX_SEGMENT]
    said = {
        "__version__": "1.0.0",
        "__tool_type__": "python",
        "__executor_id__": "rye/core/primitives/subprocess",
        "__tool_name__": tool["name"],
        "__tool_description__": tool["description"],
        "__category__": tool.get("category", ""),
    }
    lines = [f"{key} = {value!r}" for key, value in said.items()]
    lines += [
        "",
        "",
        "def main():",
        *(f"    # {line}" for line in tool.get("body", "").splitlines()),
        "    return None",
        "",
    ]
    path = project / ".ai/tools" / f"{item_id}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines), encoding="utf-8")
    return item_id


def recall(ranked: Sequence[str], relevant: Iterable[str]) -> float:
    """The share of the relevant ones among the first five."""
    wanted = set(relevant)
    return len(wanted.intersection(ranked[:RECALL_RANKS])) / len(wanted)


def gain(ranked: Sequence[str], relevant: Iterable[str]) -> float:
    """The discounted gain of the first ten, as a share of the best that there could be."""
    wanted = set(relevant)
    found = sum(1 / math.log2(rank + 2) for rank, each in enumerate(ranked[:GAIN_RANKS]) if each in wanted)
    return found / sum(1 / math.log2(rank + 2) for rank in range(min(len(wanted), GAIN_RANKS)))


def _settings(root: Path) -> Settings:
    environment = {"XDG_CACHE_HOME": str(root / "cache"), "HOME": str(root)}
    return Settings.find(
        project=root / "project",
        user_directory=root / "home",
        state=root / "state",
        environment=environment,
    )


def _sets(directory: Path) -> Iterator[Path]:
    yield from directory.glob("*.tools.jsonl")


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _options(doc: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("directory", type=Path, help="where the sets are")
    parser.add_argument("--set", action="append", metavar="NAME", help="one set (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, for scripts")
    parser.add_argument("--strict", action="store_true", help="a missed target is exit code 1")
    return parser.parse_args()
