"""`rye dev --learn` proposes the right block for every tool of the example projects."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.people import Person

EXAMPLES = Path(__file__).parents[2] / "examples"
READS = {"project": "read"}

CASES: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "python-modules": ("sales/by_region", (), READS),
    "bash-tool": ("logs/errors", (), READS),
    "node-tool": ("text/reading_time", (), {}),
    "locked-in-ci": ("check/links", (), READS),
    "own-runtime": ("awk/average", ("--file", "people.csv", "--column", "age"), READS),
    "cluster": ("sim/where", (), {}),
    "http-tool": ("shop/order", ("--number", "A-17"), {"env": ["SHOP_TOKEN"]}),
}


def test_every_example_with_tools_is_a_case() -> None:
    with_tools = {path.relative_to(EXAMPLES).parts[0] for path in EXAMPLES.glob("*/.ai/tools")}
    assert with_tools == set(CASES)


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_the_block_of_an_example(name: str, tmp_path: Path) -> None:
    item, words, expected = CASES[name]
    if name == "node-tool" and shutil.which("node") is None:
        pytest.skip("needs node")
    leo = Person("leo", tmp_path / "leo")
    project = tmp_path / "project"
    shutil.copytree(EXAMPLES / name, project)
    leo.begin(project)
    for each in ("awk/awk_runtime", item) if name == "own-runtime" else (item,):
        leo.rye("sign", "--all-beside", each, cwd=project)
    shown = leo.types(
        [],
        *("dev", "--learn", "--json", item, *words),
        cwd=project,
        SHOP_URL="http://127.0.0.1:9",
        SHOP_TOKEN="secret",
    ).out
    found = json.loads(shown[shown.index("{") :])
    if name == "http-tool":
        assert any("127.0.0.1:9: net cannot name that" in note for note in found["notes"]), found
    else:
        assert found["failed"] == []
        assert found["notes"] == []
    assert found["permissions"] == expected
    if name == "bash-tool":
        assert found["block"].splitlines() == ["# permissions:", '#   project: "read"']
