"""`rye run` and `rye explain`, as people and scripts use them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.people import SCRIPTS, Person

GREET = '''\
"""Greets somebody by name."""

__version__ = "1.0.0"
__executor_id__ = "python_runtime"
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Who is greeted."},
        "times": {"type": "integer", "default": 1},
        "loud": {"type": "boolean", "default": False},
    },
    "required": ["name"],
}


def main(name, times=1, loud=False):
    greeting = " ".join([f"Hello, {name}!"] * times)
    return {"greeting": greeting.upper() if loud else greeting}
'''

SHELL = """\
#!/bin/sh
# /// rye
# executor_id: binary_runtime
# config_schema: {properties: {code: {type: integer, default: 0}}}
# ///
"""

DIRECTIVE = """\
---
name: review
version: "1.0.0"
inputs: {type: object, required: [what]}
---
Review {input:what} with care.
"""


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return Person("ada", tmp_path / "ada")


@pytest.fixture
def project(tmp_path: Path, ada: Person) -> Path:
    project = tmp_path / "a project"
    project.mkdir()
    ada.begin(project)
    return project


@pytest.fixture
def greet(ada: Person, project: Path) -> str:
    return sign(ada, project, "demo/greet.py", GREET)


def sign(person: Person, project: Path, relative: str, text: str, kind: str = "tool") -> str:
    directory = {"tool": "tools", "directive": "directives", "knowledge": "knowledge"}[kind]
    path = project / ".ai" / directory / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    item_id = relative.removesuffix(path.suffix)
    person.rye("sign", item_id, "--type", kind, cwd=project)
    return item_id


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("before", "after", "given", "greeting"),
    [
        ([], ["--name", "Ada"], "", "Hello, Ada!"),
        ([], ["--name=Ada", "--times", "2"], "", "Hello, Ada! Hello, Ada!"),
        ([], ["--name", "Ada", "--loud"], "", "HELLO, ADA!"),
        (["--params", '{"name": "é ${HOME} {tool_path}"}'], [], "", "Hello, é ${HOME} {tool_path}!"),
        (["--params", "-"], [], '{"name": "stdin"}', "Hello, stdin!"),
        ([], ["--params", '{"name": "behind"}'], "", "Hello, behind!"),
        (["--params", '{"name": "x", "times": 3}'], ["--times", "1"], "", "Hello, x!"),
    ],
)
def test_parameters_reach_the_tool(
    ada: Person, project: Path, greet: str, before: list[str], after: list[str], given: str, greeting: str
) -> None:
    answer = ada.rye("run", *before, greet, *after, cwd=project, given=given.encode())
    assert json.loads(answer.out) == {"greeting": greeting}
    assert answer.err == ""


def test_with_json_there_is_one_object_and_nothing_else(ada: Person, project: Path, greet: str) -> None:
    answer = ada.rye("run", "--json", greet, "--name", "Ada", cwd=project)
    assert answer.json["data"] == {"greeting": "Hello, Ada!"}
    assert answer.json["exit"] == {"kind": "exited", "return_code": 0}
    assert answer.json["chain"][0]["item_id"] == greet
    assert (answer.json["runtime"], answer.json["why_cold"]) == ("cold", "one_call")
    assert answer.err == ""


@pytest.mark.thorough
def test_a_tool_that_mentions_a_variable_it_does_not_get_is_told_how_it_would(
    ada: Person, project: Path, greet: str
) -> None:
    reads = sign(ada, project, "demo/reads.sh", SHELL + 'printf "%s" "${A_TOKEN-none}"\n')
    assert (
        "notices"
        not in ada.rye(
            "run", "--json", greet, "--name", "Ada", cwd=project, A_TOKEN="x", ANOTHER_TOKEN="y"
        ).json
    )
    answer = ada.rye("run", reads, cwd=project, A_TOKEN="x", ANOTHER_TOKEN="y")
    assert answer.out == "none"
    assert "variables_withheld: withheld: A_TOKEN. " in answer.err
    assert "permissions: {env: [A_TOKEN]}" in answer.err
    text = SHELL.replace("# ///\n# exec", "# ///\n# exec").replace(
        "# ///\n", "# permissions: {env: [A_TOKEN]}\n# ///\n"
    )
    granted = sign(ada, project, "demo/granted.sh", text + 'printf "%s" "$A_TOKEN"\n')
    answer = ada.rye("run", granted, cwd=project, A_TOKEN="x", ANOTHER_TOKEN="y")
    assert (answer.out, answer.err) == ("x", "")


def test_help_behind_the_id_is_about_the_tool(ada: Person, project: Path, greet: str) -> None:
    shown = ada.rye("run", greet, "--help", cwd=project).out
    for text in ("Greets somebody by name.", "--name", "required", "Who is greeted.", "--times"):
        assert text in shown


WAITS = """\
#!/bin/sh
# /// rye
# executor_id: binary_runtime
# config_schema: {properties: {timeout: {type: string}, dry_run: {type: string}}}
# ///
echo "$RYE_PARAM_timeout and $RYE_PARAM_dry_run"
"""


def test_an_option_may_stand_behind_the_id(ada: Person, project: Path, greet: str) -> None:
    answer = ada.rye("run", greet, "--json", "--name", "Ada", "--dry-run", cwd=project).json
    assert answer["status"] == "validation_passed"
    assert ada.rye("run", greet, "--json", cwd=project, code=1).json["code"] == "invalid_parameters"
    slow = sign(ada, project, "demo/slow.sh", SHELL + "sleep 30\n")
    refused = ada.rye("run", slow, "--timeout=0.2", "--json", cwd=project, code=1).json
    assert refused["code"] == "timeout"
    elsewhere = project.parent
    for options in (["--project", str(project)], [f"--project={project}"]):
        assert "Hello, Ada!" in ada.rye("run", greet, "--name", "Ada", *options, cwd=elsewhere).out
    refused = ada.rye("run", greet, "--name", "Ada", "--locked", "--json", cwd=project, code=1).json
    assert refused["code"] == "lock_missing"


def test_an_option_that_the_tool_declares_is_the_tools(ada: Person, project: Path) -> None:
    waits = sign(ada, project, "demo/waits.sh", WAITS)
    answer = ada.rye("run", waits, "--timeout", "soon", "--dry-run", "later", cwd=project)
    assert answer.out == "soon and later\n"


@pytest.mark.parametrize(
    "words", [["--timeout"], ["--timeout", "soon"], ["--type", "song"], ["--json=yes"]], ids=" ".join
)
def test_an_option_behind_the_id_that_says_nothing_is_wrong_use(
    ada: Person, project: Path, greet: str, words: list[str]
) -> None:
    assert "expected" in ada.rye("run", greet, "--name", "Ada", *words, cwd=project, code=2).err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["demo/greet", "Ada"], 2),
        (["demo/greet", "--times", "many", "--name", "x"], 2),
        (["--params", "{", "demo/greet"], 2),
        (["--params", "[]", "demo/greet"], 2),
        (["demo/greet"], 1),
        (["demo/nothing"], 1),
        (["--locked", "demo/greet", "--name", "x"], 1),
    ],
)
def test_wrong_use_and_refusals_have_exit_codes(
    ada: Person, project: Path, greet: str, arguments: list[str], code: int
) -> None:
    assert ada.rye("run", *arguments, cwd=project, code=code).err


def test_what_a_failed_run_last_wrote_on_standard_error_is_in_the_log(ada: Person, project: Path) -> None:
    tool = sign(
        ada,
        project,
        "demo/fails.sh",
        SHELL + "printf 'no such \\033[31mthing\\n' >&2; exit $RYE_PARAM_code\n",
    )
    ada.rye("run", tool, "--code", "0", cwd=project)
    failed = ada.rye("run", "--json", tool, "--code", "3", cwd=project, code=1).json
    good, bad = (
        each["run_id"]
        for each in sorted(
            ada.rye("log", "--json", cwd=project).json["runs"], key=lambda run: run["status"] != "success"
        )
    )
    assert bad == failed["run_id"]
    assert ada.rye("log", "show", bad, cwd=project).out.endswith("no such \\x1b[31mthing\n\n")
    ada.refused("output_not_found", "log", "show", bad, "--output", "--stream", "stderr", cwd=project)
    assert "standard error" not in ada.rye("log", "show", good, cwd=project).out


def test_a_tool_that_leaves_processes_running_is_told_what_starts_one_that_goes_on(
    ada: Person, project: Path
) -> None:
    left = "sleep 300 > /dev/null 2>&1 < /dev/null &\n"
    tool = sign(
        ada, project, "demo/leaves.sh", SHELL + left + 'test "$RYE_PARAM_code" = 0 || kill $!; wait $! || :\n'
    )
    stays = sign(ada, project, "demo/stays.sh", SHELL + left)
    (notice,) = ada.rye("run", "--json", stays, cwd=project).json["notices"]
    assert notice["code"] == "background_ended"
    assert "rye/process/spawn" in notice["message"]
    assert "notices" not in ada.rye("run", "--json", tool, "--code", "1", cwd=project).json


def test_what_a_tool_prints_comes_out_and_its_failure_is_told(ada: Person, project: Path) -> None:
    script = SHELL + 'echo out; echo err >&2; exit "$RYE_PARAM_code"\n'
    tool = sign(ada, project, "demo/prints", script)
    fine = ada.rye("run", tool, cwd=project)
    assert (fine.out, fine.err) == ("out\n", "err\n")
    failed = ada.rye("run", tool, "--code", "3", cwd=project, code=1)
    assert failed.out == "out\n"
    assert failed.err.startswith("err\nrye: tool_failed:")
    assert "found 3" in failed.err


def test_what_a_tool_prints_comes_out_as_it_prints_it(ada: Person, project: Path) -> None:
    """The tool goes on only once its first line was read at the other end."""
    pipe = project / "pipe"
    os.mkfifo(pipe)
    tool = sign(ada, project, "demo/talks", SHELL + 'echo first\ncat "$RYE_PROJECT_PATH/pipe"\n')
    with started(ada, project, "run", tool) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        pipe.write_text("second\n")
        assert process.stdout.read() == b"second\n"
    assert process.returncode == 0


def test_control_c_ends_the_tool_and_everything_that_it_started(ada: Person, project: Path) -> None:
    tool = sign(ada, project, "demo/waits", SHELL + "sleep 600 &\necho $$ $!\nwait\n")
    with started(ada, project, "run", tool) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 2
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
    assert process.returncode == 130
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def started(person: Person, project: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [SCRIPTS / "rye", *arguments],
        cwd=project,
        env=person.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )


def test_a_directive_and_knowledge_are_given_out(ada: Person, project: Path) -> None:
    review = sign(ada, project, "demo/review.md", DIRECTIVE, "directive")
    known = sign(ada, project, "demo/known.md", "---\nname: known\n---\nIt is so.\n", "knowledge")
    shown = ada.rye("run", "--type", "directive", review, "--what", "this ${HOME}", cwd=project)
    assert shown.out == "Review this ${HOME} with care.\n"
    assert ada.rye("run", "--type", "knowledge", known, cwd=project).out == "It is so.\n"
    missing = ada.rye("run", "--type", "directive", review, cwd=project, code=1)
    assert "/what" in missing.err


def test_a_dry_run_says_what_would_run(ada: Person, project: Path, greet: str) -> None:
    found = ada.rye("run", "--dry-run", "--json", greet, "--name", "Ada", cwd=project).json
    assert found["status"] == "validation_passed"
    assert str(project / ".ai/tools/demo/greet.py") in found["command"]
    assert "PATH" in found["environment"]
    assert not (project / ".ai/lockfiles").exists()


def lines(text: str) -> Iterator[list[str]]:
    return (line.split() for line in text.splitlines())


def test_a_chain_is_explained_with_spaces_signers_and_lock(ada: Person, project: Path, greet: str) -> None:
    call = ["explain", greet, "--params", '{"name": "Ada"}']
    shown = ada.rye(*call, cwd=project).out
    rows = list(lines(shown))
    assert rows[1][:4] == [greet, "project", "1.0.0", "verified"]
    assert rows[2][1:5] == ["rye/core/runtimes/python_runtime", "system", "1.0.0", "verified"]
    assert ["lock", "none"] in rows
    found = ada.rye(*call, "--json", cwd=project).json
    assert (found["runs"], len(found["chain"])) == (True, 3)
    assert found["chain"][0]["integrity"]["signer"]["owner"] == "ada"


@pytest.mark.thorough
def test_a_chain_is_drawn(ada: Person, project: Path, greet: str) -> None:
    call = ["explain", greet, "--params", '{"name": "Ada"}']
    assert ET.fromstring(ada.rye(*call, "--svg", cwd=project).out).tag.endswith("svg")  # noqa: S314
    assert ada.rye(*call, "--mermaid", cwd=project).out.startswith("flowchart")
    assert ada.rye(*call, "--svg", "--mermaid", cwd=project, code=2).err


def test_what_a_tool_declares_is_said_in_words(ada: Person, project: Path) -> None:
    words = "may read this project; may use git in this project; nothing else"
    answer = ada.rye("explain", "rye/git/status", cwd=project)
    assert f"declares     {words}" in answer.out
    assert ada.rye("explain", "rye/git/status", "--json", cwd=project).json["declares"] == words


def test_what_speaks_against_a_call_is_explained_with_everything_else(
    ada: Person, project: Path, greet: str
) -> None:
    path = project / ".ai/tools/demo/greet.py"
    path.write_text(path.read_text().replace("Hello", "Pay me"))
    answer = ada.rye("explain", greet, cwd=project, code=1)
    rows = list(lines(answer.out))
    assert rows[1][:4] == [greet, "project", "1.0.0", "content_changed"]
    assert rows[3][1:5] == ["rye/core/primitives/subprocess", "system", "1.0.0", "verified"]
    assert "rye: content_changed:" in answer.err
    found = ada.rye("explain", greet, "--json", cwd=project, code=1).json
    assert (found["runs"], found["refusal"]["code"]) == (False, "content_changed")


@pytest.mark.thorough
def test_explain_without_parameters_says_what_a_call_needs_and_that_nothing_is_wrong(
    ada: Person, project: Path, greet: str
) -> None:
    shown = ada.rye("explain", greet, cwd=project)
    assert {("needs", "name"), ("lock", "none"), ("sealed", "yes")} <= {
        tuple(row) for row in lines(shown.out) if len(row) == 2
    }
    assert f"rye explain {greet} --params JSON" in shown.out
    assert shown.err == ""
    found = ada.rye("explain", greet, "--json", cwd=project).json
    assert (found["runs"], found["needs"], found["call"]["lock"]["state"]) == (True, ["name"], "none")
    assert "needs: name" in ada.rye("explain", greet, "--svg", cwd=project).out
    assert ada.rye("explain", greet, "--mermaid", cwd=project).out.startswith("flowchart")


@pytest.mark.thorough
@pytest.mark.parametrize("given", ['{"name": 7}', "{}"])
def test_parameters_that_were_given_to_explain_and_do_not_fit_are_an_error(
    ada: Person, project: Path, greet: str, given: str
) -> None:
    wrong = ada.rye("explain", greet, "--params", given, cwd=project, code=1)
    assert "rye: invalid_parameters:" in wrong.err
    assert "needs" not in wrong.out
    assert "rye: invalid_parameters:" in ada.rye("run", "--dry-run", greet, cwd=project, code=1).err


SCHEMAS = {
    "words": ("{properties: {word: {type: string}}, required: [word]}", "needs: word"),
    "either": (
        "{properties: {a: {type: string}, b: {type: string}}, anyOf: [{required: [a]}, {required: [b]}]}",
        "needs: expected ",
    ),
    "default": ("{properties: {word: {type: string, default: 7}}}", "invalid_parameters"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", SCHEMAS)
def test_what_a_call_needs_stays_a_template_and_a_default_that_does_not_fit_is_an_error(
    ada: Person, project: Path, name: str
) -> None:
    schema, told = SCHEMAS[name]
    text = (
        "executor_id: rye/core/primitives/subprocess\nversion: '1'\nconfig_schema: "
        f"{schema}\nconfig: {{command: 'true', args: ['<{{word}}>'], env: {{WORD: '{{params.word}}'}}}}\n"
    )
    tool = sign(ada, project, f"demo/{name}.yaml", text)
    answer = ada.rye("explain", tool, cwd=project, code=None)
    assert answer.code == (1 if told == "invalid_parameters" else 0)
    assert told in " ".join(answer.shown.replace("needs ", "needs: ").split())
    if name == "words":
        [(program, *words)] = [words for name, *words in lines(answer.out) if name == "command"]
        assert (program.endswith("/true"), words) == (True, ["'<{word}>'"])
        assert "unknown_placeholder" not in answer.shown


@pytest.mark.thorough
def test_what_cannot_be_filled_without_a_parameter_is_no_mistake_of_the_tool(
    ada: Person, project: Path
) -> None:
    asks = (
        "executor_id: http_runtime\nversion: '1'\n"
        "config_schema: {properties: {host: {type: string}}, required: [host]}\n"
        "config: {method: GET, url: 'https://{host}/'}\n"
    )
    tool = sign(ada, project, "demo/asks.yaml", asks)
    found = ada.rye("explain", tool, "--json", cwd=project).json
    assert (found["runs"], found["needs"]) == (True, ["host"])
    primitive = ada.rye("explain", "rye/core/primitives/subprocess", "--json", cwd=project).json
    assert (primitive["runs"], primitive["needs"]) == (True, ["config"])


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_mistyped_id_is_answered_with_a_similar_one_of_the_same_type(
    ada: Person, project: Path, greet: str, command: str
) -> None:
    sign(ada, project, "demo/review.md", DIRECTIVE, "directive")
    assert f"hint:  did you mean {greet}?" in ada.rye(command, "demo/gret", cwd=project, code=1).err
    for unlike in ("demo/reviw", "xyz"):
        assert "hint:  rye list" in ada.rye(command, unlike, cwd=project, code=1).err
    if command == "run":
        told = ada.rye("run", "--type", "directive", "demo/reviw", cwd=project, code=1).err
        assert "did you mean demo/review?" in told


NODE = """\
// /// rye
// version: "1"
// executor_id: rye/core/runtimes/node_runtime
// config_schema: {properties: {name: {type: string}}, required: [name]}
// ///
export function execute({ name }) { return name; }
"""


@pytest.mark.thorough
def test_a_program_that_is_not_there_is_told_before_and_after_with_what_to_install(
    ada: Person, project: Path, tmp_path: Path
) -> None:
    tool = sign(ada, project, "demo/node.mjs", NODE)
    bare = str(tmp_path)
    for given in ([], ["--params", '{"name": "Ada"}']):
        answer = ada.rye("explain", tool, *given, cwd=project, code=1, PATH=bare)
        assert list(lines(answer.out))[4][:2] == ["command", "node"]
        assert "rye: spawn_failed: expected node on the PATH of the tool" in answer.err
        assert "install Node.js (https://nodejs.org)" in answer.err
    found = ada.rye("explain", tool, "--json", cwd=project, code=1, PATH=bare).json
    assert (found["runs"], found["refusal"]["code"]) == (False, "spawn_failed")
    for options in ([], ["--dry-run"]):
        failed = ada.rye("run", *options, tool, "--name", "Ada", cwd=project, code=1, PATH=bare)
        assert "hint:  install Node.js (https://nodejs.org)" in failed.err


@pytest.mark.thorough
def test_a_program_that_is_a_path_is_looked_for_where_it_runs(ada: Person, project: Path) -> None:
    text = "executor_id: rye/core/primitives/subprocess\nversion: '1'\nconfig: {command: './go'}\n"
    tool = sign(ada, project, "demo/go.yaml", text)
    gone = ada.rye("explain", tool, cwd=project, code=1)
    assert "found that it does not exist" in gone.err
    (project / "go").write_text("#!/bin/sh\n")
    (project / "go").chmod(0o755)
    assert ada.rye("explain", tool, cwd=project).err == ""
    assert ada.rye("run", tool, cwd=project).err == ""


def test_an_invalid_lockfile_and_a_chain_that_does_not_fit_are_reported_issue_by_issue(
    ada: Person, project: Path, greet: str
) -> None:
    lockfile = project / ".ai/lockfiles/demo/greet@1.0.0.lock.json"
    lockfile.parent.mkdir(parents=True)
    lockfile.write_text("{")
    malformed = ada.rye("run", greet, "--name", "Ada", cwd=project, code=1)
    assert malformed.err.startswith(
        "rye: malformed_lockfile: The lockfile cannot be read as one.\n  expected "
    )
    runtime = "tool_type: runtime\nexecutor_id: rye/core/primitives/subprocess\nconfig: {command: 'true'}\n"
    sign(ada, project, "demo/runtime.yaml", f"{runtime}child_constraints: {{min_version: '2'}}\n")
    tool = sign(ada, project, "demo/young.yaml", "executor_id: demo/runtime\nversion: '1'\n")
    unfit = ada.rye("run", tool, cwd=project, code=1)
    assert unfit.err.startswith(
        "rye: chain_invalid: Two elements of a chain do not fit.\n  demo/runtime takes"
    )


@pytest.mark.thorough
def test_a_refusal_has_a_line_of_its_own_at_a_terminal_and_a_file_gets_no_more_than_was_printed(
    ada: Person, project: Path
) -> None:
    call = ["run", "rye/bash/bash", "--command", "exit 3"]
    shown = ada.types([], *call, cwd=project, code=1).out.replace("\r\n", "\n")
    assert '"success": false}\nrye: ' in shown
    assert ada.rye(*call, cwd=project, code=1).out.endswith("}")


def test_an_option_in_the_place_of_the_id_is_wrong_use(ada: Person, project: Path) -> None:
    answer = ada.rye("run", "--tag", "--foo", cwd=project, code=2)
    assert "expected the id of an item first, found the option '--tag'" in " ".join(answer.err.split())
