"""Somebody signs items with so much in them that no client can read a list: clients get it page by page.

Clients over HTTP read events of at most 1 MiB. Whoever follows the cursors reads everything, once.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.mcp_server import listings
from rye_mcp.mcp_server.listings import MAX_PAGE_BYTES
from rye_mcp.mcp_server.rye_server import RyeServer
from rye_mcp.metadata import MAX_LISTED_BYTES
from rye_mcp.verbs.sign import SignRequest, sign
from rye_mcp.visible import visible_lines
from tests.attacks.test_bad_item_in_a_list import TOOL, sign_unseen, write
from tests.bridge_world import Bridged
from tests.http_world import HttpServer, Mode, Transport, connected, http_server
from tests.mcp_world import Workshop
from tests.people import Person
from tests.raw_client import Era, raw_client

WAYS: list[tuple[Transport, Mode]] = [("http", "auto"), ("http", "legacy"), ("sse", "legacy")]
VERBS = ["search", "load", "execute", "sign"]
MANY = [f"demo/large_{number}" for number in range(5)]
TEXTS = [f"demo/text_{number}" for number in range(100, 200)]
NO_CURSORS = [
    "x",
    "%%%",
    "é",
    "dG9vbHMgZGVtbw",
    "A" * 100_000,
    *(base64.urlsafe_b64encode(each).decode() for each in (b"prompts demo", b"tools", b"tools \xff")),
]

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Five tools and directives of 210 KB each, and a hundred texts of 12 KB: no list fits into an event."""
    place = tmp_path_factory.mktemp("lists")
    person, project = Person("ada", place / "ada"), place / "project"
    project.mkdir()
    person.begin(project)
    workshop = Workshop(person, project)
    long = "x" * 210_000
    for item_id in MANY:
        fields = {**TOOL, "config_schema": {"type": "object", "description": long}}
        tool = "".join(f"{key}: {json.dumps(value)}\n" for key, value in fields.items())
        workshop.write(item_id, tool, extension="yaml")
        inputs = json.dumps({"properties": {"text": {"description": long}}})
        _front(workshop, "directives", item_id, f"inputs: {inputs}")
    for item_id in TEXTS:
        _front(workshop, "knowledge", item_id, f"description: {'語' * 4000}")
    for kind in ("tool", "directive", "knowledge"):
        person.rye("sign", "demo/*", "--type", kind, cwd=project)
    return workshop


def _front(workshop: Workshop, kind: str, item_id: str, field: str) -> None:
    front = f"---\nname: large\nversion: 1.0.0\n{field}\n---\nText.\n"
    workshop.write(item_id, front, kind=kind, extension="md")


@pytest.fixture(scope="module")
def server(workshop: Workshop) -> Iterator[HttpServer]:
    with http_server(workshop.person, workshop.project, "--expose", "demo/*") as found:
        yield found


@pytest.mark.thorough
@pytest.mark.first_case
@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_a_client_reads_every_list_whole(server: HttpServer, transport: Transport, mode: Mode) -> None:
    async with connected(server, transport, mode) as client:
        with anyio.fail_after(60):
            tools = await _all(lambda cursor: client.list_tools(cursor=cursor), "tools")
            prompts = await _all(lambda cursor: client.list_prompts(cursor=cursor), "prompts")
            resources = await _all(lambda cursor: client.list_resources(cursor=cursor), "resources")
    assert [tool.name for tool in tools] == [*VERBS, *(each.replace("/", "_") for each in MANY)]
    assert [each.name for each in prompts if each.name.startswith("demo")] == [
        each.replace("/", "_") for each in MANY
    ]
    assert [each.name for each in resources if each.name.startswith("demo")] == TEXTS


@pytest.mark.first_case
@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
def test_over_standard_input_and_output_pages_are_the_same(workshop: Workshop, era: Era) -> None:
    with raw_client(workshop.person, workshop.project, era, "--expose", "demo/*") as client:
        client.begin()
        names: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            client.send(client.request("list", "tools/list", {"cursor": cursor} if cursor else {}))
            result = client.answer("list")["result"]
            assert len(json.dumps(result)) < 1 << 20
            names += [tool["name"] for tool in result["tools"]]
            cursor = result.get("nextCursor")
    assert names == [*VERBS, *(each.replace("/", "_") for each in MANY)]


async def _all(page: Callable[[str | None], Any], name: str) -> list[Any]:
    """A list with all of its pages, of which there are several."""
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        got = await page(cursor)
        found += getattr(got, name)
        cursor, pages = got.next_cursor, pages + 1
    assert pages > 1
    return found


@pytest.fixture
def scene(tmp_path: Path) -> Bridged:
    return Bridged(tmp_path)


def long(scene: Bridged, name: str, size: int, sign_it: Callable[[Bridged, str], Any]) -> None:
    """A tool with a schema of this size."""
    write(scene, name, config_schema={"type": "object", "description": "x" * size})
    sign_it(scene, name)


def signed(scene: Bridged, name: str) -> None:
    sign(SignRequest(f"demo/{name}"), scene.app.context())


async def names(client: Client, cursor: str | None) -> tuple[list[str], str | None]:
    found = await client.list_tools(cursor=cursor, cache_mode="refresh")
    return [tool.name for tool in found.tools], found.next_cursor


async def test_a_page_begins_behind_the_last_one_whatever_has_changed(
    scene: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b", "d", "f"):
        long(scene, name, 1000, signed)
    monkeypatch.setattr(listings, "MAX_PAGE_BYTES", 2000)
    async with Client(RyeServer(lambda _path: scene.app, expose=("demo/*",))) as client:
        first, cursor = await names(client, None)
        assert first == [*VERBS, "demo_b"]
        for name in ("a", "e"):
            long(scene, name, 1000, signed)
        for name in ("b", "d"):  # the one that the cursor names, and the one that it leads to
            (scene.project / f".ai/tools/demo/{name}.yaml").unlink()
        second, cursor = await names(client, cursor)
        third, end = await names(client, cursor)
    assert (second, third, end) == (["demo_e"], ["demo_f"], None)


async def test_a_cursor_that_somebody_makes_up_is_refused_or_a_place_in_the_same_list(scene: Bridged) -> None:
    long(scene, "good", 10, signed)
    async with Client(RyeServer(lambda _path: scene.app, expose=("demo/*",))) as client:
        for cursor in NO_CURSORS:
            with pytest.raises(MCPError) as refused:
                await names(client, cursor)
            assert refused.value.code == -32602, cursor
            assert "expected a cursor that tools has given" in refused.value.message
        made = base64.urlsafe_b64encode(b"tools /etc/passwd").decode()
        assert await names(client, made) == (["demo_good"], None)


async def test_an_entry_that_no_page_has_room_for_is_left_out_alone(
    scene: Bridged, caplog: pytest.LogCaptureFixture
) -> None:
    listings.say_left_out.cache_clear()
    long(scene, "good", 10, signed)
    long(scene, "long", MAX_PAGE_BYTES, sign_unseen)
    async with Client(RyeServer(lambda _path: scene.app, expose=("demo/*",))) as client:
        assert await names(client, None) == ([*VERBS, "demo_good"], None)
    [record] = [each for each in caplog.records if each.message == "an item is not listed"]
    assert "expected a page of at most" in str(vars(record))


@pytest.mark.parametrize("letter", ["x", "é", "\u200b", '"'])
async def test_what_is_signed_has_room_and_what_has_none_is_not_signed(scene: Bridged, letter: str) -> None:
    """However long its letters are as they are shown, in JSON."""
    most = (MAX_LISTED_BYTES - 500) // (len(json.dumps(visible_lines(letter))) - len('""'))
    write(scene, "edge", config_schema={"type": "object", "description": letter * most})
    signed(scene, "edge")
    async with Client(RyeServer(lambda _path: scene.app, expose=("demo/*",))) as client:
        assert await names(client, None) == ([*VERBS, "demo_edge"], None)
    write(scene, "edge", config_schema={"type": "object", "description": letter * (most + 500)})
    with pytest.raises(RyeError) as refused:
        signed(scene, "edge")
    assert refused.value.code == "invalid_item"
    assert f"at most {MAX_LISTED_BYTES} bytes together" in refused.value.message


def test_a_directive_whose_arguments_no_list_has_room_for_is_not_signed(scene: Bridged) -> None:
    """Each has little in the file, and more in the list."""
    inputs: Any = {"properties": {f"a{number}": {} for number in range(9000)}}
    path = scene.project / ".ai/directives/demo/many.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: many\nversion: 1.0.0\ninputs: {json.dumps(inputs)}\n---\nText.\n")
    with pytest.raises(RyeError) as refused:
        sign(SignRequest("demo/many", ItemType.DIRECTIVE), scene.app.context())
    assert refused.value.code == "invalid_item"
    assert "bytes together" in refused.value.message
