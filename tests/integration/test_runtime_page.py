"""Every example of docs/runtimes.md is written, signed by a person, run, and gives what the page says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rye_mcp.items import SpaceName
from rye_mcp.spaces import Spaces
from tests.http_server import Connection, Request, serve
from tests.runtime_workshop import Workshop, needs
from tests.trust_world import World

PAGE = Path(__file__).parents[2] / "docs/runtimes.md"
FILE = re.compile(r"^`\.ai/tools/(?P<path>[^`]+)`:\n\n```\w+\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"^Called with `(?P<parameters>[^`]+)`, its data is `(?P<data>[^`]+)`", re.MULTILINE)
SECTION = re.compile(r"^## (?P<title>.+)$", re.MULTILINE)

LINES_AT_MOST = 14
"""How long an example may be, its description of itself included."""

PROGRAMS = {"uv_script_runtime": "uv", "node_runtime": "node", "ruby_runtime": "ruby", "perl_runtime": "perl"}


@dataclass(frozen=True)
class Example:
    """The files of a section, and each call with what comes of it."""

    title: str
    files: dict[str, str]
    calls: tuple[tuple[str, str], ...]


def examples() -> Iterator[Example]:
    titles = list(SECTION.finditer(PAGE.read_text(encoding="utf-8")))
    ends = [*(each.start() for each in titles[1:]), None]
    for title, end in zip(titles, ends, strict=True):
        text = title.string[title.end() : end]
        files = {found["path"]: found["text"] for found in FILE.finditer(text)}
        calls = tuple((found["parameters"], found["data"]) for found in CALL.finditer(text))
        if files or calls:
            yield Example(title["title"], files, calls)


EXAMPLES = {example.title: example for example in examples()}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop will do: what is looked at here happens in other processes."""
    return "asyncio"


@pytest.mark.parametrize("title", EXAMPLES)
async def test_an_example_gives_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, title: str
) -> None:
    example = EXAMPLES[title]
    needs(PROGRAMS.get(title, "sh"), monkeypatch)
    workshop = Workshop(World(tmp_path))
    ids = [workshop.sign(path, text) for path, text in example.files.items()]
    assert example.calls
    async with serve(answer_with_the_question) as server:
        monkeypatch.setenv("DIRECTORY_URL", server.url)
        for parameters, data in example.calls:
            assert await workshop.data(ids[-1], json.loads(parameters)) == json.loads(data)


async def answer_with_the_question(connection: Connection, request: Request) -> None:
    body = json.dumps({"path": request.target, "body": json.loads(request.body)})
    await connection.json(body.encode())


def test_every_runtime_of_the_system_has_an_example() -> None:
    items = Spaces.locate().list(SpaceName.SYSTEM).items
    runtimes = {item.item_id.rpartition("/")[2] for item in items if item.item_id.endswith("_runtime")}
    assert runtimes == EXAMPLES.keys() - {"A runtime of your own"}


def test_an_example_is_short() -> None:
    lengths = {path: text.count("\n") for each in EXAMPLES.values() for path, text in each.files.items()}
    assert max(lengths.values()) <= LINES_AT_MOST, lengths
