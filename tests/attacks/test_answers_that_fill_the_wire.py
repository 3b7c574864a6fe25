"""A tool answers with as much as it may: clients over HTTP read events of at most 1 MiB, and miss nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, ImageContent, TextContent

from tests.http_world import HttpServer, Mode, Transport, connected, http_server
from tests.mcp_world import Workshop, text_of
from tests.people import Person

WAYS: list[tuple[Transport, Mode]] = [("http", "auto"), ("http", "legacy"), ("sse", "legacy")]

LARGE: dict[str, tuple[str, int]] = {
    "text": ("x", 700_000),
    "letters that JSON escapes": ("é", 350_000),
    "line feeds": ("\n", 450_000),
    "quotes": ('"', 500_000),
    "all that is kept": ("x", 1_048_000),
}
"""What a tool repeats, and how often."""

REPEAT = 'print(json.dumps({"text": params["text"] * params["times"]}, ensure_ascii=False))'
BLOCKS = """\
picture = {"type": "image", "data": "AAAA" * params.get("quads", 175_000), "mimeType": "image/png"}
print(json.dumps({"content": [picture, {"type": "text", "text": "x" * params.get("times", 1)}]}))
"""
SCHEMA = """\
OUTPUT_SCHEMA = {
    "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]
}
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "times": {"type": "integer"}},
    "required": ["text", "times"],
}
"""

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    place = tmp_path_factory.mktemp("large")
    person, project = Person("ada", place / "ada"), place / "project"
    project.mkdir()
    person.begin(project)
    workshop = Workshop(person, project)
    workshop.tool("demo/repeat", REPEAT)
    workshop.tool("demo/blocks", BLOCKS)
    workshop.tool("demo/promised", REPEAT, metadata=SCHEMA)
    note = "---\nname: long\ndescription: Is long.\n---\n" + "é\n" * 300_000
    workshop.write("long", note, kind="knowledge", extension="md")
    person.rye("sign", "long", "--type", "knowledge", cwd=project)
    with http_server(person, project, "--expose", "demo/promised") as found:
        yield found


@pytest.mark.thorough
@pytest.mark.each_once
@pytest.mark.parametrize("what", LARGE)
@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_a_client_reads_all_of_it(
    server: HttpServer, transport: Transport, mode: Mode, what: str
) -> None:
    text, times = LARGE[what]
    call = {"item_id": "demo/repeat", "parameters": {"text": text, "times": times}}
    async with connected(server, transport, mode) as client:
        with anyio.fail_after(30):
            facts = _facts(await client.call_tool("execute", call))
            assert facts["status"] == "success"
            data = json.loads(await _read(client, facts["kept"][0]["handle"]))
    assert data == {"text": text * times}


@pytest.mark.first_case
@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_content_blocks_are_sent_once(server: HttpServer, transport: Transport, mode: Mode) -> None:
    """A picture is no text for the model; with as much text beside it, all of it is a handle."""
    long = {"item_id": "demo/blocks", "parameters": {"times": 100_000}}
    async with connected(server, transport, mode) as client:
        with anyio.fail_after(30):
            found = await client.call_tool("execute", {"item_id": "demo/blocks"})
            kept = _facts(await client.call_tool("execute", long))["kept"][0]
            large = {"item_id": "demo/blocks", "parameters": {"quads": 260_000}}
            assert _facts(await client.call_tool("execute", large))["kept"][0]["bytes"] > 1_040_000
            read = json.loads(await _read(client, kept["handle"]))
    assert isinstance(found, CallToolResult)
    picture, text = found.content
    assert isinstance(picture, ImageContent)
    assert isinstance(text, TextContent)
    assert (picture.data, text.text) == ("AAAA" * 175_000, "x")
    assert read["content"][1]["text"] == "x" * 100_000


@pytest.mark.first_case
@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_a_tool_of_its_own_that_answers_too_much_says_where_it_is(
    server: HttpServer, transport: Transport, mode: Mode
) -> None:
    async with connected(server, transport, mode) as client:
        with anyio.fail_after(30):
            found = await client.call_tool("demo_promised", {"text": "é", "times": 350_000})
            facts = _facts(found)
            assert facts["code"] == "answer_too_long"
            assert json.loads(await _read(client, facts["kept"][0]["handle"])) == {"text": "é" * 350_000}
            fits = await client.call_tool("demo_promised", {"text": "x", "times": 99_000})
    assert _facts(fits) == {"text": "x" * 99_000}
    assert isinstance(fits.content[0], TextContent)
    assert len(fits.content[0].text) < 10_000


@pytest.mark.first_case
@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_a_piece_is_never_longer_than_an_answer_may_be(
    server: HttpServer, transport: Transport, mode: Mode
) -> None:
    """However much is asked for, and however it is escaped: it says where to go on."""
    async with connected(server, transport, mode) as client:
        with anyio.fail_after(30):
            for text in ("é", "\x01", "\u200b"):
                call = {"item_id": "demo/repeat", "parameters": {"text": text, "times": 300_000}}
                handle = _facts(await client.call_tool("execute", call))["kept"][0]["handle"]
                piece = await client.call_tool("load", {"run_id": handle, "length": 1 << 20})
                facts = _facts(piece)
                assert facts["next_offset"] > 1000
                assert len(json.dumps(facts, ensure_ascii=False)) <= 100_000
                assert len(text_of(piece)) <= 100_000


@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_a_resource_that_is_too_long_is_refused_and_no_end(
    server: HttpServer, transport: Transport, mode: Mode
) -> None:
    refused: Any = "read"
    async with connected(server, transport, mode) as client:
        with anyio.fail_after(30):
            try:
                await client.read_resource("rye://item/knowledge/long")
            except MCPError as exc:
                refused = exc.data
            assert _facts(await client.call_tool("search", {"limit": 1}))["total"] >= 0
    assert refused == ("read" if mode == "auto" else {"code": "answer_too_long"})


async def _read(client: Any, handle: str) -> str:
    """All that stands behind a handle, in pieces."""
    pieces, offset = [], 0
    while offset is not None:
        call = {"run_id": handle, "offset": offset, "length": 150_000}
        facts = _facts(await client.call_tool("load", call))
        assert facts["status"] == "success", facts
        pieces.append(facts["content"])
        offset = facts["next_offset"]
    return "".join(pieces)


def _facts(result: Any) -> dict[str, Any]:
    assert isinstance(result, CallToolResult)
    assert result.structured_content is not None
    found: dict[str, Any] = result.structured_content
    return found
