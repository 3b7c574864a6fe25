"""Loading an item: its content, what it says about itself, and copies of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.items import ItemType, SpaceName
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.verify import Trust
from rye_mcp.verbs.load import LoadRequest, load
from rye_mcp.verbs.sign import SignRequest, sign
from tests.file_helpers import mode_of
from tests.trust_world import World, new_key, refused
from tests.verb_world import DIRECTIVE, SECRET, agent, path_of, person, put, tool

PROJECT, USER, SYSTEM = SpaceName.PROJECT, SpaceName.USER, SpaceName.SYSTEM
SUBPROCESS = "rye/core/primitives/subprocess"


def test_the_answer_has_the_shape_that_agents_are_promised(world: World) -> None:
    file = put(world, tool(), signed=True)
    answer = load(LoadRequest("demo/hello"), agent(world)).as_dict()
    assert json.loads(json.dumps(answer)) == answer
    assert set(answer) == {
        "status",
        "item_id",
        "type",
        "space",
        "path",
        "content",
        "metadata",
        "integrity",
    }
    assert answer["status"] == "success"
    assert (answer["item_id"], answer["type"], answer["space"]) == ("demo/hello", "tool", "project")
    assert answer["path"] == str(file.path)
    assert answer["content"] == file.content.decode()
    assert answer["metadata"] == {
        "name": "hello",
        "version": "1.2.0",
        "description": "Says hello.",
        "tool_type": "python",
        "executor_id": SUBPROCESS,
    }
    integrity = answer["integrity"]
    assert set(integrity) == {"state", "signer", "hash"}
    assert integrity["state"] == "verified"
    assert integrity["signer"]["kind"] == "person"
    assert integrity["signer"]["owner"] == "leo"
    assert len(integrity["signer"]["fingerprint"]) == 16
    assert len(integrity["hash"]) == 64


def test_an_item_of_the_system_is_vouched_for_by_the_package(world: World) -> None:
    answer = load(LoadRequest(SUBPROCESS), agent(world)).as_dict()
    assert answer["integrity"]["signer"]["kind"] == "system"
    assert answer["integrity"]["signer"]["owner"].startswith("rye-mcp ")
    assert answer["metadata"]["executor_id"] is None


def test_all_that_an_item_says_is_there_and_nothing_that_it_does_not(world: World) -> None:
    content = b"name: mine\nconfig: {}\ntags: [a, b]\nmore: [1, 2]\nannotations: {title: Mine}\n"
    put(world, content, "demo/mine", ".yaml", signed=True)
    assert load(LoadRequest("demo/mine"), agent(world)).as_dict()["metadata"] == {
        "name": "mine",
        "version": "0.0.0",
        "description": "",
        "config": {},
        "tags": ["a", "b"],
        "annotations": {"title": "Mine"},
        "extra": {"more": [1, 2]},
    }


def test_changing_an_answer_changes_no_other(world: World) -> None:
    content = b"name: mine\nconfig: {a: {b: [1]}}\ntags: [a]\nmore: [{c: 1}]\n"
    put(world, content, "demo/mine", ".yaml", signed=True)

    def metadata() -> dict[str, Any]:
        found: dict[str, Any] = load(LoadRequest("demo/mine"), agent(world)).as_dict()["metadata"]
        return found

    given, before = metadata(), json.dumps(metadata())
    given["config"]["a"]["b"].append(2)
    given["config"]["x"] = given["tags"].pop()
    given["extra"]["more"][0]["c"] = 2
    assert json.dumps(metadata()) == before


def test_every_type_of_item_is_loaded(world: World) -> None:
    for item_type in (ItemType.DIRECTIVE, ItemType.KNOWLEDGE):
        put(world, DIRECTIVE, "greet", ".md", item_type=item_type, signed=True)
        answer = load(LoadRequest("greet", item_type), agent(world)).as_dict()
        assert (answer["type"], answer["metadata"]["name"]) == (item_type.value, "greet")


def test_the_nearest_space_counts_and_the_others_are_named(world: World) -> None:
    put(world, tool("1"), signed=True)
    below = put(world, tool("2"), space=USER, signed=True)
    found = load(LoadRequest("demo/hello"), agent(world)).as_dict()
    assert found["space"] == "project"
    assert found["shadows"] == [{"space": "user", "path": str(below.path)}]
    assert load(LoadRequest("demo/hello", source=USER), agent(world)).as_dict()["space"] == "user"


def test_an_agent_gets_the_reason_instead_of_what_was_not_verified(world: World) -> None:
    put(world, tool(repr(SECRET)))
    error = refused("unsigned", lambda: load(LoadRequest("demo/hello"), agent(world)))
    assert SECRET not in json.dumps(error.as_dict())


def test_a_person_may_read_it_and_is_told_what_is_wrong(world: World) -> None:
    put(world, tool(repr(SECRET)))
    answer = load(LoadRequest("demo/hello"), person(world)).as_dict()
    assert SECRET in answer["content"]
    assert answer["integrity"]["state"] == "unsigned"
    assert answer["integrity"]["signer"] is None
    assert answer["integrity"]["hint"] == "rye sign demo/hello"
    assert answer["metadata"]["version"] == "1.2.0"


def test_what_makes_no_sense_can_be_read_too(world: World) -> None:
    put(world, b"__version__ = 1\n\xff")
    answer = load(LoadRequest("demo/hello"), person(world)).as_dict()
    assert answer["content"] == "__version__ = 1\n\\xff"
    assert answer["metadata"] == {}
    json.dumps(answer)


def test_hints_are_whole_commands(world: World) -> None:
    put(world, DIRECTIVE, "greet", ".md", item_type=ItemType.DIRECTIVE, space=USER)
    error = refused("unsigned", lambda: load(LoadRequest("greet", ItemType.DIRECTIVE), agent(world)))
    assert error.hint == "rye sign greet --type directive --space user"


@pytest.mark.parametrize(
    ("item_type", "space", "options"),
    [
        (ItemType.TOOL, PROJECT, ""),
        (ItemType.TOOL, USER, " --space user"),
        (ItemType.DIRECTIVE, PROJECT, " --type directive"),
        (ItemType.KNOWLEDGE, USER, " --type knowledge --space user"),
    ],
)
def test_the_hint_for_an_unknown_signer_is_a_whole_command_too(
    world: World, item_type: ItemType, space: SpaceName, options: str
) -> None:
    content, extension = (tool(), ".py") if item_type is ItemType.TOOL else (DIRECTIVE, ".md")
    file = world.file(content, item_id="greet", extension=extension, item_type=item_type, space=space)
    world.stored(world.signed_by_another_program(file, new_key()))
    error = refused("untrusted_key", lambda: load(LoadRequest("greet", item_type), agent(world)))
    assert f"rye sign greet{options}; if not: rye trust add" in error.hint


# --- copies ---


@pytest.mark.parametrize(("source", "destination"), [(PROJECT, USER), (USER, PROJECT)])
def test_a_copy_keeps_its_id_and_stays_signed(
    world: World, source: SpaceName, destination: SpaceName
) -> None:
    file = put(world, tool(), "demo/deep/hello", space=source, signed=True)
    result = load(LoadRequest("demo/deep/hello", destination=destination), agent(world)).as_dict()
    copy = path_of(world, destination, "demo/deep/hello")
    assert result["copied_to"] == str(copy)
    assert "warnings" not in result
    assert copy.read_bytes() == file.content
    again = load(LoadRequest("demo/deep/hello", source=destination), agent(world))
    assert again.integrity.state == "verified"


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o644), (0o755, 0o755), (0o600, 0o644)])
def test_what_can_be_started_stays_so(world: World, before: int, after: int) -> None:
    put(world, tool(), signed=True).path.chmod(before)
    load(LoadRequest("demo/hello", destination=USER), agent(world))
    assert mode_of(path_of(world, USER)) == after


def test_a_copy_of_a_system_item_has_to_be_signed_and_says_so(world: World) -> None:
    context = person(world)
    result = load(LoadRequest(SUBPROCESS, destination=PROJECT), context).as_dict()
    (warning,) = result["warnings"]
    assert warning["code"] == "unsigned"
    assert f"rye sign {SUBPROCESS}" in warning["message"]
    refused("unsigned", lambda: load(LoadRequest(SUBPROCESS, source=PROJECT), agent(world)))
    sign(SignRequest(SUBPROCESS), context)
    assert load(LoadRequest(SUBPROCESS), agent(world)).integrity.state == "verified"


def test_the_warning_about_the_user_space_names_it(world: World) -> None:
    result = load(LoadRequest(SUBPROCESS, destination=USER), person(world))
    assert result.warnings[0].message.endswith(f"rye sign {SUBPROCESS} --space user")


def test_only_a_person_puts_a_system_item_into_the_user_space(world: World) -> None:
    refused("person_required", lambda: load(LoadRequest(SUBPROCESS, destination=USER), agent(world)))
    assert not path_of(world, USER, SUBPROCESS, ".yaml").exists()


def test_what_an_agent_signed_is_not_copied_to_where_no_agent_is_trusted(world: World) -> None:
    world.stored(world.signed(world.file(tool()), world.key(SignerKind.AGENT)))
    request = LoadRequest("demo/hello", destination=USER)
    refused("out_of_scope", lambda: load(request, agent(world)))
    refused("out_of_scope", lambda: load(request, person(world)))
    assert not path_of(world, USER).exists()


def test_what_does_not_pass_is_copied_by_nobody(world: World) -> None:
    put(world, tool())
    refused("unsigned", lambda: load(LoadRequest("demo/hello", destination=USER), person(world)))
    assert not path_of(world, USER).exists()


def test_no_copy_goes_into_the_system(world: World, tmp_path: Path) -> None:
    put(world, tool(), signed=True)
    refused("out_of_scope", lambda: load(LoadRequest("demo/hello", destination=SYSTEM), person(world)))


def test_a_copy_without_a_project_needs_one(world: World) -> None:
    put(world, tool(), space=USER, signed=True)
    context = agent(world)
    nowhere = replace(context, spaces=replace(context.spaces, project=None))
    refused("no_project", lambda: load(LoadRequest("demo/hello", destination=PROJECT), nowhere))


def test_another_space_is_expected(world: World) -> None:
    file = put(world, tool(), signed=True)
    request = LoadRequest("demo/hello", destination=PROJECT, overwrite=True)
    refused("item_exists", lambda: load(request, person(world)))
    assert file.path.read_bytes() == file.content


def test_it_is_written_over_when_asked_for(world: World) -> None:
    file = put(world, tool("1"), signed=True)
    put(world, tool("2"), space=USER, signed=True)
    load(LoadRequest("demo/hello", destination=USER, overwrite=True), person(world))
    assert path_of(world, USER).read_bytes() == file.content


def test_the_trust_that_counts_is_the_one_of_the_context(world: World) -> None:
    put(world, tool(), signed=True)
    nobody = Trust(user_space=world.root / "nobody", project=world.project, state=world.state, environment={})
    context = replace(agent(world), trust=nobody)
    refused("untrusted_key", lambda: load(LoadRequest("demo/hello"), context))
