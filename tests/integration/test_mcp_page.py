"""The page about what agents see is true: its calls are sent to a server, and its answers come back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult

from tests.document_pages import ROOT, blocks_of
from tests.mcp_world import Workshop, facts, workshop  # noqa: F401 - a fixture

PAGE = ROOT / "docs/mcp.md"

TOOL = '''\
"""Greets somebody by name."""

__version__ = "1.0.0"
__executor_id__ = "python_runtime"

CONFIG_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


def main(name="world"):
    return {"greeting": f"Hello, {name}!"}
'''

pytestmark = pytest.mark.anyio


def examples() -> tuple[list[tuple[Any, Any]], list[Any]]:
    """The calls of the page, each with its answer; and what else stands there as JSON."""
    blocks = [json.loads(block.text) for block in blocks_of(PAGE) if block.kind == "json"]
    calls = [position for position, block in enumerate(blocks) if "arguments" in block]
    answered = {each for position in calls for each in (position, position + 1)}
    rest = [block for position, block in enumerate(blocks) if position not in answered]
    return [(blocks[position], blocks[position + 1]) for position in calls], rest


def is_part(part: Any, whole: Any) -> bool:
    """Whether everything that the page shows is there; it leaves things out."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            name in whole and is_part(each, whole[name]) for name, each in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and all(map(is_part, part, whole))
    return bool(part == whole)


@pytest.mark.documents
async def test_what_the_page_says_is_so(workshop: Workshop, tmp_path: Path) -> None:  # noqa: F811
    workshop.write("demo/hello", TOOL)
    workshop.sign("demo/hello")
    workshop.write("demo/draft", TOOL.replace("Greets somebody by name", "Counts words"))
    calls, (configuration, not_offered, called) = examples()
    [server] = configuration["mcpServers"].values()
    assert server["args"][2:] == ["--expose", "demo/*"]
    parameters = workshop.parameters(*server["args"][2:], RYE_LOG="info")
    with (tmp_path / "log").open("w+") as log:
        async with Client(stdio_client(parameters, errlog=log)) as client:
            for call, answer in calls:
                found = facts(await client.call_tool(call["name"], call["arguments"]))
                assert is_part(answer, found), (call, found)
            workshop.write("demo/old", TOOL)
            await client.call_tool("execute", calls[2][0]["arguments"])
            await client.list_tools(cache_mode="bypass")
        log.seek(0)
        lines = [json.loads(line) for line in log.read().splitlines()]
    assert len(calls) == 6
    by_event = {line["event"]: line for line in lines}
    for example in (not_offered, called):
        assert by_event[example["event"]].keys() == example.keys()


async def test_the_question_looks_as_the_page_shows_it(workshop: Workshop) -> None:  # noqa: F811
    workshop.write("demo/hello", TOOL)
    workshop.sign("demo/hello")
    asked: list[str] = []

    async def answer(_: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={})

    policy = next(block.text for block in blocks_of(PAGE) if block.text.startswith("confirm:"))
    path = workshop.person.user_space / "config/rye.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(policy)
    call = {"item_id": "demo/hello", "parameters": {"name": "Ada"}}
    async with workshop.served("auto", client={"elicitation_callback": answer}) as client:
        assert facts(await client.call_tool("execute", call))["status"] == "success"
    [shown] = [block.text for block in blocks_of(PAGE) if block.kind == "text"]
    assert [plain(each) for each in asked] == [plain(shown.rstrip())]


def plain(question: str) -> str:
    """Without what is another one each time."""
    return re.sub(r"[0-9a-f]{16,}|(?<=project: ).*", "…", question)
