"""Makes sets of tools and wishes out of public data, as `relevance` measures them: a reader for each source.

A source is a checkout, a git directory without one, or an archive (a wheel is one). Nothing is fetched here.
"""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

__all__ = ["SOURCES", "make"]

MAX_ID: Final = 56
"""How long an id is, without the number that tells it from others."""

_NO_SEGMENT: Final = re.compile(r"[^A-Za-z0-9_.-]")
_CALLED: Final = re.compile(r"\s*([A-Za-z_][\w.]*)\s*\(")

Read = Callable[[str], str]


@dataclass
class _Set:
    """The tools of a set by what the source calls them, and its queries."""

    tools: dict[object, dict[str, str]] = field(default_factory=dict)
    queries: list[dict[str, Any]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def add(self, key: object, name: str, description: str, *, category: str = "", body: str = "") -> None:
        """Add a tool, unless one is called so already."""
        if key in self.tools:
            return
        item_id = base = _NO_SEGMENT.sub("_", name)[:MAX_ID].strip("._-") or "tool"
        for number in range(2, len(self.ids) + 2):
            if item_id.lower() not in self.ids:
                break
            item_id = f"{base}_{number}"
        self.ids.add(item_id.lower())
        said = {"id": item_id, "name": name, "description": description, "category": category, "body": body}
        self.tools[key] = said

    def ask(self, query: str, relevant: Iterable[object]) -> None:
        """Add a query, if the set has a tool for it."""
        ids = list(dict.fromkeys(self.tools[key]["id"] for key in relevant if key in self.tools))
        if ids and query.strip():
            self.queries.append({"query": query.strip(), "relevant": ids})


def make(source: str, path: Path, directory: Path) -> None:
    """Write `NAME.tools.jsonl` and `NAME.queries.jsonl` of a source into a directory."""
    made = _Set()
    SOURCES[source](_reader(path), made)
    for kind, rows in (("tools", made.tools.values()), ("queries", made.queries)):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (directory / f"{source}.{kind}.jsonl").write_text(lines, encoding="utf-8")


def _reader(path: Path) -> Read:
    if path.is_file():
        archive = zipfile.ZipFile(path)
        return lambda name: archive.read(name).decode("utf-8")
    if (path / "HEAD").is_file():
        return lambda name: (
            subprocess.run(
                ["git", "-C", str(path), "show", f"HEAD:{name}"], capture_output=True, check=True, text=True
            ).stdout
        )
    return lambda name: (path / name).read_text(encoding="utf-8")


def _stabletoolbench(read: Read, made: _Set) -> None:
    """The APIs of ToolBench that a query was written for, and the queries that can be solved."""
    parts = ("G1_category", "G1_instruction", "G1_tool", "G2_category", "G2_instruction", "G3_instruction")
    entries = [
        entry
        for part in parts
        for entry in json.loads(read(f"solvable_queries/test_instruction/{part}.json"))
    ]
    for entry in entries:
        for api in entry["api_list"]:
            tool, name = api["tool_name"], api["api_name"]
            given = [*api["required_parameters"], *api["optional_parameters"]]
            made.add(
                (tool, name),
                f"{tool} {name}",
                api["api_description"] or "",
                category=api["category_name"],
                body="\n".join(f"{each['name']}: {each['description']}" for each in given),
            )
    for entry in entries:
        made.ask(entry["query"], map(tuple, entry["relevant APIs"]))


def _bfcl(read: Read, made: _Set) -> None:
    """The functions of all entries that offer several, written by its makers and by users."""
    for kind in ("multiple", "live_multiple"):
        path = "bfcl_eval/data/{}BFCL_v4_" + kind + ".json"
        entries = [json.loads(line) for line in read(path.format("")).splitlines()]
        answers = (json.loads(line) for line in read(path.format("possible_answer/")).splitlines())
        right = {answer["id"]: answer["ground_truth"] for answer in answers}
        for entry in entries:
            for function in entry["function"]:
                body = "\n".join(_parameters(function["parameters"]))
                made.add(function["name"], function["name"], function["description"], body=body)
        for entry in entries:
            asked = [
                turn["content"] for turns in entry["question"] for turn in turns if turn["role"] == "user"
            ]
            made.ask("\n".join(asked), [name for call in right[entry["id"]] for name in call])


def _ultratool(read: Read, made: _Set) -> None:
    """The tools of the English test set, and those that the plan of each question calls."""
    entries = [json.loads(line) for line in read("data/English-dataset/test.json").splitlines()]
    for entry in entries:
        for tool in entry["tools"]:
            body = "\n".join(_parameters(tool["arguments"]))
            made.add(tool["name"], tool["name"], tool["description"], category=entry["domain"], body=body)
    for entry in entries:
        called = (_CALLED.match(step["tool"]) for step in entry["plan"])
        made.ask(entry["question"], [found[1] for found in called if found])


def _metatool(read: Read, made: _Set) -> None:
    """Questions that need two tools each. The tools are those of ToolE, and the questions are others."""
    for name in ("plugin_des", "big_tool_des"):
        for tool, description in json.loads(read(f"dataset/{name}.json")).items():
            made.add(tool, tool, description)
    for entry in json.loads(read("dataset/data/multi_tool_query_golden.json")):
        made.ask(entry["query"], entry["tool"])


def _parameters(schema: Mapping[str, Any]) -> Iterator[str]:
    for name, said in (schema.get("properties") or {}).items():
        yield f"{name}: {said.get('description', '') if isinstance(said, dict) else ''}"


SOURCES: Final[Mapping[str, Callable[[Read, _Set], None]]] = {
    "stabletoolbench": _stabletoolbench,
    "bfcl": _bfcl,
    "ultratool": _ultratool,
    "metatool": _metatool,
}
"""Who reads what: THUNLP-MT/StableToolBench, PyPI's bfcl-eval, JoeYing1019/UltraTool, HowieHwong/MetaTool."""
