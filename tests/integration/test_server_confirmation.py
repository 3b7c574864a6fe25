"""Somebody has to agree before anything is signed or run: on both transports, in both eras."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client
from mcp.types import CallToolResult, ElicitRequestFormParams, ElicitResult

from tests.http_world import HttpServer, connected, http_server
from tests.mcp_world import Mode, Workshop, facts, python_tool
from tests.people import Person

Action = Any
Way = Literal["stdio", "http", "sse"]

GREET = '''\
"""Greets, and leaves a trace."""

__version__ = "1.0.0"
__executor_id__ = "python_runtime"

CONFIG_SCHEMA = {"type": "object", "properties": {
    "canary": {"type": "string"}, "code": {"type": "string", "writeOnly": True}}}


def main(canary, code=None):
    with open(canary, "a") as file:
        file.write("ran\\n")
    return {"greeting": "Hello!"}
'''

ALWAYS = ("--confirm", "sign,execute", "--expose", "demo/*")

pytestmark = pytest.mark.anyio


@dataclass
class Asked:
    """Somebody at a client, who says what they are told to, and remembers what they were asked."""

    action: Action = "accept"
    before: Callable[[], object] = lambda: None
    questions: list[str] = field(default_factory=list)

    async def __call__(self, _: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.questions.append(params.message)
        self.before()
        return ElicitResult(action=self.action, content={} if self.action == "accept" else None)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """A person with a project, in which one tool is signed and one is not."""
    place = tmp_path_factory.mktemp("shop")
    person, project = Person("ada", place / "ada"), place / "the project"
    project.mkdir()
    person.begin(project)
    found = Workshop(person, project)
    found.write("demo/greet", GREET)
    found.sign("demo/greet")
    return found


@pytest.fixture(scope="module")
def server(shop: Workshop) -> Any:
    with http_server(shop.person, shop.project, *ALWAYS) as found:
        yield found


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@pytest.fixture(params=["stdio", "http", "sse"])
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@asynccontextmanager
async def client_of(
    shop: Workshop, server: HttpServer, way: Way, mode: Mode, asked: Asked | None
) -> AsyncIterator[Client]:
    more = {} if asked is None else {"elicitation_callback": asked}
    if way != "stdio":
        async with connected(server, way, mode, **more) as client:
            yield client
    else:
        async with shop.served(mode, *ALWAYS, client=more) as client:
            yield client


def ran(canary: Path) -> int:
    return len(canary.read_text().splitlines()) if canary.exists() else 0


@pytest.mark.thorough
@pytest.mark.both_eras
@pytest.mark.first_case("way")
async def test_what_is_agreed_to_is_done(
    shop: Workshop, server: HttpServer, way: Way, mode: Mode, canary: Path
) -> None:
    parameters = {"canary": str(canary), "code": "h1dden"}
    call = {"item_id": "demo/greet", "parameters": parameters}
    shop.write("demo/new", python_tool("print('{}')"))
    asked = Asked()
    async with client_of(shop, server, way, mode, asked) as client:
        assert facts(await client.call_tool("execute", call))["data"] == {"greeting": "Hello!"}
        native = await client.call_tool("demo_greet", parameters)
        assert facts(native) == {"greeting": "Hello!"}
        begun = facts(await client.call_tool("execute", call | {"async": True}))
        assert begun["status"] == "running"
        assert facts(await client.call_tool("execute", call | {"dry_run": True}))["command"]
        assert facts(await client.call_tool("sign", {"item_id": "demo/new"}))["status"] == "signed"
        follow = {"run_id": begun["run_id"]}
        while facts(await client.call_tool("execute", follow))["status"] == "running":  # noqa: ASYNC110
            await anyio.sleep(0.02)  # whoever follows a run asks again
    assert ran(canary) == 3
    run, _, beside, sign = asked.questions
    assert run.startswith("Run demo/greet?\nsigned by: ada (")
    assert f'  canary = "{canary}"' in run
    assert "  code = (hidden)" in run
    assert "h1dden" not in run
    assert str(shop.project) in run
    assert "nobody waits" in beside
    assert sign.startswith("Sign demo/new, so that it can run?\nsigned by: the agent's key")
    assert "  tools/demo/new.py  sha256 " in sign


@pytest.mark.thorough
@pytest.mark.both_eras
@pytest.mark.first_case("way")
@pytest.mark.parametrize("can_ask", [True, False], ids=["asked", "nobody to ask"])
async def test_without_a_yes_nothing_is_done(
    shop: Workshop, server: HttpServer, way: Way, mode: Mode, canary: Path, can_ask: bool
) -> None:
    parameters = {"canary": str(canary)}
    unsigned = shop.write("demo/unsigned", python_tool("print('{}')"))
    before = unsigned.read_text()
    asked = Asked() if can_ask else None
    code = "confirmation_declined" if can_ask else "confirmation_required"
    async with client_of(shop, server, way, mode, asked) as client:
        for action, name, arguments in (
            ("decline", "execute", {"item_id": "demo/greet", "parameters": parameters}),
            ("cancel", "execute", {"item_id": "demo/greet", "parameters": parameters, "async": True}),
            ("cancel", "demo_greet", parameters),
            ("decline", "sign", {"item_id": "demo/unsigned"}),
        ):
            if asked is not None:
                asked.action = action
            found = await client.call_tool(name, arguments)
            assert isinstance(found, CallToolResult)
            assert (found.is_error, facts(found)["code"]) == (True, code), (name, facts(found))
            if asked is None:
                command = "rye sign demo/unsigned" if name == "sign" else "rye run"
                assert command in facts(found)["hint"]
    assert ran(canary) == 0
    assert unsigned.read_text() == before
