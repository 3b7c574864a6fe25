"""`rye sign`, `verify`, `show`, `list` and `copy`, as people and scripts use them: as real processes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.git_world import git
from tests.people import SCRIPTS, Person
from tests.verb_world import DIRECTIVE, RUNTIME, tool

MANY = 200
"""From how many items on a bar shows how far the work is."""

HELLO = ".ai/tools/demo/hello.py"
ESCAPES = b'"""Says \x1b[2Jhello."""\n'


@pytest.fixture
def leo(tmp_path: Path) -> Person:
    person = Person("leo", tmp_path / "leo")
    project = person.place / "project"
    (project / ".ai/tools/demo").mkdir(parents=True)
    person.rye("keys", "generate", cwd=project)
    return person


@pytest.fixture
def project(leo: Person) -> Path:
    project = leo.place / "project"
    (project / HELLO).write_bytes(tool())
    return project


def table(text: str) -> dict[str, list[str]]:
    """The rows of a plain table, by their first column."""
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: row[1:] for row in rows if row}


def test_a_file_that_was_renamed_is_called_that(leo: Person, project: Path) -> None:
    leo.rye("sign", "demo/hello", cwd=project)
    (project / HELLO).rename((project / HELLO).with_name("welcome.py"))
    found = leo.rye("run", "--json", "demo/welcome", cwd=project, code=1).json
    assert (found["code"], found["hint"]) == (
        "bad_signature",
        "leo signed exactly these bytes as demo/hello; if you renamed it: rye sign demo/welcome",
    )
    leo.rye("sign", "demo/welcome", cwd=project)
    assert leo.rye("sign", "*", cwd=project).out == "0 of 1 signed, 1 unchanged\n"
    content = (project / HELLO).with_name("welcome.py").read_bytes()
    (project / HELLO).with_name("copy.py").write_bytes(content.replace(b":", b":x", 1))
    assert "if you renamed it" not in leo.rye("verify", "demo/copy", cwd=project, code=1).err


def test_a_renamed_file_that_also_changed_is_looked_at_first(leo: Person, project: Path) -> None:
    path = (project / HELLO).with_name("welcome.py")
    leo.rye("trust", "project", cwd=project)
    leo.rye("sign", "demo/hello", cwd=project)
    for command in ("init -q", "add --all", "commit -qm signed"):
        git(project, *command.split())
    leo.rye("trust", "project", cwd=project)
    (project / HELLO).rename(path)
    path.write_bytes(path.read_bytes() + b"print('more')\n")
    found = leo.rye("run", "--json", "demo/welcome", cwd=project, code=1).json
    assert found["code"] == "content_changed"
    said, _, command = found["hint"].partition(" (")
    assert said == "leo signed it as demo/hello, and it also changed since: look at what changed"
    command = command.partition("), then: rye sign demo/welcome")[0]
    shown = subprocess.run(["sh", "-c", command], cwd="/", capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stdout.splitlines()[1:]) == (1, ["> print('more')"])


def test_what_changed_after_it_was_signed_again_is_no_longer_called_renamed(
    leo: Person, project: Path
) -> None:
    path = (project / HELLO).with_name("welcome.py")
    leo.rye("sign", "demo/hello", cwd=project)
    (project / HELLO).rename(path)
    leo.rye("sign", "demo/welcome", cwd=project)
    path.write_bytes(path.read_bytes() + b"print('more')\n")
    found = leo.rye("run", "--json", "demo/welcome", cwd=project, code=1).json
    assert found["hint"] == "look at what changed, then: rye sign demo/welcome"


def test_an_outdated_version_under_another_id_is_looked_at_first(leo: Person, project: Path) -> None:
    """Its bytes were signed, but they are not what leo signed last."""
    leo.rye("sign", "demo/hello", cwd=project)
    outdated = (project / HELLO).read_bytes()
    (project / HELLO).write_bytes(outdated + b"print('repaired')\n")
    leo.rye("sign", "demo/hello", cwd=project)
    (project / HELLO).with_name("welcome.py").write_bytes(outdated)
    found = leo.rye("run", "--json", "demo/welcome", cwd=project, code=1).json
    assert found["code"] == "bad_signature"
    assert found["hint"] == (
        "leo signed it as demo/hello, and something else there later: "
        "look at what changed, then: rye sign demo/welcome"
    )


def test_another_item_in_the_place_of_a_signed_one_is_looked_at_first(leo: Person, project: Path) -> None:
    welcome = (project / HELLO).with_name("welcome.py")
    welcome.write_bytes(tool() + b"print('welcome')\n")
    leo.rye("sign", "*", cwd=project)
    welcome.write_bytes((project / HELLO).read_bytes())
    found = leo.rye("run", "--json", "demo/welcome", cwd=project, code=1).json
    assert found["hint"] == (
        "leo signed it as demo/hello, and leo signed something else here: "
        "look at what changed, then: rye sign demo/welcome"
    )


def test_the_former_signer_is_named_when_the_line_is_gone(leo: Person, project: Path) -> None:
    assert leo.rye("run", "--json", "demo/hello", cwd=project, code=1).json["hint"] == "rye sign demo/hello"
    leo.rye("sign", "demo/hello", cwd=project)
    (project / HELLO).write_bytes(tool() + b"print('more')\n")
    found = leo.rye("run", "--json", "demo/hello", cwd=project, code=1).json
    assert (found["code"], found["signed_before_by"]) == ("unsigned", "leo")
    assert found["hint"] == "leo signed this before: look at what changed, then: rye sign demo/hello"


def test_sign_then_tamper_then_verify(leo: Person, project: Path) -> None:
    before = leo.rye("verify", cwd=project, code=1)
    assert table(before.out)["demo/hello"] == ["tool", "project", "unsigned", "-"]
    assert "hint:  rye sign demo/hello" in before.err

    assert leo.rye("sign", "demo/hello", cwd=project).out.startswith("signed demo/hello by leo (")
    after = leo.rye("verify", cwd=project)
    assert table(after.out)["demo/hello"][:5] == ["tool", "project", "verified", "by", "you"]
    assert after.err == ""

    path = project / HELLO
    path.write_bytes(path.read_bytes().replace(b"'hello'", b"'HELLO'"))
    tampered = leo.rye("verify", "demo/hello", cwd=project, code=1)
    assert table(tampered.out)["demo/hello"][2] == "content_changed"
    shown = leo.rye("show", "demo/hello", cwd=project)
    assert shown.err.startswith("rye: content_changed: ")
    assert "print('HELLO')" in shown.out


def test_every_command_answers_in_json_and_says_nothing_else(leo: Person, project: Path) -> None:
    def answer(*arguments: str, code: int = 0) -> dict[str, Any]:
        done = leo.rye(*arguments, "--json", cwd=project, code=code)
        assert done.err == ""
        return done.json

    assert answer("verify", code=1)["refused"] == 1
    assert answer("sign", "demo/hello")["status"] == "signed"
    assert answer("sign", "demo/*")["total"] == 1
    assert answer("verify", "demo/*")["status"] == "verified"
    assert answer("list")["items"][0]["item_id"] == "demo/hello"
    assert answer("show", "demo/hello")["integrity"]["state"] == "verified"
    assert answer("copy", "demo/hello", "--to", "user")["copied_to"].startswith(str(leo.user_space))
    assert answer("copy", "demo/hello", "--to", "user", code=1)["code"] == "item_exists"
    assert answer("show", "nothing", code=1)["code"] == "item_not_found"


def test_libraries_are_listed_when_they_are_asked_for(leo: Person, project: Path) -> None:
    def ids(*arguments: str) -> set[str]:
        return {item["item_id"] for item in leo.rye("list", *arguments, "--json", cwd=project).json["items"]}

    assert {"demo/hello", "rye/git/log"} <= ids()
    assert not {item_id for item_id in ids() if "/lib/" in item_id or item_id.endswith("/__init__")}
    assert "rye/git/__init__" in ids("--all") - ids()
    assert ids("rye/git/__init__") == {"rye/git/__init__"}
    told = leo.rye("list", "rye/git/*", cwd=project).err
    assert told == "\nnot shown: 3 that only other tools load (rye list --all)\n"
    assert leo.rye("list", "--all", cwd=project).err == ""


def test_every_type_and_both_spaces_are_signed(leo: Person, project: Path) -> None:
    greet = leo.user_space / "directives/greet.md"
    greet.parent.mkdir(parents=True)
    greet.write_bytes(DIRECTIVE)
    error = leo.rye("verify", "greet", "--type", "directive", cwd=project, code=1).err
    hint = error.rpartition("hint:  rye ")[2].split()
    assert hint == ["sign", "greet", "--type", "directive", "--space", "user"]
    leo.rye(*hint, cwd=project)
    leo.rye("verify", "greet", "--type", "directive", cwd=project)


def test_all_issues_of_an_item_are_shown_with_their_lines(leo: Person, project: Path) -> None:
    (project / HELLO).write_bytes(b'__version__ = 1.0\n__tool_type__ = "spell"\n')
    error = leo.rye("sign", "demo/hello", cwd=project, code=1).err
    assert "\n  line 1, column 15: version: " in error
    assert "\n  line 2, column 17: tool_type: " in error


def test_a_batch_that_fails_in_part_ends_with_1_and_signs_the_rest(leo: Person, project: Path) -> None:
    (project / ".ai/tools/demo/broken.py").write_bytes(b"def broken(:\n")
    done = leo.rye("sign", "demo/*", cwd=project, code=1)
    assert done.out.splitlines()[-1] == "1 of 2 signed"
    assert "invalid_item" in done.err
    leo.rye("verify", "demo/hello", cwd=project)


def test_content_comes_out_as_it_is(leo: Person, project: Path) -> None:
    leo.rye("sign", "demo/hello", cwd=project)
    shown = leo.rye("show", "demo/hello", "--content", cwd=project)
    assert shown.out.encode() == (project / HELLO).read_bytes()


@pytest.mark.thorough
def test_a_pipe_gets_plain_text_and_a_terminal_a_table(leo: Person, project: Path) -> None:
    leo.rye("sign", "demo/hello", cwd=project)
    assert "\x1b" not in leo.rye("verify", cwd=project).shown
    assert "\x1b[1mITEM" in leo.types([], "verify", cwd=project).out


@pytest.mark.thorough
def test_long_work_shows_how_far_it_is_in_a_terminal(leo: Person, project: Path) -> None:
    for number in range(MANY):
        (project / f".ai/tools/demo/t{number}.py").write_bytes(tool())
    assert "Verifying" in leo.types([], "verify", cwd=project, code=1).out
    assert "Verifying" not in leo.rye("verify", cwd=project, code=1).shown


def test_an_item_cannot_talk_to_the_terminal(leo: Person, project: Path) -> None:
    (project / HELLO).write_bytes(ESCAPES)
    shown = leo.types([], "show", "demo/hello", cwd=project).out
    assert "Says \\x1b[2Jhello." in shown
    assert "\x1b[2J" not in shown
    assert leo.rye("show", "demo/hello", "--content", cwd=project).out.encode() == ESCAPES


def test_a_passphrase_is_asked_for_at_a_terminal(leo: Person, project: Path) -> None:
    encrypt(leo, project)
    leo.refused("passphrase_required", "sign", "demo/hello", cwd=project)
    # The last blank is written once nothing is shown any more; what was typed before is thrown away.
    shown = leo.types([("private key: ", "secret\n")], "sign", "demo/hello", cwd=project).out
    assert "secret" not in shown
    assert "signed demo/hello" in shown
    leo.rye("verify", "demo/hello", cwd=project)


def test_an_interrupted_command_ends_with_130(leo: Person, project: Path) -> None:
    encrypt(leo, project)
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [SCRIPTS / "rye", "sign", "demo/hello"],
        cwd=project,
        env=leo.environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    shown = b""
    while b"Passphrase" not in shown:
        shown += os.read(controller, 65536)
    process.send_signal(signal.SIGINT)
    with suppress(OSError):  # nobody has the terminal any more
        while chunk := os.read(controller, 65536):
            shown += chunk
    os.close(controller)
    assert process.wait(30) == 130, shown
    assert b"Traceback" not in shown
    assert (project / HELLO).read_bytes() == tool()


def encrypt(leo: Person, project: Path) -> None:
    leo.rye("keys", "rotate", cwd=project, RYE_KEY_PASSPHRASE="secret")


@pytest.mark.parametrize(
    "arguments",
    [
        ["sign"],
        ["show", "demo/hello", "--type", "spell"],
        ["copy", "demo/hello"],
        ["copy", "demo/hello", "--to", "moon"],
        ["verify", "--sapce", "user"],
        ["list", "a", "b"],
    ],
)
def test_wrong_use_ends_with_2(leo: Person, project: Path, arguments: list[str]) -> None:
    answer = leo.rye(*arguments, cwd=project, code=2)
    assert answer.out == ""
    assert "Usage: rye " in answer.err


def test_a_command_works_below_the_project_and_from_elsewhere(leo: Person, project: Path) -> None:
    deep = project / "src/deep"
    deep.mkdir(parents=True)
    leo.rye("sign", "demo/hello", cwd=deep)
    elsewhere = leo.place / "elsewhere"
    elsewhere.mkdir()
    leo.refused("item_not_found", "verify", "demo/hello", cwd=elsewhere)
    leo.rye("verify", "demo/hello", "--project", str(project), cwd=elsewhere)
    leo.rye("verify", "demo/hello", cwd=elsewhere, RYE_PROJECT_PATH=str(project))
    assert "there is no project here" in leo.rye("verify", cwd=elsewhere).out
    leo.refused("no_project", "sign", "demo/hello", cwd=elsewhere)
    leo.refused("no_project", "verify", "--project", "nowhere", cwd=elsewhere)


def test_the_whole_project_is_verified_where_no_person_is(leo: Person, project: Path) -> None:
    leo.rye("sign", "demo/hello", cwd=project)
    machine = Person("ci", leo.place / "ci")
    machine.rye("verify", cwd=project, code=1)
    document = leo.rye("keys", "export", cwd=project).out
    fingerprint = leo.rye("keys", "show", "--json", cwd=project).json["person"]["fingerprint"]
    (project / ".ai/trusted_keys").mkdir()
    (project / f".ai/trusted_keys/{fingerprint}.toml").write_text(document, encoding="utf-8")
    machine.rye("verify", cwd=project, code=1)
    machine.rye("verify", cwd=project, RYE_TRUSTED_KEYS=leo.key_id(cwd=project))
    assert not machine.user_space.exists()


WITH_DATA = """\
#!/bin/bash
# /// rye
# version: 1.0.0
# description: Says what its data says.
# executor_id: rye/core/runtimes/bash_runtime
# ///
cat "$(dirname "$0")/data/a file.txt"
"""


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_copy_says_which_files_stayed_behind_and_its_command_takes_them_along(
    leo: Person, project: Path, is_taken: bool
) -> None:
    tools = project / ".ai/tools/demo"
    (tools / "says.sh").write_text(WITH_DATA)
    (tools / "data").mkdir()
    (tools / "data/a file.txt").write_text("here it is")
    leo.rye("sign", "demo/says", "--with", "data/a file.txt", cwd=project)
    listing = leo.user_space / "tools/demo/deps.manifest.yaml"
    if is_taken:
        listing.parent.mkdir(parents=True)
        listing.write_text("somebody's")
    warning = leo.rye("copy", "demo/says", "--to", "user", cwd=project).err
    assert "companions_not_copied" in warning
    assert "tools/demo/data/a file.txt" in warning
    command = warning.partition("take them along, ")[2]
    subprocess.run(["bash", "-c", command], env=leo.environment, cwd=project, check=True)
    (tools / "says.sh").unlink()
    assert leo.rye("run", "demo/says", cwd=project).out == "here it is"
    (tools / "says.sh").write_text(WITH_DATA)
    leo.rye("sign", "demo/says", cwd=project)
    again = leo.rye("copy", "demo/says", "--to", "user", "--overwrite", cwd=project)
    assert again.err == "", "they are there by now"


def test_verify_shows_the_parts_of_a_tool_as_carried(leo: Person, project: Path) -> None:
    tools = project / ".ai/tools/demo"
    (tools / "helper.py").write_text("x = 1\n")
    leo.rye("sign", "demo/hello", "--with", "helper.py", cwd=project)
    shown = leo.rye("verify", "--space", "project", cwd=project)
    assert table(shown.out)["demo/helper"][2:5] == ["carried", "by", "you"]
    assert "1 verified, 1 carried by the listings of tools, 0 refused" in shown.out
    listed = leo.rye("list", "demo/*", "--all", cwd=project).out
    assert "carried with the tools beside it, by deps.manifest.yaml" in listed
    (tools / "helper.py").write_text("x = 2\n")
    assert table(leo.rye("verify", cwd=project, code=1).out)["demo/helper"][2] == "unsigned"


def test_a_copy_of_a_runtime_can_be_changed_and_signed(leo: Person, project: Path) -> None:
    mine = leo.user_space / "tools/runs/mine.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(RUNTIME)
    leo.rye("sign", "runs/mine", "--space", "user", cwd=project)
    leo.rye("copy", "runs/mine", "--to", "project", cwd=project)
    assert table(leo.rye("verify", "runs/*", cwd=project).out)["runs/mine"][0] == "tool"
    error = leo.rye("copy", "rye/core/primitives/subprocess", "--to", "project", cwd=project).err
    assert "rye sign rye/core/primitives/subprocess" in error


def test_many_items_of_the_system_take_one_line(leo: Person, project: Path) -> None:
    leo.rye("sign", "demo/hello", cwd=project)
    shown = leo.rye("verify", cwd=project).out
    assert "rye/core" not in shown
    assert "of them of the system" in shown.splitlines()[-1]
    assert "rye/core" in leo.rye("verify", "--space", "system", cwd=project).out


def test_ids_are_completed(leo: Person, project: Path) -> None:
    done = leo.rye(cwd=project, _RYE_COMPLETE="complete_bash", COMP_WORDS="rye show de", COMP_CWORD="2")
    assert done.out.split() == ["demo/hello"]
    done = leo.rye(cwd=project, _RYE_COMPLETE="complete_bash", COMP_WORDS="rye ver", COMP_CWORD="1")
    assert done.out.split() == ["verify"]


def test_completion_is_silent_where_everything_is_wrong(leo: Person, project: Path) -> None:
    done = leo.rye(
        cwd=project,
        _RYE_COMPLETE="complete_bash",
        COMP_WORDS="rye show de",
        COMP_CWORD="2",
        USER_SPACE="not/absolute",
    )
    assert done.shown.strip() == ""


@pytest.mark.thorough
def test_a_reader_that_goes_away_and_a_full_disk_are_no_tracebacks(leo: Person, project: Path) -> None:
    def run(redirection: str) -> subprocess.CompletedProcess[str]:
        command = ["sh", "-c", f'"$0" list {redirection}', str(SCRIPTS / "rye")]
        return subprocess.run(command, cwd=project, env=leo.environment, capture_output=True, text=True)

    assert "Traceback" not in run("| true").stderr
    full = run("> /dev/full")
    assert full.returncode == 1
    assert "Traceback" not in full.stderr
    assert "rye: write_failed: " in full.stderr


@pytest.mark.first_case
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_not_stumbled_over(leo: Person, project: Path, closed: str) -> None:
    command = ["sh", "-c", f'"$0" sign demo/hello {closed}', str(SCRIPTS / "rye")]
    done = subprocess.run(command, cwd=project, env=leo.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    leo.rye("verify", "demo/hello", cwd=project)


def test_a_directory_that_is_gone_is_said_and_not_stumbled_over(leo: Person, project: Path) -> None:
    gone = leo.place / "gone"
    gone.mkdir()
    script = 'rmdir "$PWD" && exec "$0" sign demo/hello --json'
    done = subprocess.run(
        ["sh", "-c", script, SCRIPTS / "rye"], cwd=gone, env=leo.environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["code"] == "no_project"


def test_names_that_are_no_text_are_shown_and_not_stumbled_over(leo: Person, project: Path) -> None:
    odd = os.fsencode(project) + b"/.ai/tools/demo/odd\xff.py"
    Path(os.fsdecode(odd)).write_bytes(tool())
    refused = leo.rye("verify", cwd=project, code=1)
    assert "odd\\xff" in refused.shown
    assert leo.rye("verify", "--json", cwd=project, code=1).json["refused"] == 2


def test_an_example_that_its_own_schema_refuses_is_a_warning(leo: Person, project: Path) -> None:
    schema = b"CONFIG_SCHEMA = {'properties': {'n': {'type': 'integer'}}}\n"
    example = (
        b"{'parameters': {'n': 'x'}}, {'parameters': {'n': 'x'}, 'expect': {'code': 'invalid_parameters'}}"
    )
    (project / HELLO).write_bytes(
        tool() + schema + b"EXAMPLES = [{'parameters': {'n': 1}}, " + example + b"]\n"
    )
    signed = leo.rye("sign", "demo/hello", cwd=project)
    assert "rye: warning: example_invalid: examples[1].parameters do not fit" in signed.err
    assert "examples[0]" not in signed.err
    assert "examples[2]" not in signed.err
