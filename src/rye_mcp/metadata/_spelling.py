"""Names that are no field, and nearly one: what is kept without a word, and was probably meant.

Rules:

- Whatever is no field is kept, and means nothing: that stays so, and nothing is said of names like no field.
- A field that is there was not meant by another name beside it.
- In Python, names between two underscores count, and those in upper case that a mapping or a list is assigned
  to: nothing else there looks like metadata.
- What belongs into `config` is known by its name beside `config` too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from types import MappingProxyType
from typing import Final

from rye_mcp.items import ItemFile, ItemType
from rye_mcp.metadata._fields import FIELDS, OF_TOOLS
from rye_mcp.metadata._issues import Issue
from rye_mcp.metadata._python import PYTHON_NAMES
from rye_mcp.metadata._values import Raw

__all__ = ["misspelt_in"]

_CLOSE: Final = 0.8
"""How much of two names has to be the same, from 0 to 1."""

_MAX_LENGTH: Final = 40
_MAX_LOOKED_AT: Final = 200
"""How many names are compared: whoever misspells one has few."""

_MAX_TOLD: Final = 10
"""How many are told of one item."""

_EXAMPLES: Final = "examples"
_IN_CONFIG: Final = MappingProxyType({name: f"config.{name}" for name in ("timeout", "max_output", "cwd")})
_IN_PYTHON: Final = MappingProxyType(
    {name.strip("_"): name for name, field in PYTHON_NAMES.items() if field in {*FIELDS, _EXAMPLES}}
)


def misspelt_in(raw: Raw, file: ItemFile) -> Iterator[Issue]:
    """Each name that is nearly a field which the item does not have, with its line."""
    if file.extension == ".py":
        missing = {name: each for name, each in _IN_PYTHON.items() if PYTHON_NAMES[each] not in raw.lines}
        return islice(_close(raw.besides, missing), _MAX_TOLD)
    known = _fields_of(file.item_type)
    unknown = {name: line for name, line in raw.lines.items() if name not in known}
    missing = {name: name for name in known - raw.lines.keys()}
    meant = missing | _IN_CONFIG if file.item_type is ItemType.TOOL else missing
    return islice(_close(unknown, meant), _MAX_TOLD)


def _fields_of(item_type: ItemType) -> frozenset[str]:
    return frozenset({*FIELDS, _EXAMPLES}) if item_type is ItemType.TOOL else frozenset(FIELDS) - OF_TOOLS


def _close(unknown: Mapping[str, int], meant: Mapping[str, str]) -> Iterator[Issue]:
    for name, line in islice(unknown.items(), _MAX_LOOKED_AT):
        if len(name) <= _MAX_LENGTH and (found := get_close_matches(name.strip("_"), meant, 1, _CLOSE)):
            what = f"expected a known field, found none of this name; did you mean {meant[found[0]]}?"
            yield Issue(f"{name}: {what}", line, name)
