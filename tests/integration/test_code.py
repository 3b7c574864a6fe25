"""Programs that agents write: `rye/code/run` computes and calls, and only its result comes back."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from mcp.types import ElicitResult

from tests.inside_world import execute, program
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts

pytestmark = pytest.mark.anyio

GREET = """\
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Whom to greet."},
        "times": {"type": "integer", "default": 1},
    },
    "required": ["name"],
}


def main(name, times):
    return {"greeting": ", ".join([f"Hello {name}"] * times)}
"""


@pytest.fixture
def tools(workshop: Workshop) -> Workshop:
    """A project with two tools, of a person who lets agents run programs."""
    workshop.write("demo/greet", program(GREET))
    workshop.write("demo/rows", program("def main(n):\n    return [[n, each] for each in range(20_000)]"))
    workshop.sign("demo/*")
    switch(workshop, '"on"')
    return workshop


def switch(workshop: Workshop, code: str) -> None:
    settings = workshop.person.user_space / "config/rye.yaml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(f"code: {code}\n")


async def run(client: Any, source: str, *calls: str, **more: Any) -> dict[str, Any]:
    return await execute(client, "rye/code/run", source=source, calls=list(calls), **more)


PROGRAMS: Final = [
    ("6 * 7", 42),
    ("result = 6 * 7", 42),
    ("a = [1, 2]\n{'sum': sum(a)}", {"sum": 3}),
    ("x = 1", None),
    ("", None),
    ("def f():\n    return call('demo/greet', name='Ada')\nf()['greeting']", "Hello Ada"),
    ("tools.demo_greet(name='Ada', times=2)", {"greeting": "Hello Ada, Hello Ada"}),
    ("dir(tools)", ["demo_greet"]),
    ("[each['id'] for each in search('greet')]", ["demo/greet"]),
    ("describe('demo/greet')['config_schema']['required']", ["name"]),
    ("try:\n    call('demo/rows', n=1)\nexcept CallError as e:\n    result = e.code", "call_not_allowed"),
    (
        "from rye import aio\nimport asyncio\n"
        "found = [aio.call('demo/greet', name=name) for name in 'ab']\n"
        "[each['greeting'] for each in await asyncio.gather(*found)]",
        ["Hello a", "Hello b"],
    ),
    ("input['n'] + 1", 2),
]


async def test_a_program_computes_and_calls(tools: Workshop) -> None:
    async with tools.served("auto") as client:
        for source, data in PROGRAMS:
            found = await run(client, source, "demo/greet", input={"n": 1})
            assert (found["status"], found.get("data")) == ("success", data), (source, found)


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("source", "data"),
    [
        ("6 * 7", 42),
        ("result = 6 * 7", 42),
        ("const result = 6 * 7; function f() {}", 42),
        ("const a = [1, 2]; ({sum: a[0] + a[1]})", {"sum": 3}),
        ("", None),
        ("tools.demo_greet({name: 'Ada', times: 2})", {"greeting": "Hello Ada, Hello Ada"}),
        ("const found = await call('demo/greet', {name: 'Ada'});\nreturn found.greeting", "Hello Ada"),
        ("search('greet').then((found) => found.map((each) => each.id))", ["demo/greet"]),
        ("call('demo/rows', {n: 1}).catch((e) => e.code)", "call_not_allowed"),
        ("keep('demo/greet', {name: 'Ada'}).then((kept) => kept.json())", {"greeting": "Hello Ada"}),
        (
            "const all = ['a', 'b'].map((name) => call('demo/greet', {name}));\n"
            "Promise.all(all).then((found) => found.map((each) => each.greeting))",
            ["Hello a", "Hello b"],
        ),
        ("input.n + 1", 2),
    ],
)
async def test_a_program_in_javascript_computes_and_calls(tools: Workshop, source: str, data: Any) -> None:
    async with tools.served("auto") as client:
        given = {"source": source, "calls": ["demo/greet"], "input": {"n": 1}}
        found = await execute(client, "rye/code/run_node", **given)
        assert (found["status"], found.get("data")) == ("success", data), found


async def test_what_goes_wrong_in_javascript_is_shown(tools: Workshop) -> None:
    async with tools.served("auto") as client:
        thrown = await execute(client, "rye/code/run_node", source="\nthrow new Error('no')")
        assert "<program>:2" in thrown["stderr"]
        wrong = await execute(client, "rye/code/run_node", source="const = 1")
        assert "SyntaxError" in wrong["stderr"]


async def test_its_stubs_in_javascript(tools: Workshop) -> None:
    async with tools.served("auto") as client:
        found = await execute(client, "rye/code/run_node", source="", calls=["demo/*"], stubs=True)
    assert "declare function demo_greet(parameters: {" in found["data"]
    assert "  name: string; // Whom to greet." in found["data"]
    assert "  times?: number;" in found["data"]


async def test_its_stubs_have_the_types_of_what_it_may_call(tools: Workshop) -> None:
    async with tools.served("auto") as client:
        found = await run(client, "1 / 0", "demo/*", stubs=True)
        assert "def demo_greet(*, name: str, times: int = 1) -> Any:" in found["data"]
        assert "name: Whom to greet." in found["data"]
        compile(found["data"], "stubs", "exec")


async def test_what_goes_wrong_is_shown_from_the_program_on(tools: Workshop) -> None:
    async with tools.served("auto") as client:
        found = await run(client, "def f():\n    return 1 / 0\nf()")
        assert found["code"] == "tool_failed"
        assert 'File "<program>", line 2, in f\n    return 1 / 0' in found["stderr"]
        wrong = await run(client, "def (")
        assert "SyntaxError" in wrong["stderr"]


@pytest.mark.thorough
async def test_only_the_result_of_fifty_long_results_comes_back(tools: Workshop) -> None:
    source = "sum(len(call('demo/rows', n=n)) for n in range(50))"
    async with tools.served("auto") as client:
        call = {"item_id": "rye/code/run", "parameters": {"source": source, "calls": ["demo/rows"]}}
        result = await client.call_tool("execute", call)
        assert facts(result)["data"] == 1_000_000
        assert len(result.model_dump_json()) < 4000


# --- the policy ---


@pytest.mark.parametrize("item_id", ["rye/code/run", "rye/code/run_node"])
async def test_it_is_off_until_the_user_switches_it_on(workshop: Workshop, item_id: str) -> None:
    async with workshop.served("auto") as client:
        assert (await execute(client, item_id, source="1"))["code"] == "code_switched_off"
        switch(workshop, "no")
        assert (await execute(client, item_id, source="1"))["code"] in ("invalid_item", "code_switched_off")
        switch(workshop, "on")
        assert (await execute(client, item_id, source="1"))["data"] == 1
        switch(workshop, "ask")
        assert (await execute(client, item_id, source="1"))["code"] == "confirmation_required"
    refused = workshop.person.rye("run", item_id, "--source", "1", cwd=workshop.project)
    assert refused.out.strip() == "1"


async def test_a_project_only_tightens_it(tools: Workshop) -> None:
    settings = tools.project / ".ai/config/rye.yaml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('code: "off"\n')
    async with tools.served("auto") as client:
        assert (await run(client, "1"))["code"] == "code_switched_off"
        settings.write_text('code: "on"\n')
        switch(tools, '"off"')
        assert (await run(client, "1"))["code"] == "code_switched_off"


@pytest.mark.both_eras
async def test_a_person_is_shown_the_whole_program_and_what_it_calls(tools: Workshop, mode: Mode) -> None:
    asked: list[str] = []

    async def answer(_: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept" if len(asked) == 1 else "decline", content={})

    switch(tools, '"ask"')
    source = "# " + "x" * 3000 + "\ncall('demo/greet', name='Ada')"
    async with tools.served(mode, client={"elicitation_callback": answer}) as client:
        assert (await run(client, source, "demo/greet"))["data"] == {"greeting": "Hello Ada"}
        assert (await run(client, source, "demo/greet"))["code"] == "confirmation_declined"
    assert json.dumps(source) in asked[0]
    assert json.dumps(["demo/greet"]) in asked[0]


async def test_nothing_runs_where_nobody_can_be_asked(tools: Workshop) -> None:
    switch(tools, '"ask"')
    async with tools.served("auto") as client:
        assert (await run(client, "1"))["code"] == "confirmation_required"


# --- what proved useful ---

PARAMETERS = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def save(client: Any, source: str, *calls: str, **more: Any) -> dict[str, Any]:
    given = {"name": "greets", "description": "Greets.", "source": source, "calls": list(calls), **more}
    return await execute(client, "rye/code/save", **given)


async def test_what_proved_useful_is_a_tool_of_the_agent(tools: Workshop) -> None:
    source = 'text = """a\n  b"""\n# the last\n(\n    tools.demo_greet(**input)["greeting"], text\n)  # é'
    async with tools.served("auto", "--expose", "scripts/*") as client:
        saved = await save(client, source, "demo/greet", parameters=PARAMETERS)
        assert saved["status"] == "success", saved
        assert saved["data"]["item_id"] == "scripts/greets"
        assert saved["data"]["signer"]["kind"] == "agent"
        assert "may call demo/greet" in saved["data"]["declares"]
        ran = await execute(client, "scripts/greets", name="Ada")
        assert ran.get("data") == ["Hello Ada", "a\n  b"], json.dumps(ran)
        [listed] = [each for each in (await client.list_tools()).tools if each.name == "scripts_greets"]
        assert listed.input_schema["required"] == ["name"]
        again = await save(client, source, "demo/greet")
        assert again["code"] == "tool_failed" or again["code"] == "item_exists"
        replaced = await save(client, "input['name']", parameters=PARAMETERS, overwrite=True)
        assert replaced["status"] == "success", replaced
        assert (await execute(client, "scripts/greets", name="Ada"))["data"] == "Ada"
    tools.sign("scripts/greets")
    async with tools.served("auto") as client:
        refused = await save(client, "1", overwrite=True)
        assert "signature of a person" in refused["error"]
    assert "input['name']" in (tools.project / ".ai/tools/scripts/greets.py").read_text()


async def test_no_half_of_an_item_stays(tools: Workshop) -> None:
    async with tools.served("auto") as client:
        for source in ("def (", "from __future__ import annotations", "\u202e"):
            assert (await save(client, source))["status"] == "error"
    assert not (tools.project / ".ai/tools/scripts/greets.py").exists()


async def test_what_it_would_replace_stays_whole_when_it_is_not_signed(tools: Workshop) -> None:
    place = tools.project / ".ai/tools/scripts/greets.py"
    async with tools.served("auto") as client:
        await save(client, "tools.demo_greet(**input)", "demo/greet", parameters=PARAMETERS)
        before = place.read_bytes()
        refused = await save(client, "'\u202e'", overwrite=True)
        assert refused["status"] == "error"
        assert place.read_bytes() == before
        assert (await execute(client, "scripts/greets", name="Ada"))["data"] == {"greeting": "Hello Ada"}


async def test_it_is_saved_only_as_far_as_an_agent_may_sign(tools: Workshop) -> None:
    async with tools.served("auto", "--confirm", "sign") as client:
        assert (await save(client, "1"))["code"] == "confirmation_required"
    switch(tools, '"on"\nconfirm: [sign]')
    async with tools.served("auto") as client:
        assert (await save(client, "1"))["code"] == "confirmation_required"
    switch(tools, '"off"')
    async with tools.served("auto") as client:
        assert (await save(client, "1"))["code"] == "code_switched_off"
