"""A teammate signs a version of a tool that may do more: it does not run until somebody has agreed to that.

What counts is what was agreed to last: the first version that ran here, the user's own signature, or an
answer to a question that shows the difference.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp.types import ElicitRequestFormParams, ElicitResult

from rye_mcp.runs.questions import Questions
from tests.mcp_world import Mode, Workshop, facts
from tests.people import Answer, Person

TOOL = '''\
"""Says hello."""

__version__ = "1.0.0"
__executor_id__ = "python_runtime"
{permissions}


def main():
    return {{"greeting": "Hello!"}}
'''

READS = "PERMISSIONS = {'project': 'read'}"
WRITES = "PERMISSIONS = {'project': 'write'}"
SENDS = "PERMISSIONS = {'project': 'read', 'net': ['example.org']}"
NOTHING = "PERMISSIONS = {}"
ADDED = "may reach example.org:443"


class Team:
    """Ada has a project, in which she trusts what Leo signs."""

    def __init__(self, place: Path) -> None:
        self.ada, self.leo = Person("ada", place / "ada"), Person("leo", place / "leo")
        self.project = place / "the project"
        self.ada.begin(self.project)
        self.leo.begin(place / "elsewhere")
        key = self.leo.rye("keys", "export", cwd=place / "elsewhere").out
        self.ada.rye("trust", "add", "-", given=key.encode(), cwd=self.project)
        self.shop = Workshop(self.ada, self.project)

    def signs(self, who: Person, permissions: str) -> None:
        self.shop.write("demo/hello", TOOL.format(permissions=permissions))
        who.sign("demo/hello", self.project)

    def run(self, code: int = 0) -> Answer:
        return self.ada.rye("run", "--json", "demo/hello", cwd=self.project, code=code)

    def refuses(self) -> dict[str, Any]:
        found = self.run(code=1).json
        assert found["code"] == "permissions_widened", found
        return found

    @property
    def records(self) -> list[Path]:
        return sorted((self.ada.state / "rye/agreed").rglob("*.json"))


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


def test_what_somebody_else_widens_does_not_run(team: Team) -> None:
    team.signs(team.leo, READS)
    team.run()
    team.signs(team.leo, SENDS)
    refused = team.refuses()
    assert ADDED in refused["error"]
    assert refused["added"] == [ADDED]
    assert refused["hint"].endswith("rye trust tool demo/hello")
    team.signs(team.leo, READS)
    team.run()


def test_what_declares_nothing_any_more_does_not_run(team: Team) -> None:
    team.signs(team.leo, READS)
    team.run()
    team.signs(team.leo, "")
    assert "not confined" in team.refuses()["error"]


def test_narrowing_passes_and_is_no_new_agreement(team: Team) -> None:
    team.signs(team.leo, SENDS)
    team.run()
    [record] = team.records
    before = record.read_bytes()
    for narrower in (READS, NOTHING, SENDS):
        team.signs(team.leo, narrower)
        team.run()
    assert record.read_bytes() == before
    team.signs(team.leo, WRITES)
    team.refuses()


def test_ones_own_signature_is_an_agreement(team: Team) -> None:
    team.signs(team.ada, SENDS)
    team.run()
    team.signs(team.ada, WRITES)
    team.run()
    team.signs(team.leo, WRITES)
    team.run()
    team.signs(team.leo, SENDS)
    assert team.refuses()["added"] == [ADDED]
    team.signs(team.ada, NOTHING)
    team.run()
    team.signs(team.leo, READS)
    team.refuses()


def test_a_signature_counts_before_the_first_run(team: Team) -> None:
    team.signs(team.ada, READS)
    team.signs(team.leo, SENDS)
    team.refuses()


def test_what_a_signature_adds_is_said(team: Team) -> None:
    team.signs(team.ada, READS)
    team.shop.write("demo/hello", TOOL.format(permissions=SENDS))
    said = team.ada.rye("sign", "--json", "demo/hello", cwd=team.project).json
    assert said["declares"] == "may read this project; may reach example.org:443; nothing else"
    assert said["widened"] == [ADDED]
    team.shop.write("demo/hello", TOOL.format(permissions="PERMISSIONS = 'unconfined'"))
    assert "new: may do whatever you can" in team.ada.rye("sign", "demo/hello", cwd=team.project).out


def test_a_tool_that_declared_nothing_was_handed_no_secrets(team: Team) -> None:
    team.signs(team.leo, "")
    team.run()
    team.signs(team.leo, "PERMISSIONS = {'project': 'read', 'env': ['API_TOKEN']}")
    assert team.refuses()["added"] == ["gets API_TOKEN from the environment"]


def test_ones_former_key_is_ones_own(team: Team) -> None:
    team.signs(team.leo, READS)
    team.run()
    team.signs(team.ada, SENDS)
    team.ada.rye("keys", "rotate", cwd=team.project)
    team.run()


def test_a_project_cannot_bring_the_agreement_along(team: Team) -> None:
    """Records are in the state directory, where only this user writes; a damaged one is no first use."""
    team.signs(team.leo, READS)
    team.run()
    [record] = team.records
    assert record.stat().st_mode & 0o777 == 0o600
    assert not list(team.project.rglob("agreed"))
    team.signs(team.leo, SENDS)
    record.write_text("{}")
    assert team.run(code=1).json["code"] == "malformed_trust"
    record.chmod(0o666)
    assert team.run(code=1).json["code"] == "unsafe_permissions"


def test_looking_is_not_agreeing(team: Team) -> None:
    team.signs(team.leo, READS)
    team.ada.rye("run", "--dry-run", "demo/hello", cwd=team.project)
    team.ada.rye("explain", "demo/hello", cwd=team.project)
    assert team.records == []
    team.run()
    team.signs(team.leo, SENDS)
    for looks in (("run", "--dry-run"), ("explain",)):
        assert ADDED in team.ada.rye(*looks, "demo/hello", cwd=team.project, code=1).shown
    team.refuses()


def test_it_is_agreed_to_as_it_was_shown(team: Team) -> None:
    team.signs(team.leo, READS)
    team.run()
    team.signs(team.leo, SENDS)
    shown = team.ada.rye("trust", "tool", "demo/hello", "--json", cwd=team.project).json
    assert shown["widened"] == [ADDED]
    accept = ("trust", "tool", "demo/hello", "--accept", shown["mark"])
    team.signs(team.leo, "PERMISSIONS = {'project': 'read', 'net': 'any'}")
    refused = team.ada.rye(*accept, "--json", cwd=team.project, code=1).json
    assert refused["code"] == "confirmation_outdated"
    team.refuses()
    team.signs(team.leo, SENDS)
    shown = team.ada.rye("trust", "tool", "demo/hello", "--json", cwd=team.project).json
    said = team.ada.rye(*accept[:-1], shown["mark"], cwd=team.project)
    assert "may read this project; may reach example.org:443; nothing else" in said.out
    team.run()


@pytest.mark.thorough
@pytest.mark.anyio
@pytest.mark.both_eras
@pytest.mark.parametrize("exposed", [False, True])
async def test_a_person_at_the_client_is_asked_with_the_difference(
    team: Team, mode: Mode, exposed: bool
) -> None:
    team.signs(team.leo, READS)
    team.run()
    questions: list[str] = []
    answers = ["decline", "accept"]

    async def asked(_: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        questions.append(params.message)
        action: Any = answers.pop(0)
        return ElicitResult(action=action, content={} if action == "accept" else None)

    name, arguments = ("demo_hello", {}) if exposed else ("execute", {"item_id": "demo/hello"})
    options = {"elicitation_callback": asked}
    async with team.shop.served(mode, "--expose", "demo/*", client=options) as client:
        assert not (await client.call_tool(name, arguments)).is_error
        assert questions == []
        team.signs(team.leo, SENDS)
        declined = await client.call_tool(name, arguments)
        assert "confirmation_declined" in json.dumps(declined.model_dump(mode="json"))
        assert not (await client.call_tool(name, arguments)).is_error
        assert not (await client.call_tool(name, arguments)).is_error
    assert len(questions) == 2
    assert f"MORE THAN AGREED: {ADDED}" in questions[0]
    assert "may read this project; may reach example.org:443; nothing else" in questions[0]
    team.run()


@pytest.mark.anyio
@pytest.mark.both_eras
async def test_where_nobody_can_be_asked_it_is_refused_with_the_command(team: Team, mode: Mode) -> None:
    team.signs(team.leo, READS)
    team.run()
    team.signs(team.leo, SENDS)
    async with team.shop.served(mode) as client:
        for more in ({}, {"async": True}):
            begun = facts(await client.call_tool("execute", {"item_id": "demo/hello", **more}))
            while begun.get("status") == "running":
                begun = facts(await client.call_tool("execute", {"run_id": begun["run_id"]}))
            assert begun["code"] == "permissions_widened"
            assert begun["hint"].endswith("rye trust tool demo/hello")


@pytest.mark.anyio
async def test_a_yes_elsewhere_is_for_one_call_of_what_was_shown(team: Team) -> None:
    team.signs(team.leo, READS)
    team.run()
    team.signs(team.leo, SENDS)
    questions, call = Questions(team.ada.state / "rye"), {"item_id": "demo/hello"}
    async with team.shop.served("auto") as client:
        refused = facts(await client.call_tool("execute", call))
        [waiting] = questions.waiting()
        assert f"rye questions agree {waiting.number}" in refused["hint"]
        assert f"MORE THAN AGREED: {ADDED}" in waiting.text
        questions.answer(waiting.number, waiting.mark, agreed=True)
        team.signs(team.leo, WRITES)
        assert facts(await client.call_tool("execute", call))["code"] == "permissions_widened"
        team.signs(team.leo, SENDS)
        assert facts(await client.call_tool("execute", call))["status"] == "success"
    team.run()
