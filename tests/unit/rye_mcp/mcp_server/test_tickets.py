"""Each answer counts once, also when many processes get it at the same time."""

from __future__ import annotations

import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.answers import QUESTION_LIFETIME_S
from rye_mcp.mcp_server.tickets import Tickets
from tests.trust_world import refused


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
