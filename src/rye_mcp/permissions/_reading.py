"""Reads permissions as they stand in metadata, and says everything that is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from rye_mcp.errors import kind
from rye_mcp.permissions._grants import (
    ANY_HOST,
    HOST_PATTERN,
    ITEM_PATTERN,
    MAX_PATH,
    PATH_PATTERN,
    VARIABLE_PATTERN,
    Host,
    problem_of_host,
    problem_of_item_pattern,
    problem_of_path,
    problem_of_variable,
)
from rye_mcp.permissions._value import UNCONFINED, USES, Access, Permissions, Requirement

__all__ = [
    "NEEDS_SCHEMA",
    "PERMISSIONS_SCHEMA",
    "REQUIREMENTS",
    "read_needs",
    "read_permissions",
    "read_set",
    "read_word",
]

MAX_ENTRIES: Final = 64
"""How many values one key may have."""

_UNCONFINED: Final = "unconfined"
_NET_WORDS: Final[Mapping[str, frozenset[Host]]] = MappingProxyType(
    {"none": frozenset(), "any": frozenset({ANY_HOST})}
)
REQUIREMENTS: Final = MappingProxyType({"walls": Requirement.WALLS, "cell": Requirement.CELL})

_E = TypeVar("_E", bound=IntEnum)


def read_permissions(value: Any) -> tuple[Permissions, list[str]]:
    """The permissions that a value of metadata says, and what is wrong with it."""
    problems: list[str] = []
    if value == _UNCONFINED:
        return UNCONFINED, problems
    if not isinstance(value, dict):
        found = ascii(value)[:80] if isinstance(value, str) else kind(value)
        return Permissions(), [f"expected a mapping, or {_UNCONFINED}, found {found}"]
    unknown = sorted(value.keys() - _READERS.keys())
    if unknown:
        named = ", ".join(ascii(each)[1:-1] for each in unknown)[:80]
        problems.append(f"expected only {', '.join(_READERS)}, found {named}")
    said = {name: _READERS[name](value[name], name, problems) for name in _READERS if name in value}
    problems.extend(_contradictions(said))
    return Permissions(**said), problems


def read_needs(value: Any) -> tuple[Permissions, list[str]]:
    """Read the extra paths that a runtime reads for every tool, and report what is wrong with the value."""
    if not isinstance(value, dict) or value.keys() - {"read"}:
        found = ", ".join(sorted(value)) if isinstance(value, dict) else kind(value)
        return Permissions(), [f"expected a mapping with read alone, found {found[:80]}"]
    problems: list[str] = []
    return Permissions(read=_paths(value.get("read", []), "read", problems)), problems


def _contradictions(said: Mapping[str, Any]) -> Iterator[str]:
    for one, other in (("read", "write"), ("env", "secrets")):
        for both in sorted(said.get(one, frozenset()) & said.get(other, frozenset())):
            yield f"{other}: expected each name once, found {both} in {one} too"
    project = said.get("project", Access.NONE)
    for use, least in (("git", Access.READ), ("items", Access.WRITE), ("packages", Access.WRITE)):
        if use in said.get("uses", ()) and project < least:
            yield f"uses: expected project: {least.name.lower()} with {use}, found {project.name.lower()}"


def read_word(words: Mapping[str, _E]) -> Callable[[Any, str, list[str]], _E]:
    """A reader of one of these words; the first one stands in for what is wrong."""

    def read(value: Any, name: str, problems: list[str]) -> _E:
        if isinstance(value, str) and value in words:
            return words[value]
        found = ascii(value)[1:81] if isinstance(value, str) else kind(value)
        problems.append(f"{name}: expected {' or '.join(words)}, found {found}")
        return next(iter(words.values()))

    return read


def _texts(value: Any, name: str, problems: list[str], check: Callable[[str], str | None]) -> Iterator[str]:
    """The texts of a list, each once; those that are something else are problems."""
    if not isinstance(value, list):
        problems.append(f"{name}: expected a list of texts, found {kind(value)}")
        return
    if len(value) > MAX_ENTRIES:
        problems.append(f"{name}: expected at most {MAX_ENTRIES} values, found {len(value)}")
    seen: set[str] = set()
    for each in value[:MAX_ENTRIES]:
        if not isinstance(each, str):
            problems.append(f"{name}: expected a list of texts, found {kind(each)} in it")
        elif each in seen:
            problems.append(f"{name}: expected each value once, found {ascii(each)[:80]} again")
        elif problem := check(each):
            problems.append(f"{name}: {problem}")
        else:
            seen.add(each)
            yield each


def read_set(check: Callable[[str], str | None]) -> Callable[[Any, str, list[str]], frozenset[str]]:
    """A reader of a list of texts that the check finds nothing wrong with."""

    def read(value: Any, name: str, problems: list[str]) -> frozenset[str]:
        return frozenset(_texts(value, name, problems, check))

    return read


def _net(value: Any, name: str, problems: list[str]) -> frozenset[Host]:
    if isinstance(value, str) and value in _NET_WORDS:
        return _NET_WORDS[value]
    if not isinstance(value, list):
        found = ascii(value)[:80] if isinstance(value, str) else kind(value)
        problems.append(f"{name}: expected a list of hosts, any or none, found {found}")
        return frozenset()
    return frozenset(map(Host.parse, _texts(value, name, problems, problem_of_host)))


def _problem_of_use(text: str) -> str | None:
    return None if text in USES else f"expected some of {', '.join(USES)}, found {ascii(text)[1:81]}"


_paths: Final = read_set(problem_of_path)
_READERS: Final[Mapping[str, Callable[[Any, str, list[str]], Any]]] = MappingProxyType(
    {
        "project": read_word({each.name.lower(): each for each in Access}),
        "net": _net,
        "env": read_set(problem_of_variable),
        "secrets": read_set(problem_of_variable),
        "uses": read_set(_problem_of_use),
        "read": _paths,
        "write": _paths,
        "calls": read_set(problem_of_item_pattern),
        "require": read_word(REQUIREMENTS),
    }
)


# --- the same for editors, as far as a JSON Schema can say it ---


def _list(meaning: str, **items: Any) -> dict[str, Any]:
    of_items = {"type": "string", **items}
    return {
        "description": meaning,
        "type": "array",
        "maxItems": MAX_ENTRIES,
        "uniqueItems": True,
        "items": of_items,
    }


def _path_list(meaning: str) -> dict[str, Any]:
    return _list(meaning, pattern=PATH_PATTERN, maxLength=MAX_PATH)


_READABLE: Final = _path_list("Other files and directories that it may read: /path or ~/path.")

_CONFINED: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "project": {
            "description": "What it may do with the files of the project.",
            "enum": [each.name.lower() for each in Access],
        },
        "net": {
            "description": "Where it may connect to.",
            "anyOf": [
                _list("host, *.host or host:port; 443 by default.", pattern=HOST_PATTERN),
                {"enum": [*_NET_WORDS]},
            ],
        },
        "env": _list("Variables that look like secrets, and that it gets.", pattern=VARIABLE_PATTERN),
        "secrets": _list("Names in your store of secrets.", pattern=VARIABLE_PATTERN),
        "uses": _list("What else it uses.", enum=[*USES]),
        "read": _READABLE,
        "write": _path_list("Other files and directories that it may write."),
        "calls": _list("Tools that it may call: ids, or directory/*.", pattern=ITEM_PATTERN),
        "require": {"description": "What has to enforce this.", "enum": [*REQUIREMENTS]},
    },
    "additionalProperties": False,
}

PERMISSIONS_SCHEMA: Final[Mapping[str, Any]] = {
    "anyOf": [_CONFINED, {"const": _UNCONFINED}],
}

NEEDS_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"read": _READABLE},
    "additionalProperties": False,
}
