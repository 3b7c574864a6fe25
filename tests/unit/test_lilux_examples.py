"""Every example of `docs/lilux.md` runs as it stands there, as a script of its own."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lilux._http import failures
from lilux._http.spec import CONFIG_KEYS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lilux.md"
BLOCK = re.compile(r"^## (?P<heading>.+?)$|^```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[str, str]]:
    """Each example under the heading that it stands below."""
    found, heading = [], ""
    for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        heading = match["heading"] or heading
        if match["code"]:
            found.append((heading, match["code"]))
    return found


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[subprocess.Popen[str]]]:
    """All examples, each a process in a directory of its own: some wait, so they run at the same time."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-W", "error", "-c", code],
                    cwd=tmp_path_factory.mktemp("example"),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for _, code in examples()
        ]


@pytest.mark.parametrize("number", range(len(examples())), ids=[heading for heading, _ in examples()])
def test_an_example_does_what_the_page_says(number: int, scripts: list[subprocess.Popen[str]]) -> None:
    _, errors = scripts[number].communicate()
    assert (scripts[number].returncode, errors) == (0, "")


def first_column(header: str) -> set[str]:
    """The names in the first column of the table below this header that stands below an HTTP heading."""
    page = PAGE.read_text(encoding="utf-8").partition("## Ask over HTTP")[2]
    rows = page.partition(f"| {header} |")[2].partition("\n\n")[0].splitlines()[2:]
    return {row.split("`")[1] for row in rows}


def test_the_page_has_every_key_of_a_request_and_every_code_of_its_failures() -> None:
    assert first_column("key") == CONFIG_KEYS
    assert first_column("code") == {"http_status", *(code for _, code, *_ in failures._TABLE)}


def test_every_module_that_is_meant_for_others_has_an_example() -> None:
    modules = {re.search(r"`(lilux[.\w]+)`", heading) for heading, _ in examples()}
    assert {match[1] for match in modules if match} == {
        "lilux.primitives.subprocess",
        "lilux.primitives.http_client",
        "lilux.primitives.signing",
        "lilux.primitives.integrity",
        "lilux.primitives.lockfile",
        "lilux.runtime.env_resolver",
        "lilux.runtime.auth",
        "lilux.schemas",
    }
