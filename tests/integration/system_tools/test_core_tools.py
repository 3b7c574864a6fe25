"""`rye/core/explain`, `verify` and `runs` through the executor: the verbs of the same name, for agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rye_mcp.trust.approvals import Approvals
from tests.runtime_workshop import Workshop
from tests.trust_world import World

HELLO = """\
'''Say hello.'''
__version__ = "1.2.0"
__executor_id__ = "python_function_runtime"
CONFIG_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
def execute(params, project_path):
    return {"success": params["name"] != "nobody"}
"""


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    found = Workshop(World(tmp_path))
    (found.project / ".ai").mkdir(parents=True)
    found.sign("demo/hello.py", HELLO)
    return found


async def ask(workshop: Workshop, tool: str, **parameters: Any) -> Any:
    return await workshop.data(f"rye/core/{tool}", parameters)


async def test_explain_tells_the_chain_and_what_would_run(workshop: Workshop) -> None:
    found = await ask(workshop, "explain", item_id="demo/hello", parameters={"name": "Ada"})
    assert (found["item_id"], found["runs"]) == ("demo/hello", True)
    assert [each["item_id"] for each in found["chain"]] == [
        "demo/hello",
        "rye/core/runtimes/python_function_runtime",
        "rye/core/primitives/subprocess",
    ]
    assert [each["integrity"]["state"] for each in found["chain"]] == ["verified"] * 3
    assert found["call"]["cwd"] == "/", "nobody approved the project"
    Approvals(workshop.project, workshop.world.state).approve_project()
    found = await ask(workshop, "explain", item_id="demo/hello", parameters={"name": "Ada"})
    assert found["call"]["cwd"] == str(workshop.project)


async def test_explain_tells_why_nothing_would_run(workshop: Workshop) -> None:
    found = await ask(workshop, "explain", item_id="demo/hello", parameters={"name": 1})
    assert (found["runs"], found["refusal"]["code"]) == (False, "invalid_parameters")
    assert "call" not in found
    nowhere = await workshop.run("rye/core/explain", {"item_id": "demo/nowhere"})
    assert (nowhere.code, nowhere.data["code"]) == ("tool_failed", "item_not_found")
    assert nowhere.hint == nowhere.data["hint"]


async def test_verify_looks_at_what_is_meant_and_counts_what_it_leaves_out(workshop: Workshop) -> None:
    workshop.write("demo/unsigned.py", HELLO)
    found = await ask(workshop, "verify", item_id="demo/*")
    assert (found["total"], found["verified"], found["refused"]) == (2, 1, 1)
    states = {each["item_id"]: each["integrity"]["state"] for each in found["items"]}
    assert states == {"demo/hello": "verified", "demo/unsigned": "unsigned"}
    refused = await ask(workshop, "verify", item_id="demo/*", refused_only=True)
    assert [each["item_id"] for each in refused["items"]] == ["demo/unsigned"]
    few = await ask(workshop, "verify", space="system", limit=3)
    assert (len(few["items"]), few["left_out"], few["refused"]) == (3, few["total"] - 3, 0)


async def test_runs_tells_what_ran_in_this_project(workshop: Workshop, tmp_path: Path) -> None:
    assert await ask(workshop, "runs") == {"runs": []}
    await workshop.run("demo/hello", {"name": "Ada"})
    await workshop.run("demo/hello", {"name": "nobody"})
    found = (await ask(workshop, "runs", item_id="demo/*"))["runs"]
    assert [(each["status"], each["code"]) for each in found] == [("error", "tool_failed"), ("success", None)]
    assert [each["status"] for each in (await ask(workshop, "runs", status="error"))["runs"]] == ["error"]
    assert len((await ask(workshop, "runs", limit=1))["runs"]) == 1
    (tmp_path / "another/.ai").mkdir(parents=True)
    from rye_mcp.executor.primitive_executor import PrimitiveExecutor

    world = workshop.world
    another = PrimitiveExecutor(tmp_path / "another", user_space=world.user_space.parent, state=world.state)
    assert (await another.execute("rye/core/runs")).data == {"runs": []}
    await another.close()


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("explain", {}),
        ("explain", {"item_id": "a", "verb": "runs"}),
        ("verify", {"space": "everywhere"}),
        ("verify", {"limit": 0}),
        ("runs", {"project": "/"}),
    ],
)
async def test_parameters_that_they_do_not_have_are_refused(
    workshop: Workshop, tool: str, parameters: dict[str, Any]
) -> None:
    found = await workshop.run(f"rye/core/{tool}", parameters)
    assert (found.success, found.code) == (False, "invalid_parameters")


async def test_a_verb_that_is_not_in_the_table_is_refused(workshop: Workshop) -> None:
    tool = "name: t\nversion: 1.0.0\nexecutor_id: rye/core/primitives/verbs\nconfig: {verb: sign}\n"
    workshop.sign("demo/sign.yaml", tool)
    found = await workshop.run("demo/sign", {})
    assert (found.success, found.code) == (False, "invalid_item")
    assert "expected one of explain, verify, runs, save as verb" in (found.error or "")
