"""A script that somebody already has: what it is told when it is signed and run, and that this is enough."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from rye_mcp.metadata import RUNTIMES
from tests.people import Person

SCRIPTS = {
    ".py": ("python3", "def main():\n    return 'it runs'\n"),
    ".sh": ("bash", "echo it runs\n"),
    ".bash": ("bash", "#!/bin/bash\necho it runs\n"),
    ".js": ("node", "console.log('it runs')\n"),
    ".mjs": ("node", "console.log('it runs')\n"),
    ".cjs": ("node", "console.log('it runs')\n"),
    ".ts": ("node", "console.log('it runs')\n"),
    ".rb": ("ruby", "puts 'it runs'\n"),
    ".pl": ("perl", "print 'it runs'\n"),
    "": ("sh", "#!/bin/sh\necho it runs\n"),
}
"""By its extension: the program that runs it, and the script."""

NAMES = re.compile(r"write the (?:three )?lines? (.*) into")
QUOTED = re.compile(r"'([^']+)'")


@pytest.fixture
def leo(tmp_path: Path) -> Person:
    person = Person("leo", tmp_path / "leo")
    (person.place / "project/.ai/tools/demo").mkdir(parents=True)
    person.rye("keys", "generate", cwd=person.place / "project")
    return person


@pytest.fixture
def project(leo: Person) -> Path:
    return leo.place / "project"


def told(text: str) -> str:
    """The lines that somebody is told to write."""
    found = NAMES.search(text)
    assert found, text
    return "".join(f"{line}\n" for line in QUOTED.findall(found[1]))


def hint_of_a_run(person: Person, project: Path) -> str:
    """What is said to somebody who runs it all the same."""
    refusal = person.rye("run", "--json", "demo/plain", cwd=project, code=1).json
    assert refusal["code"] == "not_runnable"
    return str(refusal["hint"])


def test_every_kind_of_script_is_tried() -> None:
    assert SCRIPTS.keys() == RUNTIMES.keys()


@pytest.mark.first_case
@pytest.mark.parametrize("extension", SCRIPTS)
def test_a_script_runs_after_what_its_refusal_says_was_done(
    leo: Person, project: Path, extension: str
) -> None:
    program, script = SCRIPTS[extension]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    path = project / f".ai/tools/demo/plain{extension}"
    path.write_text(script)
    (warning,) = leo.rye("sign", "demo/plain", "--json", cwd=project).json["warnings"]
    hint = hint_of_a_run(leo, project)
    assert warning["code"] == "not_runnable"
    assert told(warning["message"]) == told(hint)
    assert hint.endswith(f"into {path}, then: rye sign demo/plain")
    assert "\n" not in warning["message"] + hint

    path.write_text(path.read_text() + "\n" + told(hint))
    again = leo.rye("sign", "demo/plain", cwd=project)
    assert again.err == ""
    ran = leo.rye("run", "demo/plain", cwd=project, code=None)
    if ran.code and extension == ".ts":
        assert "expected tsx, or a Node.js that reads TypeScript" in ran.shown
    else:
        assert (ran.code, ran.out.strip()) == (0, "it runs")


def test_the_hint_for_the_user_space_signs_there(leo: Person, project: Path) -> None:
    path = leo.user_space / "tools/demo/plain.sh"
    path.parent.mkdir(parents=True)
    path.write_text("echo it runs\n")
    leo.rye("sign", "demo/plain", "--space", "user", cwd=project)
    hint = hint_of_a_run(leo, project)
    assert hint.endswith(f"into {path}, then: rye sign demo/plain --space user")
