"""Scripts that nobody wrote for this: adopted by `rye adopt`, signed, called by an MCP client as they are."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.trust.approvals import Approvals
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Workshop, facts, text_of

CERTIFICATES = {name: os.environ[name] for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ}
"""Where this machine has those of its registries."""

GIVEN = Path(__file__).parents[1] / "assets/scripts"


def adopt(shop: Workshop, name: str, *arguments: str) -> dict[str, Any]:
    """Adopt a script of the assets, out of a directory of somebody's, and sign it."""
    script = shop.project.parent / "bin" / name
    script.parent.mkdir(exist_ok=True)
    shutil.copy(GIVEN / name, script)
    answer = shop.person.rye("adopt", str(script), "--yes", "--json", *arguments, cwd=shop.project).json
    assert script.read_bytes() == (GIVEN / name).read_bytes(), "the original stays as it is"
    assert only_added(script.read_text(), Path(answer["path"]).read_text()), "no line of it is changed"
    shop.person.rye("sign", answer["item_id"], cwd=shop.project)
    return answer


def install(project: Path, *packages: str) -> None:
    """Have npm install packages into a project, or skip."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    command = ["npm", "install", "--no-audit", "--no-fund", *packages]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no registry of npm can be reached: {done.stderr.strip()[:200]}")


def line_of(path: Path, text: str) -> int:
    """The number of the line with a text."""
    return next(number for number, line in enumerate(path.read_text().split("\n"), start=1) if text in line)


def only_added(before: str, after: str) -> bool:
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return not any(line.startswith("- ") for line in lines)


async def called(shop: Workshop, item_id: str, parameters: dict[str, Any]) -> Any:
    """What an MCP client gets."""
    async with shop.served("auto", variables=CERTIFICATES) as client:
        return await client.call_tool("execute", {"item_id": item_id, "parameters": parameters})


@pytest.fixture
def texts(workshop: Workshop) -> Workshop:
    (workshop.project / "a.txt").write_text("b a a B c\n")
    (workshop.project / "--top").write_text("z z\n")
    return workshop


async def test_a_script_with_argparse_takes_typed_parameters(texts: Workshop) -> None:
    answer = adopt(texts, "wordcount.py")
    given = {"files": ["a.txt"], "top": 2, "ignore_case": True, "format": "csv", "exclude": ["c"]}
    result = await called(texts, answer["item_id"], given)
    assert facts(result)["data"] == "a,2\nb,2\n"
    assert "a,2" in text_of(result)
    refused = await called(texts, answer["item_id"], {"files": ["a.txt"], "top": "many"})
    assert facts(refused)["code"] == "invalid_parameters"


async def test_no_value_becomes_a_flag_of_the_script(texts: Workshop) -> None:
    answer = adopt(texts, "wordcount.py")
    result = await called(texts, answer["item_id"], {"files": ["--top"], "exclude": ["--format=csv"]})
    assert facts(result)["data"] == "     2 z\n"


async def test_a_script_with_getopts_runs_in_the_project(workshop: Workshop) -> None:
    (workshop.project / "things").mkdir()
    for name in ("one", "two"):
        (workshop.project / "things" / name).touch()
    answer = adopt(workshop, "backup.sh")
    given = {"args": ["things"], "prefix": "-odd", "excludes": ["two"]}
    result = await called(workshop, answer["item_id"], given)
    assert facts(result)["data"] == "[info] wrote ./-odd.tar\nthings/\nthings/one\n"
    assert (workshop.project / "-odd.tar").exists()


async def test_a_script_with_its_own_loop_over_process_argv_is_the_main_module(workshop: Workshop) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    answer = adopt(workshop, "slugify.js")
    given = {"titles": ["Hello Big World"], "separator": "-", "max": 8}
    result = await called(workshop, answer["item_id"], given)
    assert facts(result)["data"] == "hello-bi\n"
    refused = await called(workshop, answer["item_id"], {"titles": ["--keep-case"]})
    assert facts(refused)["code"] == "invalid_parameters"
    ended = await called(workshop, answer["item_id"], {})
    assert facts(ended).get("exit") == {"kind": "exited", "return_code": 64}, facts(ended)


@pytest.mark.network
async def test_a_script_with_click_gets_its_packages_from_uv(workshop: Workshop) -> None:
    if shutil.which("uv", path=workshop.person.environment["PATH"]) is None:
        pytest.skip("uv is not installed")
    answer = adopt(workshop, "invite.py")
    assert answer["executor_id"].endswith("/uv_script_runtime")
    given = {"names": ["-x", "Bob"], "shout": True, "sep": "comma"}
    result = await called(workshop, answer["item_id"], given)
    assert facts(result)["data"] == "HELLO, -X!, HELLO, BOB!\n"


@pytest.mark.network
async def test_a_script_in_typescript_uses_packages_of_the_project_and_its_errors_name_its_lines(
    workshop: Workshop,
) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    answer = adopt(workshop, "ages.ts")
    before = await called(workshop, answer["item_id"], {"args": ["1"]})
    assert facts(before)["code"] == "tool_failed"
    install(workshop.project, "ms@2.1.3", "tsx@4.20.3")
    Approvals(workshop.project, workshop.person.state / "rye").approve_project()
    result = await called(workshop, answer["item_id"], {"args": ["-60000", "3600000"], "long": True})
    assert facts(result)["data"] == "-60000 is -1 minute\n3600000 is 1 hour\n"
    failed = facts(await called(workshop, answer["item_id"], {"args": ["x"]}))
    path = Path(answer["path"])
    assert f"{path}:{line_of(path, 'throw new Error')}:" in failed["stderr"]
    assert "data:" not in failed["stderr"]


# --- the command ---


def test_a_script_below_the_tools_gets_its_header_where_it_is(workshop: Workshop) -> None:
    path = workshop.project / ".ai/tools/ops/hi.sh"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/bash\necho hi\n")
    path.chmod(0o755)
    answer = workshop.person.rye("adopt", str(path), "--yes", "--json", cwd=workshop.project).json
    assert (answer["item_id"], answer["original"]) == ("ops/hi", "the same file")
    assert only_added("#!/bin/bash\necho hi\n", path.read_text())
    assert path.stat().st_mode & 0o777 == 0o755
    workshop.sign("ops/hi")
    assert workshop.person.rye("run", "ops/hi", cwd=workshop.project).out == "hi\n"
    again = workshop.person.rye("adopt", str(path), "--yes", "--json", cwd=workshop.project, code=1).json
    assert again["code"] == "item_exists"


def test_nothing_is_written_unless_a_person_agrees(workshop: Workshop) -> None:
    script = str(GIVEN / "wordcount.py")
    shown = workshop.person.rye("adopt", script, cwd=workshop.project, code=1)
    assert "+#   arguments:" in shown.out
    assert "confirmation_required" in shown.err
    assert workshop.person.rye("adopt", script, "--json", cwd=workshop.project).json["status"] == "proposed"
    workshop.person.types([("Write this?", "n\n")], "adopt", script, cwd=workshop.project, code=130)
    assert not (workshop.project / ".ai/tools/scripts").exists()
    workshop.person.types([("Write this?", "y\n")], "adopt", script, cwd=workshop.project)
    assert (workshop.project / ".ai/tools/scripts/wordcount.py").exists()


@pytest.mark.parametrize("again", [(), ("--again",)])
def test_an_item_that_is_there_stays(workshop: Workshop, again: tuple[str, ...]) -> None:
    path = workshop.write("scripts/wordcount", "mine")
    script = str(GIVEN / "wordcount.py")
    refusal = workshop.person.rye("adopt", script, "--yes", "--json", *again, cwd=workshop.project, code=1)
    assert refusal.json["code"] == "item_exists"
    assert path.read_text() == "mine"


ASKED = """\
#!/bin/bash
if [ "$0" = "$0" ]; then touch "$CANARY"; fi
printf '  -n, --name NAME   a name\\n'
"""


def test_a_script_is_run_for_its_help_only_if_a_person_at_a_terminal_says_so(
    workshop: Workshop, tmp_path: Path
) -> None:
    canary, script = tmp_path / "canary", tmp_path / "odd"
    script.write_text(ASKED)
    script.chmod(0o755)
    person, told = workshop.person, str(canary)
    person.rye("adopt", str(script), "--yes", "--json", cwd=workshop.project, CANARY=told)
    (workshop.project / ".ai/tools/scripts/odd.sh").unlink()
    answers = [("--help now", "n\n"), ("Write this?", "n\n")]
    person.types(answers, "adopt", str(script), cwd=workshop.project, code=130, CANARY=told)
    assert not canary.exists()
    answers = [("--help now", "y\n"), ("Write this?", "y\n")]
    person.types(answers, "adopt", str(script), cwd=workshop.project, CANARY=told)
    assert canary.exists()
    assert "--name=VALUE" in (workshop.project / ".ai/tools/scripts/odd.sh").read_text()


REFUSED = {
    "no script": ("notes.txt", b"hello\n", "not_runnable"),
    "other bytes": ("a.py", b"\xff\xfe\n", "not_text"),
    "line ends of Windows": ("a.py", b"print(1)\r\n", "not_text"),
    "Python 2": ("a.py", b"print 1\n", "invalid_item"),
    "an unknown command": ("a.py", b"print(1)\n", "unknown_argument"),
}


@pytest.mark.first_case
@pytest.mark.parametrize(("name", "content", "code"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_a_tool_is_refused(workshop: Workshop, name: str, content: bytes, code: str) -> None:
    script = workshop.project / name
    script.write_bytes(content)
    more = ("--command", "x") if code == "unknown_argument" else ()
    answer = workshop.person.rye("adopt", name, "--yes", "--json", *more, cwd=workshop.project, code=1).json
    assert answer["code"] == code
    assert json.dumps(answer)


# --- what stands beside a script, and how it is called ---


def test_hints_can_be_pasted_whatever_a_file_is_called(workshop: Workshop, tmp_path: Path) -> None:
    script = tmp_path / "the\n+it's $(touch x).sh"
    script.write_text("echo hi\n")
    person, project = workshop.person, workshop.project
    refused = person.rye("adopt", str(script), "--as", "odd/one", cwd=project, code=1)
    header = [line for line in refused.out.split("\n") if line.startswith(("---", "+++"))]
    assert header == [
        f"--- {tmp_path}/the\\n+it's $(touch x).sh",
        f"+++ {project}/.ai/tools/odd/one.sh",
    ]
    command = refused.err.partition("hint:")[2].strip()
    assert command.endswith(" --as odd/one --yes")
    subprocess.run(["bash", "-c", command], cwd=project, env=person.environment, check=True)
    assert (project / ".ai/tools/odd/one.sh").exists()
    assert not list(project.glob("x"))


@pytest.mark.thorough
def test_a_script_that_was_adopted_before_is_adopted_again(workshop: Workshop, tmp_path: Path) -> None:
    person, project = workshop.person, workshop.project
    script, tool = tmp_path / "greet.sh", project / ".ai/tools/scripts/greet.sh"
    script.write_text("# Greets.\nname=$1\necho hi $name\n")
    person.rye("adopt", str(script), "--yes", cwd=project)
    tool.write_text(tool.read_text().replace('"Greets."', '"Greets a friend."'))
    person.rye("sign", "scripts/greet", cwd=project)
    script.write_text("# Greets.\nname=$1\necho hello $name\n")

    refused = person.rye("adopt", str(script), "--yes", cwd=project, code=1)
    assert refused.out == "", "nobody reads a diff of what is refused"
    assert f"rye adopt {script} --again, to take over" in refused.err
    done = person.rye("adopt", str(script), "--again", "--yes", cwd=project).out
    assert "-echo hi $name" in done
    assert "+echo hello $name" in done
    assert "Greets a friend." in tool.read_text(), "what a person wrote stays"
    assert "rye:signed:" not in tool.read_text()
    person.rye("sign", "scripts/greet", cwd=project)
    assert person.rye("run", "scripts/greet", "--name", "Bo", cwd=project).out == "hello Bo\n"

    script.write_text("# Greets.\nname=$1\ntimes=$2\necho hello $name $times\n")
    changed = person.rye("adopt", str(script), "--again", "--yes", "--json", cwd=project).json
    assert changed["parameters"] == ["name", "times"]
    assert "its arguments are others than before" in changed["remarks"][0]
    assert '-# description: "Greets a friend."' in changed["diff"]
    person.rye("sign", "scripts/greet", cwd=project)
    told = ("--name", "Bo", "--times", "2")
    assert person.rye("run", "scripts/greet", *told, cwd=project).out == "hello Bo 2\n"


def test_a_command_has_to_be_named_and_the_hint_names_one(workshop: Workshop, tmp_path: Path) -> None:
    script = tmp_path / "many.py"
    script.write_text(
        "import argparse\np = argparse.ArgumentParser()\ns = p.add_subparsers()\n"
        "a = s.add_parser('build')\na.add_argument('--jobs')\n"
    )
    refused = workshop.person.rye("adopt", str(script), cwd=workshop.project, code=1)
    assert "None" not in refused.err
    assert f"rye adopt {script} --command build" in refused.err


def test_files_beside_a_script_are_in_the_commands_that_follow(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/two words.sh").write_text('say() { echo "$@"; }\n')
    (tmp_path / "lib/words.sh").write_text('say() { echo "$@"; }\n')
    script = tmp_path / "main.sh"
    script.write_text('HERE=$(dirname "$0")\n. "$HERE/lib/words.sh"\nsay "$1"\n')
    person, project = workshop.person, workshop.project
    answer = person.rye("adopt", str(script), "--yes", "--json", cwd=project).json
    for command in answer["next"][:-1]:
        subprocess.run(["bash", "-c", command], cwd=project, env=person.environment, check=True)
    assert person.rye("run", "scripts/main", "--arg1", "yes", cwd=project).out == "yes\n"


HELPED = {
    "no x bit": ("echo 'usage: odd [-q] FILE'; echo '  -q, --quiet   say less'\n", "FILE", ""),
    "a crash": ("echo 'cannot open that' >&2; exit 3\n", "", "ended with exit code 3: cannot open that"),
}


@pytest.mark.first_case
@pytest.mark.parametrize(("code", "place", "said"), HELPED.values(), ids=HELPED)
def test_help_is_read_from_a_script_that_is_not_executable_and_a_crash_is_said(
    workshop: Workshop, tmp_path: Path, code: str, place: str, said: str
) -> None:
    script = tmp_path / "odd {x}.sh"
    script.write_text(code)
    answers = [("--help now", "y\n"), ("Write this?", "y\n")]
    shown = workshop.person.types(answers, "adopt", str(script), cwd=workshop.project).out
    written = (workshop.project / ".ai/tools/scripts/odd-x.sh").read_text()
    assert said in shown
    assert ("file" in written) == bool(place)
    assert ("--quiet" in written) == bool(place)
