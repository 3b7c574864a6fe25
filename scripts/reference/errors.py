"""The codes of `rye_mcp.errors`, as tables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from rye_mcp import errors
from rye_mcp.errors import ERRORS
from scripts.reference.tables import cell, table

__all__ = ["PARTS", "sections"]

_SECTION: Final = re.compile(r"^ +# --- (?P<title>.+) ---$|^ +\"(?P<code>\w+)\": ErrorKind", re.MULTILINE)
_OF_TRUST: Final = ("what a signature says", "who signed")
_COMMAND: Final = re.compile(r"\b(?:rye|rye-mcp|pip|chmod|ls|df) .+?(?=, and| with another|$)")
_BRACES: Final = re.compile(r"\{(\w+)\}")


def sections() -> Iterator[tuple[str, list[str]]]:
    """The headings in the source of the table, and the codes below each."""
    found: list[tuple[str, list[str]]] = []
    for match in _SECTION.finditer(inspect.getsource(errors)):
        if match["title"]:
            found.append((match["title"], []))
        else:
            found[-1][1].append(match["code"])
    if [code for _, codes in found for code in codes] != list(ERRORS):
        raise ValueError("expected every code of ERRORS below a heading of its source, found others")
    yield from found


def _table(codes: list[str]) -> str:
    rows = [(f"`{code}`", cell(ERRORS[code].sentence), cell(_hint(ERRORS[code].hint))) for code in codes]
    return table(("code", "meaning", "what fixes it"), rows)


def _hint(hint: str) -> str:
    """The hint with what stands in its braces in capitals, and the command at its end as code."""
    shown = _BRACES.sub(lambda found: found[1].upper(), hint)
    return _COMMAND.sub(r"`\g<0>`", shown, count=1)


def _all() -> str:
    return "\n\n".join(f"## {title.capitalize()}\n\n{_table(codes)}" for title, codes in sections())


def _of_trust() -> str:
    return _table([code for title, codes in sections() if title in _OF_TRUST for code in codes])


PARTS: Final[Mapping[str, Callable[[], str]]] = {"errors": _all, "trust-codes": _of_trust}
