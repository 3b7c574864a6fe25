"""`rye lock`, and `rye sign` with what a tool rests on, as people and scripts use them: as real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.people import Person

TOOL = b"""\
\"\"\"Says what data.json says.\"\"\"
import json
import pathlib

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_script_runtime"

print(json.dumps({"said": json.loads((pathlib.Path(__file__).parent / "data.json").read_text())}))
"""


@pytest.fixture
def leo(tmp_path: Path) -> Person:
    person = Person("leo", tmp_path / "leo")
    project = person.place / "project"
    (project / ".ai/tools/demo").mkdir(parents=True)
    person.rye("keys", "generate", cwd=project)
    return person


@pytest.fixture
def project(leo: Person) -> Path:
    """A tool that is signed with the file that it reads."""
    project = leo.place / "project"
    (project / ".ai/tools/demo/report.py").write_bytes(TOOL)
    (project / ".ai/tools/demo/data.json").write_text('"hello"')
    leo.rye("sign", "demo/report", "--with", "data.json", cwd=project)
    return project


def lockfile(project: Path) -> Path:
    return project / ".ai/lockfiles/demo/report@1.0.0.lock.json"


def edit(project: Path) -> None:
    path = project / ".ai/tools/demo/report.py"
    path.write_bytes(path.read_bytes() + b"# edited\n")


def other_hash(project: Path) -> None:
    """A runtime that is not the locked one."""
    document = json.loads(lockfile(project).read_bytes())
    document["resolved_chain"][1]["integrity"] = "0" * 64
    lockfile(project).write_text(json.dumps(document))


def test_a_person_locks_looks_and_verifies(leo: Person, project: Path) -> None:
    assert leo.rye("lock", "list", cwd=project).out == "nothing is locked\n"
    assert leo.rye("lock", "verify", cwd=project).out == "nothing is locked\n"
    assert "rye lock update demo/report" in leo.rye("lock", "demo/report", cwd=project, code=2).err
    made = leo.rye("lock", "update", "demo/report", cwd=project)
    assert made.out.startswith("created: demo/report 1.0.0, in ")
    assert "demo/report" in leo.rye("lock", "list", cwd=project).out
    assert leo.rye("lock", "verify", cwd=project).out.split() == ["ITEM", "STATE", "demo/report", "match"]
    shown = leo.rye("lock", "show", "demo/report", cwd=project).out
    assert "rye/core/primitives/subprocess" in shown
    assert "tools/demo/data.json" in shown
    assert leo.rye("lock", "update", "demo/report", cwd=project).out.startswith("unchanged: ")


def test_what_differs_is_told_and_ends_with_1(leo: Person, project: Path) -> None:
    leo.rye("lock", "update", "demo/report", cwd=project)
    other_hash(project)
    verified = leo.rye("lock", "verify", cwd=project, code=1)
    assert "lock_mismatch" in verified.out
    assert "rye lock update demo/report" in verified.err
    updated = leo.rye("lock", "update", "demo/*", cwd=project)
    assert f"integrity: locked {'0' * 64}" in updated.out
    assert leo.rye("lock", "verify", cwd=project).code == 0


def test_an_invalid_lockfile_is_reported_and_written_again(leo: Person, project: Path) -> None:
    leo.rye("lock", "update", "demo/report", cwd=project)
    lockfile(project).write_text("{")
    assert "malformed_lockfile" in leo.rye("lock", "list", cwd=project).out
    leo.refused("malformed_lockfile", "lock", "show", "demo/report", cwd=project)
    leo.rye("lock", "update", "demo/report", cwd=project)
    assert leo.rye("lock", "show", "demo/report", cwd=project).code == 0


@pytest.mark.thorough
def test_a_lockfile_that_cannot_be_read_is_told_when_the_tool_is_signed(leo: Person, project: Path) -> None:
    leo.rye("lock", "update", "demo/report", cwd=project)
    lockfile(project).write_bytes(b"{")
    edit(project)
    shown = leo.rye("sign", "demo/report", cwd=project).err
    assert "warning: malformed_lockfile: " in shown
    assert "if demo/report may run as it is now, run: rye lock update demo/report" in shown


def test_the_lockfile_of_a_renamed_tool_is_told_and_removed_by_a_person(leo: Person, project: Path) -> None:
    leo.rye("lock", "update", "demo/report", cwd=project)
    tool = project / ".ai/tools/demo/report.py"
    tool.rename(tool.with_name("summary.py"))
    shown = leo.rye("sign", "demo/summary", cwd=project).err
    assert "lock_left_behind: demo/report is gone but still locked, and demo/summary has its content" in shown
    assert lockfile(project).exists()
    shown = leo.rye("lock", "update", "demo/summary", cwd=project).out
    assert f"removed: {lockfile(project)}, as demo/report is gone" in shown
    assert not lockfile(project).exists()


def test_the_lockfile_of_a_tool_that_is_there_or_was_something_else_stays(leo: Person, project: Path) -> None:
    leo.rye("lock", "update", "demo/report", cwd=project)
    tool = project / ".ai/tools/demo/report.py"
    tool.with_name("summary.py").write_bytes(tool.read_bytes())
    assert "lock_left_behind" not in leo.rye("sign", "demo/summary", cwd=project).err
    tool.unlink()
    edited = tool.with_name("summary.py")
    edited.write_bytes(edited.read_bytes() + b"# edited\n")
    leo.rye("sign", "demo/summary", cwd=project)
    leo.rye("lock", "update", "demo/summary", cwd=project)
    assert lockfile(project).exists()


def test_programs_get_one_object(leo: Person, project: Path) -> None:
    made = leo.rye("lock", "update", "demo/report", "--json", cwd=project).json
    assert made["updated"][0]["state"] == "created"
    assert leo.rye("lock", "list", "--json", cwd=project).json["total"] == 1
    assert leo.rye("lock", "verify", "--json", cwd=project).json["status"] == "verified"
    shown = leo.rye("lock", "show", "demo/report", "--json", cwd=project).json
    assert list(shown["verified_deps"])[-1] == "tools/demo/data.json"
    other_hash(project)
    assert leo.rye("lock", "verify", "--json", cwd=project, code=1).json["refused"] == 1


def asks_for_locks(leo: Person, project: Path, word: str = "auto") -> None:
    """The project's own configuration, which counts as soon as somebody has approved the project."""
    (project / ".ai/config").mkdir(exist_ok=True)
    (project / ".ai/config/rye.yaml").write_text(f"lock: {word}\n")
    leo.rye("trust", "project", cwd=project)


def test_a_run_locks_where_the_project_asks_for_it_and_what_is_edited_and_signed_runs_on(
    leo: Person, project: Path
) -> None:
    leo.rye("run", "demo/report", cwd=project)
    assert not lockfile(project).exists()
    asks_for_locks(leo, project)
    assert "hello" in leo.rye("run", "demo/report", cwd=project).out
    assert lockfile(project).exists()
    edit(project)
    leo.rye("run", "demo/report", cwd=project, code=1)
    assert "is locked as it is now" in leo.rye("sign", "demo/report", cwd=project).out
    assert "hello" in leo.rye("run", "demo/report", cwd=project, RYE_LOCKED="1").out


def test_an_unknown_word_locks_nothing_and_is_reported(leo: Person, project: Path) -> None:
    asks_for_locks(leo, project, "always")
    ran = leo.rye("run", "demo/report", cwd=project)
    assert "hello" in ran.out
    assert "lock_not_saved" in ran.err
    leo.refused("invalid_item", "verify", cwd=project)


def test_no_run_locks_a_tool_of_the_package_or_of_a_person(leo: Person, project: Path) -> None:
    asks_for_locks(leo, project)
    users = leo.user_space / "tools/own.sh"
    users.parent.mkdir(parents=True)
    users.write_text("# /// rye\n# version: 1.0.0\n# executor_id: bash_runtime\n# ///\necho own\n")
    leo.rye("sign", "own", "--space", "user", cwd=project)
    leo.rye("run", "own", cwd=project)
    leo.rye("run", "rye/file-system/ls", cwd=project)
    assert not (project / ".ai/lockfiles").exists()


def test_a_signature_of_a_person_locks_where_the_project_asks_for_it(leo: Person, project: Path) -> None:
    asks_for_locks(leo, project)
    edit(project)
    assert "lock_created" in leo.rye("sign", "demo/report", cwd=project).err
    assert leo.rye("lock", "verify", cwd=project).code == 0


def test_verify_says_how_each_tool_stands_to_its_lockfile(leo: Person, project: Path) -> None:
    def lock_of(locked: str = "") -> str:
        shown = leo.rye("verify", "demo/report", cwd=project, code=None, RYE_LOCKED=locked)
        codes.append(shown.code)
        return shown.out.splitlines()[1].split()[-1]

    codes: list[int] = []
    assert lock_of() == "none"
    assert lock_of("1") == "missing"
    asks_for_locks(leo, project)
    assert lock_of() == "missing"
    leo.rye("lock", "update", "demo/report", cwd=project)
    assert lock_of() == lock_of("1") == "matches"
    other_hash(project)
    assert lock_of() == "differs"
    assert codes == [0, 1, 0, 0, 0, 1]
    lockfile(project).write_text("{")
    assert lock_of() == "malformed"
    shown = leo.rye("verify", "demo/report", "--json", cwd=project, code=1).json
    assert (shown["status"], shown["refused"], shown["would_not_run"]) == ("refused", 0, 1)
    assert shown["items"][0]["would_not_run"]["code"] == "malformed_lockfile"


def test_verify_ends_with_1_for_a_tool_whose_runtime_is_not_there(leo: Person, project: Path) -> None:
    path = project / ".ai/tools/demo/lost.sh"
    path.write_text("# /// rye\n# version: 1.0.0\n# executor_id: my/runtime\n# ///\necho lost\n")
    leo.rye("sign", "demo/lost", cwd=project)
    shown = leo.rye("verify", "demo/lost", cwd=project, code=1)
    assert "executor_not_found" in shown.err
    assert "1 verified, 0 refused, 1 of the verified would not run" in shown.out


def test_what_does_not_fit_its_lockfile_does_not_run(leo: Person, project: Path) -> None:
    leo.rye("lock", "update", "demo/report", cwd=project)
    other_hash(project)
    before = lockfile(project).read_bytes()
    refused = leo.rye("run", "demo/report", cwd=project, code=1)
    assert "rye lock update demo/report" in refused.err
    assert "hello" not in refused.out
    assert lockfile(project).read_bytes() == before


def test_in_locked_mode_nothing_runs_that_is_not_locked(leo: Person, project: Path) -> None:
    refused = leo.rye("run", "demo/report", cwd=project, code=1, RYE_LOCKED="1")
    assert "hello" not in refused.out
    assert not lockfile(project).exists()
    leo.rye("lock", "update", "demo/report", cwd=project, RYE_LOCKED="1")
    assert "hello" in leo.rye("run", "demo/report", cwd=project, RYE_LOCKED="1").out


def test_a_file_that_is_not_signed_with_it_is_a_warning(leo: Person, project: Path) -> None:
    (project / ".ai/tools/demo/deps.manifest.yaml").unlink()
    warned = leo.rye("sign", "demo/report", cwd=project)
    assert "not_carried" in warned.err
    assert "rye sign demo/report --with data.json" in warned.err
    leo.refused("read_failed", "sign", "demo/report", "--with", "nothing.json", cwd=project)
    leo.refused("unknown_argument", "sign", "demo/*", "--with", "data.json", cwd=project)
