"""Programs in other languages: the client of Node.js, and the command `rye` for everything else."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.attacks.test_machine_without_cells import IN_WALLS
from tests.inside_world import Programs
from tests.mcp_world import Workshop, workshop

__all__ = ["workshop"]

JAVASCRIPT = """\
// /// rye
// version: "1.0.0"
// description: Does what a test needs.
// executor_id: rye/core/runtimes/node_runtime
// permissions: {permissions}
// ///
{code}
"""

BASH = """\
#!/bin/bash
# /// rye
# version: "1.0.0"
# description: Does what a test needs.
# executor_id: rye/core/runtimes/bash_runtime
# permissions: {permissions}
# ///
{code}
"""


@pytest.fixture
def programs(workshop: Workshop) -> Programs:
    found = Programs(workshop)
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}, "name": {"type": "string"}}}'
    found.add("demo/typed", f"CONFIG_SCHEMA = {schema}\ndef main(**given):\n    return given")
    found.add("demo/fails", "def main():\n    raise ValueError('no')")
    found.add("demo/long", "CONFIG = {'max_output': 4_000_000}\ndef main(n):\n    return 'é' * n")
    return found


def ran(
    programs: Programs, template: str, extension: str, code: str, *calls: str, fails: bool = False
) -> dict[str, Any]:
    """What comes of a program in another language."""
    text = template.format(permissions=json.dumps({"calls": list(calls)}), code=code)
    path = programs.workshop.project / f".ai/tools/demo/program{extension}"
    path.write_text(text)
    programs.workshop.sign("demo/program")
    return programs.run("demo/program", code=1 if fails else 0)


EXECUTE = "export async function execute() {{\n{}\n}}"
IMPORT = "import {{ CallError, call, describe, handle, keep, result, search }} from 'rye';\n{}"


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("body", "data"),
    [
        ("return call('demo/typed', { name: 'Ada' });", {"name": "Ada"}),
        ("return (await result('demo/typed', { n: 2 })).data.n;", 2),
        (
            "const all = [1, 2, 3].map((n) => call('demo/typed', { n }));"
            "return (await Promise.all(all)).map(({ n }) => n);",
            [1, 2, 3],
        ),
        ("return (await search('typed')).map((each) => each.id);", ["demo/typed"]),
        ("return (await describe('demo/typed')).config_schema.properties.n.type;", "integer"),
        (
            "return call('demo/echo').catch((e) => [e instanceof CallError, e.code]);",
            [True, "call_not_allowed"],
        ),
        ("return call('demo/fails').catch((e) => [e.code, e.facts.exit.return_code]);", ["tool_failed", 1]),
        ("const kept = await keep('demo/long', { n: 700000 }); return (await kept.text()).length;", 700000),
        (
            "const kept = await keep('demo/long', { n: 3 }); return [...await kept.read(1, 3)];",
            [0xA9, 0xC3, 0xA9],
        ),
        (
            "const kept = await keep('demo/long', { n: 3 });return call('demo/typed', { name: kept });",
            {"name": "ééé"},
        ),
        ("return handle('rye://result/1').text().catch((e) => e.code);", "malformed_handle"),
    ],
)
def test_the_client_of_node(programs: Programs, body: str, data: Any) -> None:
    code = IMPORT.format(EXECUTE.format(body))
    found = ran(programs, JAVASCRIPT, ".mjs", code, "demo/typed", "demo/fails", "demo/long")
    assert found["data"] == data


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("extension", "code"),
    [
        (".cjs", "const { call } = require('rye');\nexports.execute = () => call('demo/typed', { n: 1 });"),
        (
            ".mjs",
            "import { call } from 'rye';\nconsole.log(JSON.stringify(await call('demo/typed', { n: 1 })));",
        ),
    ],
)
def test_every_kind_of_module_finds_the_client(programs: Programs, extension: str, code: str) -> None:
    assert ran(programs, JAVASCRIPT, extension, code, "demo/typed")["data"] == {"n": 1}


def test_what_is_thrown_is_shown_without_the_client(programs: Programs) -> None:
    code = "import { call } from 'rye';\n" + EXECUTE.format("  await call('demo/other');")
    found = ran(programs, JAVASCRIPT, ".mjs", code, "demo/typed", fails=True)
    assert "call_not_allowed: expected demo/program to call" in found["stderr"]
    assert "program.mjs" in found["stderr"]
    assert "rye.cjs" not in found["stderr"]


def test_a_tool_that_may_not_call_has_no_client(programs: Programs) -> None:
    text = JAVASCRIPT.format(permissions="{}", code="import 'rye';\nexport function execute() {}")
    (programs.workshop.project / ".ai/tools/demo/program.mjs").write_text(text)
    programs.workshop.sign("demo/program")
    assert "Cannot find package 'rye'" in programs.run("demo/program", code=1)["stderr"]


# --- the command ---


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("code", "data"),
    [
        ("rye call demo/typed --name Ada --n=2", {"name": "Ada", "n": 2}),
        ("rye call demo/typed --name 2", {"name": "2"}),
        ("""rye call --params '{"n": 2}' demo/typed --name=--x""", {"n": 2, "name": "--x"}),
        ("""echo '{"n": 3}' | rye call --params - demo/typed""", {"n": 3}),
        ("rye call --json demo/typed --n 1 | grep -o '\"n\":1'", '"n":1\n'),
        ("rye search typed | grep -o '\"total\":1'", '"total":1\n'),
        ('rye describe demo/typed | grep -o \'"type":"integer"\'', '"type":"integer"\n'),
        ("rye call demo/long --n 2", "éé\n"),
        ("kept=$(rye call --as-handle demo/long --n 9); rye read --offset 2 --length 4 $kept", "éé\n"),
        ("kept=$(rye call --as-handle demo/long --n 2); rye call demo/typed --name $kept", {"name": "éé"}),
        ("for n in 1 2 3; do rye call demo/typed --n $n & done | sort; wait", '{"n":1}\n{"n":2}\n{"n":3}\n'),
        ("rye call demo/other 2>&1 || true", "rye: call_not_allowed: expected demo/program to call"),
        ("rye call demo/typed --n x 2>&1 || true", "rye: invalid_parameters: expected integer for --n"),
        ("rye call demo/fails 2>&1 || true", "rye: tool_failed: "),
        ("rye read rye://result/1 2>&1 || true", "rye: malformed_handle: "),
        ("RYE_CALL_FD= rye call demo/typed 2>&1 || true", "rye: call_not_allowed: "),
        ("exec 5>&-; rye call demo/typed 2>&1 || true", "rye: call_not_allowed: "),
    ],
)
def test_the_command_in_a_shell(programs: Programs, code: str, data: Any) -> None:
    found = ran(programs, BASH, ".sh", code, "demo/typed", "demo/fails", "demo/long")["data"]
    if isinstance(data, str) and data.startswith("rye: "):
        assert found.startswith(data), found
    else:
        assert found == data


def test_a_child_of_a_program_asks_with_the_command(programs: Programs) -> None:
    code = """
import subprocess
def main():
    command = ["rye", "call", "demo/typed", "--n", "7"]
    return subprocess.run(command, pass_fds=[5], capture_output=True, text=True, check=True).stdout
"""
    programs.add("demo/parent", code, calls=["demo/typed"])
    assert programs.run("demo/parent")["data"] == '{"n":7}\n'


@pytest.mark.thorough
def test_the_command_is_there_where_no_cell_can_be_made(programs: Programs) -> None:
    """In walls a program may read only what it is shown, and the command is a file of its own."""
    person, project = programs.workshop.person, programs.workshop.project
    ran(programs, BASH, ".sh", "rye call demo/typed --name Ada", "demo/typed")
    found = person.rye("run", "--json", "demo/program", cwd=project, before=IN_WALLS).json
    assert (found["enforced"]["level"], found["data"]) == ("walls", {"name": "Ada"})


# --- handles in Python ---


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("body", "data"),
    [
        ("keep('demo/long', n=700_000).text() == 'é' * 700_000", True),
        ("list(keep('demo/long', n=3).read(-3, 2))", [0xA9, 0xC3]),
        ("keep('demo/typed', n=3).json()", {"n": 3}),
        ("call('demo/typed', name=keep('demo/long', n=2))", {"name": "éé"}),
        ("result('demo/typed', {'n': 1}, as_handle=True)['kept'][0]['preview']", '{"n":1}'),
        ("handle(str(keep('demo/long', n=1))).text()", "é"),
    ],
)
def test_handles_in_python(programs: Programs, body: str, data: Any) -> None:
    programs.add(
        "demo/program",
        f"from rye import call, handle, keep, result\ndef main():\n    return {body}",
        calls=["demo/typed", "demo/long"],
    )
    assert programs.run("demo/program")["data"] == data


def test_handles_in_asynchronous_python(programs: Programs) -> None:
    code = """
from rye import aio
async def main():
    kept = await aio.keep("demo/long", n=3)
    return [kept, (await aio.read(kept, 2)).decode()]
"""
    programs.add("demo/program", code, calls=["demo/long"])
    handle, text = programs.run("demo/program")["data"]
    assert handle.startswith("rye://result/")
    assert text == "éé"


def test_a_program_returns_a_handle_as_a_link(programs: Programs) -> None:
    code = "from rye import keep\ndef main():\n    return keep('demo/long', n=5000)"
    programs.add("demo/program", code, calls=["demo/long"])
    found = programs.run("demo/program")
    assert found["data"] is None
    [kept] = found["kept"]
    assert (kept["name"], kept["bytes"]) == ("data", 10_000)
    assert kept["preview"].startswith("ééé")
    assert base64.b64encode(kept["preview"].encode())  # whole characters
