"""The examples of a page: files that are named above their blocks, and calls with what comes of them.

    `.ai/tools/demo/add.py`:

    ```python
    …
    ```

    Called with `{"a": 40, "b": 2}`, its data is `{"sum": 42}`.

The files of a section are signed by a person. A call is one of the tool that stands last above it.
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
    """The files of a section by their paths below `.ai`, and the calls with what comes of them."""

    title: str
    files: Mapping[str, str]
    calls: tuple[tuple[str, str, str], ...]
    """The path of a tool, parameters, data."""

    @property
    def programs(self) -> list[str]:
        text = "".join(self.files.values())
        return [program for runtime, program in PROGRAMS.items() if runtime in text]


def examples_of(page: Path) -> Iterator[Example]:
    """The examples of every section that has some."""
    _, *sections = SECTION.split(page.read_text(encoding="utf-8"))
    for title, text in zip(sections[::2], sections[1::2], strict=True):
        files = {found["path"]: found["text"] for found in FILE.finditer(text)}
        if files:
            yield Example(title, files, tuple(_calls(text)))


def _calls(text: str) -> Iterator[tuple[str, str, str]]:
    for call in CALL.finditer(text):
        above = [found["path"] for found in FILE.finditer(text, 0, call.start())]
        yield above[-1], call["parameters"], call["data"]


async def play(example: Example, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sign the files of an example and make its calls; AssertionError where the page says something else."""
    for program in example.programs:
        needs(program, monkeypatch)
    workshop = Workshop(World(directory))
    ids = {path: workshop.sign_item(path, text) for path, text in example.files.items()}
    async with serve(_answer_with_the_question) as server:
        monkeypatch.setenv("DIRECTORY_URL", server.url)
        for path, parameters, data in example.calls:
            assert await workshop.data(ids[path], json.loads(parameters)) == json.loads(data)


async def _answer_with_the_question(connection: Connection, request: Request) -> None:
    answer: dict[str, Any] = {"path": request.target}
    if request.body:
        answer["body"] = json.loads(request.body)
    await connection.json(json.dumps(answer).encode())
