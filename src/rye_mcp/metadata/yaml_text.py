"""YAML for values that JSON can hold, written so that people can read it before they sign.

Reading the text back gives exactly the value. A character that cannot be seen is written as an escape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rye_mcp.visible import find_hidden

__all__ = ["yaml_lines"]

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_-]*", re.ASCII)
_NO_TEXT: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"})
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def yaml_lines(value: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """The lines of YAML that say exactly this, indented as a block `depth` levels down."""
    for name, each in value.items():
        yield from _entry(f"{'  ' * depth}{_key(name)}:", each, depth + 1)


def _entry(head: str, value: Any, depth: int) -> Iterator[str]:
    """A key or a dash, and what stands behind it."""
    if isinstance(value, Mapping) and value:
        yield head
        yield from yaml_lines(value, depth)
    elif isinstance(value, list) and value:
        yield head
        for each in value:
            yield from _entry(f"{'  ' * depth}-", each, depth + 1)
    elif isinstance(value, str) and _reads_as_lines(value):
        yield f"{head} |2-" if depth == 1 else f"{head} |-"
        yield from (f"{'  ' * depth}{line}" if line else "" for line in value.split("\n"))
    else:
        yield f"{head} {_scalar(value)}"


def _reads_as_lines(text: str) -> bool:
    """Whether a literal block holds exactly this, for people to read."""
    lines = text.split("\n")
    return (
        len(lines) > 1
        and find_hidden(text) is None
        and all(line == line.rstrip() and line.isprintable() for line in lines)
        and bool(lines[0])
        and not lines[0].startswith(" ")
        and bool(lines[-1])
    )


def _key(name: str) -> str:
    plain = _PLAIN_KEY.fullmatch(name) is not None and name.lower() not in _NO_TEXT and len(name) < 64
    return name if plain else _quoted(name)


def _scalar(value: Any) -> str:
    return _quoted(value) if isinstance(value, str) else json.dumps(value, allow_nan=False)


def _quoted(text: str) -> str:
    return '"' + "".join(map(_character, text)) + '"'


def _character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable() and find_hidden(character) is None:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
