"""Several workers behind a balancer: with one key and one token, each answers what another one was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import cycle
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult, InputRequiredResult

from tests.http_world import HttpServer, http_server
from tests.mcp_world import Workshop, facts
from tests.people import Person

TOOL = '''\
"""Says a word, however long, or waits."""

import time

__version__ = "1.0.0"
__executor_id__ = "python_runtime"


def main(word):
    if word == "wait":
        time.sleep(600)
    return {"word": "x" * 200_000 if word == "long" else word}
'''

KEY = "a-key-that-the-workers-share-0123456789"
YES = ElicitResult(action="accept", content={})

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[HttpServer]]:
    """One that got the key by its environment, and one that got it in a file behind an older one."""
    place = tmp_path_factory.mktemp("shop")
    person, project = Person("ada", place / "ada"), place / "the project"
    project.mkdir()
    person.begin(project)
    shop = Workshop(person, project)
    shop.write("demo/word", TOOL)
    shop.sign("demo/word")
    file = place / "keys"
    file.touch(0o600)
    file.write_text(f"{KEY}\n{KEY[::-1]}\n")
    confirm = ("--confirm", "execute")
    with (
        http_server(replace(person, more={"RYE_HTTP_STATE_KEY": KEY}), project, *confirm) as one,
        http_server(person, project, *confirm, "--state-key-file", str(file)) as two,
    ):
        yield [one, two]


class Balancer(httpx2.AsyncBaseTransport):
    """Sends each request to the next worker."""

    def __init__(self, workers: list[HttpServer]) -> None:
        self._ports = cycle([worker.port for worker in workers])
        self._inner = httpx2.AsyncHTTPTransport()
        self.asked: list[int] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        port = next(self._ports)
        self.asked.append(port)
        request.url = request.url.copy_with(port=port)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def balanced(workers: list[HttpServer]) -> AsyncIterator[tuple[Client, Balancer]]:
    async def answer(context: Any, params: Any) -> ElicitResult:
        return YES

    balancer = Balancer(workers)
    headers = workers[0].headers
    async with httpx2.AsyncClient(transport=balancer, headers=headers, timeout=30) as http:
        place = streamable_http_client(workers[0].url, http_client=http)
        async with Client(place, mode="auto", elicitation_callback=answer) as client:
            yield client, balancer


def call(word: str) -> dict[str, Any]:
    return {"item_id": "demo/word", "parameters": {"word": word}}


@pytest.mark.thorough
async def test_a_question_of_one_worker_is_answered_to_another(workers: list[HttpServer]) -> None:
    asked_by = set()
    async with balanced(workers) as (client, balancer):
        await client.list_tools()
        for number in range(4):
            balancer.asked.clear()
            found = facts(await client.call_tool("execute", call(str(number))))
            assert found["data"] == {"word": str(number)}
            question, answer = balancer.asked
            assert question != answer
            asked_by.add(question)
            await client.call_tool("load", {"item_id": "demo/word"})  # the next question is of the other one
    assert asked_by == {worker.port for worker in workers}


async def test_an_answer_counts_once_in_all_workers(workers: list[HttpServer]) -> None:
    async with balanced(workers) as (client, balancer):
        asked: Any = await client.session.call_tool("execute", call("once"), allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        balancer.asked.clear()
        codes = []
        for _ in range(2):
            answered: Any = await client.session.call_tool(
                "execute",
                call("once"),
                input_responses={"confirmation": YES},
                request_state=asked.request_state,
                allow_input_required=True,
            )
            codes.append(facts(answered).get("code"))
        assert codes == [None, "confirmation_outdated"]
        assert len(set(balancer.asked)) == 2


async def test_a_run_that_nobody_waits_for_is_followed_and_ended_by_any_worker(
    workers: list[HttpServer],
) -> None:
    async with balanced(workers) as (client, balancer):
        begun = facts(await client.call_tool("execute", {**call("wait"), "async": True}))
        assert begun["status"] == "running"
        balancer.asked.clear()
        for _ in workers:
            found = facts(await client.call_tool("execute", {"run_id": begun["run_id"]}))
            assert (found["status"], found["run_id"]) == ("running", begun["run_id"])
        assert set(balancer.asked) == {worker.port for worker in workers}
        ended = [
            facts(await client.call_tool("execute", {"run_id": begun["run_id"], "action": "cancel"}))
            for _ in workers
        ]
    assert [each["status"] for each in ended] == ["cancelled", "cancelled"]


async def test_long_output_that_one_worker_has_kept_is_read_from_another(workers: list[HttpServer]) -> None:
    async with balanced(workers) as (client, balancer):
        found = facts(await client.call_tool("execute", call("long")))
        balancer.asked.clear()
        for _ in workers:
            piece = facts(await client.call_tool("load", {"run_id": found["kept"][0]["handle"]}))
            assert piece["content"].startswith('{"word":"xxx'), piece
        assert set(balancer.asked) == {worker.port for worker in workers}
