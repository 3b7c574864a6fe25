"""What a tool gets depends on who signed it, on the policy, and on its runtimes' needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.permissions import (
    UNCONFINED,
    Access,
    Effective,
    Isolation,
    Permissions,
    Requirement,
    Undeclared,
    effective,
    read_permissions,
    sentence,
)
from tests.permission_strategies import anything, confined
from tests.trust_world import refused

WRITES = Permissions(Access.WRITE)
IN_WALLS = Permissions(Access.WRITE, require=Requirement.WALLS)
NEEDS = Permissions(read=frozenset({"/opt/python"}))


def got(declared: Any, signer: str, isolation: Isolation = Isolation(), **more: Any) -> Permissions:  # noqa: B008
    said = None if declared is None else read_permissions(declared)[0]
    return effective(said, signer, isolation, item_id="demo/hello", **more).permissions


@pytest.mark.parametrize(
    ("declared", "signer", "expected"),
    [
        (None, "person", UNCONFINED),
        ("unconfined", "person", UNCONFINED),
        ({}, "person", Permissions()),
        ({"env": ["A"]}, "person", Permissions(env=frozenset({"A"}))),
        (None, "system", Permissions()),
        ({"project": "read"}, "system", Permissions(Access.READ)),
        ("unconfined", "system", UNCONFINED),
        (None, "agent", IN_WALLS),
        ("unconfined", "agent", IN_WALLS),
        ({"project": "write", "net": "any", "env": ["A"], "uses": ["git"]}, "agent", IN_WALLS),
        ({"project": "read"}, "agent", Permissions(Access.READ, require=Requirement.WALLS)),
        ({"require": "cell"}, "agent", Permissions(require=Requirement.CELL)),
    ],
)
def test_the_defaults_by_signer(declared: Any, signer: str, expected: Permissions) -> None:
    assert got(declared, signer) == expected


def test_the_policy_decides_about_what_a_person_did_not_declare() -> None:
    assert got(None, "person", Isolation(undeclared=Undeclared.CONFINE)) == WRITES
    assert got(None, "person", Isolation(minimum=Requirement.WALLS)) == IN_WALLS
    error = refused("denied_by_policy", lambda: got(None, "person", Isolation(undeclared=Undeclared.REFUSE)))
    assert "rye sign demo/hello" in error.hint
    assert got({}, "person", Isolation(undeclared=Undeclared.REFUSE)) == Permissions()


def test_a_minimum_is_for_every_tool() -> None:
    isolation = Isolation(minimum=Requirement.CELL)
    assert got({"project": "read"}, "system", isolation) == Permissions(Access.READ, require=Requirement.CELL)
    refused("denied_by_policy", lambda: got("unconfined", "person", isolation))


def test_the_user_lifts_what_no_agent_signed() -> None:
    isolation = Isolation(lift=frozenset({"demo/*"}))
    assert got({"project": "read"}, "system", isolation) == UNCONFINED
    assert got({"project": "read"}, "agent", isolation) == Permissions(Access.READ, require=Requirement.WALLS)


def test_what_is_hidden_is_in_no_grant() -> None:
    isolation = Isolation(hide=frozenset({"/srv/secret"}))
    declared = {"read": ["/srv/secret/x", "/srv/open"], "write": ["/srv/secret"]}
    assert got(declared, "person", isolation) == Permissions(read=frozenset({"/srv/open"}))


def test_a_runtime_adds_paths_to_read_and_nothing_else() -> None:
    assert got({}, "person", needs=NEEDS) == NEEDS
    assert got(None, "person", needs=NEEDS) == UNCONFINED
    greedy = Permissions(Access.WRITE, env=frozenset({"A"}), write=frozenset({"/srv"}))
    assert got({}, "person", needs=greedy) == Permissions()


def test_what_is_withheld_is_known() -> None:
    declared, _ = read_permissions({"project": "write", "net": ["a.org"]})
    found = effective(declared, "agent", item_id="demo/hello")
    assert sentence(found.withheld) == "may reach a.org:443; nothing else"
    assert Effective(WRITES, None).withheld == Permissions()


isolations = st.builds(
    Isolation,
    minimum=st.sampled_from(Requirement),
    undeclared=st.sampled_from(Undeclared),
    agent=confined,
    hide=st.sampled_from([frozenset(), frozenset({"/srv/a"})]),
    lift=st.sampled_from([frozenset(), frozenset({"demo/hello"})]),
)


@given(st.none() | anything, isolations)
def test_an_agents_tool_is_always_within_the_ceiling_and_confined(
    declared: Permissions | None, isolation: Isolation
) -> None:
    found = effective(declared, "agent", isolation, item_id="demo/hello").permissions
    # What it calls runs within what it may do itself, so calls need no ceiling of their own.
    assert replace(found, calls=frozenset()).is_within(isolation.agent)
    assert declared is None or found.is_within(declared)
    assert not found.unconfined
    assert found.require >= max(Requirement.WALLS, isolation.minimum)


@given(confined, st.sampled_from(["person", "system"]), isolations)
def test_nobody_gets_more_than_is_declared_but_by_the_users_own_lift(
    declared: Permissions, signer: str, isolation: Isolation
) -> None:
    def found() -> Permissions:
        return effective(declared, signer, isolation, item_id="demo/hello").permissions

    if not isolation.lift:
        assert found().is_within(declared)
        assert found().require >= isolation.minimum
    elif isolation.minimum:
        refused("denied_by_policy", found)
    else:
        assert found() == UNCONFINED
