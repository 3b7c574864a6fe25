"""`rye schema`, as a real process: printed for who pipes it, written for who edits."""

from __future__ import annotations

import json
from pathlib import Path

from rye_mcp.metadata import SCHEMA_KINDS, metadata_schema
from tests.people import Person


def test_a_schema_is_printed_and_all_of_them_are_written(tmp_path: Path) -> None:
    leo = Person("leo", tmp_path / "leo")
    project = tmp_path / "project"
    tool = project / ".ai/tools/demo/tool.yaml"
    tool.parent.mkdir(parents=True)

    assert leo.rye("schema", cwd=project).json == metadata_schema("tool")
    assert leo.rye("schema", "directive", cwd=tmp_path).json == metadata_schema("directive")
    assert "expected one of tool, " in leo.rye("schema", "spell", cwd=project, code=2).err
    leo.rye("schema", "tool", "--write", cwd=project, code=2)
    assert not (project / ".ai/schemas").exists()

    leo.rye("schema", "--write", cwd=project)
    written = leo.rye("schema", "--write", "--json", cwd=project).json  # over those that are there
    assert {Path(path).stem for path in written["written"]} == set(SCHEMA_KINDS)
    named = written["line"].partition("$schema=")[2]
    assert json.loads((tool.parent / named).read_text()) == metadata_schema("tool")
    assert leo.refused("no_project", "schema", "--write", cwd=tmp_path)
