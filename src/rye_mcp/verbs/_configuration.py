"""The configuration of a space: `config/rye.yaml` below its root, which nobody signs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from rye_mcp.errors import RyeError
from rye_mcp.metadata import parse_configuration
from rye_mcp.trust.files import read_below

__all__ = ["CONFIGURATION", "list_of_texts"]

CONFIGURATION: Final = "config/rye.yaml"
"""Where a space has its configuration."""

_MAX_BYTES: Final = 1 << 16


def list_of_texts(root: Path, name: str, *, such_as: str, forbidden: int = 0) -> tuple[str, ...]:
    """What stands under a name; nothing where there is no configuration, or no such name in it.

    RyeError for what cannot be read, and for what is no list of texts. `forbidden` are the bits of a mode
    that others could change the file by.
    """
    try:
        content = read_below(root, CONFIGURATION, limit=_MAX_BYTES, forbidden=forbidden, root_forbidden=0)
    except FileNotFoundError:
        content = None
    values = [] if content is None else _parsed(content, root / CONFIGURATION).get(name, [])
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        what = f"expected a list of texts as {name}, found {type(values).__name__}"
        raise RyeError("invalid_item", what, where=root / CONFIGURATION, hint=f"such as {name}: {such_as}")
    return tuple(values)


@lru_cache(maxsize=16)
def _parsed(content: bytes, where: Path) -> Mapping[str, Any]:
    """The same bytes say the same: they are read by every call, and parsed when they have changed."""
    return MappingProxyType(parse_configuration(content, where))
