"""An agent signs an item that spoils what everybody else is shown: a list of tools, or a search."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.mcp_server import listings
from rye_mcp.mcp_server.rye_server import RyeServer
from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.trust.sign import sign_item
from rye_mcp.verbs.sign import SignRequest, sign
from tests.bridge_world import Bridged

TOOL = {
    "version": "1.0.0",
    "description": "Does nothing.",
    "tool_type": "bash",
    "executor_id": "rye/core/runtimes/bash_runtime",
}
KINDS = [["object", "null"], "array", "string"]


@pytest.fixture
def scene(tmp_path: Path) -> Bridged:
    return Bridged(tmp_path)


def write(scene: Bridged, name: str, **fields: Any) -> None:
    path = scene.project / f".ai/tools/demo/{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in {**TOOL, **fields}.items()))


def sign_unseen(scene: Bridged, name: str) -> None:
    """Sign what `sign` would refuse, as an older version has perhaps done, or a program of somebody else."""
    context = scene.app.context()
    context.keys.ensure(SignerKind.AGENT)
    file = context.spaces.find(f"demo/{name}", ItemType.TOOL).item
    sign_item(file, context.keys.load(SignerKind.AGENT), context.trust, role=Role.TOOL)


async def shown(scene: Bridged) -> Mapping[str, Any]:
    """What a client is shown of the tools of the project."""
    server = RyeServer(lambda _path: scene.app, expose=("demo/*",))
    async with Client(server) as client:
        listed = (await client.list_tools()).tools
        found = await client.call_tool("search", {"query": "nothing"})
    return {"tools": [tool.name for tool in listed], "search": found.structured_content}


@pytest.mark.parametrize("kind", KINDS, ids=map(str, KINDS))
async def test_a_tool_that_no_list_can_hold_is_left_out_alone(
    scene: Bridged, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    listings.say_left_out.cache_clear()
    write(scene, "good")
    sign(SignRequest("demo/good"), scene.app.context())
    write(scene, "bad", config_schema={"type": kind})
    sign_unseen(scene, "bad")
    with caplog.at_level(logging.WARNING):
        found = await shown(scene)
    assert "demo_good" in found["tools"]
    assert "demo_bad" not in found["tools"]
    assert "an item is not listed" in caplog.messages
    assert {"demo/good", "demo/bad"} <= {each["id"] for each in found["search"]["results"]}


@pytest.mark.parametrize("kind", KINDS, ids=map(str, KINDS))
def test_nobody_signs_such_a_tool(scene: Bridged, kind: Any) -> None:
    write(scene, "bad", config_schema={"type": kind})
    with pytest.raises(RyeError) as refused:
        sign(SignRequest("demo/bad"), scene.app.context())
    assert refused.value.code == "invalid_item"
    assert "expected type: object" in refused.value.message


async def test_whatever_is_wrong_with_one_entry_the_others_are_listed(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        write(scene, name)
        sign(SignRequest(f"demo/{name}"), scene.app.context())
    monkeypatch.setattr(listings, "MAX_LIST_BYTES", 2000)
    write(scene, "long", config_schema={"type": "object", "description": "x" * 2000})
    sign(SignRequest("demo/long"), scene.app.context())
    found = await shown(scene)
    assert {"demo_one", "demo_two"} <= set(found["tools"])
    assert "demo_long" not in found["tools"]


KINDS_OF_TEXT = {
    ItemType.DIRECTIVE: ("list_prompts", "prompts", "demo_{}"),
    ItemType.KNOWLEDGE: ("list_resources", "resources", "demo/{}"),
}


@pytest.mark.parametrize("item_type", KINDS_OF_TEXT)
async def test_a_prompt_or_a_resource_that_no_list_can_hold_is_left_out_alone(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, item_type: ItemType
) -> None:
    listings.say_left_out.cache_clear()
    verb, field, named = KINDS_OF_TEXT[item_type]
    for name, description in (("one", "Good."), ("long", "x" * 4000), ("two", "Good.")):
        path = scene.project / f".ai/{item_type.directory}/demo/{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\nname: {name}\nversion: 1.0.0\ndescription: {description}\n---\nText.\n")
        sign(SignRequest(f"demo/{name}", item_type), scene.app.context())
    monkeypatch.setattr(listings, "MAX_PAGE_BYTES", 3000)
    found, cursor = list[str](), None
    async with Client(RyeServer(lambda _path: scene.app)) as client:
        while not found or cursor is not None:
            page = await getattr(client, verb)(cursor=cursor)
            found, cursor = found + [each.name for each in getattr(page, field)], page.next_cursor
    assert {named.format("one"), named.format("two")} <= set(found)
    assert named.format("long") not in found
    assert "an item is not listed" in caplog.messages


async def test_an_unsigned_file_whose_text_ends_with_a_line_break_is_one_bad_item(
    scene: Bridged,
) -> None:
    write(scene, "good")
    sign(SignRequest("demo/good"), scene.app.context())
    write(scene, "bad", workspace="none", resources={"memory": "4GiB\n"})
    found = await shown(scene)
    assert "demo/good" in {each["id"] for each in found["search"]["results"]}
    with pytest.raises(RyeError) as refused:
        sign(SignRequest("demo/bad"), scene.app.context())
    assert refused.value.code == "invalid_item"
