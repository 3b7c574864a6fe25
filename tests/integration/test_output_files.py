"""Files that a tool leaves in `RYE_OUTPUT_DIR`, and results that a tool gets as files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from mcp.types import BlobResourceContents, ResourceLink

from tests.http_world import HttpServer, connected, http_server
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts, text_of

pytestmark = pytest.mark.anyio

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 400
LEAVES = f"""\
import os, pathlib
place = pathlib.Path(os.environ["RYE_OUTPUT_DIR"])
place.joinpath("table.csv").write_text("a,b\\n" * 10_000)
place.joinpath("chart").write_bytes({PICTURE[:8]!r} + bytes(range(256)) * 400)
print(json.dumps({{"rows": 10_000}}))
"""
TAKES = """\
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {"file": {"type": "string", "format": "rye-handle"}, "text": {"type": "string"}},
}
"""
HASHES = """\
import hashlib, pathlib
read = lambda name, value: value if name == "text" else pathlib.Path(value).read_bytes()
found = {name: read(name, value) for name, value in params.items()}
sizes = {name: len(value) for name, value in found.items()}
print(json.dumps({"sizes": sizes, "sha256": hashlib.sha256(found.get("file", b"")).hexdigest()}))
"""
CONFINED = 'PERMISSIONS = {"project": "none", "net": "none"}\n'


@pytest.mark.thorough
@pytest.mark.both_eras
async def test_files_come_back_as_links_and_are_read(workshop: Workshop, mode: Mode) -> None:
    workshop.tool("demo/leaves", LEAVES)
    async with workshop.served(mode) as client:
        result = await client.call_tool("execute", {"item_id": "demo/leaves"})
        found = facts(result)
        assert found["data"] == {"rows": 10_000}
        chart, table = found["kept"]
        assert (table["name"], table["mime_type"], table["bytes"]) == ("table.csv", "text/csv", 40_000)
        assert (chart["name"], chart["mime_type"], chart["preview"]) == ("chart", "image/png", "")
        assert table["preview"].startswith("a,b\na,b\n")
        links = [block for block in result.content if isinstance(block, ResourceLink)]
        assert [str(link.uri) for link in links] == [chart["handle"], table["handle"]]
        assert text_of(result).startswith('{"rows":10000}\n')
        piece = facts(await client.call_tool("load", {"run_id": table["handle"], "offset": -8}))
        assert piece["content"] == "a,b\na,b\n"
        [blob] = (await client.read_resource(chart["handle"])).contents
        assert isinstance(blob, BlobResourceContents)
        assert blob.mime_type == "image/png"
    read = workshop.person.rye("log", "show", table["handle"], cwd=workshop.project)
    assert read.out == "a,b\n" * 10_000


@pytest.mark.thorough
@pytest.mark.parametrize("metadata", ["", CONFINED], ids=["as it is", "confined"])
async def test_a_tool_that_takes_handles_gets_a_file_with_every_byte(
    workshop: Workshop, metadata: str
) -> None:
    workshop.tool("demo/leaves", LEAVES, metadata=metadata)
    workshop.tool("demo/hashes", HASHES, metadata=TAKES + metadata)
    async with workshop.served("auto") as client:

        async def hashed(**parameters: Any) -> dict[str, Any]:
            call = {"item_id": "demo/hashes", "parameters": parameters}
            return facts(await client.call_tool("execute", call))

        chart, table = facts(await client.call_tool("execute", {"item_id": "demo/leaves"}))["kept"]
        found = await hashed(file=chart["handle"], text=table["handle"])
        assert found["data"] == {
            "sizes": {"file": len(PICTURE), "text": 40_000},
            "sha256": hashlib.sha256(PICTURE).hexdigest(),
        }
        refused = await hashed(text=chart["handle"])
        assert refused["code"] == "invalid_parameters"
        assert "rye-handle" in refused["hint"]
        gone = await hashed(file="rye://result/" + "0" * 64)
        assert gone["code"] == "output_not_found"


async def test_a_person_is_told_where_files_are(workshop: Workshop) -> None:
    workshop.tool("demo/leaves", LEAVES)
    ran = workshop.person.rye("run", "demo/leaves", cwd=workshop.project)
    assert json.loads(ran.out) == {"rows": 10_000}
    [line] = [line for line in ran.err.splitlines() if "chart" in line]
    handle = line.rpartition(" ")[2]
    shown = workshop.person.rye("log", "show", handle, "--json", cwd=workshop.project)
    assert shown.json["total"] == len(PICTURE)


async def test_the_directory_of_a_run_is_empty_and_gone_afterwards(workshop: Workshop) -> None:
    shown = 'import os; d = os.environ["RYE_OUTPUT_DIR"]; print(json.dumps([d, os.listdir(d)]))'
    code = f'{shown}; open(d + "/a", "w")'
    workshop.tool("demo/where", code)
    async with workshop.served("auto") as client:
        for _ in range(2):
            found = facts(await client.call_tool("execute", {"item_id": "demo/where"}))
            place, there = found["data"]
            assert there == []
            assert found["kept"][0]["bytes"] == 0
            assert not workshop.project.joinpath(place).exists()


@pytest.mark.thorough
async def test_many_long_results_take_little_memory_of_the_server(workshop: Workshop) -> None:
    """50 results of 100 KB: of each, the client gets under 4 KB, and the server grows by less than 32 MiB."""
    workshop.tool("demo/long", 'print(json.dumps([params["n"]] + list(range(20_000))))')
    with http_server(workshop.person, workshop.project, installed=True) as server:
        async with connected(server, "http", "auto") as client:
            before = 0
            for number in range(51):
                call = {"item_id": "demo/long", "parameters": {"n": number}}
                result = await client.call_tool("execute", call)
                assert facts(result)["kept"][0]["bytes"] > 100_000
                assert len(text_of(result)) < 4000
                before = before or _resident(server)
            assert _resident(server) - before < 32 << 20


def _resident(server: HttpServer) -> int:
    """How many bytes of memory a server has."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("VmRSS:")]
    return int(line.split()[1]) << 10
