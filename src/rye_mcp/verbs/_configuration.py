"""The configuration of a space: `config/rye.yaml` below its root, which nobody signs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from rye_mcp.errors import RyeError
from rye_mcp.metadata import parse_configuration
from rye_mcp.trust.files import KeptFile

__all__ = ["CONFIGURATION", "list_of_texts"]

CONFIGURATION: Final = "config/rye.yaml"
"""Where a space has its configuration."""

_MAX_BYTES: Final = 1 << 16


def list_of_texts(root: Path, name: str, *, such_as: str, forbidden: int = 0) -> tuple[str, ...]:
    """What stands under a name; nothing where there is no configuration, or no such name in it.

    RyeError for what cannot be read, and for what is no list of texts. `forbidden` are the bits of a mode
    that others could change the file by.
    """
    values = _file(root, forbidden).value().get(name, [])
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        what = f"expected a list of texts as {name}, found {type(values).__name__}"
        raise RyeError("invalid_item", what, where=root / CONFIGURATION, hint=f"such as {name}: {such_as}")
    return tuple(values)


@lru_cache(maxsize=16)
def _file(root: Path, forbidden: int) -> KeptFile[Mapping[str, Any]]:
    """Every call asks what it says, and it is read when it has changed."""
    return KeptFile(root, CONFIGURATION, _parsed, limit=_MAX_BYTES, forbidden=forbidden, root_forbidden=0)


def _parsed(content: bytes | None, where: Path) -> Mapping[str, Any]:
    return MappingProxyType({} if content is None else parse_configuration(content, where))
