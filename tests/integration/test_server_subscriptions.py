"""What a client asks for besides answers, in both eras: log messages, and to hear of what changes."""

from __future__ import annotations

import warnings
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import ResourceUpdatedNotification

from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts
from tests.raw_client import raw_client

pytestmark = pytest.mark.anyio

TALKATIVE = """\
for line in ("first", "", "second \\x1b[2J", "x" * 3000):
    print(line, file=sys.stderr, flush=True)
print("no line of the log")
print("without an end", end="", file=sys.stderr)
"""

FLOOD = "sys.stderr.write('x\\n' * 500_000)"

NOTES = "---\nname: notes\ndescription: What is known.\n---\nFoxes are red.\n"

ADDRESS = "rye://item/knowledge/demo/notes"


async def set_level(client: Client, level: Any) -> None:
    """Ask for log messages as clients of 2025 do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the SDK tells its own users that a later revision has this no more
        await client.set_logging_level(level)


@pytest.mark.thorough
@pytest.mark.both_eras
async def test_standard_error_of_a_tool_reaches_the_clients_that_want_it(
    workshop: Workshop, mode: Mode
) -> None:
    workshop.tool("demo/talkative", TALKATIVE)
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    lines = ["first", "second \\x1b[2J", f"{'x' * 999}…", "without an end"]
    async with workshop.served(mode, client={"logging_callback": hear}) as client:
        for level, is_told in ((None, False), ("debug", True), ("info", True), ("warning", False)):
            heard.clear()
            meta: Any = None
            if level is not None and mode == "auto":
                meta = {"io.modelcontextprotocol/logLevel": level}
            elif level is not None:
                await set_level(client, level)
            called = await client.call_tool("execute", {"item_id": "demo/talkative"}, meta=meta)
            assert facts(called)["status"] == "success"
            assert [message.data for message in heard] == (lines if is_told else []), level
            assert {(message.level, message.logger) for message in heard} <= {("info", "demo/talkative")}


@pytest.mark.both_eras
async def test_of_a_flood_of_messages_only_a_part_is_told(workshop: Workshop, mode: Mode) -> None:
    workshop.tool("demo/flood", FLOOD)
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(message.data)

    wanted: dict[str, Any] = {"logging_callback": hear, "log_level": "info" if mode == "auto" else None}
    async with workshop.served(mode, "--expose", "demo/*", client=wanted) as client:
        if mode == "legacy":
            await set_level(client, "info")
        await client.call_tool("demo_flood", {})
    left_out = [text for text in heard if text != "x"]
    assert left_out
    assert all(text.endswith(("lines are left out", "bytes are left out")) for text in left_out)
    assert 100 <= len(heard) - len(left_out) < 50_000


@pytest.mark.both_eras
async def test_a_subscriber_is_told_without_having_listed_anything(workshop: Workshop, mode: Mode) -> None:
    """What stands there is written after the client has begun to wait."""
    told = anyio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification) and str(message.params.uri) == ADDRESS:
            told.set()

    with anyio.fail_after(30):
        async with (
            workshop.served(mode, client={"message_handler": hear}) as client,
            _waiting(client, mode),
        ):
            while not told.is_set():  # nobody tells when the system has begun to watch
                workshop.write("demo/notes", NOTES, kind="knowledge", extension="md")
                with anyio.move_on_after(1):
                    await told.wait()


def _waiting(client: Client, mode: Mode) -> Any:
    if mode == "auto":
        return client.listen(resource_subscriptions=[ADDRESS])
    return _Subscribed(client)


class _Subscribed:
    """What `listen` is for 2026, by the requests of 2025."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __aenter__(self) -> None:
        await self._ask("subscribe_resource")

    async def __aexit__(self, *_: object) -> None:
        await self._ask("unsubscribe_resource")

    async def _ask(self, name: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await getattr(self._client, name)(ADDRESS)


@pytest.mark.thorough
def test_addresses_without_end_are_not_kept(workshop: Workshop) -> None:
    with raw_client(workshop.person, workshop.project, "2025-11-25") as client:
        client.begin()

        def ask(number: int, verb: str, address: str) -> dict[str, Any]:
            return client.request(number, f"resources/{verb}", {"uri": f"rye://item/tool/{address}"})

        client.send(*(ask(number, "subscribe", str(number)) for number in range(1024)))
        assert all(answer["result"] == {} for answer in client.answers(1024))
        for number, verb, address, is_fine in (
            (1, "subscribe", "one more", False),
            (5, "subscribe", "7", True),
            (2, "unsubscribe", "7", True),
            (3, "subscribe", "x" * 5000, False),
            (4, "subscribe", "one more", True),
        ):
            client.send(ask(number, verb, address))
            assert ("result" in client.answer(number)) is is_fine, number


@pytest.mark.thorough
@pytest.mark.parametrize(
    "addresses", [[f"rye://item/tool/{n}" for n in range(1025)], ["rye://" + "x" * 5000]]
)
def test_a_stream_is_not_begun_for_addresses_without_end(workshop: Workshop, addresses: list[str]) -> None:
    with raw_client(workshop.person, workshop.project, "2026-07-28") as client:
        client.begin()
        wanted = {"notifications": {"resourceSubscriptions": addresses}}
        client.send(client.request(1, "subscriptions/listen", wanted))
        assert client.answer(1)["error"]["data"]["code"] == "invalid_parameters"


async def test_the_address_that_has_nothing_is_named_by_the_error(workshop: Workshop, mode: Mode) -> None:
    async with workshop.served(mode) as client:
        with pytest.raises(MCPError) as refused:
            await client.read_resource("rye://item/tool/demo/nothing")
    assert refused.value.error.data["uri"] == "rye://item/tool/demo/nothing"
    assert refused.value.error.data["code"] == "item_not_found"
