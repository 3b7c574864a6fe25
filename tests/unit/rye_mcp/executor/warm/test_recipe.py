"""A call runs in an interpreter that waited only if it would be started in the same way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lilux.primitives.subprocess import CallSpec, Halves, Hosts, Policy, RuntimeSpec
from rye_mcp.executor.warm.reasons import WHY_COLD
from rye_mcp.executor.warm.recipe import Recipe, why_never
from rye_mcp.metadata import Warm

RUNTIME = RuntimeSpec(command="/usr/bin/python3", args=("-s",), env={"LANG": "C"})
CALL = CallSpec(policy=Policy(tier="cell", read=["/srv"]), result_fd=True)
WARM = Warm("python")


def recipe(runtime: RuntimeSpec = RUNTIME, call: CallSpec = CALL, warm: Warm = WARM) -> Recipe:
    return Recipe.of(Halves(runtime, call), warm)


DIFFERENT = {
    "interpreter": recipe(replace(RUNTIME, command="/bin/sh")),
    "arguments": recipe(replace(RUNTIME, args=("-s", "-B"))),
    "environment": recipe(replace(RUNTIME, env={"LANG": "C.UTF-8"})),
    "permissions": recipe(call=replace(CALL, policy=Policy(tier="cell", read=["/srv"], net="any"))),
}


@pytest.mark.parametrize(("word", "other"), DIFFERENT.items(), ids=list(DIFFERENT))
def test_what_was_started_otherwise_does_not_fit(word: str, other: Recipe) -> None:
    assert recipe().why_not(recipe()) is None
    assert recipe().why_not(other) == word
    assert other.why_not(recipe()) == word
    assert word in WHY_COLD


def test_what_is_confined_less_fits_no_call_that_is_confined() -> None:
    free = recipe(call=replace(CALL, policy=None))
    assert free.why_not(recipe()) == recipe().why_not(free) == "permissions"


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text("")
    (tmp_path / "lib/python3.11").mkdir(parents=True)
    return tmp_path


def made_in(prefix: Path) -> Recipe:
    return recipe(replace(RUNTIME, command=str(prefix / "bin/python3")))


def test_the_first_package_of_a_prefix_is_noticed(prefix: Path) -> None:
    before = made_in(prefix)
    (prefix / "lib/python3.11/site-packages").mkdir()
    assert before.why_not(made_in(prefix)) == "packages"


@pytest.mark.parametrize("name", ["own.pth", "sitecustomize.py", "usercustomize.py"])
def test_code_that_runs_when_python_starts_is_noticed(prefix: Path, name: str) -> None:
    packages = prefix / "lib/python3.11/site-packages"
    packages.mkdir()
    (packages / name).write_text("import a\n")
    before = made_in(prefix)
    (packages / name).write_text("import b, c\n")
    assert before.why_not(made_in(prefix)) == "packages"


def test_a_virtual_environment_that_is_turned_to_another_python_is_noticed(prefix: Path) -> None:
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    before = made_in(prefix)
    (prefix / "pyvenv.cfg").write_text("home = /opt/bin\ninclude-system-site-packages = true\n")
    assert before.why_not(made_in(prefix)) == "interpreter"


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (CALL, None),
        (replace(CALL, observe=["/"]), "watched"),
        (replace(CALL, descriptors={30: 0}), "descriptors"),
        (replace(CALL, policy=Policy(tier="cell", net=Hosts(["example.org"]))), "network"),
    ],
)
def test_for_some_calls_nothing_can_wait(call: CallSpec, word: str | None) -> None:
    assert why_never(Halves(RUNTIME, call)) == word
    assert word is None or word in WHY_COLD


def test_a_program_that_is_looked_for_when_it_is_started_has_none_waiting() -> None:
    assert why_never(Halves(replace(RUNTIME, command="python3"), CALL)) == "interpreter"


@pytest.mark.parametrize("name", ["thing.py", "thing/__init__.py"])
def test_a_preloaded_module_that_is_replaced_in_its_place_is_noticed(prefix: Path, name: str) -> None:
    file = prefix / "lib/python3.11/site-packages" / name
    file.parent.mkdir(parents=True)
    file.write_text("old = 1\n")
    runtime, warm = (
        replace(RUNTIME, command=str(prefix / "bin/python3")),
        Warm("python", preload=("thing.a",)),
    )
    before = recipe(runtime, warm=warm)
    file.write_text("quite_new = 1\n")
    assert before.why_not(recipe(runtime, warm=warm)) == "packages"
