"""The block of comments that makes a script a tool, and where it goes: every other line stays as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from rye_mcp.items import COMMENT_STYLES
from rye_mcp.metadata import yaml_lines

__all__ = ["block_of", "metadata_block", "with_block"]

_CODING: Final = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+", re.ASCII)


def metadata_block(fields: Mapping[str, Any], extension: str) -> str:
    """The lines that say this, with the comments of a language."""
    comment = COMMENT_STYLES[extension].opening.decode("ascii")
    lines = ["/// rye", *yaml_lines(fields), "///"]
    return "".join(f"{comment}{line}".rstrip() + "\n" for line in lines)


def block_of(text: str, extension: str) -> str | None:
    """The block of a script that has one, to the end of its last line."""
    comment = re.escape(COMMENT_STYLES[extension].opening.decode("ascii").rstrip())
    block = rf"^{comment} /// rye[ \t]*\n(?:{comment}(?! ///[ \t]*$).*\n)*{comment} ///[ \t]*(?:\n|\Z)"
    found = re.search(block, text, re.MULTILINE)
    return None if found is None else found[0]


def with_block(text: str, block: str, extension: str) -> str:
    """The script with the block below its first line, if that says how it is started.

    An empty line behind it keeps it apart from other blocks of comments, such as that of PEP 723.
    """
    lines = text.split("\n")
    above = 1 if lines[0].startswith("#!") else 0
    if extension == ".py" and len(lines) > above and _CODING.match(lines[above]):
        above += 1
    head = "".join(f"{line}\n" for line in lines[:above])
    rest = "\n".join(lines[above:])
    return f"{head}{block}{'' if rest.startswith(chr(10)) or not rest else chr(10)}{rest}"
