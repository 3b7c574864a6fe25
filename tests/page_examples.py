"""The examples of a page: files that are named above their blocks, and calls with what comes of them.

    `.ai/tools/demo/add.py`:

    ```python
    …
    ```

    Called with `{"a": 40, "b": 2}`, its data is `{"sum": 42}`.

The files of a section are signed by a person, the last one is what is called.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.http_server import Connection, Request, serve
from tests.runtime_workshop import Workshop, needs
from tests.trust_world import World

__all__ = ["Example", "examples_of", "play"]

FILE = re.compile(
    r"^`\.ai/(?P<path>(?:tools|directives|knowledge)/[^`]+)`:\n\n```\w+\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
CALL = re.compile(r"^Called with `(?P<parameters>[^`]+)`, its data is `(?P<data>[^`]+)`", re.MULTILINE)
SECTION = re.compile(r"^## (?P<title>.+)$", re.MULTILINE)

PROGRAMS = {"uv_script_runtime": "uv", "node_runtime": "node", "ruby_runtime": "ruby", "perl_runtime": "perl"}
"""The programs that tools of some runtimes need; every machine has the others."""


@dataclass(frozen=True)
class Example:
    """The files of a section by their paths below `.ai`, and each call with what comes of it."""

    title: str
    files: Mapping[str, str]
    calls: tuple[tuple[str, str], ...]

    @property
    def programs(self) -> list[str]:
        text = "".join(self.files.values())
        return [program for runtime, program in PROGRAMS.items() if runtime in text]


def examples_of(page: Path) -> Iterator[Example]:
    """The examples of every section that has some."""
    titles = list(SECTION.finditer(page.read_text(encoding="utf-8")))
    ends = [*(each.start() for each in titles[1:]), None]
    for title, end in zip(titles, ends, strict=False):  # a page without sections has an end and no title
        text = title.string[title.end() : end]
        files = {found["path"]: found["text"] for found in FILE.finditer(text)}
        calls = tuple((found["parameters"], found["data"]) for found in CALL.finditer(text))
        if files or calls:
            yield Example(title["title"], files, calls)


async def play(example: Example, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sign the files of an example and make its calls; AssertionError where the page says something else."""
    for program in example.programs:
        needs(program, monkeypatch)
    workshop = Workshop(World(directory))
    ids = [workshop.sign_item(path, text) for path, text in example.files.items()]
    async with serve(_answer_with_the_question) as server:
        monkeypatch.setenv("DIRECTORY_URL", server.url)
        for parameters, data in example.calls:
            assert await workshop.data(ids[-1], json.loads(parameters)) == json.loads(data)


async def _answer_with_the_question(connection: Connection, request: Request) -> None:
    answer: dict[str, Any] = {"path": request.target}
    if request.body:
        answer["body"] = json.loads(request.body)
    await connection.json(json.dumps(answer).encode())
