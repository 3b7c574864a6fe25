"""Tells the code of a tool from what it says about itself."""

from __future__ import annotations

import re
from typing import Final

from rye_mcp.items import MARKER, CommentStyle, ItemFile, comment_style
from rye_mcp.metadata._python import PYTHON_NAMES

__all__ = ["code_of"]

_YAML: Final = frozenset({".yaml", ".yml"})
_DOCSTRING: Final = re.compile(r"\A(?:[ \t]*(?:#[^\n]*)?\n)*[rRuU]?(\"\"\"|''')(?:.*?)\1", re.DOTALL)
_ASSIGNED: Final = re.compile(rf"(?:{'|'.join(PYTHON_NAMES)})\s*[:=]")
_GOES_ON: Final = (" ", "\t", "\n", ")", "]", "}", "#")


def code_of(file: ItemFile) -> str:
    """The text of a tool without its signature and its metadata, whether these are valid or not."""
    if file.extension in _YAML:
        return ""  # all of it is metadata
    text = _without_signature(file.content).decode("utf-8", "replace")
    if file.extension == ".py":
        return _python_code(text)
    style = comment_style(file.extension)
    return text if style is None else _beside_block(text, style)


def _without_signature(content: bytes) -> bytes:
    first, second, *rest = [*content.split(b"\n", 2), b"", b""]
    return b"\n".join([*(line for line in (first, second) if MARKER not in line), *rest])


def _python_code(text: str) -> str:
    """The code without its docstring, and without the statements that say what it is."""
    text = _DOCSTRING.sub("", text, count=1)
    kept: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        inside = bool(_ASSIGNED.match(line)) or (inside and line.startswith(_GOES_ON))
        if not inside:
            kept.append(line)
    return "".join(kept)


def _beside_block(text: str, style: CommentStyle) -> str:
    """The code without the block of comments that says what it is."""
    comment = style.opening.decode("ascii")
    before, opening, rest = text.partition(f"{comment}/// rye\n")
    _, closing, after = rest.partition(f"{comment}///\n")
    return before + after if opening and closing else text
