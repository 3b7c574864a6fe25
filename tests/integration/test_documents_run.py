"""Every block of code in README.md, docs/ and the pages of examples/ is run, or has its reason why not.

| block | what happens |
| --- | --- |
| `sh`, `console`, `text` | one shell a page, in a fresh home, in order (see `tests/document_pages.py`) |
| a named file | written where that shell is; on a page without commands signed, and called as the page says |
| `python` | run as a script of its own |
| `json`, `yaml`, `toml` | read strictly |
| anything else | needs a name, or an excuse |

A picture that the commands of a page write has to be the one of that name in `docs/images/`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.document_pages import ROOT, Block, Shell, blocks_of, documents, lacks, needs_of, steps_of
from tests.page_examples import Example, examples_of, play

pytestmark = pytest.mark.documents

OWN_TESTS = {
    "docs/results.md": "tests/unit/test_results_page.py",
    "examples/cluster/README.md": "tests/ray/test_example.py",
}
"""Pages whose commands have a test of their own, with other rules."""

WITH_THE_INSTALLED_RYE = frozenset(
    {"README.md", "docs/tutorial.md", "docs/how-to/try-it-with-the-inspector.md"}
)
"""The pages that everybody begins with, and one that asks where `rye` is.

On all others, it is forked, which is quicker."""

MOST_EXCUSES = 13
"""How many blocks may be left out, all pages together."""


IMAGES = ROOT / "docs" / "images"
DIFFERENT_EACH_TIME = re.compile(r"\b[0-9a-f]{16}\b|rye-mcp [\d.]+\d")
"""What is left out when a picture that a page draws is compared with the one that it shows."""


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


BLOCKS = {named(page): blocks_of(page) for page in documents()}
COMMANDS = frozenset({"sh", "console"})
WITH_COMMANDS = [
    name
    for name, blocks in BLOCKS.items()
    if name not in OWN_TESTS
    and any(each.kind in COMMANDS and not (each.path or each.excuse) for each in blocks)
]


@contextmanager
def shell_of(name: str, directory: Path) -> Iterator[Shell]:
    """A shell for a page; that of an example begins in a copy of its directory."""
    example = (ROOT / name).parent if name.startswith("examples/") else None
    shell = Shell(directory, example=example, installed=name in WITH_THE_INSTALLED_RYE)
    try:
        yield shell
    finally:
        shell.close()


@pytest.mark.timeout(180)  # a page may install packages
@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_the_commands_of_a_page_print_what_it_says(tmp_path: Path, name: str) -> None:
    for missing in filter(None, map(lacks, needs_of(ROOT / name))):
        pytest.skip(missing)
    with shell_of(name, tmp_path) as shell:
        for step in steps_of(ROOT / name):
            shell.do(step)
    for picture in (tmp_path / "work").rglob("*.svg"):
        drawn, kept = (each.read_text(encoding="utf-8") for each in (picture, IMAGES / picture.name))
        assert DIFFERENT_EACH_TIME.sub("…", drawn) == DIFFERENT_EACH_TIME.sub("…", kept), picture.name


EXAMPLES = {
    f"{name}: {example.title}": example
    for name in BLOCKS
    if name not in WITH_COMMANDS
    for example in examples_of(ROOT / name)
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=list(EXAMPLES))
async def test_an_example_gives_what_its_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Example
) -> None:
    await play(example, tmp_path, monkeypatch)


SCRIPTS = {
    f"{name}:{block.line}": block.text
    for name, blocks in BLOCKS.items()
    for block in blocks
    if block.kind == "python" and block.path is None and not block.excuse
}


def test_every_script_runs_to_its_end(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each in a process and a directory of its own. Some wait, so they run at the same time."""
    with ExitStack() as stack:
        started = {
            place: stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-W", "error", "-c", code],
                    cwd=tmp_path_factory.mktemp("example"),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for place, code in SCRIPTS.items()
        }
        ended = {place: (process.communicate()[1], process.returncode) for place, process in started.items()}
    assert {place: end for place, end in ended.items() if end != ("", 0)} == {}


def read_yaml(text: str) -> object:
    return YAML(typ="safe", pure=True).load(text)


DATA: Mapping[str, Callable[[str], object]] = {
    "json": json.loads,
    "yaml": read_yaml,
    "toml": tomllib.loads,
}


def test_every_block_of_data_can_be_read() -> None:
    wrong = []
    for name, blocks in BLOCKS.items():
        for block in blocks:
            try:
                DATA.get(block.kind, str)(block.text)
            except Exception as exc:  # noqa: BLE001 - each reader has errors of its own
                wrong.append(f"{name}:{block.line}: {exc}")
    assert not wrong


def test_every_block_is_run_or_has_a_reason_why_not() -> None:
    unclaimed = [
        f"{name}:{block.line}: {block.kind or 'no language'}"
        for name, blocks in BLOCKS.items()
        for block in blocks
        if not is_claimed(name, block)
    ]
    assert not unclaimed


def is_claimed(name: str, block: Block) -> bool:
    """Whether something is done with a block. Words alone (`text`, or no language) may also be a picture.

    An item has a name: it is signed, and not only read.
    """
    if block.excuse or (block.kind in {*COMMANDS, *DATA, "text", "python", ""} and not is_item(block)):
        return True
    played = {f".ai/{path}" for example in EXAMPLES.values() for path in example.files}
    return block.path is not None and (name in WITH_COMMANDS or block.path in played)


def is_item(block: Block) -> bool:
    """Whether a block of data or Python says what runs it, as an item does."""
    return block.kind in {*DATA, "python"} and "executor_id" in block.text and block.kind != "json"


def test_few_blocks_are_left_out_and_each_says_why() -> None:
    excuses = {
        f"{name}:{block.line}": block.excuse
        for name, blocks in BLOCKS.items()
        for block in blocks
        if block.excuse
    }
    assert len(excuses) <= MOST_EXCUSES, excuses
    assert all(len(re.findall(r"\w+", excuse or "")) >= 3 for excuse in excuses.values()), excuses
