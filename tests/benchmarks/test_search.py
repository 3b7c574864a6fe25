"""The benchmarks of search run and say what they must. Their figures are for people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

TOOLS = [
    (
        "convertToMP3",
        "Convert a video file to an MP3 audio file",
        "Media",
        "video_path The path of the video",
    ),
    ("uploadVideo", "Upload a video to a site", "Media", "site Where to"),
    ("getWeather", "Retrieve the weather forecast of a city", "Weather", "city The city\ndate The day"),
    ("translate_text", "Translates text from one language to another", "Language", ""),
    ("summarizeArticle", "Summarise a long article in a few sentences", "Language", "url The article"),
    ("bookFlight", "Book a flight between two airports", "Travel", "origin destination date"),
    ("findRecipes", "Find recipes for what is in the fridge", "Cooking", "ingredients"),
    ("PDF&URLTool", "Read a PDF document or a web page", "", ""),
]
QUERIES = [
    ("turn this video into an mp3 file", ["convertToMP3"]),
    ("Will it rain tomorrow in Oslo? I need the forecast.", ["getWeather"]),
    ("How do you say this text in another language?", ["translate_text"]),
    ("Please give me a summary of this article", ["summarizeArticle"]),
    ("I want to fly from Rome to Paris, book me a flight and find a recipe", ["bookFlight", "findRecipes"]),
    ("what does this pdf say", ["PDF&URLTool"]),
]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    """A small set of our own, as large ones are written."""
    tools = [
        {"id": name, "name": name, "description": description, "category": category, "body": body}
        for name, description, category, body in TOOLS
    ]
    queries = [{"query": query, "relevant": relevant} for query, relevant in QUERIES]
    for name, lines in (("tools", tools), ("queries", queries)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"sample.{name}.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def test_sentences_find_the_tools_that_they_are_about(sets: Path) -> None:
    report = sets / "report.json"
    ran = run(ROOT / "benchmarks/relevance.py", sets, "--strict", "--json", report)
    assert ran.returncode == 0, ran.stderr
    (found,) = json.loads(report.read_text(encoding="utf-8"))["sets"]
    assert (found["name"], found["tools"], found["queries"]) == ("sample", len(TOOLS), len(QUERIES))
    assert found["ours"]["recall"] == 1.0
    assert found["ours"]["gain"] >= 0.95
    assert found["least"] <= found["ours"]["gain"] - found["plain"]["gain"] <= found["most"]
    assert ran.stdout.startswith(f"sample: {len(TOOLS)} tools")
    assert "no parameter was chosen on it" in ran.stdout


def test_a_target_that_is_missed_is_said_and_with_strict_it_is_the_exit_code(sets: Path) -> None:
    for kind in ("tools", "queries"):
        (sets / f"sample.{kind}.jsonl").rename(sets / f"toole.{kind}.jsonl")
    lost = json.dumps({"query": "absent", "relevant": ["bookFlight"]}) + "\n"
    (sets / "toole.queries.jsonl").write_text(lost, encoding="utf-8")
    ran = run(ROOT / "benchmarks/relevance.py", sets, "--strict")
    assert ran.returncode == 1
    assert "parameters were chosen on it" in ran.stdout
    assert ran.stdout.rstrip().endswith("MISSED")
    assert run(ROOT / "benchmarks/relevance.py", sets).returncode == 0


def test_a_directory_without_sets_is_wrong_use(tmp_path: Path) -> None:
    assert run(ROOT / "benchmarks/relevance.py", tmp_path).returncode == 2


@pytest.mark.timeout(120)
def test_all_that_search_costs_is_measured(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    ran = run(ROOT / "benchmarks/search.py", "--quick", "--json", report)
    assert ran.returncode == 0, ran.stderr
    figures = {each["name"]: each for each in json.loads(report.read_text(encoding="utf-8"))["figures"]}
    for name in ("first index", "disk", "memory", "one word, p50", "sentence, p95", "misspelt, p50"):
        assert figures[name]["value"] > 0
    assert figures["slowest ping meanwhile"]["limit"] == 20
    assert figures["a change until it is found, p50"]["limit"] == 100
    for kind in ("one word", "three words", "twelve words"):
        assert figures[f"{kind} over stdio, 10 verified results, p50"]["value"] > 0
    assert figures["memory that a first search adds to a server"]["value"] > 0
    assert "four readers and two writers: a search, p95" in figures
    for name, figure in figures.items():
        line = next(line for line in ran.stdout.splitlines() if f"items  {name} " in line)
        verdict = {True: "ok", False: "MISSED", None: figure["unit"]}[figure["is_met"]]
        assert line.endswith(verdict)
