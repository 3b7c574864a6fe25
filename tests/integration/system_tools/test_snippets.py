"""`rye/python/run` and `rye/node/run`: code in a fresh process, one form of result, and nothing is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rye_mcp.trust.approvals import Approvals
from tests.runtime_workshop import Workshop, needs, nothing_is_left_of
from tests.trust_world import World

KEPT = 256 * 1024
PYTHON, NODE = "rye/python/run", "rye/node/run"


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    needs("node", monkeypatch)
    found = Workshop(World(tmp_path))
    (found.project / ".ai").mkdir(parents=True)
    return found


def result(stdout: str = "", stderr: str = "", exit_code: int = 0) -> dict[str, Any]:
    return {"stdout": stdout, "stderr": stderr, "exit_code": exit_code, "success": exit_code == 0}


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("tool", "parameters", "expected"),
    [
        (PYTHON, {"code": "print('é {params_json} ${HOME}')"}, result("é {params_json} ${HOME}\n")),
        (PYTHON, {"code": "import os; os.kill(os.getpid(), 15)"}, result(exit_code=-15)),
        (PYTHON, {"code": "import sys; print(repr(sys.stdin.read())); sys.exit(3)"}, result("''\n", "", 3)),
        (
            PYTHON,
            {
                "code": "import sys; print(sys.argv, __name__, 'begin' in globals())",
                "arguments": ["-c", "$(id)"],
            },
            result("['<snippet>', '-c', '$(id)'] __main__ False\n"),
        ),
        (PYTHON, {"code": "#" * 1_000_000 + "\nprint(1)"}, result("1\n")),
        (NODE, {"code": "console.log('é {params_json} ${HOME}')"}, result("é {params_json} ${HOME}\n")),
        (NODE, {"code": "process.kill(process.pid, 'SIGTERM'); while (true);"}, result(exit_code=-15)),
        (
            NODE,
            {"code": "console.log(require('fs').readFileSync(0).length, process.argv[2]); process.exit(3)",
             "arguments": ["$(id)"]},
            result("0 $(id)\n", "", 3),
        ),
        (NODE, {"code": "import os from 'node:os'; console.log(typeof await os.EOL)", "module": True},
         result("string\n")),
        (NODE, {"code": "/" * 1_000_000 + "\nconsole.log(1)"}, result("1\n")),
    ],
)  # fmt: skip
async def test_code_ends_in_one_form(
    workshop: Workshop, tool: str, parameters: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = await workshop.run(tool, parameters)
    assert found.data == expected
    assert found.success is expected["success"]
    assert found.code == (None if expected["success"] else "tool_failed")


async def test_a_traceback_begins_in_the_code_and_shows_its_lines(workshop: Workshop) -> None:
    found = await workshop.run(PYTHON, {"code": "def f():\n    return 1 / 0\nf()"})
    lines = [line for line in found.data["stderr"].splitlines() if not set(line) <= set(" ~^")]
    assert lines == [
        "Traceback (most recent call last):",
        '  File "<snippet>", line 3, in <module>',
        "    f()",
        '  File "<snippet>", line 2, in f',
        "    return 1 / 0",
        "ZeroDivisionError: division by zero",
    ]


async def test_a_syntax_error_is_shown_with_its_line(workshop: Workshop) -> None:
    found = await workshop.run(PYTHON, {"code": "x = 1\ny = = 2\n"})
    assert found.data["stderr"].startswith('  File "<snippet>", line 2\n    y = = 2\n')
    found = await workshop.run(NODE, {"code": "let a = ;"})
    assert "SyntaxError" in found.data["stderr"]


async def test_modules_of_the_project_are_found_and_stand_in_for_none_of_python(workshop: Workshop) -> None:
    Approvals(workshop.project, workshop.world.state).approve_project()
    (workshop.project / "greeting.py").write_text("TEXT = 'hello'\n")
    (workshop.project / "json.py").write_text("raise SystemExit('of the project')\n")
    code = "import greeting, json, os; print(greeting.TEXT, json.dumps(1), os.getcwd())"
    assert await workshop.data(PYTHON, {"code": code}) == result(f"hello 1 {workshop.project}\n")
    assert not list(workshop.project.rglob("*.pyc"))
    package = workshop.project / "node_modules/greeting/index.js"
    package.parent.mkdir(parents=True)
    package.write_text("module.exports = 'hello';\n")
    code = "console.log(require('greeting'), process.cwd())"
    assert await workshop.data(NODE, {"code": code}) == result(f"hello {workshop.project}\n")


SLEEPERS = {
    PYTHON: "import os, time; open('pid', 'w').write(str(os.getpid())); print('begun', flush=True); "
    "time.sleep(1000)",
    NODE: "require('fs').writeFileSync('pid', `${process.pid}`); console.log('begun'); "
    "setTimeout(() => {}, 9e6)",
}


@pytest.mark.first_case
@pytest.mark.parametrize("tool", SLEEPERS)
async def test_code_that_takes_too_long_is_ended_with_what_it_had_said(workshop: Workshop, tool: str) -> None:
    found = await workshop.run(tool, {"code": SLEEPERS[tool], "timeout": 1.5})
    assert found.data == result("begun\n", "Code timed out after 1.5 seconds", -1)
    assert nothing_is_left_of(workshop.project)


@pytest.mark.first_case
@pytest.mark.parametrize("tool", SLEEPERS)
async def test_a_caller_who_allows_less_time_gets_what_the_code_had_said(
    workshop: Workshop, tool: str
) -> None:
    found = await workshop.run(tool, {"code": SLEEPERS[tool]}, timeout=1.5)
    assert (found.success, found.code, found.data) == (False, "timeout", "begun\n")
    assert nothing_is_left_of(workshop.project)


SPAWNERS = {
    PYTHON: "import subprocess; "
    "print(subprocess.Popen(['setsid', 'cat', '/dev/zero']).pid, file=open('pid', 'w'))",
    NODE: "const { spawn } = require('child_process'); "
    "const child = spawn('cat', ['/dev/zero'], {detached: true, stdio: 'inherit'});"
    "require('fs').writeFileSync('pid', `${child.pid}`); child.unref()",
}


@pytest.mark.parametrize("tool", SPAWNERS)
async def test_what_it_leaves_in_the_background_ends_with_the_call(workshop: Workshop, tool: str) -> None:
    """A flood of it, too: nobody waits for its end."""
    found = await workshop.run(tool, {"code": SPAWNERS[tool], "timeout": 60})
    assert found.data["exit_code"] == 0
    assert nothing_is_left_of(workshop.project)


FLOODS = {
    PYTHON: "print('first'); print('\\x01' * 9_000_000, end=''); print('last')",
    NODE: "process.stdout.write('first\\n' + '\\x01'.repeat(9_000_000) + 'last\\n')",
}


@pytest.mark.first_case
@pytest.mark.parametrize("tool", FLOODS)
async def test_output_that_is_too_long_loses_its_middle(workshop: Workshop, tool: str) -> None:
    found = await workshop.run(tool, {"code": FLOODS[tool]})
    assert found.data["truncated"] is True
    stdout = found.data["stdout"]
    assert stdout.startswith("first\n\x01")
    assert stdout.endswith("\x01last\n")
    omitted = stdout.partition("[… ")[2].partition(" bytes")[0]
    assert int(omitted) == pytest.approx(len("first\nlast\n") + 9_000_000 - KEPT, abs=1)


DESCRIPTORS = {
    PYTHON: "import os; print(os.environ.get('RYE_RESULT_FD'), os.environ.get('MY_API_TOKEN'))\n"
    "try: os.write(3, b'{}')\nexcept OSError as exc: print(exc.strerror)",
    NODE: "console.log(process.env.RYE_RESULT_FD, process.env.MY_API_TOKEN);"
    "require('child_process').execSync('echo {} >&3 || echo Bad', {stdio: ['ignore', 'inherit', 'ignore']})",
}


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("tool", "expected"), [(PYTHON, "None None\nBad file descriptor\n"), (NODE, "undefined undefined\nBad\n")]
)
async def test_code_gets_no_secret_and_writes_no_result_in_the_place_of_this_one(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, tool: str, expected: str
) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "a secret")
    assert await workshop.data(tool, {"code": DESCRIPTORS[tool]}) == result(expected)
