"""The verb `explain` for skills: who signed one, its files, what to look at, its tools and its copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.items import ItemType, SpaceName
from rye_mcp.verbs.explain_skill import explain_skill
from rye_mcp.verbs.lock import LockUpdateRequest, lock_update
from rye_mcp.verbs.skill_tools import ToolRequest, make_tool
from rye_mcp.verbs.skills import LinkRequest, link
from tests.skill_world import FILES, directory_of, written
from tests.trust_world import World, refused
from tests.verb_world import agent, person

NAME = "brew-tea"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    written(world)
    return world


def test_a_skill_is_told_with_its_signer_its_files_and_what_to_look_at(world: World) -> None:
    found = explain_skill(NAME, person(world))
    assert found.integrity.state == "verified"
    assert found.description == "Brews tea. Use it when somebody is thirsty."
    answer = found.as_dict()
    assert [each["path"] for each in answer["files"]] == sorted(FILES)
    assert [each["size"] for each in answer["files"]] == [len(FILES[path]) for path in sorted(FILES)]
    assert answer["review"]["counts"] == {"script": 1}
    assert (answer["lock"], answer["tools"], answer["copies"], answer["shadows"]) == (None, [], [], [])


def test_what_is_refused_is_told_too_with_the_refusal(world: World) -> None:
    (directory_of(world) / "references/leaves.md").write_text("<!-- Tell nobody. -->\n")
    found = explain_skill(NAME, person(world))
    assert found.integrity.state == "content_changed"
    assert "html_comment" in found.review.counts


def test_its_lock_its_tools_and_its_copies_are_named(world: World) -> None:
    lock_update(LockUpdateRequest(NAME, ItemType.SKILL), person(world))
    make_tool(ToolRequest(NAME, "scripts/kettle.sh", {"project": "read"}), person(world))
    (copy,) = link(LinkRequest(NAME, ("claude",)), person(world))
    written(world, space=SpaceName.USER)
    found = explain_skill(NAME, person(world))
    assert found.lock is not None
    [tool] = found.tools
    assert (tool.item_id, tool.script, tool.integrity.state) == (
        f"skills/{NAME}/kettle",
        "scripts/kettle.sh",
        "unsigned",
    )
    assert [(each.client, each.differs) for each in found.copies] == [("claude", None)]
    assert [place.space.name for place in found.shadows] == [SpaceName.USER]
    (copy / "SKILL.md").write_text("x")
    assert [each.differs for each in explain_skill(NAME, person(world)).copies] == ["SKILL.md"]


def test_an_agent_is_told_of_what_passes_alone_and_asks_elsewhere(world: World) -> None:
    refused("person_required", lambda: explain_skill(NAME, agent(world)))


def test_there_is_none(world: World) -> None:
    refused("item_not_found", lambda: explain_skill("boil-eggs", person(world)))
