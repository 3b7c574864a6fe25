"""The user's policy for all tools: isolation, and rules on arguments. A project may only tighten it.

isolation: {minimum: walls, undeclared: confine, hide: [~/clients], limits: {processes: 500, memory: 4GiB}}
rules: [{tool: rye/bash/bash, where: {command: "git push*"}, action: ask}]
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from enum import IntEnum
from typing import Any, Final

from lilux._dataclasses import dataclass
from lilux._policy import Limits
from rye_mcp.errors import kind
from rye_mcp.permissions._grants import covers_items, is_below, problem_of_item_pattern, problem_of_path_text
from rye_mcp.permissions._reading import REQUIREMENTS, read_permissions, read_set, read_word
from rye_mcp.permissions._value import Access, Permissions, Requirement

__all__ = ["Action", "Isolation", "Rule", "Undeclared", "judge", "read_isolation", "read_rules"]

MAX_RULES: Final = 256
"""How many rules one file may have."""

_EVERY_TOOL: Final = "*"
_AGENTS: Final = Permissions(project=Access.WRITE)


class Undeclared(IntEnum):
    """How a person's tool that declares nothing is treated; the stricter, the higher."""

    ALLOW = 0
    """It runs as its user does."""
    CONFINE = 1
    """It may write the project, and nothing else."""
    REFUSE = 2


class Action(IntEnum):
    """The action of a rule; the stricter, the higher."""

    ALLOW = 0
    ASK = 1
    DENY = 2


@dataclass(frozen=True, slots=True)
class Isolation:
    """How tools are confined here, beside what they declare."""

    minimum: Requirement = Requirement.NONE
    """The weakest isolation that may enforce the permissions of a tool."""
    undeclared: Undeclared = Undeclared.ALLOW
    agent: Permissions = _AGENTS
    """The most that a tool may do that an agent signed."""
    hide: frozenset[str] = frozenset()
    """Places that no confined tool sees, whatever it declares."""
    limits: Limits = Limits()
    """The most that a run of a confined tool uses: of processes, memory, room for its temporary files."""
    lift: frozenset[str] = frozenset()
    """Tools, but none that an agent signed, that run unconfined although they declare less."""

    def lifts(self, item_id: str) -> bool:
        """Whether the user lets this tool run unconfined."""
        return any(covers_items(each, item_id) for each in self.lift)

    def hides(self, path: str) -> bool:
        """Whether a path is in a hidden place."""
        return any(is_below(path, each) for each in self.hide)


@dataclass(frozen=True, slots=True)
class Rule:
    """An action for calls of some tools whose arguments match."""

    tool: str
    action: Action
    where: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        patterns = ", ".join(f"{name}: {pattern!r}" for name, pattern in self.where.items())
        return f"{self.action.name.lower()} {self.tool}{f' where {patterns}' if patterns else ''}"

    def is_about(self, item_id: str) -> bool:
        """Whether the rule is about some calls of this tool."""
        return self.tool == _EVERY_TOOL or covers_items(self.tool, item_id)

    def applies(self, item_id: str, parameters: Mapping[str, Any]) -> bool:
        """Whether the rule is about this call: every pattern fits, and no parameter is missing."""
        return self.is_about(item_id) and all(
            name in parameters and _fits(pattern, _as_text(parameters[name]))
            for name, pattern in self.where.items()
        )


def judge(
    users: Sequence[Rule], projects: Sequence[Rule], item_id: str, parameters: Mapping[str, Any]
) -> tuple[Action, Rule] | None:
    """Return the action of the rules for a call, and its rule; None when no rule matches.

    In each file the first rule that applies decides. What a project says counts where it is stricter.
    """
    found = _first(users, item_id, parameters)
    tighter = _first(projects, item_id, parameters)
    if tighter is not None and tighter.action > (Action.ALLOW if found is None else found.action):
        found = tighter
    return None if found is None else (found.action, found)


def _first(rules: Iterable[Rule], item_id: str, parameters: Mapping[str, Any]) -> Rule | None:
    return next((rule for rule in rules if rule.applies(item_id, parameters)), None)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _fits(pattern: str, text: str) -> bool:
    """Whether a pattern is all of a text; `*` stands for anything. It takes one pass."""
    first, *parts = pattern.split("*")
    if not parts:
        return text == first
    *middle, last = parts
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    position, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True


# --- reading ---


def read_isolation(value: Any, *, tightens: Isolation | None = None) -> tuple[Isolation, list[str]]:
    """Read the `isolation` of a file, and report what is wrong with it.

    A project's file `tightens` what the user's says: of both, the stricter counts.
    """
    base = tightens or Isolation()
    if not isinstance(value, dict):
        return base, [f"expected a mapping, found {kind(value)}"]
    problems: list[str] = []
    known = dict(_READERS) if tightens is None else {k: v for k, v in _READERS.items() if k != "lift"}
    if unknown := sorted(value.keys() - known.keys()):
        problems.append(f"expected only {', '.join(known)}, found {', '.join(unknown)[:80]}")
    said = {name: read(value[name], name, problems) for name, read in known.items() if name in value}
    return (Isolation(**said) if tightens is None else _tightened(base, said)), problems


def _tightened(base: Isolation, said: Mapping[str, Any]) -> Isolation:
    return replace(
        base,
        minimum=max(base.minimum, said.get("minimum", base.minimum)),
        undeclared=max(base.undeclared, said.get("undeclared", base.undeclared)),
        agent=base.agent.meet(said.get("agent", base.agent)),
        hide=base.hide | said.get("hide", frozenset()),
        limits=_least(base.limits, said.get("limits", base.limits)),
    )


def _least(one: Limits, other: Limits) -> Limits:
    both = {name: (getattr(one, name), getattr(other, name)) for name in _LIMITS}
    said = {name: [each for each in pair if each is not None] for name, pair in both.items()}
    return Limits(**{name: min(found) for name, found in said.items() if found})


def _limits(value: Any, name: str, problems: list[str]) -> Limits:
    if not isinstance(value, dict) or not value.keys() <= _LIMITS.keys():
        found = ", ".join(map(str, value))[:80] if isinstance(value, dict) else kind(value)
        problems.append(f"{name}: expected a mapping with {', '.join(_LIMITS)}, found {found}")
        return Limits()
    read = {each: _LIMITS[each](said) for each, said in value.items()}
    for each in (each for each, limit in read.items() if limit is None):
        expected = "1 to 1000000" if each == "processes" else "an amount such as 4GiB, at least 1MiB"
        problems.append(f"{name}.{each}: expected {expected}, found {ascii(value[each])[:80]}")
    return Limits(**{each: limit for each, limit in read.items() if limit is not None})


def _count(value: Any) -> int | None:
    return value if type(value) is int and 1 <= value <= _MAX_PROCESSES else None


def _amount(value: Any) -> int | None:
    found = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    return None if found is None else int(found[1]) << _UNITS[found[2]]


def _agent(value: Any, name: str, problems: list[str]) -> Permissions:
    ceiling, found = read_permissions(value)
    problems.extend(f"{name}: {each}" for each in found)
    if ceiling.unconfined:
        problems.append(f"{name}: expected a mapping, found unconfined: what agents sign is always confined")
    return _AGENTS if found or ceiling.unconfined else ceiling


_MAX_PROCESSES: Final = 1_000_000
_UNITS: Final = {"MiB": 20, "GiB": 30, "TiB": 40}
_AMOUNT: Final = re.compile("([1-9][0-9]{0,5})(MiB|GiB|TiB)")
_LIMITS: Final[Mapping[str, Callable[[Any], int | None]]] = {
    "processes": _count,
    "memory": _amount,
    "temp": _amount,
}
_Reader = Callable[[Any, str, list[str]], Any]
_READERS: Final[Mapping[str, _Reader]] = {
    "minimum": read_word(REQUIREMENTS),
    "undeclared": read_word({each.name.lower(): each for each in Undeclared}),
    "agent": _agent,
    "hide": read_set(problem_of_path_text),
    "limits": _limits,
    "lift": read_set(problem_of_item_pattern),
}
_ACTION: Final = read_word({each.name.lower(): each for each in reversed(Action)})
_RULE_KEYS: Final = ("tool", "where", "action")


def read_rules(value: Any) -> tuple[tuple[Rule, ...], list[str]]:
    """Read the `rules` of a file, and report what is wrong with them."""
    if not isinstance(value, list) or len(value) > MAX_RULES:
        found = f"{len(value)}" if isinstance(value, list) else kind(value)
        return (), [f"expected a list of at most {MAX_RULES} rules, found {found}"]
    problems: list[str] = []
    rules = [_rule(each, f"rules[{number}]", problems) for number, each in enumerate(value)]
    return tuple(rule for rule in rules if rule is not None), problems


def _rule(value: Any, name: str, problems: list[str]) -> Rule | None:
    if not isinstance(value, dict) or not {"tool", "action"} <= value.keys() <= set(_RULE_KEYS):
        found = ", ".join(sorted(value)) or "nothing" if isinstance(value, dict) else kind(value)
        problems.append(f"{name}: expected tool, action and perhaps where, found {found[:80]}")
        return None
    tool, where = value["tool"], value.get("where", {})
    if not isinstance(tool, str) or (tool != _EVERY_TOOL and problem_of_item_pattern(tool)):
        problems.append(f"{name}.tool: expected an item id, directory/* or *, found {ascii(tool)[:80]}")
        return None
    if not isinstance(where, dict) or not all(isinstance(each, str) for each in where.values()):
        problems.append(f"{name}.where: expected a pattern, in quotes, for each parameter")
        return None
    return Rule(tool, _ACTION(value["action"], f"{name}.action", problems), dict(where))
