"""The policy is read strictly, a project only tightens it, and rules are judged in one pass."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lilux.primitives.subprocess import Limits
from rye_mcp.permissions import (
    Access,
    Action,
    Host,
    Isolation,
    Permissions,
    Requirement,
    Rule,
    Undeclared,
    judge,
    read_isolation,
    read_rules,
)

WRITES = Permissions(project=Access.WRITE)


def test_all_of_an_isolation_is_read() -> None:
    value = {
        "minimum": "walls",
        "undeclared": "refuse",
        "agent": {"project": "write", "net": ["pypi.org"]},
        "hide": ["~/clients", "/srv/secret"],
        "limits": {"processes": 500, "memory": "4GiB", "temp": "64MiB"},
        "lift": ["rye/bash/bash", "mine/*"],
    }
    isolation, problems = read_isolation(value)
    assert problems == []
    assert isolation == Isolation(
        minimum=Requirement.WALLS,
        undeclared=Undeclared.REFUSE,
        agent=Permissions(Access.WRITE, frozenset({Host("pypi.org")})),
        hide=frozenset({"~/clients", "/srv/secret"}),
        limits=Limits(processes=500, memory=4 << 30, temp=64 << 20),
        lift=frozenset({"rye/bash/bash", "mine/*"}),
    )
    assert isolation.lifts("mine/deep/er")
    assert not isolation.lifts("mine")
    assert isolation.hides("/srv/secret/x")
    assert not isolation.hides("/srv/secrets")


def test_nothing_said_is_the_default() -> None:
    assert read_isolation({}) == (Isolation(), [])
    assert Isolation() == Isolation(Requirement.NONE, Undeclared.ALLOW, WRITES)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "expected a mapping, found a list"),
        ({"level": "cell"}, "expected only minimum, undeclared, agent, hide, limits, lift, found level"),
        ({"minimum": "none"}, "minimum: expected walls or cell, found none"),
        ({"undeclared": "deny"}, "undeclared: expected allow or confine or refuse, found deny"),
        ({"agent": "unconfined"}, "agent: expected a mapping, found unconfined"),
        ({"agent": {"net": ["*"]}}, "agent: net: expected a host name"),
        ({"hide": ["clients"]}, "hide: expected an absolute path"),
        ({"hide": "~/clients"}, "hide: expected a list of texts, found text"),
        ({"lift": ["*"]}, "lift: expected an item id, or directory/*"),
        ({"limits": 5}, "limits: expected a mapping with processes, memory, temp, found a number"),
        ({"limits": {"cpu": 1}}, "limits: expected a mapping with processes, memory, temp, found cpu"),
        ({"limits": {"processes": 0}}, "limits.processes: expected 1 to 1000000, found 0"),
        ({"limits": {"processes": True}}, "limits.processes: expected 1 to 1000000, found True"),
        ({"limits": {"memory": "4GB"}}, "limits.memory: expected an amount such as 4GiB, at least 1MiB"),
        (
            {"limits": {"temp": 4096}},
            "limits.temp: expected an amount such as 4GiB, at least 1MiB, found 4096",
        ),
    ],
    ids=range(15),
)
def test_a_wrong_isolation_is_said(value: Any, message: str) -> None:
    isolation, problems = read_isolation(value)
    assert len(problems) == 1
    assert message in problems[0]
    assert isolation.agent == WRITES


def test_a_project_tightens_and_never_loosens() -> None:
    users = Isolation(
        Requirement.WALLS, Undeclared.CONFINE, Permissions(Access.WRITE, frozenset({Host("a.org")}))
    )
    looser = {"undeclared": "allow", "agent": {"project": "write", "net": "any"}}
    assert read_isolation(looser, tightens=users) == (users, [])
    stricter = {"minimum": "cell", "undeclared": "refuse", "agent": {"project": "read"}, "hide": ["/srv/x"]}
    stricter |= {"limits": {"processes": 9}}
    tightened, problems = read_isolation(stricter, tightens=users)
    assert problems == []
    assert tightened == Isolation(
        Requirement.CELL,
        Undeclared.REFUSE,
        Permissions(Access.READ),
        frozenset({"/srv/x"}),
        Limits(processes=9),
    )
    kept, problems = read_isolation({"lift": ["rye/bash/bash"]}, tightens=users)
    assert problems == ["expected only minimum, undeclared, agent, hide, limits, found lift"]
    assert kept == users


projects = st.fixed_dictionaries(
    {},
    optional={
        "minimum": st.sampled_from(["walls", "cell"]),
        "undeclared": st.sampled_from(["allow", "confine", "refuse"]),
        "agent": st.sampled_from(
            [{}, {"project": "read"}, {"project": "write", "net": "any"}, {"env": ["A"]}]
        ),
        "hide": st.sampled_from([[], ["/srv/x"], ["~/y"]]),
        "limits": st.dictionaries(
            st.sampled_from(["memory", "temp"]), st.sampled_from(["1MiB", "1GiB", "2MiB"])
        ),
    },
)


@given(projects, projects)
def test_whatever_a_project_says_nothing_gets_wider(users: dict[str, Any], project: dict[str, Any]) -> None:
    before, _ = read_isolation(users)
    after, problems = read_isolation(project, tightens=before)
    assert problems == []
    assert after.minimum >= before.minimum
    assert after.undeclared >= before.undeclared
    assert after.agent.is_within(before.agent)
    assert after.hide >= before.hide
    for name in ("memory", "temp"):
        limit = getattr(before.limits, name)
        assert limit is None or getattr(after.limits, name) <= limit
    assert after.lift == before.lift


PUSH = {"tool": "rye/bash/bash", "where": {"command": "git push*"}, "action": "deny"}


def test_the_first_rule_that_applies_decides() -> None:
    rules, problems = read_rules(
        [PUSH, {"tool": "rye/bash/*", "action": "ask"}, {"tool": "*", "action": "allow"}]
    )
    assert problems == []
    assert judged(rules, "rye/bash/bash", {"command": "git push --force"}) is Action.DENY
    assert judged(rules, "rye/bash/bash", {"command": "git pull"}) is Action.ASK
    assert judged(rules, "rye/bash/bash", {}) is Action.ASK
    assert judged(rules, "demo/hello", {"command": "git push"}) is Action.ALLOW
    assert judge((), (), "demo/hello", {}) is None


def judged(rules: tuple[Rule, ...], item_id: str, parameters: dict[str, Any]) -> Action | None:
    found = judge(rules, (), item_id, parameters)
    return None if found is None else found[0]


@pytest.mark.parametrize("users", [None, *Action])
@pytest.mark.parametrize("projects", [None, *Action])
def test_of_a_project_only_what_is_stricter_counts(users: Action | None, projects: Action | None) -> None:
    def of(action: Action | None) -> tuple[Rule, ...]:
        return () if action is None else (Rule("*", action),)

    found = judge(of(users), of(projects), "demo/hello", {})
    if projects is None or projects is Action.ALLOW:
        assert (found and found[0]) == users
    else:
        assert found is not None
        assert found[0] is max(projects, users or Action.ALLOW)


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ("", "", True),
        ("", "a", False),
        ("*", "a\nb", True),
        ("a*", "abc", True),
        ("a*", "ba", False),
        ("*c", "abc", True),
        ("a*c", "ac", True),
        ("ab*ba", "aba", False),
        ("*b*", "abc", True),
        ("a*b*c*d", "a-bb-c-d", True),
        ("a*b*c*d", "a-c-b-d", False),
        ("[ab]?", "[ab]?", True),
        ("[ab]", "a", False),
        ("true", True, True),
        ("3", 3, True),
        ('["push",*', ["push", "origin"], True),
        ('{"a":1}', {"a": 1}, True),
        ("null", None, True),
    ],
)
def test_patterns(pattern: str, value: object, fits: bool) -> None:
    assert Rule("*", Action.DENY, {"x": pattern}).applies("demo/hello", {"x": value}) is fits


def test_a_hostile_argument_takes_one_pass() -> None:
    rule = Rule("*", Action.DENY, {"x": "*a" * 40 + "*b"})
    assert not rule.applies("demo/hello", {"x": "a" * 1_000_000})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "expected a list of at most 256 rules, found a mapping"),
        ([PUSH] * 257, "expected a list of at most 256 rules, found 257"),
        (["x"], "rules[0]: expected tool, action and perhaps where, found text"),
        ([{"tool": "*"}], "rules[0]: expected tool, action and perhaps where, found tool"),
        (
            [{**PUSH, "why": "x"}],
            "rules[0]: expected tool, action and perhaps where, found action, tool, where, why",
        ),
        ([PUSH, {"tool": "../x", "action": "deny"}], "rules[1].tool: expected an item id"),
        ([{"tool": 1, "action": "deny"}], "rules[0].tool: expected an item id"),
        ([{"tool": "*", "action": "block"}], "rules[0].action: expected deny or ask or allow, found block"),
        ([{"tool": "*", "action": "deny", "where": ["x"]}], "rules[0].where: expected a pattern"),
        ([{"tool": "*", "action": "deny", "where": {"x": 1}}], "rules[0].where: expected a pattern"),
    ],
    ids=range(10),
)
def test_a_wrong_rule_is_said_with_its_number(value: Any, message: str) -> None:
    _, problems = read_rules(value)
    assert len(problems) == 1
    assert message in problems[0]
