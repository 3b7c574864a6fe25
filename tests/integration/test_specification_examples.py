"""Every example of the specification of executors, as it stands there, carried out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.executor import MAX_CHAIN_DEPTH, ChainValidator, PrimitiveExecutor
from rye_mcp.trust.approvals import Approvals
from tests.runtime_workshop import Workshop
from tests.trust_world import World

pytestmark = pytest.mark.anyio

# --- "Executor routing", example 1: a primitive by itself ---

PRIMITIVE = """\
__version__ = "1.0.1"
__tool_type__ = "primitive"
__executor_id__ = None      # ← No delegation
__category__ = "primitives"

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "Command to run"},
        "args": {"type": "array", "items": {"type": "string"}},
        "env": {"type": "object", "description": "Environment variables"},
        "cwd": {"type": "string", "description": "Working directory"},
        "timeout": {"type": "integer", "default": 300},
    },
    "required": ["command"]
}
"""

# --- example 2: a runtime in a Python file ---

PYTHON_RUNTIME = """\
__version__ = "2.0.0"
__tool_type__ = "runtime"
__executor_id__ = "subprocess"  # ← Delegates to subprocess primitive
__category__ = "runtimes"

# Declares how to find and configure Python
ENV_CONFIG = {
    "interpreter": {
        "type": "venv_python",
        "search": ["project", "user", "system"],
        "var": "RYE_PYTHON",
        "fallback": "python3",
    },
    "env": {
        "PYTHONUNBUFFERED": "1",
        "PROJECT_VENV_PYTHON": "${RYE_PYTHON}",  # ← Template variable
    },
}

# Base command configuration (resolved at runtime)
CONFIG = {
    "command": "${RYE_PYTHON}",  # ← Will be resolved to actual path
    "args": [],
    "timeout": 300,
}
"""

SHOWS_ENVIRONMENT = """\
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "runtimes/my_python"
CONFIG = {"args": ["-s", "-B", "{tool_path}"]}

import json, os, sys

names = ("RYE_PYTHON", "PYTHONUNBUFFERED", "PROJECT_VENV_PYTHON")
print(json.dumps({"executable": sys.executable, **{name: os.environ.get(name) for name in names}}))
"""

# --- example 3: a tool that delegates to a runtime ---

GIT = '''\
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "python_runtime"  # ← Delegates to Python runtime
__category__ = "capabilities"

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "git command (clone, pull, etc.)"},
        "args": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["command"]
}

def main(command: str, args: list = None) -> dict:
    """Execute git command."""
    import subprocess
    result = subprocess.run(
        ["git", command] + (args or []),
        capture_output=True,
        text=True
    )
    return {
        "stdout": result.stdout,
        "stderr": result.stderr,
        "returncode": result.returncode,
    }
'''


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(World(tmp_path))
    (workshop.project / ".ai").mkdir(parents=True)
    return workshop


def with_venv(workshop: Workshop) -> None:
    """Give the project an interpreter of its own, and approve it."""
    venv = [sys.executable, "-m", "venv", "--without-pip", str(workshop.project / ".venv")]
    subprocess.run(venv, check=True)
    Approvals(workshop.project, workshop.world.state).approve_project()


def with_repository(workshop: Workshop) -> None:
    """Make a git repository of the project."""
    subprocess.run(["git", "init", "--quiet"], cwd=workshop.project, check=True)


def executor(workshop: Workshop, **options: Any) -> PrimitiveExecutor:
    return PrimitiveExecutor(
        workshop.project,
        user_space=workshop.world.user_space.parent,
        state=workshop.world.state,
        **options,
    )


ECHO = {"config": {"command": "echo", "args": ["{message}"]}, "params": {"message": "hello"}}


@pytest.mark.parametrize("own", [True, False], ids=["its own file", "the system's"])
async def test_a_primitive_is_executed_directly(workshop: Workshop, own: bool) -> None:
    item_id = "rye/core/primitives/subprocess"
    if own:
        item_id = workshop.sign("rye/primitives/subprocess.py", PRIMITIVE)
    result = await workshop.run(item_id, ECHO)
    assert result.success, result.error
    assert result.data == {"stdout": "hello\n", "stderr": "", "returncode": 0}
    assert [element["item_id"] for element in result.chain] == [item_id]


@pytest.mark.parametrize(
    ("parameters", "paths"),
    [
        ({"config": {"args": ["x"]}}, ["/config/command"]),
        ({"config": {"command": 7, "timeout": "long"}}, ["/config/command", "/config/timeout"]),
        ({"command": "echo"}, ["/command", "/config"]),
    ],
)
async def test_the_configuration_of_a_primitive_is_checked_against_its_schema(
    workshop: Workshop, parameters: dict[str, Any], paths: list[str]
) -> None:
    result = await workshop.run(workshop.sign("rye/primitives/subprocess.py", PRIMITIVE), parameters)
    assert result.code == "invalid_parameters"
    assert sorted(issue["path"] for issue in result.metadata["issues"]) == paths


async def test_a_runtime_in_a_python_file_resolves_its_environment(workshop: Workshop) -> None:
    workshop.sign("runtimes/my_python.py", PYTHON_RUNTIME)
    data = await workshop.data(workshop.sign("demo/shows.py", SHOWS_ENVIRONMENT))
    assert data["PYTHONUNBUFFERED"] == "1"
    assert data["PROJECT_VENV_PYTHON"] == data["RYE_PYTHON"]
    assert Path(data["RYE_PYTHON"]).name.startswith("python3")


async def test_the_interpreter_of_an_approved_project_comes_first(workshop: Workshop) -> None:
    workshop.sign("runtimes/my_python.py", PYTHON_RUNTIME)
    tool = workshop.sign("demo/shows.py", SHOWS_ENVIRONMENT)
    with_venv(workshop)
    result = await workshop.run(tool)
    assert result.data["RYE_PYTHON"] == str(workshop.project / ".venv/bin/python")
    assert result.data["PROJECT_VENV_PYTHON"] == result.data["RYE_PYTHON"]
    assert (result.sealed, "project" in result.metadata["why_not_sealed"]) == (False, True)


async def test_a_runtime_by_itself_is_not_run(workshop: Workshop) -> None:
    result = await workshop.run(
        workshop.sign("runtimes/my_python.py", PYTHON_RUNTIME), {"script": "print('hello')"}
    )
    assert result.code == "not_runnable"
    assert "runtimes/my_python" in (result.hint or "")


async def test_a_tool_delegates_to_a_runtime(workshop: Workshop) -> None:
    tool = workshop.sign("rye/capabilities/git.py", GIT)
    with_repository(workshop)
    result = await workshop.run(tool, {"command": "status", "args": ["--porcelain"]})
    assert result.success, (result.error, result.stderr)
    assert result.data["returncode"] == 0
    assert "?? .ai/" in result.data["stdout"]
    assert [element["item_id"] for element in result.chain] == [
        "rye/capabilities/git",
        "rye/core/runtimes/python_runtime",
        "rye/core/primitives/subprocess",
    ]


@pytest.mark.parametrize("executor_id", ["subprocess", "rye/core/primitives/subprocess"])
async def test_a_tool_delegates_to_a_primitive(workshop: Workshop, executor_id: str) -> None:
    tool = workshop.sign(
        "demo/direct.yaml", f'executor_id: {executor_id}\nconfig: {{command: echo, args: ["hello"]}}\n'
    )
    assert await workshop.data(tool) == "hello\n"


# --- "Executor chain": the concrete example, caches, validation ---


async def test_the_bash_tool_has_the_chain_of_the_specification(workshop: Workshop) -> None:
    result = await workshop.run("rye/bash/bash", {"command": "echo hello"})
    assert result.success, (result.error, result.stderr)
    assert result.data["stdout"] == "hello\n"
    assert [(element["item_id"], element["space"]) for element in result.chain] == [
        ("rye/bash/bash", "system"),
        ("rye/core/runtimes/python_script_runtime", "system"),
        ("rye/core/primitives/subprocess", "system"),
    ]
    assert [element["executor_id"] for element in result.chain] == [
        "rye/core/runtimes/python_script_runtime",
        "rye/core/primitives/subprocess",
        None,
    ]


def test_the_map_of_primitives_has_both(workshop: Workshop) -> None:
    specified = {
        "rye/core/primitives/subprocess": "SubprocessPrimitive",
        "rye/core/primitives/http_client": "HttpClientPrimitive",
    }
    assert {name: PrimitiveExecutor.PRIMITIVE_MAP[name].__name__ for name in specified} == specified
    assert MAX_CHAIN_DEPTH == 10


async def test_a_missing_executor_is_a_failure_that_names_who_asked(workshop: Workshop) -> None:
    tool = workshop.sign("demo/tool.py", '__executor_id__ = "nowhere"\n')
    result = await workshop.run(tool)
    assert (result.success, result.code) == (False, "executor_not_found")
    assert "nowhere" in (result.error or "")
    assert "demo/tool" in (result.error or "")


def test_a_user_tool_does_not_rest_on_a_project_runtime() -> None:
    chain = [
        {"item_id": "mine/tool", "space": "user"},
        {"item_id": "our/runtime", "space": "project"},
        {"item_id": "rye/core/primitives/subprocess", "space": "system"},
    ]
    found = ChainValidator().validate_chain(chain)
    assert not found.valid
    assert len(found.issues) == 1
    assert found.validated_pairs == (
        ("mine/tool", "our/runtime"),
        ("our/runtime", "rye/core/primitives/subprocess"),
    )


STRICT_RUNTIME = """\
tool_type: runtime
executor_id: rye/core/primitives/subprocess
child_constraints: {min_version: "1.0.0", max_version: "1.9.9"}
inputs: [report]
config: {command: echo, args: ["it ran"]}
"""


@pytest.mark.parametrize(
    ("version", "outputs", "problem"),
    [
        ("1.5.0", "[report, log]", None),
        ("0.9.0", "[report]", "0.9.0"),
        ("2.0.0", "[report]", "2.0.0"),
        ("1.5.0", "[log]", "report"),
    ],
)
@pytest.mark.parametrize("validate", [True, False])
async def test_inputs_and_versions_are_validated_unless_that_is_switched_off(
    workshop: Workshop, version: str, outputs: str, problem: str | None, validate: bool
) -> None:
    workshop.sign("runtimes/strict.yaml", STRICT_RUNTIME)
    tool = workshop.sign(
        "demo/tool.yaml", f'version: "{version}"\nexecutor_id: runtimes/strict\noutputs: {outputs}\n'
    )
    result = await workshop.run(tool, validate_chain=validate)
    if problem is None or not validate:
        assert result.data == "it ran\n", result.error
    else:
        assert result.code == "chain_invalid"
        assert problem in (result.error or "")


async def test_switching_validation_off_switches_no_signature_off(workshop: Workshop) -> None:
    workshop.sign("runtimes/strict.yaml", STRICT_RUNTIME)
    workshop.write("demo/tool.yaml", "executor_id: runtimes/strict\n")
    assert (await workshop.run("demo/tool", validate_chain=False, use_lockfile=False)).code == "unsigned"


# --- the anchor of the specification ---

ANCHORED_RUNTIME = """\
tool_type: runtime
executor_id: rye/core/primitives/subprocess
env_config:
  interpreter: {type: system_binary, binary: python3, var: RYE_PYTHON, fallback: python3}
config:
  command: "${RYE_PYTHON}"
  args: ["-s", "-B", "{tool_path}"]
anchor:
  enabled: true
  mode: auto # auto, always, or never
  markers_any: ["__init__.py", "pyproject.toml"] # activation markers
  root: tool_dir # anchor root: tool_dir, tool_parent, project_path
  env_paths:
    PYTHONPATH:
      prepend: ["{anchor_path}", "{runtime_lib}"]
verify_deps: {enabled: true, extensions: [".py"]}
"""

ANCHORED_TOOL = '__executor_id__ = "runtimes/anchored"\nfrom parts import words\nprint(words.GREETING)\n'


async def test_an_anchor_sets_paths_up_and_verifies_what_is_there(workshop: Workshop) -> None:
    workshop.sign("runtimes/anchored.yaml", ANCHORED_RUNTIME)
    tool = workshop.sign("demo/anchored.py", ANCHORED_TOOL)
    assert (await workshop.run(tool)).code == "tool_failed"  # there is no marker, so nothing is anchored
    workshop.sign("demo/__init__.py", "")
    workshop.sign("demo/parts/__init__.py", "")
    words = workshop.write("demo/parts/words.py", 'GREETING = "hello from a part"\n')
    refused = await workshop.run(tool)
    assert refused.code == "unsigned"
    assert "words.py" in (refused.error or "")
    words.unlink()
    workshop.sign("demo/parts/words.py", 'GREETING = "hello from a part"\n')
    assert await workshop.data(tool) == "hello from a part\n"


# --- the lockfile of the specification ---


async def test_a_lockfile_is_made_after_a_first_success_and_holds_afterwards(workshop: Workshop) -> None:
    tool = workshop.sign(
        "demo/direct.yaml", 'version: "1.2.0"\nexecutor_id: subprocess\nconfig: {command: pwd}\n'
    )
    path = workshop.project / ".ai/lockfiles/demo/direct@1.2.0.lock.json"
    first = await workshop.run(tool)
    assert (first.lock or {})["state"] == "created"
    lockfile = json.loads(path.read_text())
    assert lockfile["lockfile_version"] == 1
    assert lockfile["root"]["tool_id"] == "demo/direct"
    assert lockfile["root"]["version"] == "1.2.0"
    assert [element["item_id"] for element in lockfile["resolved_chain"]] == [
        "demo/direct",
        "rye/core/primitives/subprocess",
    ]
    assert lockfile["resolved_chain"][0]["integrity"] == lockfile["root"]["integrity"]
    assert ((await workshop.run(tool)).lock or {})["state"] == "match"
    lockfile["resolved_chain"][1]["integrity"] = "0" * 64
    path.write_text(json.dumps(lockfile))
    refused = await workshop.run(tool)
    assert refused.code == "lock_mismatch"
    assert refused.hint == "rye lock update demo/direct"


async def test_a_failed_run_makes_no_lockfile(workshop: Workshop) -> None:
    tool = workshop.sign("demo/direct.yaml", "executor_id: subprocess\nconfig: {command: 'false'}\n")
    assert (await workshop.run(tool)).code == "tool_failed"
    assert not (workshop.project / ".ai/lockfiles").exists()


async def test_locked_mode_runs_nothing_that_is_not_locked(workshop: Workshop) -> None:
    tool = workshop.sign("demo/direct.yaml", "executor_id: subprocess\nconfig: {command: pwd}\n")
    locked = executor(workshop, locked=True)
    assert (await locked.execute(tool)).code == "lock_missing"
    assert (await locked.execute(tool, use_lockfile=False)).code == "lock_missing"
    assert (await workshop.run(tool)).success
    assert (await locked.execute(tool)).success
    await locked.close()
