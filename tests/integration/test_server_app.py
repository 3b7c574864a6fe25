"""The view of a run as an MCP App: named to hosts that show such documents, and to nobody else."""

from __future__ import annotations

import pytest
from mcp.client.extension import advertise
from mcp.shared.exceptions import MCPError
from mcp.types import TextResourceContents

from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop

pytestmark = pytest.mark.anyio

EXTENSION = "io.modelcontextprotocol/ui"
MIME_TYPE = "text/html;profile=mcp-app"
VIEW = "ui://rye-mcp/run"
SHOWS = {"extensions": [advertise(EXTENSION, {"mimeTypes": [MIME_TYPE]})]}


@pytest.mark.both_eras
async def test_a_host_that_shows_documents_is_told_of_the_view(workshop: Workshop, mode: Mode) -> None:
    async with workshop.served(mode, client=SHOWS) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["execute"].meta == {"ui": {"resourceUri": VIEW}}
        assert tools["search"].meta is None
        [content] = (await client.read_resource(VIEW)).contents
        assert (content.uri, content.mime_type) == (VIEW, MIME_TYPE)
        assert content.meta == {"ui": {"prefersBorder": True}}
        assert isinstance(content, TextResourceContents)
        assert "<script>" in content.text
        assert "https:" not in content.text  # nothing in it leads anywhere
        with pytest.raises(MCPError, match="item_not_found"):
            await client.read_resource(f"{VIEW}s")
        if mode == "auto":
            assert EXTENSION in (client.server_capabilities.extensions or {})


@pytest.mark.parametrize("client", [{}, {"extensions": [advertise(EXTENSION, {"mimeTypes": ["text/x"]})]}])
async def test_other_clients_see_the_tool_as_it_always_was(
    workshop: Workshop, client: dict[str, list[object]]
) -> None:
    async with workshop.served("auto", client=client) as connected:
        tools = {tool.name: tool for tool in (await connected.list_tools()).tools}
        assert tools["execute"].meta is None
        assert VIEW not in {resource.uri for resource in (await connected.list_resources()).resources}
