"""Who can be asked, and what is a yes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import ClientCapabilities, ElicitResult

from rye_mcp.errors import RyeError
from rye_mcp.mcp_server import confirming
from rye_mcp.mcp_server.answers import QuestionAsked
from rye_mcp.mcp_server.confirming import Confirmer
from rye_mcp.verbs.sign import SignRequest
from tests.trust_world import World
from tests.verb_world import agent, app_of, put, tool

pytestmark = pytest.mark.both_loops


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@dataclass
class Client:
    """A request of a client that answers like this."""

    capabilities: dict[str, Any]
    answer: Callable[[], Any] = lambda: ElicitResult(action="accept", content={})
    protocol_version: str = "2025-11-25"
    request_id: str = "1"
    input_responses: dict[str, Any] | None = None
    request_state: str | None = None

    @property
    def client_capabilities(self) -> ClientCapabilities:
        return ClientCapabilities.model_validate(self.capabilities)

    @property
    def session(self) -> Client:
        return self

    async def elicit_form(self, *_: Any, **__: Any) -> Any:
        found = self.answer()
        return await found if hasattr(found, "__await__") else found


async def outcome(world: World, client: Client | None) -> str:
    """What becomes of signing an item; `agreed` when a person has agreed."""
    put(world, tool())
    context = agent(world)
    confirmer = Confirmer(app_of(world), frozenset({"sign"}), client)
    try:
        request = await confirmer.signing(SignRequest("demo/hello"), context)
    except RyeError as exc:
        return exc.code
    except QuestionAsked:
        return "asked"
    assert request.agreed is not None
    return "agreed"


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"elicitation": {}}, "agreed"),
        ({"elicitation": {"form": {}}}, "agreed"),
        ({"elicitation": {"form": {}, "url": {}}}, "agreed"),
        ({"elicitation": {"url": {}}}, "confirmation_required"),
        ({"sampling": {}, "roots": {}}, "confirmation_required"),
        ({}, "confirmation_required"),
    ],
)
async def test_only_who_shows_forms_is_asked(
    world: World, capabilities: dict[str, Any], expected: str
) -> None:
    assert await outcome(world, Client(capabilities)) == expected
    modern = await outcome(world, Client(capabilities, protocol_version="2026-07-28"))
    assert modern == ("asked" if expected == "agreed" else expected)


def failing(error: Exception) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda: ElicitResult(action="decline"), "confirmation_declined"),
        (lambda: ElicitResult(action="cancel"), "confirmation_declined"),
        (lambda: {"action": "accept"}, "confirmation_declined"),
        (lambda: None, "confirmation_declined"),
        (failing(MCPError(code=-32601, message="no such method")), "confirmation_required"),
        (failing(ValueError("no answer at all")), "confirmation_required"),
    ],
)
async def test_only_a_yes_is_one(world: World, answer: Callable[[], Any], expected: str) -> None:
    assert await outcome(world, Client({"elicitation": {}}, answer)) == expected


async def test_who_does_not_answer_has_not_agreed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirming, "QUESTION_LIFETIME_S", 0.05)
    client = Client({"elicitation": {}}, anyio.sleep_forever)
    assert await outcome(world, client) == "confirmation_declined"


async def test_without_a_client_nobody_agrees(world: World) -> None:
    assert await outcome(world, None) == "confirmation_required"


@pytest.mark.parametrize(
    "state", ["", "[]", "null", '{"ticket": "x"}', '{"ticket": "x", "mark": "y"}', "no JSON"]
)
async def test_a_state_that_is_none_of_ours_is_refused(world: World, state: str) -> None:
    yes = {"confirmation": ElicitResult(action="accept")}
    client = Client(
        {"elicitation": {}}, protocol_version="2026-07-28", input_responses=yes, request_state=state
    )
    assert await outcome(world, client) == "confirmation_outdated"
