"""The example calls of a tool: what they look like, and what is wrong with them.

EXAMPLES = [{"parameters": {"name": "Ada"}, "expect": {"data": {"greeting": "Hello, Ada!"}}}]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from rye_mcp.errors import ERRORS
from rye_mcp.metadata._raw import Way, kind

__all__ = ["EXAMPLES_SCHEMA", "Example", "find_problems", "read_examples"]

MAX_EXAMPLES: Final = 100
"""How many examples a tool may have."""

EXPECTATIONS: Final = ("data", "contains", "code")
"""What `expect` can have; one of them."""

_RELATIVE_PATH: Final = re.compile(
    r"(?!\.{1,2}(?:/|$))[^/\x00-\x1f\\]+(?:/(?!\.{1,2}(?:/|$))[^/\x00-\x1f\\]+)*"
)

Problem = tuple[Way, str]


@dataclass(frozen=True, slots=True)
class Example:
    """One example call. `expect` is the kind of expectation and its value; None when success will do."""

    parameters: Mapping[str, Any]
    description: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    expect: tuple[str, Any] | None = None

    @property
    def expected_code(self) -> str | None:
        """The code of the failure that is expected."""
        return self.expect[1] if self.expect is not None and self.expect[0] == "code" else None


def read_examples(value: Any) -> tuple[Example, ...]:
    """The examples in a value that `find_problems` finds nothing wrong with."""
    return tuple(map(_read, value or ()))


def _read(value: Mapping[str, Any]) -> Example:
    expect = value.get("expect")
    return Example(
        value["parameters"],
        value.get("description", ""),
        value.get("files", {}),
        None if expect is None else next(iter(expect.items())),
    )


def find_problems(value: Any) -> Iterator[Problem]:
    """What is wrong with a value as examples, and where in it."""
    if not isinstance(value, list):
        yield (), f"expected a list of examples, found {kind(value)}"
        return
    if len(value) > MAX_EXAMPLES:
        yield (), f"expected at most {MAX_EXAMPLES} examples, found {len(value)}"
    for number, example in enumerate(value[:MAX_EXAMPLES]):
        for way, problem in _in_example(example):
            yield (number, *way), problem


def _in_example(example: Any) -> Iterator[Problem]:
    if not isinstance(example, dict):
        yield (), f"expected a mapping with parameters, found {kind(example)}"
        return
    if "parameters" not in example:
        yield (), f"expected parameters, found {', '.join(sorted(example)) or 'nothing'}"
    for name, value in example.items():
        if name not in _MEMBERS:
            yield (name,), f"expected only {', '.join(_MEMBERS)}, found {name}"
        else:
            for way, problem in _MEMBERS[name](value):
                yield (name, *way), problem


def _parameters(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield (), f"expected a mapping, found {kind(value)}"


def _description(value: Any) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield (), f"expected text, found {kind(value)}"


def _files(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield (), f"expected a mapping of paths to texts, found {kind(value)}"
        return
    for path, text in value.items():
        if not _RELATIVE_PATH.fullmatch(path):
            yield (path,), f"expected a path below the project, found {path!a}"
        elif not isinstance(text, str):
            yield (path,), f"expected text, found {kind(text)}"


def _expect(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= set(EXPECTATIONS):
        found = ", ".join(value) or "nothing" if isinstance(value, dict) else kind(value)
        yield (), f"expected one of {', '.join(EXPECTATIONS)}, found {found}"
    elif "code" in value and (not isinstance(value["code"], str) or value["code"] not in ERRORS):
        yield ("code",), f"expected the code of an error, such as tool_failed, found {value['code']!r}"


_MEMBERS: Final[Mapping[str, Callable[[Any], Iterator[Problem]]]] = MappingProxyType(
    {"description": _description, "parameters": _parameters, "files": _files, "expect": _expect}
)

_EXAMPLE: Final[Mapping[str, Any]] = {
    "description": "A call, and what is to come of it.",
    "type": "object",
    "properties": {
        "description": {"type": "string"},
        "parameters": {"description": "What the tool is called with.", "type": "object"},
        "files": {
            "description": "Texts by their paths, written into the project of the run first.",
            "type": "object",
            "additionalProperties": {"type": "string"},
        },
        "expect": {
            "description": "What is to come of it; without it, success will do.",
            "oneOf": [
                {"properties": {"data": {"description": "Exactly this."}}, "required": ["data"]},
                {"properties": {"contains": {"description": "A part of it."}}, "required": ["contains"]},
                {"properties": {"code": {"enum": sorted(ERRORS)}}, "required": ["code"]},
            ],
            "type": "object",
            "maxProperties": 1,
        },
    },
    "required": ["parameters"],
    "additionalProperties": False,
}

EXAMPLES_SCHEMA: Final[Mapping[str, Any]] = {
    "description": "Calls that show how it is used; rye test runs them.",
    "type": "array",
    "maxItems": MAX_EXAMPLES,
    "items": _EXAMPLE,
}
"""The same as a JSON Schema, for editors."""
