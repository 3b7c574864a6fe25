"""`rye test`, as a real process: what passes, what fails and how that is shown, and where things are run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.people import SCRIPTS, Person

HEAD = '__version__ = "1.0.0"\n__executor_id__ = "rye/core/runtimes/python_function_runtime"\n'
ECHO = """
import os

def execute(params, project_path):
    if "raise" in params:
        raise SystemExit("the last words")
    return {"given": params, "files": sorted(os.listdir(project_path)), "list": [1, {"a": "long text"}]}
"""


def echo(*examples: str, more: str = "") -> str:
    """A tool that says what it was given and where it is, with these examples."""
    return f"{HEAD}{more}EXAMPLES = [{', '.join(examples)}]\n{ECHO}"


PASSING = {
    "success": "{'parameters': {}}",
    "data": "{'parameters': {'a': 1}, 'files': {'b/c.txt': 'x'}, 'expect': {'data': "
    "{'given': {'a': 1.0}, 'files': ['.ai', 'b'], 'list': [1, {'a': 'long text'}]}}}",
    "contains": "{'parameters': {'a': True}, "
    "'expect': {'contains': {'given': {'a': True}, 'list': [{'a': 'g t'}]}}}",
    "code": "{'parameters': {'raise': 1}, 'expect': {'code': 'tool_failed'}}",
    "refusal": "{'parameters': {'a': 'x'}, 'expect': {'code': 'invalid_parameters'}}",
}
INTEGER_A = "CONFIG_SCHEMA = {'properties': {'a': {'type': ['number', 'boolean']}}}\n"

FAILING = {
    "success": (
        "{'parameters': {'raise': 1}}",
        "expected success, found tool_failed",
        "| the last words",
    ),
    "data": (
        "{'parameters': {'a': 1}, 'files': {'b': ''}, "
        "'expect': {'data': {'given': {'a': 2}, 'files': ['.ai', 'b'], 'list': []}}}",
        '-    "a": 2',
        '+    "a": 1',
    ),
    "true-is-not-1": (
        "{'parameters': {'a': True}, 'expect': {'contains': {'given': {'a': 1}}}}",
        "/given/a: expected 1, found true",
        "",
    ),
    "a-key": (
        "{'parameters': {}, 'expect': {'contains': {'other': 1}}}",
        "/other: expected 1, found nothing",
        "",
    ),
    "text": (
        "{'parameters': {'a': 'yes'}, 'expect': {'contains': {'given': {'a': 'no'}}}}",
        '/given/a: expected text with "no", found "yes"',
        "",
    ),
    "list": (
        "{'parameters': {}, 'expect': {'contains': {'list': [1, 2]}}}",
        "/list/1: expected 2 in the list, found [1, ",
        "",
    ),
    "no-failure": (
        "{'parameters': {}, 'expect': {'code': 'tool_failed'}}",
        "expected tool_failed, found success",
        "",
    ),
    "another-failure": (
        "{'parameters': {'raise': 1}, 'expect': {'code': 'timeout'}}",
        "expected timeout, found tool_failed",
        "",
    ),
    "files": (
        "{'parameters': {}, 'files': {'a': '', 'a/b': ''}}",
        "expected success, found write_failed",
        "",
    ),
}


@pytest.fixture(scope="module")
def leo(tmp_path_factory: pytest.TempPathFactory) -> Person:
    place = tmp_path_factory.mktemp("testing")
    leo = Person("leo", place / "leo")
    project = leo.place / "project"
    project.mkdir(parents=True)
    leo.begin(project)
    for name, (example, *_) in FAILING.items():
        write(project, f"bad/{name}", echo(example))
    write(project, "good/all", echo(*PASSING.values(), more=INTEGER_A))
    write(project, "good/none", HEAD + ECHO)
    write(
        project,
        "good/reads",
        echo(*PASSING.values(), more=INTEGER_A + "ANNOTATIONS = {'readOnlyHint': True}\n"),
    )
    leo.rye("sign", "*", cwd=project)
    write(project, "odd/unsigned", echo("{'parameters': {}}"))
    return leo


def write(project: Path, item_id: str, content: str) -> None:
    path = project / f".ai/tools/{item_id}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.fixture(scope="module")
def failures(leo: Person) -> dict[str, dict[str, Any]]:
    """What became of every tool that fails, of one run."""
    answer = leo.rye("test", "bad/*", "--json", cwd=leo.place / "project", code=1).json
    assert (answer["status"], answer["failed"]) == ("failed", len(FAILING))
    return {each["item_id"]: each for each in answer["examples"]}


def test_every_kind_of_expectation_passes_when_it_is_met(leo: Person) -> None:
    project = leo.place / "project"
    before = sorted(project.rglob("*.txt"))
    answer = leo.rye("test", "good/*", "--json", cwd=project).json
    assert [each["status"] for each in answer["examples"]] == ["passed"] * 2 * len(PASSING)
    assert (answer["status"], answer["passed"], answer["failed"]) == ("passed", 2 * len(PASSING), 0)
    assert answer["without_examples"] == ["good/none"]
    assert sorted(project.rglob("*.txt")) == before


def test_without_an_argument_all_tools_of_the_project_are_tested_and_no_others(
    leo: Person, tmp_path: Path
) -> None:
    leo.begin(tmp_path)
    for name in ("one", "other"):
        write(tmp_path, f"demo/{name}", echo("{'parameters': {}}"))
    leo.rye("sign", "demo/*", cwd=tmp_path)
    answer = leo.rye("test", "--json", cwd=tmp_path).json
    assert [each["item_id"] for each in answer["examples"]] == ["demo/one", "demo/other"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", FAILING)
def test_what_is_otherwise_than_expected_is_said(failures: dict[str, dict[str, Any]], name: str) -> None:
    found = failures[f"bad/{name}"]
    _, *expected = FAILING[name]
    told = "\n".join([*found["differences"], *(f"| {line}" for line in found["stderr"])])
    assert found["status"] == "failed"
    assert all(line in told for line in expected), told


@pytest.mark.thorough
def test_people_get_a_table_and_the_differences(leo: Person) -> None:
    project = leo.place / "project"
    passed = leo.rye("test", "good/all", cwd=project)
    assert [line.split()[:3] for line in passed.out.splitlines()[:2]] == [
        ["TOOL", "EXAMPLE", "RESULT"],
        ["good/all", "0", "passed"],
    ]
    assert passed.out.splitlines()[-1] == f"{len(PASSING)} passed, 0 failed"
    failed = leo.rye("test", "bad/data", cwd=project, code=1)
    assert "FAILED" in failed.out
    assert '  -    "a": 2\n  +    "a": 1\n' in failed.out
    assert failed.out.splitlines()[-1] == "0 passed, 1 failed"


def test_nothing_to_run_is_no_success(leo: Person) -> None:
    project = leo.place / "project"
    found = leo.rye("test", "good/none", cwd=project, code=1)
    assert found.out == "0 passed, 0 failed; without an example: good/none\n"
    assert leo.refused("item_not_found", "test", "nothing/*", cwd=project)
    assert leo.refused("invalid_id", "test", "../*", cwd=project)


def test_what_would_not_run_is_not_tested(leo: Person) -> None:
    project = leo.place / "project"
    for arguments in (("odd/unsigned",), ("odd/*",)):
        answer = leo.rye("test", *arguments, "--json", cwd=project, code=1).json
        assert [each["refusal"]["code"] for each in answer["examples"]] == ["unsigned"]
    hidden = leo.rye("test", "good/all", "--space", "user", "--json", cwd=project, code=1).json
    assert [each["refusal"]["code"] for each in hidden["examples"]] == ["item_not_found"]


@pytest.mark.thorough
def test_what_a_project_has_changes_nothing_for_tools_of_the_system(leo: Person, tmp_path: Path) -> None:
    """Neither an item in front of one of them, nor that it is not signed."""
    (tmp_path / ".ai").mkdir()
    write(tmp_path, "rye/bash/bash", echo("{'parameters': {}}"))
    refused = leo.rye("test", "rye/bash/bash", "--json", cwd=tmp_path, code=1).json
    assert [each["refusal"]["code"] for each in refused["examples"]] == ["unsigned"]
    answer = leo.rye("test", "rye/bash/*", "--space", "system", "--json", cwd=tmp_path).json
    assert (answer["passed"], answer["failed"]) == (2, 0)
    copied = leo.user_space / "tools/rye/bash/bash.py"
    copied.parent.mkdir(parents=True)
    copied.write_text(echo("{'parameters': {}}"))
    try:
        hidden = leo.rye("test", "rye/bash/bash", "--space", "system", "--json", cwd=tmp_path, code=1).json
        assert [each["refusal"]["code"] for each in hidden["examples"]] == ["item_not_found"]
    finally:
        copied.unlink()


@pytest.mark.thorough
def test_tools_of_the_system_run_where_there_is_no_project(leo: Person, tmp_path: Path) -> None:
    answer = leo.rye("test", "rye/bash/*", "--space", "system", "--json", cwd=tmp_path).json
    assert (answer["passed"], answer["failed"]) == (2, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
@pytest.mark.timeout(180)
@pytest.mark.skipif(shutil.which("node") is None, reason="some tools of the system are for Node.js")
def test_every_example_of_the_system_passes(leo: Person, tmp_path: Path) -> None:
    done = subprocess.run(
        [SCRIPTS / "rye", "test", "rye/*", "--space", "system", "--json"],
        cwd=tmp_path,
        env=leo.environment,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)
    failed = [each for each in found["examples"] if each["status"] == "failed"]
    assert not failed, failed
    assert not found["without_examples"]
    assert done.returncode == 0


def test_it_ends_in_the_time_that_is_given(leo: Person) -> None:
    project = leo.place / "project"
    example = "EXAMPLES = [{'parameters': {}}]\n"
    slow = "\n\nimport time\n\ndef execute(params, project_path):\n    time.sleep(60)\n"
    write(project, "slow/tool", f"{HEAD}{example}{slow}")
    leo.rye("sign", "slow/tool", cwd=project)
    answer = leo.rye("test", "slow/tool", "--timeout", "0.2", "--json", cwd=project, code=1).json
    assert answer["examples"][0]["differences"][0].startswith("expected success, found timeout")
