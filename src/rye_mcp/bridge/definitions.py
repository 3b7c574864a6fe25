"""What a server says of one of its tools, and whether that is still what a person approved.

Rules:

- The hash of a definition is over everything that a model or a client may be shown of a tool: its name,
  title, description, both schemas and the hints. What it does cannot be seen from here.
- A change is told in two ways. Agents hear which parts changed and how large they are, and nothing of the new
  text: it may have been written for them. People get a diff in which nothing hides.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rye_mcp.visible import visible_lines

__all__ = ["PARTS", "Definition", "changes", "difference", "whole"]

PARTS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""What a definition is made of, as MCP calls it."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What a server says of a tool. `digest` is the hash that a person's signature pins.

    `problem` says why no item can hold it; such a definition has a name and no hash, so that none is pinned.
    """

    parts: Mapping[str, Any] = field(repr=False)
    digest: str
    problem: str | None = None

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Definition:
        """Out of an entry of `tools/list`; ValueError for what no JSON document can hold."""
        parts = {name: said[name] for name in PARTS if said.get(name) is not None}
        return cls(parts, hashlib.sha256(_canonical(parts)).hexdigest())

    @classmethod
    def malformed(cls, name: str, problem: str) -> Definition:
        """What is known of an entry that is no definition."""
        return cls({"name": name}, "", problem)

    @property
    def name(self) -> str:
        """What the server calls the tool."""
        return str(self.parts["name"])


def changes(approved: Mapping[str, Any], found: Definition) -> dict[str, Any]:
    """Which parts are others than approved, with their sizes: nothing of what they say now."""
    return {
        name: {
            "approved_characters": len(_shown(approved.get(name))),
            "found_characters": len(_shown(found.parts.get(name))),
        }
        for name in PARTS
        if approved.get(name) != found.parts.get(name)
    }


def difference(approved: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """The lines of a diff, all of them: a person is asked to sign what it shows."""
    lines = difflib.unified_diff(_lines(approved), _lines(found), "approved", "now", lineterm="", n=2)
    return [visible_lines(line) for line in lines]


def whole(found: Mapping[str, Any]) -> list[str]:
    """The lines of all that is said of a tool which nobody has approved yet."""
    return [visible_lines(line) for line in _lines(found)]


def _lines(parts: Mapping[str, Any]) -> list[str]:
    return [line for name in PARTS if parts.get(name) is not None for line in _part(name, parts[name])]


def _part(name: str, value: Any) -> Iterator[str]:
    yield f"{name}:"
    yield from (f"  {line}" for line in _shown(value).split("\n"))


def _canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode()


def _shown(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
