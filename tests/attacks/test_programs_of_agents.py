"""Attack: a program that an agent writes does more than compute and call what its caller names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.executor.caller import Caller
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from tests.inside_world import execute, program
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Workshop
from tests.trust_world import World

pytestmark = pytest.mark.anyio

TRIED = """
import os, socket
def tried(work):
    try:
        return str(work())
    except Exception as exc:
        return type(exc).__name__
"""
REACHES = {
    "a file of the project": ("open(input['project'] + '/secret').read()", "ada's"),
    "a file of its user": ("open(input['home'] + '/secret').read()", "ada's"),
    "its policy": ("open(input['home'] + '/.ai/config/rye.yaml').read()", "code"),
    "a new file of the project": ("open(input['project'] + '/new', 'w').write('x')", "1"),
    "the network": ("socket.create_connection(('127.0.0.1', input['port']), 5)", "socket"),
    "a secret": ("os.environ['MY_API_TOKEN']", "token"),
}


@pytest.fixture
def tools(workshop: Workshop) -> Workshop:
    workshop.write("demo/secret", program("def main():\n    return 'secret'"))
    workshop.sign("demo/secret")
    policy(workshop, 'code: "on"')
    return workshop


def policy(workshop: Workshop, text: str) -> None:
    settings = workshop.person.user_space / "config/rye.yaml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(f"{text}\n")


async def run(client: Any, source: str, *calls: str, **more: Any) -> dict[str, Any]:
    return await execute(client, "rye/code/run", source=source, calls=list(calls), **more)


@pytest.mark.parametrize("what", REACHES)
async def test_it_reaches_nothing_but_its_private_directory(tools: Workshop, what: str) -> None:
    import socket

    home = tools.person.user_space.parent
    for place in (home, tools.project):
        place.joinpath("secret").write_text("ada's")
    work, reached = REACHES[what]
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = {"project": str(tools.project), "home": str(home), "port": server.getsockname()[1]}
        async with tools.served("auto", variables={"MY_API_TOKEN": "token"}) as client:
            answer = await run(client, f"{TRIED}tried(lambda: {work})", input=found)
    assert answer["status"] == "success", answer
    assert answer["enforced"]["net"] == "none"
    assert reached not in answer["data"]
    assert not (tools.project / "new").exists()


REACHES_IN_JAVASCRIPT = {
    "a file of the project": ("require('fs').readFileSync(input.project + '/secret', 'utf8')", "ada's"),
    "a new file of the project": ("require('fs').writeFileSync(input.project + '/new', 'x')", "undefined"),
    "the network": (
        "new Promise((done, fail) => require('net').connect(input.port, '127.0.0.1', () => done('connected'))"
        ".on('error', fail))",
        "connected",
    ),
    "a secret": ("process.env.MY_API_TOKEN ?? 'none'", "token"),
    "what it did not name": ("call('demo/secret')", "secret'"),
}


@pytest.mark.first_case
@pytest.mark.parametrize("what", REACHES_IN_JAVASCRIPT)
async def test_in_javascript_it_reaches_as_little(tools: Workshop, what: str) -> None:
    import socket

    tools.project.joinpath("secret").write_text("ada's")
    work, reached = REACHES_IN_JAVASCRIPT[what]
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = {"project": str(tools.project), "port": server.getsockname()[1]}
        async with tools.served("auto", variables={"MY_API_TOKEN": "token"}) as client:
            source = f"Promise.resolve().then(() => {work}).then(String, (e) => 'failed ' + e.code)"
            asked = {"source": source, "input": given, "calls": ["demo/other"]}
            answer = await execute(client, "rye/code/run_node", **asked)
    assert answer["status"] == "success", answer
    assert answer["enforced"]["net"] == "none"
    assert reached not in answer["data"]
    assert not (tools.project / "new").exists()


async def test_it_calls_nothing_but_what_its_caller_names(tools: Workshop) -> None:
    asks = "import json, os, socket\nwith socket.socket(fileno=os.dup({fd})) as s:\n"
    asks += "    s.sendall({line})\n    result = json.loads(s.makefile('rb').readline())"
    line = b'{"id": 1, "call": "demo/secret"}\n'
    async with tools.served("auto") as client:
        door = asks.format(fd='int(os.environ["RYE_CALL_FD"])', line=line)
        refused = await run(client, door, "demo/other")
        assert refused["data"]["error"]["code"] == "call_not_allowed"
        nothing = await run(client, "import os\nos.environ.get('RYE_CALL_FD')")
        assert nothing["data"] is None


async def test_a_program_lets_it_call_no_more_than_itself_may(tools: Workshop) -> None:
    code = """
from rye import CallError, call

def main(calls):
    source = "try:\\n    result = call('demo/secret')\\nexcept Exception as e:\\n    result = repr(e)"
    return call("rye/code/run", source=source, calls=calls)
"""
    tools.write("demo/outer", program(code, calls=["rye/code/run"]))
    tools.write("demo/both", program(code, calls=["rye/code/run", "demo/secret"]))
    tools.sign("demo/*")
    async with tools.served("auto") as client:
        assert (await execute(client, "demo/both", calls=["demo/secret"]))["data"] == "secret"
        for calls in (["demo/secret"], ["demo/*"]):
            refused = await execute(client, "demo/outer", calls=calls)
            assert "NameError" in refused["data"], refused


async def test_no_policy_lifts_what_confines_it(tools: Workshop) -> None:
    policy(tools, 'code: "on"\nisolation: {lift: [rye/code/run]}')
    async with tools.served("auto") as client:
        assert (await run(client, "1"))["code"] == "isolation_unavailable"


async def test_it_is_off_for_programs_and_for_dry_runs_of_nobody(tools: Workshop) -> None:
    """Whoever asks: an agent, a program of a person, or a person."""
    tools.write(
        "demo/outer",
        program(
            "from rye import call\n\ndef main():\n    return call('rye/code/run', source='1')",
            calls=["rye/code/run"],
        ),
    )
    tools.sign("demo/outer")
    policy(tools, 'code: "off"')
    async with tools.served("auto") as client:
        assert (await run(client, "1"))["code"] == "code_switched_off"
        assert (await execute(client, "rye/code/run_node", source="1"))["code"] == "code_switched_off"
        assert "code_switched_off" in (await execute(client, "demo/outer"))["stderr"]
        policy(tools, 'code: "ask"')
        assert "approval_required" in (await execute(client, "demo/outer"))["stderr"]
    policy(tools, 'code: "off"')
    refused = tools.person.rye("run", "rye/code/run", "--source", "1", cwd=tools.project, code=1)
    assert "code_switched_off" in refused.err


async def test_an_agents_tool_saves_and_signs_no_program(tools: Workshop) -> None:
    """It may write the project, but no items."""
    code = """
from rye import CallError, call

def main():
    try:
        return call("rye/code/save", name="planted", description="Planted.", source="1")
    except CallError as error:
        return error.code
"""
    tools.write("demo/saves", program(code, calls=["rye/code/save"], project="write"))
    async with tools.served("auto") as client:
        await client.call_tool("sign", {"item_id": "demo/saves"})
        assert (await execute(client, "demo/saves"))["data"] == "call_not_allowed"
        assert not (tools.project / ".ai/tools/scripts").exists()
        saved = {"name": "ours", "description": "Ours.", "source": "1"}
        assert (await execute(client, "rye/code/save", **saved))["status"] == "success"


@pytest.mark.parametrize("tool", ["*", "rye/*", "rye/code/*"])
async def test_a_rule_that_allows_everything_is_no_consent(tools: Workshop, tool: str) -> None:
    saved = {"name": "planted", "description": "Planted.", "source": "1"}
    policy(tools, f'code: "ask"\nconfirm: [sign]\nrules: [{{tool: "{tool}", action: allow}}]')
    async with tools.served("auto") as client:
        assert (await run(client, "1"))["code"] == "confirmation_required"
        assert (await execute(client, "rye/code/save", **saved))["code"] == "confirmation_required"
    assert not (tools.project / ".ai/tools/scripts").exists()


async def test_a_rule_that_names_the_runner_is_one(tools: Workshop) -> None:
    policy(tools, 'code: "ask"\nrules: [{tool: rye/code/run, where: {source: "1"}, action: allow}]')
    async with tools.served("auto") as client:
        assert (await run(client, "1"))["data"] == 1
        assert (await run(client, "2"))["code"] == "confirmation_required"


SAVES = """
name: saves
version: "1.0.0"
description: Saves a program.
category: demo
tool_type: tool
executor_id: rye/core/primitives/verbs
permissions: {project: write}
config_schema: {type: object}
config: {verb: save}
"""


async def test_no_other_tool_saves_programs(tools: Workshop) -> None:
    """One of an agent would save and sign without the consent that `rye/code/save` needs."""
    (tools.project / ".ai/tools/demo/saves.yaml").write_text(SAVES)
    async with tools.served("auto") as client:
        await client.call_tool("sign", {"item_id": "demo/saves"})
        policy(tools, 'code: "on"\nconfirm: [sign]')
        planted = {"name": "planted", "description": "Planted.", "source": "1"}
        refused = await execute(client, "demo/saves", **planted)
    assert refused["code"] == "out_of_scope", refused
    assert not (tools.project / ".ai/tools/scripts").exists()


@pytest.mark.parametrize(("kind", "code"), [("agent", "confirmation_required"), ("person", None)])
async def test_no_door_runs_a_program_of_an_agent_that_nobody_agreed_to(
    tmp_path: Path, kind: Literal["agent", "person"], code: str | None
) -> None:
    """The server asks before it runs one; whatever else runs calls of agents must not forget to."""
    world = World(tmp_path)
    (world.project / ".ai").mkdir(parents=True)
    settings = world.user_space / "config/rye.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("code: ask\n")
    executor = PrimitiveExecutor(world.project, user_space=world.user_space.parent, state=world.state)
    program = {"source": "def main():\n    return 1"}
    try:
        found = (await executor.run("rye/code/run", program, caller=Caller(kind=kind))).code
    except RyeError as exc:
        found = exc.code
    finally:
        await executor.close()
    assert found == code
