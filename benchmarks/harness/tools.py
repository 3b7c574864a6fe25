"""A project with one small tool for each runtime, all of them signed, and both ways to run them.

Each tool gives its parameters back; the one for Python scripts imports what most of them do. Interpreters
come from the PATH. The Python that comes first on it is that of an empty virtual environment outside of the
project: what a machine has there may be a script that looks for the interpreter, or load packages of its own
at each start, and an interpreter of the project would leave the run unsealed.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness.figures import IncorrectError
from lilux._stamps import SETTLED_NS
from lilux.primitives.subprocess import ProcessSpec
from rye_mcp.executor.caller import Caller
from rye_mcp.executor.job.jobs import ProcessJob
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.trust.keys import KeyRing
from rye_mcp.trust.scope import SignerKind

PARAMETERS: Final = {"name": "Ada", "count": 3}
"""What every tool is given, and gives back."""

MODULES: Final = 50
MODULE_BYTES: Final = 10 * 1024
"""How many modules the large tool rests on, and how long each of them is."""

LARGE: Final = "large/tool"
UNDER_PERMISSIONS: Final = ("permissions/unconfined", "permissions/writes")
"""The same tool twice: unconfined, and with a project that it may write."""

_SCHEMA: Final = "{type: object, properties: {name: {type: string}, count: {type: integer}}}"
_PYTHON: Final = '''"""Gives its parameters back."""
{imports}
__version__ = "1.0.0"
__executor_id__ = "{runtime}"
CONFIG_SCHEMA = {{
    "type": "object",
    "properties": {{"name": {{"type": "string"}}, "count": {{"type": "integer"}}}},
}}
{body}'''
_SCRIPT: Final = """
parser = argparse.ArgumentParser()
parser.add_argument("--params", type=json.loads)
parser.add_argument("--project-path")
print(json.dumps(parser.parse_args().params))
"""
_SCRIPT_RUNTIME: Final = "rye/core/runtimes/python_script_runtime"
_LARGE_IMPORTS: Final = "import argparse\nimport json\n\n" + "".join(
    f"import module{number}\n" for number in range(MODULES)
)


def _block(comment: str, runtime: str) -> str:
    lines = ("/// rye", "version: 1.0.0", f"executor_id: {runtime}", f"config_schema: {_SCHEMA}", "///")
    return "".join(f"{comment} {line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool, and the program without which it does not run."""

    name: str
    extension: str
    program: str
    source: str

    @property
    def item_id(self) -> str:
        """What it is asked for by."""
        return f"bench/{self.name}"


TOOLS: Final = (
    Tool(
        "python_script",
        ".py",
        "python3",
        _PYTHON.format(runtime=_SCRIPT_RUNTIME, imports="import argparse\nimport json\n", body=_SCRIPT),
    ),
    Tool(
        "python_function",
        ".py",
        "python3",
        _PYTHON.format(
            runtime="rye/core/runtimes/python_function_runtime",
            imports="",
            body="\n\ndef execute(params, project_path):\n    return params\n",
        ),
    ),
    Tool(
        "python_main",
        ".py",
        "python3",
        _PYTHON.format(
            runtime="python_runtime",
            imports="",
            body="\n\ndef main(**parameters):\n    return parameters\n",
        ),
    ),
    Tool("bash", ".sh", "bash", _block("#", "rye/core/runtimes/bash_runtime") + "cat\n"),
    Tool(
        "node",
        ".js",
        "node",
        _block("//", "rye/core/runtimes/node_runtime") + "exports.execute = (params) => params;\n",
    ),
    Tool(
        "ruby",
        ".rb",
        "ruby",
        _block("#", "rye/core/runtimes/ruby_runtime") + "def execute(params) = params\n",
    ),
    Tool(
        "perl",
        ".pl",
        "perl",
        _block("#", "rye/core/runtimes/perl_runtime") + "sub execute { return shift }\n",
    ),
    Tool("binary", "", "sh", "#!/bin/sh\n" + _block("#", "rye/core/runtimes/binary_runtime") + "exec cat\n"),
)


class Scene:
    """A user with a key, and a project with these tools, or those under permissions, signed and locked."""

    def __init__(self, directory: Path, *, under_permissions: bool = False) -> None:
        self.project = directory / "project"
        self.tools = self.project / ".ai/tools"
        self.state = directory / "state"
        interpreter = directory / "interpreter"
        venv.create(interpreter, symlinks=True)
        self.environment = {
            "HOME": str(directory),
            "USER_SPACE": str(directory / "home"),
            "XDG_STATE_HOME": str(self.state),
            "XDG_CACHE_HOME": str(directory / "cache"),
            "PATH": f"{interpreter}/bin:/usr/local/bin:/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
        }
        keys = KeyRing(directory / "home/.ai", environment={})
        keys.ensure(SignerKind.PERSON, owner="leo")
        tools = () if under_permissions else TOOLS
        self.there = [tool for tool in tools if shutil.which(tool.program, path=self.environment["PATH"])]
        for tool in self.there:
            self._write(f"{tool.item_id}{tool.extension}", tool.source)
        if under_permissions:
            self._write_under_permissions()
            self._sign("permissions/*")
        else:
            self._write_large()
            self._sign("bench/*")
            self._sign(LARGE)
        time.sleep(1.1 * SETTLED_NS / 1e9)

    @property
    def missing(self) -> list[str]:
        """The runtimes whose program is not there."""
        return [tool.name for tool in TOOLS if tool not in self.there]

    def executor(self, *, warm: bool = False) -> PrimitiveExecutor:
        """An executor that has seen nothing yet, for which interpreters wait if it is `warm`."""
        return PrimitiveExecutor(
            self.project,
            self.environment["USER_SPACE"],
            state=self.state / "rye",
            environment={**self.environment, "RYE_WARM": "1" if warm else "0"},
        )

    def command(self, item_id: str) -> list[str]:
        """`rye run`, as a person types it."""
        words = ["-c", "from rye_mcp.cli import main; main()", "run", "--params", json.dumps(PARAMETERS)]
        return [sys.executable, *words, item_id]

    def _write(self, relative: str, text: str) -> None:
        path = self.tools / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _write_under_permissions(self) -> None:
        imports = "import argparse\nimport json\n\nPERMISSIONS = {}\n"
        for item_id, permissions in zip(
            UNDER_PERMISSIONS, ('"unconfined"', '{"project": "write"}'), strict=True
        ):
            text = _PYTHON.format(runtime=_SCRIPT_RUNTIME, imports=imports.format(permissions), body=_SCRIPT)
            self._write(f"{item_id}.py", text)

    def _write_large(self) -> None:
        source = _PYTHON.format(runtime=_SCRIPT_RUNTIME, imports=_LARGE_IMPORTS, body=_SCRIPT)
        self._write(f"{LARGE}.py", source)
        self._write("large/__init__.py", "")
        for number in range(MODULES):
            function = (
                '\n\ndef function{0}(value: int = {0}) -> int:\n    """Adds."""\n    return value + {0}\n'
            )
            text, each = "", 0
            while len(text) < MODULE_BYTES:
                text += function.format(each)
                each += 1
            self._write(f"large/module{number}.py", text[:MODULE_BYTES].rpartition("\n\n\ndef")[0] + "\n")

    def _sign(self, pattern: str) -> None:
        program = [sys.executable, "-c", "from rye_mcp.cli import main; main()"]
        command = [*program, "sign", pattern, "--all-beside"]
        done = subprocess.run(
            command, cwd=self.project, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise IncorrectError(f"rye sign {pattern}: {done.stderr}{done.stdout}")


@asynccontextmanager
async def prepared(executor: PrimitiveExecutor, item_id: str) -> AsyncIterator[ProcessSpec]:
    """What a call would run, whose private copy is there as long as the block lasts."""
    decide = partial(executor._decider.decide, item_id, PARAMETERS, Caller())
    async with executor._prepared(decide) as call:
        if not isinstance(call.job, ProcessJob):
            raise IncorrectError(f"expected {item_id} to start a program")
        yield call.job.process.whole()


async def by_hand(spec: ProcessSpec) -> float:
    """Start the same by hand; how long it took, in seconds. What it returns comes on standard output."""
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        spec.command,
        *spec.args,
        stdin=subprocess.DEVNULL if spec.input is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=spec.cwd,
        env={name: text for name, text in spec.env.items() if name != "RYE_RESULT_FD"},
    )
    stdout, stderr = await process.communicate(spec.input)
    answer = json.loads(stdout) if not process.returncode else stderr
    took = time.perf_counter() - started
    _check("by hand", answer)
    return took


async def by_us(executor: PrimitiveExecutor, item_id: str) -> float:
    """Run the tool through every stage; how long it took, in seconds."""
    started = time.perf_counter()
    result = await executor.execute(item_id, PARAMETERS)
    took = time.perf_counter() - started
    _check(item_id, result.data if result.success else result.error)
    unverified = [each["item_id"] for each in result.chain if not each["signer"]["owner"]]
    if unverified or not result.chain or not result.sealed or result.run_id is None:
        raise IncorrectError(f"{item_id}: expected a verified and sealed run, found {result}")
    return took


def by_command(scene: Scene, item_id: str) -> float:
    """The whole command, from its start to its end."""
    started = time.perf_counter()
    done = subprocess.run(
        scene.command(item_id), cwd=scene.project, env=scene.environment, capture_output=True, check=False
    )
    took = time.perf_counter() - started
    _check(f"rye run {item_id}", json.loads(done.stdout) if not done.returncode else done.stderr)
    return took


def logged_runs(executor: PrimitiveExecutor) -> int:
    """How many runs stand in the log."""
    from rye_mcp.runs.records import MAX_ROWS, RunFilter

    return len(executor._log.list(RunFilter(limit=MAX_ROWS)))


def _check(name: str, found: Any, expected: Mapping[str, Any] = PARAMETERS) -> None:
    if found != expected:
        raise IncorrectError(f"{name}: expected {expected}, found {found!r:.500}")
