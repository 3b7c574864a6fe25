"""At a terminal, whoever signs is told which tools do not say what they may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.people import Person

TOOL = """\
version: "1.0.0"
tool_type: tool
executor_id: rye/core/primitives/subprocess
config: {command: /bin/true}
"""


@pytest.fixture
def project(tmp_path: Path) -> tuple[Person, Path]:
    leo = Person("leo", tmp_path / "leo")
    project = leo.begin(tmp_path / "project")
    tools = project / ".ai/tools/demo"
    tools.mkdir(parents=True)
    (tools / "silent.yaml").write_text(TOOL)
    (tools / "pure.yaml").write_text(f"{TOOL}permissions: {{}}\n")
    return leo, project


def test_a_tool_that_declares_nothing_is_named(project: tuple[Person, Path]) -> None:
    leo, cwd = project
    shown = leo.types([], "sign", "demo/*", cwd=cwd).out
    assert "permissions_undeclared: no limit is declared for demo/silent: " in shown
    assert "demo/pure:" not in shown


def test_nobody_is_told_where_no_person_is(project: tuple[Person, Path]) -> None:
    leo, cwd = project
    assert "permissions_undeclared" not in leo.rye("sign", "demo/*", cwd=cwd).err


WITH_EXAMPLE = """\
version: "1.0.0"
tool_type: tool
executor_id: rye/core/primitives/subprocess
config: {command: /bin/cat, args: ["{project_path}/notes.txt"]}
examples:
  - files: {notes.txt: hello}
    parameters: {}
"""


@pytest.mark.parametrize("answer", ["y", "n"])
def test_the_block_of_a_tool_with_examples_is_offered_and_nothing_is_written(
    project: tuple[Person, Path], answer: str
) -> None:
    leo, cwd = project
    source = cwd / ".ai/tools/demo/shown.yaml"
    source.write_text(WITH_EXAMPLE)
    shown = leo.types([("[y/N]", f"{answer}\n")], "sign", "demo/shown", cwd=cwd).out
    assert ('project: "read"' in shown) is (answer == "y"), shown
    assert ("sign it again" in shown) is (answer == "y")
    assert source.read_text().endswith(WITH_EXAMPLE)
