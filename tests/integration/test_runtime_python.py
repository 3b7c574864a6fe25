"""What the runtimes for Python promise beyond what all runtimes do: functions, results, several files."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

import anyio
import pytest

from rye_mcp.trust.approvals import Approvals
from tests.runtime_workshop import Workshop
from tests.trust_world import World

SCRIPT = "rye/core/runtimes/python_script_runtime"
FUNCTION = "rye/core/runtimes/python_function_runtime"
MAIN = "python_runtime"


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(World(tmp_path))


def source(runtime: str, body: str) -> str:
    return f'__version__ = "1.0.0"\n__executor_id__ = "{runtime}"\n{body}'


async def call(workshop: Workshop, body: str, *, runtime: str = FUNCTION, name: str = "demo/tool.py") -> Any:
    return await workshop.data(workshop.sign(name, source(runtime, body)), {"x": 1})


async def fail(workshop: Workshop, body: str, *, runtime: str = FUNCTION) -> str:
    """What stands on standard error when a call fails."""
    result = await workshop.run(workshop.sign("demo/tool.py", source(runtime, body)), {"x": 1})
    assert (result.success, result.code) == (False, "tool_failed")
    return result.stderr or ""


RETURNS: dict[str, Any] = {
    "None": None,
    "[]": [],
    "''": "",
    "'[1]'": "[1]",
    "False": False,
    "2**70": 2**70,
    "{'é': (1, 2.5)}": {"é": [1, 2.5]},
    "{1: None}": {"1": None},
}


@pytest.mark.first_case
@pytest.mark.parametrize(("returned", "data"), RETURNS.items(), ids=RETURNS)
async def test_what_a_function_returns_is_the_result(workshop: Workshop, returned: str, data: Any) -> None:
    body = f"def execute(params, project_path):\n    print('noise')\n    return {returned}\n"
    assert await call(workshop, body) == data


@pytest.mark.first_case
@pytest.mark.parametrize("returned", ["{1, 2}", "object()", "float('nan')", "b'bytes'", "'\\ud800'"])
async def test_a_result_that_json_cannot_hold_is_a_failure(workshop: Workshop, returned: str) -> None:
    body = f"def execute(params, project_path):\n    return {returned}\n"
    stderr = await fail(workshop, body)
    assert "expected a result that JSON can hold from execute in " in stderr
    assert f"{workshop.project}/.ai/tools/demo/tool.py" in stderr
    assert "Traceback" not in stderr


async def test_a_function_is_told_its_project(workshop: Workshop) -> None:
    body = "def execute(params, project_path):\n    return [params, project_path]\n"
    assert await call(workshop, body) == [{"x": 1}, str(workshop.project)]


async def test_a_function_pays_for_nothing_but_json(workshop: Workshop) -> None:
    """What is loaded by then is what Python loads for `json`."""
    script = "import sys, json; print(json.dumps(sorted(sys.modules)))"
    by_hand = await anyio.run_process(["python3", "-s", "-B", "-c", script])
    body = "import sys\ndef execute(params, project_path):\n    return sorted(sys.modules)\n"
    assert set(await call(workshop, body)) - set(json.loads(by_hand.stdout)) == {"tool"}


async def test_an_asynchronous_function_has_a_loop(workshop: Workshop) -> None:
    body = "import asyncio\nasync def execute(params, project):\n    return await asyncio.sleep(0, 'slept')\n"
    assert await call(workshop, body) == "slept"


async def test_an_asynchronous_function_is_awaited_and_its_exception_shown(workshop: Workshop) -> None:
    body = (
        "import asyncio\n\nasync def main(x):\n    await asyncio.sleep(0)\n    raise ValueError(f'no {x}')\n"
    )
    stderr = await fail(workshop, body, runtime=MAIN)
    assert stderr.splitlines()[1].endswith('tool.py", line 8, in main')
    assert stderr.endswith("ValueError: no 1\n")


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        (FUNCTION, "expected execute(params, project_path) in "),
        (MAIN, "expected main(**parameters) or execute(params, project_path) in "),
    ],
)
async def test_a_file_without_the_function_is_a_failure_that_says_so(
    workshop: Workshop, runtime: str, expected: str
) -> None:
    stderr = await fail(workshop, "execute = main = 3\n", runtime=runtime)
    assert stderr == f"{expected}{workshop.project}/.ai/tools/demo/tool.py, found none\n"


async def test_main_comes_before_execute_and_gets_names(workshop: Workshop) -> None:
    body = "def execute(params, project):\n    return 'execute'\n\ndef main(x, y=2):\n    return [x, y]\n"
    assert await call(workshop, body, runtime=MAIN) == [1, 2]
    assert await call(workshop, body, runtime=FUNCTION, name="demo/other.py") == "execute"


async def test_a_parameter_that_main_does_not_take_is_a_failure(workshop: Workshop) -> None:
    stderr = await fail(workshop, "def main(y=2):\n    return y\n", runtime=MAIN)
    assert stderr == "TypeError: main() got an unexpected keyword argument 'x'\n"


async def test_a_tool_called_like_a_module_of_the_library_does_not_take_its_place(workshop: Workshop) -> None:
    body = "import json\n\ndef execute(params, project_path):\n    return [json.dumps(params), __name__]\n"
    assert await call(workshop, body, name="demo/json.py") == ['{"x": 1}', "tool_json"]


async def test_a_function_works_in_processes_of_its_own(workshop: Workshop) -> None:
    body = (
        "import multiprocessing\n\ndef twice(x):\n    return 2 * x\n\n"
        "def execute(params, project_path):\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        return pool.map(twice, [1, 2])\n"
    )
    assert await call(workshop, body) == [2, 4]


async def test_the_part_for_the_command_line_is_not_run(workshop: Workshop) -> None:
    body = (
        "def execute(params, project_path):\n    return __name__\n\nif __name__ == '__main__':\n    exit(1)\n"
    )
    assert await call(workshop, body) == "tool"


FLAGS = "[sys.flags.no_user_site, sys.flags.dont_write_bytecode, sys.flags.utf8_mode, sys.flags.safe_path]"


@pytest.mark.parametrize(
    ("runtime", "body"),
    [
        (SCRIPT, f"import json, sys\nprint(json.dumps({FLAGS}))\n"),
        (FUNCTION, f"import sys\ndef execute(params, project_path):\n    return {FLAGS}\n"),
        (MAIN, f"import sys\ndef main(x):\n    return {FLAGS}\n"),
    ],
)
async def test_python_is_started_apart_from_the_user(workshop: Workshop, runtime: str, body: str) -> None:
    assert await call(workshop, body, runtime=runtime) == [1, 1, 1, False]


async def test_a_script_gets_the_arguments_of_the_specification(workshop: Workshop) -> None:
    body = "import json, sys\nprint(json.dumps(sys.argv[1:]))\n"
    arguments = ["--params", '{"x":1}', "--project-path", str(workshop.project)]
    assert await call(workshop, body, runtime=SCRIPT) == arguments


IMPORTING = {
    SCRIPT: "import json\nfrom parts import helper\nprint(json.dumps(helper.double(21)))\n",
    FUNCTION: "from parts import helper\n\ndef execute(params, project):\n    return helper.double(21)\n",
    MAIN: "from parts import helper\n\ndef main(x):\n    return helper.double(21)\n",
}


@pytest.mark.parametrize("runtime", IMPORTING)
async def test_a_tool_of_several_files_imports_what_was_signed(workshop: Workshop, runtime: str) -> None:
    for name in ("__init__.py", "parts/__init__.py"):
        workshop.sign(f"multi/{name}", '"""A package."""\n')
    workshop.sign("multi/parts/helper.py", "def double(number):\n    return 2 * number\n")
    assert await call(workshop, IMPORTING[runtime], runtime=runtime, name="multi/tool.py") == 42


@pytest.mark.parametrize("runtime", IMPORTING)
async def test_one_file_that_was_not_signed_stops_the_tool(workshop: Workshop, runtime: str) -> None:
    for name in ("__init__.py", "parts/__init__.py"):
        workshop.sign(f"multi/{name}", '"""A package."""\n')
    workshop.write("multi/parts/helper.py", "open('canary', 'w')\n")
    item_id = workshop.sign("multi/tool.py", source(runtime, IMPORTING[runtime]))
    result = await workshop.run(item_id)
    assert (result.success, result.code) == (False, "unsigned")
    assert "parts/helper.py" in (result.error or "")
    assert not (workshop.project / "canary").exists()


@pytest.mark.first_case
@pytest.mark.parametrize("approved", [False, True])
@pytest.mark.parametrize("runtime", [SCRIPT, FUNCTION, MAIN])
async def test_the_interpreter_of_a_project_is_used_when_it_was_approved(
    workshop: Workshop, runtime: str, approved: bool
) -> None:
    venv = make_venv(workshop.project)
    if approved:
        Approvals(workshop.project, workshop.world.state).approve_project()
    bodies = {
        SCRIPT: "import sys\nprint(sys.prefix)\n",
        FUNCTION: "import sys\ndef execute(params, project_path):\n    return sys.prefix\n",
        MAIN: "import sys\ndef main():\n    return sys.prefix\n",
    }
    result = await workshop.run(workshop.sign("demo/tool.py", source(runtime, bodies[runtime])))
    assert result.success, result.stderr
    assert (str(result.data).strip() == str(venv)) is approved
    assert result.sealed is not approved


def make_venv(project: Path) -> Path:
    """A virtual environment, without what takes long to install."""
    venv = project / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to(Path(sys.executable).resolve())
    (venv / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n", encoding="utf-8")
    return venv


@pytest.mark.parametrize("runtime", [SCRIPT, "rye/core/runtimes/uv_script_runtime"])
async def test_a_secret_parameter_is_refused_where_everybody_could_read_it(
    workshop: Workshop, runtime: str
) -> None:
    schema = "{'type': 'object', 'properties': {'x': {'type': 'string', 'writeOnly': True}}}"
    item_id = workshop.sign("demo/tool.py", source(runtime, f"CONFIG_SCHEMA = {schema}\n"))
    result = await workshop.run(item_id, {"x": "the secret"})
    assert result.success is False
    assert result.run_id is None
    assert "the secret" not in str(result)


async def test_a_tool_finds_no_package_of_rye_mcp_itself(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would run until rye-mcp is installed in another way."""
    own = sysconfig.get_path("scripts")
    assert sys.prefix != sys.base_prefix, "this test needs an environment of its own"
    monkeypatch.setenv("PATH", f"{own}:/usr/bin:/bin")
    body = "import os, sys\ndef execute(params, project_path):\n    return [sys.prefix, os.environ['PATH']]\n"
    prefix, path = await call(workshop, body)
    assert prefix == sys.base_prefix
    assert own not in path.split(":")
    imports = "import httpx\ndef execute(params, project_path):\n    return 1\n"
    result = await workshop.run(workshop.sign("demo/imports.py", source(FUNCTION, imports)))
    assert "ModuleNotFoundError: No module named 'httpx'" in (result.stderr or "")


async def test_a_project_whose_environment_holds_rye_mcp_keeps_it_on_the_path(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = str(workshop.project / "environment/bin")
    monkeypatch.setattr("rye_mcp.executor.environment.variables._OWN_PROGRAMS", own)
    monkeypatch.setenv("PATH", f"{own}:{os.environ['PATH']}")
    workshop.project.mkdir(exist_ok=True)
    Approvals(workshop.project, workshop.world.state).approve_project()
    body = "import os\ndef execute(params, project_path):\n    return os.environ['PATH']\n"
    assert own in (await call(workshop, body)).split(":")
