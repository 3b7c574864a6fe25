"""Text that a terminal obeys, that runs backwards, or that only a model reads: of tools, and about them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from mcp.types import CallToolResult

from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop

pytestmark = pytest.mark.anyio

# Clear the screen, set the title, one C1 byte, right to left, an isolate, nothing, a tag that spells text.
HIDDEN = "\x1b[2J \x1b]0;owned\x07 \x9b2K \u202e \u2066 \u200b \ufeff \U000e0041\U000e0042"
OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)

PRINTS = {
    "data": "print(json.dumps({'said': HIDDEN, HIDDEN: [HIDDEN]}))",
    "text": "print(HIDDEN)",
    "failure": "print(HIDDEN, file=sys.stderr); sys.exit(3)",
    "blocks": "print(json.dumps({'content': [{'type': 'text', 'text': HIDDEN}]}))",
}


def texts_in(result: Any) -> str:
    assert isinstance(result, CallToolResult)
    found = result.model_dump(mode="json")
    return json.dumps(found, ensure_ascii=False)


@pytest.mark.parametrize("how", PRINTS)
async def test_what_a_tool_says_is_shown_and_hides_nothing(workshop: Workshop, mode: Mode, how: str) -> None:
    workshop.tool("demo/says", f"HIDDEN = {HIDDEN!a}\n{PRINTS[how]}")
    async with workshop.served(mode, "--expose", "demo/*") as client:
        for name, arguments in (("execute", {"item_id": "demo/says"}), ("demo_says", {})):
            shown = texts_in(await client.call_tool(name, arguments))
            assert not OBEYED.search(shown), (name, shown)
            assert "u202e" in shown, (name, shown)


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
    for shown in (json.dumps(listed, ensure_ascii=False), texts_in(found)):
        assert not OBEYED.search(shown), shown
        assert "u202e" in shown
