"""Who can be asked, and what is a yes. Each answer counts once, though several processes get it at once."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import ClientCapabilities, ElicitResult

from rye_mcp.errors import RyeError
from rye_mcp.mcp_server import confirmation
from rye_mcp.mcp_server.answers import QUESTION_LIFETIME_S, QuestionAsked
from rye_mcp.mcp_server.confirmation import Confirmer, Tickets
from rye_mcp.verbs.sign import SignRequest
from tests.trust_world import World, refused
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
    monkeypatch.setattr(confirmation, "QUESTION_LIFETIME_S", 0.05)
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


def test_of_many_who_use_a_ticket_one_may(tmp_path: Path) -> None:
    ticket = Tickets.new()

    def use(_: int) -> bool:
        try:
            Tickets(tmp_path / "state").use(ticket)
        except RyeError as exc:
            return exc.code != "confirmation_outdated"
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(use, range(64))) == 1
    [kept] = (tmp_path / "state/confirmations").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "ticket", ["", "../" + "a" * 29, "A" * 32, "a" * 31, "a" * 33, "a" * 32 + "\n", "\0" * 32]
)
def test_what_is_no_ticket_makes_no_file(tmp_path: Path, ticket: str) -> None:
    refused("confirmation_outdated", lambda: Tickets(tmp_path).use(ticket))
    assert not list(tmp_path.iterdir())


def test_what_no_seal_is_left_for_is_removed(tmp_path: Path) -> None:
    tickets = Tickets(tmp_path)
    old, young = Tickets.new(), Tickets.new()
    for ticket, age in ((old, 2 * QUESTION_LIFETIME_S + 5), (young, QUESTION_LIFETIME_S + 5)):
        tickets.use(ticket)
        then = time.time() - age
        os.utime(tmp_path / "confirmations" / ticket, (then, then))
    tickets.use(Tickets.new())
    refused("confirmation_outdated", lambda: tickets.use(young))
    assert not (tmp_path / "confirmations" / old).exists()


def test_without_a_place_nothing_is_agreed_to(tmp_path: Path) -> None:
    (tmp_path / "confirmations").write_text("in the way")
    refused(None, lambda: Tickets(tmp_path).use(Tickets.new()))
