"""Every example of `docs/lilux.md` runs as it stands there, as a script of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(("heading", "code"), examples(), ids=lambda text: text.split("\n")[0])
def test_an_example_does_what_the_page_says(heading: str, code: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", code]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), heading


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
