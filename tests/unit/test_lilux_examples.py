"""`docs/lilux.md` leaves nothing out; its examples are run by `test_documents_run.py`."""

import re
from pathlib import Path

from lilux.primitives.http_client import CONFIG_KEYS, ERROR_CODES

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


def first_column(header: str) -> set[str]:
    """The names in the first column of the table below this header that stands below an HTTP heading."""
    page = PAGE.read_text(encoding="utf-8").partition("## Ask over HTTP")[2]
    rows = page.partition(f"| {header} |")[2].partition("\n\n")[0].splitlines()[2:]
    return {row.split("`")[1] for row in rows}


def test_the_page_has_every_key_of_a_request_and_every_code_of_its_failures() -> None:
    assert first_column("key") == CONFIG_KEYS
    assert first_column("code") == ERROR_CODES


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
