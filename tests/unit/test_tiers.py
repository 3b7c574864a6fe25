"""Which test waits for `make test-all`, shown on small suites that pytest collects with our `conftest.py`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import changed_tests
from scripts.changed_tests import imported_names, reached_from
from tests import tiers
from tests.containment.test_survivors import PROMPT, SMOKE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("marks", "quick"),
    [
        ((), True),
        (("anyio", "both_loops", "first_case"), True),
        (("containment", "alone"), False),
        (("containment", "alone", "smoke"), True),
        (("thorough",), False),
    ],
)
def test_a_test_waits_if_a_mark_says_so(marks: tuple[str, ...], quick: bool) -> None:
    assert tiers.runs_in("quick", marks) is quick
    assert tiers.runs_in("rest", marks) is not quick
    assert tiers.runs_in("all", marks)


def test_the_closing_line_counts_what_was_left_out_and_says_how_to_run_it() -> None:
    said = tiers.left_out({"thorough": 1200, "packaging": 16})
    assert said == "Not run: 16 packaging, 1,200 thorough. To run these too: make test-all"


SUITE = """
import pytest

@pytest.mark.first_case
@pytest.mark.parametrize("letter", "abc")
@pytest.mark.parametrize(("number", "word"), [(1, "one"), (2, "two")])
def test_first(letter, number, word): pass

@pytest.mark.first_case("letter")
@pytest.mark.parametrize("letter", "ab")
@pytest.mark.parametrize("number", [1, 2])
def test_first_letter(letter, number): pass

@pytest.mark.each_once
@pytest.mark.parametrize("letter", "ab")
@pytest.mark.parametrize(("number", "word"), [(1, "one"), (2, "two")])
def test_each(letter, number, word): pass

@pytest.mark.parametrize("letter", "ab")
async def test_loops(letter): pass

@pytest.mark.both_loops
async def test_both_loops(): pass

def test_eras(mode): pass

@pytest.mark.both_eras
def test_both_eras(mode): pass

@pytest.mark.thorough
def test_thorough(): pass
"""

QUICK = {
    "test_first": {"1-one-a"},
    "test_first_letter": {"1-a", "2-a"},
    "test_each": {"1-one-a", "1-one-b", "2-two-a"},
    "test_loops": {"asyncio-a", "asyncio-b"},
    "test_both_loops": {"asyncio"},
    "test_eras": {"auto"},
    "test_both_eras": {"auto", "legacy"},
}
REST = {
    "test_first": {"1-one-b", "1-one-c", "2-two-a", "2-two-b", "2-two-c"},
    "test_first_letter": {"1-b", "2-b"},
    "test_each": {"2-two-b"},
    "test_both_loops": {"trio"},
    "test_eras": {"legacy"},
    "test_thorough": {""},
}
OF_LILUX = {"test_loops": {"asyncio-a", "asyncio-b", "trio-a"}, "test_both_loops": {"asyncio", "trio"}}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("place", "tier", "expected"),
    [
        ("unit", "quick", QUICK),
        ("unit", "rest", REST),
        ("unit/lilux", "quick", QUICK | OF_LILUX),
        ("benchmarks", "quick", {}),
    ],
)
def test_a_tier_runs_the_cases_that_its_marks_leave(
    tmp_path: Path, place: str, tier: str, expected: dict[str, set[str]]
) -> None:
    suite = tmp_path / "tests"
    (suite / place).mkdir(parents=True)
    for name in ("conftest.py", "tiers.py"):
        (suite / name).write_text((ROOT / "tests" / name).read_text())
    (suite / place / "test_suite.py").write_text(SUITE)
    options = ["--collect-only", "-q", "--tier", tier, "--strict-markers", "-p", "no:randomly"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-o", "anyio_mode=auto", "-o", "pythonpath=."],
        cwd=tmp_path,
        env=os.environ | {"PYTEST_ADDOPTS": "--import-mode=importlib"},
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, set[str]] = {}
    for name, case in re.findall(r"^\S+::(\w+)(?:\[(.*)\])?$", ran.stdout, re.MULTILINE):
        found.setdefault(name, set()).add(case)
    assert found == expected, ran.stdout + ran.stderr
    said = ran.stdout.splitlines()[-1]
    assert said.startswith("Not run: ") is (tier == "quick")


def test_the_smoke_tests_of_containment_are_endings_that_exist() -> None:
    assert {(ending.name, way) for ending in PROMPT for way in ending.ways} >= SMOKE


# --- make test-changed ----------------------------------------------------------------------


def test_a_change_reaches_all_that_imports_it_and_the_nearest_first() -> None:
    graph = {"a": {"b", "d"}, "b": {"c"}, "c": {"a"}, "x": {"y"}}
    assert reached_from({"a"}, graph) == ["a", "b", "d", "c"]


def test_an_import_is_found_wherever_it_stands() -> None:
    source = 'import a.b\ndef f():\n    from c import d\nLATER = "rye_mcp.cli.init"\n'
    assert {"a.b", "c.d", "rye_mcp.cli.init"} <= set(imported_names(source))


def test_a_module_that_is_loaded_by_its_name_is_reached() -> None:
    chosen = changed_tests.tests_of(["src/rye_mcp/cli/lock.py"])
    assert chosen is not None
    assert "tests/integration/test_rye_lock.py" in chosen


@pytest.mark.thorough
def test_there_are_tests_for_each_module() -> None:
    modules = [
        path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.py") if ".ai" not in path.parts
    ]
    assert [path for path in modules if not changed_tests.tests_of([path])] == []


def test_what_a_change_does_not_touch_is_not_run() -> None:
    chosen = changed_tests.tests_of(["src/rye_mcp/cli/_printing.py"])
    assert chosen is not None
    assert "tests/unit/rye_mcp/cli/test_tables.py" in chosen
    assert not [path for path in chosen if path.startswith("tests/unit/lilux/")]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("crates/lilux-proc/src/main.rs", "tests/unit/lilux/test_supervisor.py"),
        (".ai/tools/rye/git/log.py", "tests/integration/system_tools/test_git.py"),
        ("docs/tutorial.md", "tests/integration/test_tutorial.py"),
        ("tests/unit/test_tiers.py", "tests/unit/test_tiers.py"),
    ],
)
def test_what_is_not_python_is_reached_too(changed: str, test: str) -> None:
    assert test in (changed_tests.tests_of([changed]) or [])


@pytest.mark.parametrize(
    "changed", ["pyproject.toml", "tests/conftest.py", "Makefile", "setup.py", "src/rye_mcp/gone.py"]
)
def test_a_change_that_may_concern_every_test_selects_all(changed: str) -> None:
    assert changed_tests.tests_of([changed]) is None


def test_a_file_that_no_test_looks_at_selects_nothing() -> None:
    assert changed_tests.tests_of(["LICENSE"]) == []
