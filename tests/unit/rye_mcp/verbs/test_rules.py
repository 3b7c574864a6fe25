"""Rules on arguments hold for whoever calls, and a project only adds stricter ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rye_mcp.configuration import isolation_of
from rye_mcp.errors import RyeError
from rye_mcp.items import SpaceName
from rye_mcp.mcp_server.confirmation import Confirmer
from rye_mcp.permissions import Access, Permissions, Requirement
from rye_mcp.runs.log import RunLog
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.execute import Executed, ExecuteRequest, execute
from rye_mcp.verbs.runs import RunsRequest, list_runs
from tests.trust_world import World, refused
from tests.verb_world import agent, app_of, person, put

TOOL = b"""\
version: "1.0.0"
tool_type: tool
executor_id: rye/core/primitives/subprocess
config: {command: /bin/echo, args: ["ran"]}
config_schema:
  type: object
  properties: {mode: {type: string, default: slow}}
"""

DENIED = 'rules: [{tool: demo/*, where: {mode: "slow*"}, action: deny}]\n'
ASKED = "rules: [{tool: demo/hello, action: ask}]\n"
ALLOWED = "rules: [{tool: demo/hello, action: allow}]\n"


def policy(root: Path, text: str) -> None:
    (root / "config").mkdir(parents=True, exist_ok=True)
    (root / "config/rye.yaml").write_text(text)


def users(world: World, text: str) -> None:
    policy(agent(world).spaces.user.root, text)


def projects(world: World, text: str) -> None:
    policy(world.space(SpaceName.PROJECT).root, text)


def approve(world: World) -> None:
    approvals = app_of(world).trust.approvals
    assert approvals is not None
    approvals.approve_project()


@pytest.fixture
def made(world: World) -> World:
    put(world, TOOL, extension=".yaml", signed=True)
    return world


async def called(context: Context, parameters: dict[str, Any] | None = None) -> Executed:
    return await execute(ExecuteRequest("demo/hello", parameters=parameters), context)


async def code_of(context: Context, parameters: dict[str, Any] | None = None) -> str:
    try:
        await called(context, parameters)
    except RyeError as error:
        return error.code
    return "ran"


async def test_a_call_that_a_rule_forbids_runs_for_nobody(made: World) -> None:
    users(made, DENIED)
    for context in (agent(made), person(made)):
        assert await code_of(context, {"mode": "slowly"}) == "denied_by_policy"
        assert await code_of(context, {"mode": "fast"}) == "ran"


async def test_a_rule_is_about_defaults_too(made: World) -> None:
    users(made, DENIED)
    assert await code_of(agent(made)) == "denied_by_policy"


async def test_a_refused_call_is_in_the_log(made: World) -> None:
    users(made, DENIED)
    assert await code_of(person(made)) == "denied_by_policy"
    with RunLog(app_of(made).settings.state) as log:
        assert [run.code for run in list_runs(RunsRequest(), log).runs] == ["denied_by_policy"]


async def test_an_agent_needs_a_person_where_a_rule_asks(made: World) -> None:
    users(made, ASKED)
    assert await code_of(agent(made)) == "confirmation_required"
    assert await code_of(person(made)) == "ran"


async def test_a_server_asks_where_a_rule_asks_and_not_where_one_allows(made: World) -> None:
    confirmer, request = Confirmer(app_of(made)), ExecuteRequest("demo/hello")
    assert await confirmer.run(request, agent(made)) == request
    users(made, ASKED)
    with pytest.raises(RyeError) as asked:
        await confirmer.run(request, agent(made))
    assert asked.value.code == "confirmation_required"
    users(made, f"confirm: [execute]\n{ALLOWED}")
    assert await confirmer.run(request, agent(made)) == request
    users(made, "confirm: [execute]\n")
    with pytest.raises(RyeError):
        await confirmer.run(request, agent(made))


async def test_a_project_adds_stricter_rules_once_it_is_approved(made: World) -> None:
    projects(made, DENIED)
    users(made, ALLOWED)
    assert await code_of(agent(made)) == "ran"
    approve(made)
    assert await code_of(agent(made)) == "denied_by_policy"
    users(made, DENIED)
    projects(made, ALLOWED)
    assert await code_of(agent(made)) == "denied_by_policy"


def test_isolation_is_the_users_and_a_project_tightens_it(world: World) -> None:
    users(world, "isolation: {minimum: walls, lift: [rye/bash/bash]}\n")
    approve(world)
    projects(world, "isolation: {minimum: cell, agent: {project: read}}\n")
    found = isolation_of(agent(world))
    assert found.minimum is Requirement.CELL
    assert found.agent == Permissions(Access.READ)
    assert found.lift == {"rye/bash/bash"}


@pytest.mark.parametrize("text", ["isolation: cell\n", "isolation: {minimum: all}\n"])
def test_an_isolation_that_is_wrong_is_a_refusal(world: World, text: str) -> None:
    users(world, text)
    assert "rye.yaml" in str(refused("invalid_item", lambda: isolation_of(agent(world))).where)


async def test_rules_that_are_wrong_are_a_refusal(made: World) -> None:
    users(made, "rules: [{tool: demo/hello}]\n")
    assert await code_of(agent(made)) == "invalid_item"


async def test_rules_that_others_could_change_are_a_refusal(made: World) -> None:
    users(made, ALLOWED)
    (agent(made).spaces.user.root / "config/rye.yaml").chmod(0o666)
    assert await code_of(agent(made)) == "unsafe_permissions"
