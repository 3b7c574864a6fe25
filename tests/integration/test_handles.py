"""Results that are kept: an agent gets a handle, passes it on, and reads it in pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp.types import ResourceLink, TextResourceContents

from rye_mcp.mcp_server.room import BYTES_PER_TOKEN, MAX_TOKENS
from rye_mcp.runs.results import PREVIEW_BYTES
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts, text_of

pytestmark = pytest.mark.anyio

REPEAT = 'print(json.dumps({"text": params.get("text", "x") * params["times"]}, ensure_ascii=False))'
COUNT = "print(json.dumps({name: [type(value).__name__, len(value)] for name, value in params.items()}))"
TAKES = """\
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {"object": {"type": "object"}, "text": {"type": "string"}, "any": {}},
}
"""


@pytest.fixture
def tools(workshop: Workshop) -> Workshop:
    workshop.tool("demo/repeat", REPEAT)
    workshop.tool("demo/count", COUNT, metadata=TAKES)
    return workshop


def said_in(result: Any) -> int:
    """The tokens of an answer, counted as the page says: of its texts, or of its structured content."""
    structured = json.dumps(result.structured_content or {}, ensure_ascii=False, separators=(",", ":"))
    longest = max(len(text_of(result).encode()), len(structured.encode()))
    return -(-longest // BYTES_PER_TOKEN)


async def execute(client: Any, item_id: str, **options: Any) -> Any:
    named: dict[str, Any] = {each: options.pop(each) for each in ("as_handle", "detail") if each in options}
    return await client.call_tool("execute", {"item_id": item_id, "parameters": options, **named})


async def whole(client: Any, handle: str) -> str:
    pieces, offset = [], 0
    while offset is not None:
        found = facts(await client.call_tool("load", {"run_id": handle, "offset": offset}))
        pieces.append(found["content"])
        offset = found["next_offset"]
    return "".join(pieces)


@pytest.mark.thorough
@pytest.mark.both_eras
async def test_a_long_result_is_a_handle_with_a_preview_and_a_link(tools: Workshop, mode: Mode) -> None:
    async with tools.served(mode) as client:
        result = await execute(client, "demo/repeat", times=100_000)
        found = facts(result)
        assert "data" not in found
        [kept] = found["kept"]
        text = json.dumps({"text": "x" * 100_000}, separators=(",", ":"))
        assert (kept["bytes"], kept["mime_type"], kept["name"]) == (len(text), "application/json", "data")
        assert kept["preview"] == text[:PREVIEW_BYTES]
        [link] = [block for block in result.content if isinstance(block, ResourceLink)]
        assert (str(link.uri), link.size) == (kept["handle"], len(text))
        assert kept["handle"] in text_of(result)
        assert kept["preview"] in text_of(result)
        assert said_in(result) < 2000
        assert [notice["code"] for notice in found["notices"] if "kept" in notice["code"]] == ["result_kept"]
        assert await whole(client, kept["handle"]) == text
        [read] = (await client.read_resource(kept["handle"])).contents
        assert isinstance(read, TextResourceContents)
        assert (read.text, read.mime_type) == (text, "application/json")
        lines = {"run_id": kept["handle"], "pattern": "xx"}
        assert facts(await client.call_tool("load", lines))["matches"]


async def test_a_short_result_is_kept_where_a_handle_was_asked_for(tools: Workshop) -> None:
    async with tools.served("auto") as client:
        short = facts(await execute(client, "demo/repeat", times=3))
        assert short.get("data") == {"text": "xxx"}, short
        found = facts(await execute(client, "demo/repeat", times=3, as_handle=True))
        assert "data" not in found
        assert json.loads(await whole(client, found["kept"][0]["handle"])) == {"text": "xxx"}


async def test_the_user_says_from_how_many_bytes_on(tools: Workshop) -> None:
    settings = tools.person.user_space / "config/rye.yaml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text("handle_over: 2000\n")
    async with tools.served("auto") as client:
        assert "kept" in facts(await execute(client, "demo/repeat", times=2000))
        assert "data" in facts(await execute(client, "demo/repeat", times=1900))
        settings.write_text("handle_over: 10\n")
        assert facts(await execute(client, "demo/repeat", times=1))["code"] == "invalid_item"


async def test_a_handle_stands_for_the_result_as_a_parameter(tools: Workshop) -> None:
    """The type of the parameter decides: the text for a string, and the JSON value for anything else."""
    async with tools.served("auto") as client:
        made = facts(await execute(client, "demo/repeat", times=30_000, as_handle=True))
        handle = made["kept"][0]["handle"]
        found = facts(await execute(client, "demo/count", object=handle, text=handle, any=handle))
        assert found["data"] == {"object": ["dict", 1], "text": ["str", 30_011], "any": ["dict", 1]}
        inside = facts(await execute(client, "demo/count", any=[handle], object={"a": handle}))
        assert inside["data"] == {"any": ["list", 1], "object": ["dict", 1]}
        tools.tool("demo/list", 'print("[" + "1," * 40000 + "1]")')
        wrong = facts(await execute(client, "demo/list"))["kept"][0]["handle"]
        refused = facts(await execute(client, "demo/count", object=wrong))
        assert (refused["code"], refused["issues"][0]["path"]) == ("invalid_parameters", "/object")


@pytest.mark.thorough
@pytest.mark.parametrize("text", ["x", "é", "\x01", "\u200b", '"'])
async def test_whatever_is_asked_for_an_answer_has_so_many_tokens(tools: Workshop, text: str) -> None:
    long = f"print({text!r} * 90_000); sys.stderr.write({text!r} * 90_000)"
    tools.tool("demo/says", f"{long}; sys.exit(params.get('code', 0))")
    note = f"---\nname: long\ndescription: Is long.\n---\n{'é' * 90_000}\n"
    tools.write("long", note, kind="knowledge", extension="md")
    tools.sign("long", "knowledge")
    async with tools.served("auto") as client:
        answers = [
            await execute(client, "demo/repeat", times=90_000, text=text),
            await execute(client, "demo/says", detail=True),
            await execute(client, "demo/says", detail=True, code=1),
            await client.call_tool("load", {"item_id": "long", "item_type": "knowledge"}),
            await client.call_tool("execute", {"item_id": "long", "item_type": "knowledge"}),
        ]
        for result in answers:
            found = facts(result)
            assert said_in(result) <= MAX_TOKENS
            assert all(kept["handle"] in text_of(result) for kept in found["kept"])
            piece = await client.call_tool("load", {"run_id": found["kept"][0]["handle"], "length": 1 << 20})
            assert said_in(piece) <= MAX_TOKENS
            assert facts(piece)["next_offset"]


async def test_a_person_reads_what_any_project_has_kept(tools: Workshop, tmp_path: Path) -> None:
    async with tools.served("auto") as client:
        handle = facts(await execute(client, "demo/repeat", times=3, as_handle=True))["kept"][0]["handle"]
    shown = tools.person.rye("log", "show", handle, cwd=tmp_path)
    assert json.loads(shown.out) == {"text": "xxx"}
