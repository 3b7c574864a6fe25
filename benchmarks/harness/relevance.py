"""Makes items of a set of tools, asks for them, counts how many of the right ones come first, beside FTS5."""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.relevance_sets import SOURCES, make
from rye_mcp.app import App, Settings
from rye_mcp.catalog import Catalog
from rye_mcp.errors import RyeError
from rye_mcp.items import SpaceName
from rye_mcp.language.words import name_words, words_of
from rye_mcp.verbs._search_request import SearchRequest, query_of

TARGETS = {"sealtools": (0.920, 0.935), "toole": (0.670, 0.590)}
"""R@5 and nDCG@10 that have to be reached on the sets that have a name here."""

LEAST_RATIO = 1.05
"""How much better than plain FTS5 the results on every other set have to be."""

CHOSEN_ON = frozenset({"sealtools", "toole", "toollens", "livemcpbench", "bfcl"})
"""The sets on which the parameters of the ranking were chosen, or what there is of it was compared.

Of `bfcl`, the queries were looked at that were taken for ones with operators.
"""

RESAMPLES = 1_000
INTERVAL = 0.95

RECALL_RANKS = 5
GAIN_RANKS = 10
"""How many hits count, of the project alone: a set knows nothing of the tools that the package has."""
MAX_SEGMENT = 64

_NO_SEGMENT = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class Averages:
    """R@5, nDCG@10 and the mean reciprocal rank of one way to search."""

    recall: float
    gain: float
    reciprocal: float

    @classmethod
    def of(cls, figures: Sequence[tuple[float, float, float]]) -> Averages:
        """The averages over all queries."""
        return cls(*(statistics.fmean(column) for column in zip(*figures, strict=True)))


@dataclass(frozen=True, slots=True)
class Relevance:
    """What one set came to, and by how much nDCG@10 is above that of plain FTS5, with a paired interval."""

    name: str
    tools: int
    queries: int
    ours: Averages
    plain: Averages
    least: float
    most: float
    p50_ms: float

    @property
    def is_met(self) -> bool:
        """Whether the targets were reached: on a set without own ones, to be better than plain FTS5."""
        recall, gain = self._targets
        return self.ours.recall >= recall and self.ours.gain >= gain

    @property
    def _targets(self) -> tuple[float, float]:
        recall, gain = (min(1.0, LEAST_RATIO * each) for each in (self.plain.recall, self.plain.gain))
        return TARGETS.get(self.name, (recall, gain))

    @property
    def lines(self) -> Iterator[str]:
        """How it is printed."""
        chosen = "parameters were chosen on it" if self.name in CHOSEN_ON else "no parameter was chosen on it"
        yield f"{self.name}: {self.tools:,} tools, {self.queries:,} queries; {chosen}"
        for label, each in (("rye search", self.ours), ("FTS5, OR", self.plain)):
            yield f"  {label:<12}R@5 {each.recall:.3f}  nDCG@10 {each.gain:.3f}  MRR {each.reciprocal:.3f}"
        above = self.ours.gain - self.plain.gain
        ratios = [_ratio(self.ours.recall, self.plain.recall), _ratio(self.ours.gain, self.plain.gain)]
        yield f"  nDCG@10 {above:+.3f}, {INTERVAL:.0%} between {self.least:+.3f} and {self.most:+.3f}"
        yield f"  R@5 {ratios[0]:.3f} times that of FTS5, nDCG@10 {ratios[1]:.3f} times"
        recall, gain = self._targets
        yield f"  R@5 ≥ {recall:.3f}, nDCG@10 ≥ {gain:.3f}: {'ok' if self.is_met else 'MISSED'}"

    def as_dict(self) -> dict[str, Any]:
        """Return it for a report."""
        return asdict(self) | {"is_met": self.is_met, "is_chosen_on": self.name in CHOSEN_ON}


def _ratio(ours: float, plain: float) -> float:
    return ours / plain if plain else 1.0 if not ours else math.inf


def main(doc: str) -> int:
    """Measure the sets of a directory, print them, write what was asked for."""
    options = _options(doc)
    for source, path in options.make or ():
        make(source, Path(path), options.directory)
    names = options.set or sorted(path.name.removesuffix(".tools.jsonl") for path in _sets(options.directory))
    if not names:
        print(f"expected NAME.tools.jsonl in {options.directory}, found none")
        return 2
    found = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as root:
            found.append(measure(options.directory, name, Path(root)))
        print(*found[-1].lines, sep="\n", flush=True)
    if options.json:
        report = {"sets": [each.as_dict() for each in found]}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return int(options.strict and not all(each.is_met for each in found))


def measure(directory: Path, name: str, root: Path) -> Relevance:
    """One set, made into items below `root`."""
    tools = list(_lines(directory / f"{name}.tools.jsonl"))
    queries = list(_lines(directory / f"{name}.queries.jsonl"))
    ids = {write_item(root / "project", tool): tool["id"] for tool in tools}
    app = App.open(_settings(root))
    plain = _plain(tools)
    ours, theirs, times = [], [], []
    with app.catalog() as catalog:
        catalog.refresh()
        for query in queries:
            started = time.perf_counter()
            found = [ids[item_id] for item_id in _found(catalog, app, query["query"])]
            times.append(time.perf_counter() - started)
            ours.append(figures(found, query["relevant"]))
            theirs.append(figures(_plainly_found(plain, query["query"]), query["relevant"]))
    least, most = interval([one[1] - other[1] for one, other in zip(ours, theirs, strict=True)])
    p50_ms = statistics.median(times) * 1e3
    return Relevance(
        name, len(tools), len(queries), Averages.of(ours), Averages.of(theirs), least, most, p50_ms
    )


def _found(catalog: Catalog, app: App, text: str) -> list[str]:
    """What a query finds; nothing if it is refused, as a text may be that looks like one with operators."""
    try:
        query = query_of(SearchRequest(text, space=SpaceName.PROJECT, limit=GAIN_RANKS), app.spaces)
        return [hit.item_id for hit in catalog.search(query).hits]
    except RyeError:
        return []


def figures(ranked: Sequence[str], relevant: Iterable[str]) -> tuple[float, float, float]:
    """R@5, nDCG@10 and the reciprocal rank of one query."""
    wanted = list(relevant)
    return recall(ranked, wanted), gain(ranked, wanted), reciprocal(ranked, wanted)


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Between what the mean of these differences lies, by drawing queries again and again."""
    chance = random.Random(0)  # noqa: S311
    means = sorted(
        statistics.fmean(chance.choices(differences, k=len(differences))) for _ in range(RESAMPLES)
    )
    outside = int(len(means) * (1 - INTERVAL) / 2)
    return means[outside], means[-1 - outside]


def _plain(tools: Iterable[dict[str, Any]]) -> sqlite3.Connection:
    """The same tools in SQLite's full-text search, each one text, with the parts of its name."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE tools USING fts5(id UNINDEXED, text, tokenize='porter unicode61')")
    for tool in tools:
        parts = (
            " ".join(name_words(tool["name"])),
            *(tool.get(key, "") for key in ("description", "category", "body")),
        )
        database.execute("INSERT INTO tools VALUES (?, ?)", (tool["id"], " ".join(parts)))
    return database


def _plainly_found(database: sqlite3.Connection, query: str) -> list[str]:
    expression = " OR ".join(f'"{word}"' for word in dict.fromkeys(words_of(query)))
    sql = "SELECT id FROM tools WHERE tools MATCH ? ORDER BY rank LIMIT ?"
    return [found for (found,) in database.execute(sql, (expression, GAIN_RANKS))] if expression else []


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


def reciprocal(ranked: Sequence[str], relevant: Iterable[str]) -> float:
    """One by the rank of the first relevant one among the first ten."""
    wanted = set(relevant)
    return next((1 / rank for rank, each in enumerate(ranked[:GAIN_RANKS], start=1) if each in wanted), 0.0)


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
    parser.add_argument(
        "--make",
        nargs=2,
        action="append",
        metavar=("NAME", "PATH"),
        help=f"first make a set there, out of a checkout or an archive: {', '.join(SOURCES)}",
    )
    parser.add_argument("--set", action="append", metavar="NAME", help="one set (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, for scripts")
    parser.add_argument("--strict", action="store_true", help="a missed target is exit code 1")
    return parser.parse_args()
