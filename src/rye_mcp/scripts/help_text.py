"""Options in what a program prints with `--help`: a line each, as nearly every program has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rye_mcp.scripts.declared import Declared, Option, parameter_name, text_of

__all__ = ["read_help"]

_LINE: Final = re.compile(
    r"^[ \t]{1,10}(?:(-[A-Za-z0-9])(?:[ =]?(<[^>]+>|[A-Z][\w-]*))?(?:,[ \t]*|[ \t]+|$))?"
    r"(--[A-Za-z][\w-]*)?(?:([ =]|\[=)(?:<([^>]+)>|\[?([A-Z][\w.|-]*)\]?))?(?:[ \t]{2,}(.*)|[ \t]*)$",
    re.ASCII,
)


def read_help(text: str) -> Declared:
    """The flags of a help text; values are attached to them."""
    options = tuple({each.name: each for each in _options(text)}.values())
    return Declared("--help", options, remarks=("read from --help: look at config and config_schema",))


def _options(text: str) -> Iterator[Option]:
    for line in text.split("\n"):
        found = _LINE.match(line)
        flag = found and (found[3] or found[1])
        if not found or not flag:
            continue
        about = {"description": text_of(found[7])} if found[7] else {}
        takes = found[2] or found[5] or found[6]
        form = f"{flag}{'=' if found[3] else ''}VALUE" if takes else flag
        option = Option(parameter_name(flag), form, {"type": "string" if takes else "boolean"} | about)
        if not option.is_about_itself:
            yield option
