"""The configuration files of MCP clients: where each client has one, and edits of one member of it.

Every other byte of a document stays. What is not strict JSON (comments, names that occur twice) is a
ValueError for edits; readers may remove comments first.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from json.decoder import scanstring  # type: ignore[attr-defined]  # the stubs lack it
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lilux._dataclasses import dataclass

__all__ = [
    "CLIENTS",
    "KEPT",
    "Client",
    "ClientName",
    "Surroundings",
    "entry",
    "parse_object",
    "with_member",
    "without_comments",
    "without_member",
]

KEPT: Final = ("USER_SPACE", "XDG_STATE_HOME", "XDG_CACHE_HOME", "RYE_LOCKED")
"""The variables that a server has to have as the terminal has them."""


class ClientName(StrEnum):
    """A client, as people call it on the command line."""

    CLAUDE_DESKTOP = "claude-desktop"
    CLAUDE_CODE = "claude-code"
    CURSOR = "cursor"
    VSCODE = "vscode"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The settings that decide where a client keeps its configuration."""

    home: Path
    environment: Mapping[str, str]
    platform: str = sys.platform

    def configuration(self) -> Path:
        """Where programs keep their configuration."""
        if self.platform == "darwin":
            return self.home / "Library/Application Support"
        named = Path(self.environment.get("XDG_CONFIG_HOME", ""))
        return named if named.is_absolute() else self.home / ".config"


@dataclass(frozen=True, slots=True)
class Client:
    """A client: its title, its file, the object in it that holds servers, and what makes it read them.

    `project_file` is where a project keeps servers for everybody who works on it, relative to the project.
    """

    title: str
    file: Callable[[Surroundings], Path]
    servers: str
    says_type: bool
    restart: str
    knows_projects: bool = False
    project_file: str | None = None

    def path_of(self, name: str, project: Path | None) -> tuple[str, ...]:
        """Where a server stands in the file."""
        if self.knows_projects and project is not None:
            return ("projects", str(project), self.servers, name)
        return (self.servers, name)


def entry(
    client: Client,
    command: Path,
    project: Path | None,
    environment: Mapping[str, str],
    *,
    user_directory: Path,
) -> dict[str, Any]:
    """Return the entry for the server in the configuration; `user_directory` is the user's home."""
    variables = {name: environment[name] for name in KEPT if environment.get(name)}
    if variables.get("USER_SPACE") == str(user_directory):
        del variables["USER_SPACE"]
    found: dict[str, Any] = {"type": "stdio"} if client.says_type else {}
    found |= {"command": str(command), "args": [] if project is None else ["--project", str(project)]}
    return found | ({"env": variables} if variables else {})


def _claude_code(surroundings: Surroundings) -> Path:
    named = Path(surroundings.environment.get("CLAUDE_CONFIG_DIR", ""))
    return (named if named.is_absolute() else surroundings.home) / ".claude.json"


CLIENTS: Final[Mapping[ClientName, Client]] = MappingProxyType(
    {
        ClientName.CLAUDE_DESKTOP: Client(
            "Claude Desktop",
            lambda at: at.configuration() / "Claude/claude_desktop_config.json",
            "mcpServers",
            says_type=False,
            restart="quit Claude Desktop and start it again",
        ),
        ClientName.CLAUDE_CODE: Client(
            "Claude Code",
            _claude_code,
            "mcpServers",
            says_type=True,
            restart="begin a new session of Claude Code",
            knows_projects=True,
            project_file=".mcp.json",
        ),
        ClientName.CURSOR: Client(
            "Cursor",
            lambda at: at.home / ".cursor/mcp.json",
            "mcpServers",
            says_type=False,
            restart="switch the server on in Cursor's settings, under MCP",
            project_file=".cursor/mcp.json",
        ),
        ClientName.VSCODE: Client(
            "VS Code",
            lambda at: at.configuration() / "Code/User/mcp.json",
            "servers",
            says_type=True,
            restart="start the server in VS Code: MCP: List Servers",
            project_file=".vscode/mcp.json",
        ),
    }
)
"""Every client, by its name."""


_BLANKS = re.compile(r"[ \t\n\r]*")
_FIRST_INDENT = re.compile(r"\{\r?\n([ \t]+)\"")
_DEFAULT_INDENT: Final = "  "
# A comment without an end reaches to the end of the text, so it is searched for only once.
_STRING: Final = r'"(?:\\.|[^"\\])*(?:"|\\?\Z)'
_COMMENT: Final = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA: Final = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)

Names = Sequence[str]
_Member = tuple[int, int, int]
"""Where the name of a member begins, where its value does, and where that ends."""


def parse_object(text: str) -> dict[str, Any]:
    """The object that a document is; ValueError for anything else, blanks are an empty one."""
    if not text.strip():
        return {}
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("expected JSON that is not deeper than anybody writes it") from None
    if not isinstance(found, dict):
        raise ValueError(f"expected an object, found {type(found).__name__}")
    return found


def without_comments(text: str) -> str:
    """The text with blanks for its comments, and for commas with nothing behind them."""

    def blanks(found: re.Match[str]) -> str:
        return found[1] or re.sub(r"[^\n]", " ", found[0])

    return _LAST_COMMA.sub(blanks, _COMMENT.sub(blanks, text))


def with_member(text: str, path: Names, value: Any) -> str:
    """The document with this value at this path."""
    expected = copy.deepcopy(parse_object(text))
    inner = expected
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ValueError(f"expected an object as {name!r}, found {type(inner).__name__}")
    if path[-1] in inner and inner[path[-1]] == value:
        return text
    inner[path[-1]] = value
    return _checked(_put(text if text.strip() else "{}\n", path, value), expected)


def without_member(text: str, path: Names) -> str:
    """The document without what is at this path; the same when there is nothing."""
    expected = inner = copy.deepcopy(parse_object(text))
    for name in path[:-1]:
        inner = inner.get(name, {})
        if not isinstance(inner, dict):
            return text
    if path[-1] not in inner:
        return text
    del inner[path[-1]]
    return _checked(_cut(text, path), expected)


def _put(text: str, path: Names, value: Any) -> str:
    unit = found[1] if (found := _FIRST_INDENT.search(text)) else _DEFAULT_INDENT
    start = end = _skip(text, 0)
    for depth, name in enumerate(path):
        members = _members(text, start)
        if name in members:
            _, start, end = members[name]
            continue
        missing = value
        for inner in reversed(path[depth + 1 :]):
            missing = {inner: missing}
        return _insert(text, start, members, (name, missing), unit, depth)
    return text[:start] + _written(value, unit, len(path)) + text[end:]


def _insert(
    text: str, start: int, members: dict[str, _Member], member: tuple[str, Any], unit: str, depth: int
) -> str:
    name, value = member
    indent = "\n" + unit * (depth + 1)
    written = f"{indent}{json.dumps(name, ensure_ascii=False)}: {_written(value, unit, depth + 1)}"
    if members:
        last = max(end for _, _, end in members.values())
        return f"{text[:last]},{written}{text[last:]}"
    close = _skip(text, start + 1)
    return f"{text[: start + 1]}{written}\n{unit * depth}{text[close:]}"


def _cut(text: str, path: Names) -> str:
    start = _skip(text, 0)
    for name in path[:-1]:
        start = _members(text, start)[name][1]
    members = list(_members(text, start).items())
    position = [name for name, _ in members].index(path[-1])
    begin, _, end = members[position][1]
    if position > 0:
        return text[: members[position - 1][1][2]] + text[end:]
    if len(members) > 1:
        return text[:begin] + text[members[1][1][0] :]
    return text[: start + 1] + text[_skip(text, end) :]


def _members(text: str, start: int) -> dict[str, _Member]:
    """The members of the object that begins here."""
    found: dict[str, _Member] = {}
    decoder = json.JSONDecoder()
    place = _skip(text, start + 1)
    while text[place] != "}":
        begin = place
        name, place = scanstring(text, begin + 1)
        value = _skip(text, _skip(text, place) + 1)
        _, end = decoder.raw_decode(text, value)
        found[name] = (begin, value, end)
        place = _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)
    return found


def _skip(text: str, place: int) -> int:
    found = _BLANKS.match(text, place)
    return place if found is None else found.end()


def _written(value: Any, unit: str, depth: int) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", "\n" + unit * depth)


def _checked(text: str, expected: dict[str, Any]) -> str:
    if parse_object(text) != expected:
        raise ValueError("expected a document that differs in one place, found more")
    return text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("expected every name once in an object, found one twice")
    return found
