"""Permissions are a lattice: what is wider, narrower, common and joined, for any two of them."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_mcp.permissions import (
    ANY_HOST,
    PERMISSIONS_SCHEMA,
    UNCONFINED,
    USES,
    Access,
    Permissions,
    Requirement,
    difference,
    phrases,
    read_permissions,
    sentence,
)
from tests.permission_strategies import KEYS, PATHS, anything, confined


@given(anything, anything, anything)
def test_within_is_a_partial_order(a: Permissions, b: Permissions, c: Permissions) -> None:
    assert a.is_within(a)
    assert a == b or not (a.is_within(b) and b.is_within(a))
    assert a.is_within(c) or not (a.is_within(b) and b.is_within(c))


@given(anything, anything, anything)
def test_what_two_have_in_common_is_the_most_that_is_within_both(
    a: Permissions, b: Permissions, c: Permissions
) -> None:
    both = a.meet(b)
    assert both == b.meet(a)
    assert both.is_within(a)
    assert both.is_within(b)
    assert a.meet(a) == a
    assert a.meet(b.meet(c)) == both.meet(c)
    assert c.is_within(both) == (c.is_within(a) and c.is_within(b))


@given(anything, anything, anything)
def test_what_is_joined_is_the_least_that_both_are_within(
    a: Permissions, b: Permissions, c: Permissions
) -> None:
    either = a.join(b)
    assert either == b.join(a)
    assert a.join(a) == a
    assert a.join(b.join(c)) == either.join(c)
    assert either.is_within(c) == (a.is_within(c) and b.is_within(c))


@given(anything, anything)
def test_each_absorbs_the_other(a: Permissions, b: Permissions) -> None:
    assert a.meet(a.join(b)) == a
    assert a.join(a.meet(b)) == a


@given(anything, anything)
def test_nothing_passes_silently_that_is_wider_than_what_was_agreed(
    agreed: Permissions, now: Permissions
) -> None:
    """The difference in words is empty exactly where nothing is wider, and joining it to what was agreed
    gives everything that is granted now."""
    assert (difference(agreed, now) == ()) is now.is_within(agreed)
    assert now.is_within(agreed.join(now.beyond(agreed)).join(Permissions(require=now.require)))


def test_every_key_is_tried() -> None:
    """A key that is added to permissions and not here would have no order that anybody tried."""
    keys = {each.name for each in fields(Permissions)} - {"unconfined"}
    assert keys == KEYS.keys()
    assert keys - {"require"} == {key for key, _ in WORLD} - {"without"}
    assert keys == PERMISSIONS_SCHEMA["anyOf"][0]["properties"].keys()


@pytest.mark.parametrize("key", KEYS)
@given(st.data(), confined)
def test_no_key_changes_without_being_wider_or_narrower(
    key: str, data: st.DataObject, agreed: Permissions
) -> None:
    """So a key that the order forgets is noticed, whichever it is."""
    now = replace(agreed, **{key: data.draw(KEYS[key])})
    assert now == agreed or not (now.is_within(agreed) and agreed.is_within(now))
    assert (difference(agreed, now) == ()) is now.is_within(agreed)
    assert now.is_within(agreed) is (granted(now) <= granted(agreed))


def granted(permissions: Permissions) -> set[tuple[str, object]]:
    """What the permissions let through, of a small world of hosts, paths and items: the plain meaning."""
    if permissions.unconfined:
        return WORLD
    found: set[tuple[str, object]] = {("project", each) for each in Access if each <= permissions.project}
    for host in permissions.net:
        below = host.name.startswith("*.")
        for name, port in NAMES:
            same = name.endswith(host.name[1:]) if below else name == host.name
            if host == ANY_HOST or (same and port == host.port):
                found.add(("net", (name, port)))
    for key in ("env", "secrets", "uses"):
        found |= {(key, each) for each in getattr(permissions, key)}
    for path in FILES:
        parts = ["/".join(path.split("/")[:n]) for n in range(1, path.count("/") + 2)]
        if not permissions.write.isdisjoint(parts):
            found |= {("write", path), ("read", path)}
        if not permissions.read.isdisjoint(parts):
            found.add(("read", path))
    for call in permissions.calls:
        of = call.removesuffix("*")
        found |= {("calls", each) for each in IDS if each == call or (of != call and each.startswith(of))}
    return found | {("without", each) for each in Requirement if each >= permissions.require}


OF_HOSTS = ("a.org", "b.a.org", "c.b.a.org", "d.b.a.org", "x.a.org", "z.net")
NAMES = [(name, port) for name in OF_HOSTS for port in (80, 443)]
FILES = [*PATHS, "/srv/a/b/c", "~/data/x/y", "/etc"]
IDS = ["demo", "demo/hello", "demo/deep/er", "demo/deep/other", "demo/x", "other", "more"]
WORLD: set[tuple[str, object]] = {
    *(("project", each) for each in Access),
    *(("net", each) for each in NAMES),
    *(("env", each) for each in "ABCD"),
    *(("secrets", each) for each in "ABCD"),
    *(("uses", each) for each in USES),
    *((key, each) for key in ("read", "write") for each in FILES),
    *(("calls", each) for each in IDS),
    *(("without", each) for each in Requirement),
}


@given(anything, anything)
def test_the_order_is_the_one_of_what_is_let_through(a: Permissions, b: Permissions) -> None:
    """Said once more in the plainest way, as sets: so the order can't be consistent and wrong."""
    assert granted(a.meet(b)) <= granted(a) & granted(b)
    assert granted(a.join(b)) >= granted(a) | granted(b)
    if a.is_within(b):
        assert granted(a) <= granted(b)
    else:
        assert a.unconfined or not granted(a) <= granted(b)


@given(anything)
def test_what_is_written_is_read_back(permissions: Permissions) -> None:
    again, problems = read_permissions(permissions.canonical())
    assert all("expected project:" in each for each in problems)
    assert not problems or permissions.uses & {"git", "items", "packages"}
    assert again == permissions


@given(anything)
def test_the_sentence_names_every_grant(permissions: Permissions) -> None:
    said = sentence(permissions)
    assert all(phrase in said for phrase in phrases(permissions))
    named = {*permissions.env, *permissions.secrets, *permissions.readable, *permissions.calls}
    assert all(name in said for name in named)


def test_nothing_is_not_the_same_as_everything() -> None:
    assert Permissions().is_within(UNCONFINED)
    assert not UNCONFINED.is_within(Permissions())
    assert difference(Permissions(), UNCONFINED) == ("may do whatever you can: it is not confined",)
    assert difference(UNCONFINED, Permissions()) == ()


def test_a_demand_that_is_dropped_is_wider() -> None:
    in_cell = Permissions(project=Access.READ, require=Requirement.CELL)
    assert difference(in_cell, Permissions(project=Access.READ)) == ("runs without a cell, too",)
    assert difference(Permissions(project=Access.READ), in_cell) == ()
