"""Clients are told only what the kernel makes true."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.permissions import Access, Requirement, hints, read_permissions
from tests.permission_strategies import anything

CELL, WALLS, NONE = Requirement.CELL, Requirement.WALLS, Requirement.NONE


@pytest.mark.parametrize(
    ("declared", "tier", "read_only", "destructive", "open_world"),
    [
        ({}, CELL, True, False, False),
        ({"project": "read"}, CELL, True, False, False),
        ({"project": "read", "uses": ["terminal"]}, CELL, True, False, False),
        ({"project": "read"}, WALLS, False, False, False),
        ({"project": "read"}, NONE, False, True, True),
        ("unconfined", CELL, False, True, True),
        ({"project": "write"}, CELL, False, True, False),
        ({"write": ["/srv/x"]}, CELL, False, True, False),
        ({"project": "read", "uses": ["git"]}, CELL, True, False, False),
        ({"uses": ["cache"]}, CELL, False, False, False),
        ({"uses": ["ssh-agent"]}, CELL, False, True, True),
        ({"net": ["a.org"]}, CELL, False, False, True),
        ({"net": "any"}, WALLS, False, False, True),
        ({"calls": ["demo/*"]}, CELL, False, True, True),
    ],
)
def test_the_hints_follow_from_permissions_and_tier(
    declared: Any, tier: Requirement, read_only: bool, destructive: bool, open_world: bool
) -> None:
    permissions, _ = read_permissions(declared)
    expected = {"readOnlyHint": read_only, "destructiveHint": destructive, "openWorldHint": open_world}
    assert hints(permissions, tier) == expected


said = st.dictionaries(
    st.sampled_from(["readOnlyHint", "destructiveHint", "openWorldHint", "idempotentHint", "title"]),
    st.booleans() | st.just("x"),
)


@given(anything, st.sampled_from(Requirement), said)
def test_an_author_is_only_more_cautious(permissions: Any, tier: Requirement, said: dict[str, Any]) -> None:
    derived, shown = hints(permissions, tier), hints(permissions, tier, said)
    assert shown["readOnlyHint"] <= derived["readOnlyHint"]
    assert shown["destructiveHint"] >= derived["destructiveHint"]
    assert shown["openWorldHint"] >= derived["openWorldHint"]
    assert said.get("destructiveHint") is not True or shown["destructiveHint"]
    if shown["readOnlyHint"]:
        assert tier is CELL
        assert permissions.project < Access.WRITE
        assert not permissions.net
        assert not permissions.write
        assert not permissions.unconfined
