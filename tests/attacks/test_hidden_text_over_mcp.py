"""Text that a terminal obeys, that runs backwards, or that only a model reads: of tools, and about them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from mcp.types import CallToolResult, PromptReference

from tests.http_world import connected, http_server, post
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts, text_of
from tests.raw_client import raw_client

pytestmark = pytest.mark.anyio

# Clear the screen, set the title, one C1 byte, right to left, an isolate, nothing, a tag that spells text;
# ends of lines; and what Python calls printable: selectors that carry bits, fillers, Braille without dots.
HIDDEN = (
    "\x1b[2J \x1b]0;owned\x07 \x9b2K \u202e \u2066 \u200b \ufeff \U000e0041\U000e0042 "
    "\u2028\0 \U000e0100\U000e01ef \u3164\u2800\u034f ☕\ufe0f\ufe0e\ufe00"
)
PRINTABLE = "\U000e0100\U000e01ef\u3164\u2800\u034f☕\ufe0f\ufe0f\ufe0e"
OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u034f\u115f\u1160\u2028\u2029\u200b\u200c\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\U000e0000-\U000e0fff]|\ufe0f\ufe0f"
)
FAMILY = "👩‍👩‍👧‍👦"

PRINTS = {
    "data": "print(json.dumps({'said': HIDDEN, HIDDEN: [HIDDEN]}))",
    "text": "sys.stdout.write(HIDDEN)",
    "failure": "print(HIDDEN, file=sys.stderr); sys.exit(3)",
    "blocks": "print(json.dumps({'content': [{'type': 'text', 'text': HIDDEN}]}))",
    "printable": f"sys.stdout.buffer.write({PRINTABLE!a}.encode())",
}
EXACT: dict[str, Any] = {
    "data": {"said": HIDDEN, HIDDEN: [HIDDEN]},
    "text": HIDDEN,
    "printable": PRINTABLE,
}


def shown_of(result: Any) -> str:
    """All that a model may be shown as text: everything but the data in structured content."""
    assert isinstance(result, CallToolResult)
    found = result.model_dump(mode="json", by_alias=True)
    structured = found.pop("structuredContent") or {}
    if "status" in structured:
        found["rest"] = {name: value for name, value in structured.items() if name != "data"}
    return json.dumps(found, ensure_ascii=False)


@pytest.mark.first_case
@pytest.mark.parametrize("how", PRINTS)
async def test_what_a_tool_says_is_shown_and_hides_nothing(workshop: Workshop, mode: Mode, how: str) -> None:
    workshop.tool("demo/says", f"HIDDEN = {HIDDEN!a}\n{PRINTS[how]}")
    async with workshop.served(mode, "--expose", "demo/*") as client:
        for name, arguments in (("execute", {"item_id": "demo/says"}), ("demo_says", {})):
            shown = shown_of(await client.call_tool(name, arguments))
            assert not OBEYED.search(shown), (name, shown)
            assert "u202e" in shown or "ufe0f" in shown, (name, shown)


@pytest.mark.first_case
@pytest.mark.parametrize("how", EXACT)
async def test_data_is_data_to_the_character(workshop: Workshop, mode: Mode, how: str) -> None:
    workshop.tool("demo/says", f"HIDDEN = {HIDDEN!a}\n{PRINTS[how]}")
    async with workshop.served(mode, "--expose", "demo/*") as client:
        assert facts(await client.call_tool("execute", {"item_id": "demo/says"}))["data"] == EXACT[how]
        if how == "data":
            assert facts(await client.call_tool("demo_says", {})) == EXACT[how]


async def test_a_joined_emoji_comes_out_whole(workshop: Workshop, mode: Mode) -> None:
    workshop.tool("demo/says", f"print({FAMILY!a})", description=f"Greets {FAMILY}.")
    async with workshop.served(mode, "--expose", "demo/*") as client:
        assert text_of(await client.call_tool("demo_says", {})) == f"{FAMILY}\n"
        [described] = [tool for tool in (await client.list_tools()).tools if tool.name == "demo_says"]
        assert described.description == f"Greets {FAMILY}."


def test_a_message_is_one_line_for_every_reader(workshop: Workshop) -> None:
    """U+2028, U+2029 and NEL end a line for Node.js or Python; JSON has them as escapes."""
    workshop.tool("demo/says", "print(json.dumps({'said': 'a\\u2028b\\u2029c\\x85d'}))")
    with raw_client(workshop.person, workshop.project, "2025-11-25") as client:
        client.begin()
        client.send(client.call(7, "execute", {"item_id": "demo/says"}))
        line = client.stdout.readline().decode()
    assert line.splitlines(keepends=True) == [line]
    assert json.loads(line)["result"]["structuredContent"]["data"] == {"said": "a\u2028b\u2029c\x85d"}


@pytest.mark.thorough
def test_an_event_over_http_has_no_invalid_line(workshop: Workshop) -> None:
    """Clients of Python that use `splitlines` would find a broken message, or one that a tool has written."""
    workshop.tool("demo/says", "print(json.dumps({'said': 'a\\u2028data: {}\\u2029c\\x85d'}))")
    begin = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    }
    call = {"name": "execute", "arguments": {"item_id": "demo/says"}}
    with http_server(workshop.person, workshop.project) as server:
        began = post(server, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin})
        session = {"Mcp_Session_Id": began.headers["mcp-session-id"]}
        post(server, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)
        said = post(server, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}, **session)
    assert said.headers["content-type"].startswith("text/event-stream")
    [data] = [line.removeprefix("data: ") for line in said.text.splitlines() if line.startswith("data: ")]
    structured = json.loads(data)["result"]["structuredContent"]
    assert structured["data"] == {"said": "a\u2028data: {}\u2029c\x85d"}


@pytest.mark.thorough
async def test_data_is_data_over_http_too(workshop: Workshop, mode: Mode) -> None:
    workshop.tool("demo/says", f"HIDDEN = {HIDDEN!a}\n{PRINTS['data']}")
    with http_server(workshop.person, workshop.project) as server:
        async with connected(server, "http", mode) as client:
            assert facts(await client.call_tool("execute", {"item_id": "demo/says"}))["data"] == EXACT["data"]


async def test_what_is_said_about_a_tool_hides_nothing(workshop: Workshop, mode: Mode) -> None:
    spelled = ascii(HIDDEN)
    metadata = (
        f"ANNOTATIONS = {{'title': {spelled}}}\n"
        f"CONFIG_SCHEMA = {{'type': 'object', 'properties': {{'a': {{'description': {spelled}}}}}}}"
    )
    workshop.tool("demo/about", "print(1)", description=spelled[1:-1], metadata=metadata)
    async with workshop.served(mode, "--expose", "demo/*") as client:
        listed = (await client.list_tools()).model_dump(mode="json")
        found = await client.call_tool("search", {"query": "", "detail": True})
    for shown in (json.dumps(listed, ensure_ascii=False), shown_of(found)):
        assert not OBEYED.search(shown), shown
        assert "u202e" in shown


PROMPT = """\
---
description: Greets.
inputs:
  type: object
  properties:
    "a\\u202Eb": {type: string, enum: ["plain", "pla\\U000E0041in"]}
    "plain": {type: string, enum: ["plain", "pla\\U000E0041in", "\\U000E0041"]}
---

Say hello.
"""


async def test_what_a_prompt_asks_for_hides_nothing(workshop: Workshop, mode: Mode) -> None:
    """Escapes of YAML make the characters, so that nobody sees them in the file that was signed."""
    workshop.write("demo/greet", PROMPT, kind="directives", extension="md")
    workshop.sign("demo/greet", "directive")
    async with workshop.served(mode) as client:
        listed = (await client.list_prompts()).model_dump(mode="json")
        completed = await client.complete(PromptReference(name="demo_greet"), {"name": "plain", "value": ""})
    assert not OBEYED.search(json.dumps(listed, ensure_ascii=False))
    assert "u202e" in json.dumps(listed)
    assert completed.completion.values == ["plain"]
