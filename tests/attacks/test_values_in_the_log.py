"""Attack: somebody reads in the log of runs what a tool was given, what it had, or what it said.

What a failed run last wrote on standard error is kept on purpose, for its user alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.people import Person

TOOL = '''"""Says what it was given."""

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_script_runtime"

import sys

print("output", "hunter2")
print("error", "hunter2", file=sys.stderr)
sys.exit('"fail"' in " ".join(sys.argv))
'''

VALUES = ["hunter2", "value-of-a-parameter", "value-of-the-environment", "value-in-a-list"]


@pytest.mark.first_case
@pytest.mark.parametrize("ending", ["works", "fail"])
def test_names_are_kept_and_values_are_not(tmp_path: Path, ending: str) -> None:
    bob = Person("bob", tmp_path / "bob")
    project = tmp_path / "project"
    project.mkdir()
    bob.begin(project)
    tool = project / ".ai/tools/demo/say.py"
    tool.parent.mkdir(parents=True)
    tool.write_text(TOOL)
    bob.rye("sign", "demo/say", cwd=project)
    given = {"token": VALUES[1], "list": [{"inner": VALUES[3]}], "how": ending}
    words = ("run", "--params", json.dumps(given), "demo/say")
    bob.rye(*words, cwd=project, code=None, MY_SETTING=VALUES[2])
    [row] = bob.rye("log", "--json", cwd=project).json["runs"]
    assert (row["item_id"], row["status"]) == ("demo/say", "success" if ending == "works" else "error")
    assert set(row["parameters"]) == set(given)
    kept = {path: path.read_bytes() for path in (bob.state / "rye").rglob("*") if path.is_file()}
    assert any(path.name == "runs.sqlite3" for path in kept)
    # What the tool of the failed run printed itself stands in the log; whatever else it was given does not.
    printed = VALUES[:1] if ending == "fail" else []
    for path, content in kept.items():
        assert path.stat().st_mode & 0o077 == 0 or not path.name.startswith("runs.")
        for value in VALUES:
            allowed = value in printed and path.name.startswith("runs.")
            assert allowed or value.encode() not in content, f"{value} stands in {path.name}"
    [run_id] = [row["run_id"]]
    end = bob.rye("log", "show", run_id, "--json", cwd=project).json["stderr_end"]
    assert end == ("error hunter2\n" if ending == "fail" else None)


@pytest.mark.parametrize(("item_id", "code"), [("demo/\udcff", "invalid_id"), ("x" * 10_000, "invalid_id")])
def test_of_the_id_of_a_refused_call_little_is_kept(tmp_path: Path, item_id: str, code: str) -> None:
    """It can be anything that a caller likes, and as long."""
    bob = Person("bob", tmp_path / "bob")
    project = tmp_path / "project"
    project.mkdir()
    bob.begin(project)
    assert f"rye: {code}: " in bob.rye("run", item_id, cwd=project, code=1).err
    [row] = bob.rye("log", "--json", cwd=project).json["runs"]
    assert row["code"] == code
    assert len(row["item_id"]) <= 600
