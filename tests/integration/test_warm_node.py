"""A Node.js that waited does for its call what one does that is started for it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.integration.test_warm_calls import calls, seen
from tests.runtime_workshop import Workshop
from tests.trust_world import World

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not there")

HEAD = """\
// /// rye
// version: 1.0.0
// executor_id: rye/core/runtimes/node_runtime
// description: Does what a test needs.
{more}// ///
"""


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(World(tmp_path))


def tool(workshop: Workshop, body: str, *, name: str = "a.js", more: str = "") -> str:
    return workshop.sign(f"demo/{name}", HEAD.format(more=more) + body)


def function(expression: str) -> str:
    return f"exports.execute = async (params, context) => ({expression});\n"


GLOBALS = "Reflect.ownKeys(globalThis).map(String).sort()"
DESCRIBED = "Object.getOwnPropertyDescriptor(globalThis, 'crypto').enumerable"
LOOKS = {
    "its globals": function(f"[{GLOBALS}, {DESCRIBED}, typeof crypto.subtle, typeof fs, typeof module]"),
    "its arguments": function(
        "[process.argv.length, process.argv[1].split('/').pop(), process.execArgv, process.execPath]"
    ),
    "its module": function("[require.main.filename.split('/').pop(), Object.keys(require.cache).length]"),
    "its variables": function(
        "[Object.keys(process.env).sort(), process.env.RYE_PROJECT_PATH, process.env.RYE_RESULT_FD]"
    ),
    "its directory": function("[process.cwd(), context.projectPath === process.env.RYE_PROJECT_PATH]"),
    "its language": function("[Intl.DateTimeFormat().resolvedOptions().locale, new Date(0).toString()]"),
    "its descriptors": function(
        "require('fs').readdirSync('/proc/self/fd').filter((each) => each < 4).sort()"
    ),
    "its streams": function("[process.stdout.isTTY, console.log('printed'), console.error('warned')]"),
    "an exception": "exports.execute = () => { throw new Error('of the tool'); };\n",
    "a missing package": "require('not-there');\n",
    "a syntax error": "exports.execute = (;\n",
    "an exit code": "process.exit(3);\n",
    "a signal": "process.kill(process.pid, 'SIGKILL');\n",
    "a script": "console.log(JSON.stringify(require('fs').readFileSync(0, 'utf8')));\n",
}
MODULE = """\
import { readFileSync } from "node:fs";
export const execute = (params) => [typeof readFileSync, typeof require, params];
"""


@pytest.mark.first_case
@pytest.mark.parametrize("confined", ["// permissions: {}\n", ""], ids=["confined", "free"])
async def test_a_tool_does_the_same_warm_and_cold(workshop: Workshop, confined: str) -> None:
    tools = [
        tool(workshop, body, name=f"t{number}.js", more=confined)
        for number, body in enumerate(LOOKS.values())
    ]
    tools.append(tool(workshop, MODULE, name="m.mjs", more=confined))
    async with calls(workshop, RYE_WARM="0") as cold, calls(workshop) as warm:
        await warm.run(tools[0])
        for what, item_id in zip([*LOOKS, "a module"], tools, strict=True):
            found, expected = await warm.run(item_id, a=1), await cold.run(item_id, a=1)
            assert found.runtime is not None
            assert found.runtime.is_warm, (what, found.runtime)
            for one, other in zip(seen(found), seen(expected), strict=True):
                assert json.dumps(one) == json.dumps(other), what


async def test_nothing_of_one_call_is_there_in_the_next(workshop: Workshop) -> None:
    body = "[globalThis.left, process.env.LEFT, (globalThis.left = 1), (process.env.LEFT = '1'), process.pid]"
    item_id = tool(workshop, function(body))
    async with calls(workshop) as run:
        await run.run(item_id)
        first, second = await run.data(item_id), await run.data(item_id)
    assert first[:2] == second[:2] == [None, None]
    assert first[4] != second[4]
