"""What a configuration file of a space holds: a mapping in YAML, read as the metadata of items is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rye_mcp.errors import RyeError
from rye_mcp.metadata._issues import Issues
from rye_mcp.metadata._yaml import read_yaml

__all__ = ["parse_configuration"]


def parse_configuration(content: bytes, where: Path) -> dict[str, Any]:
    """The mapping in a file; RyeError `invalid_item` for what is none, with the lines."""
    issues = Issues()
    try:
        values = read_yaml(content.decode("utf-8"), issues).values
    except UnicodeDecodeError as exc:
        raise RyeError("not_text", f"expected UTF-8, found none: {where}", where=where) from exc
    if issues.found:
        listed = "; ".join(map(str, issues.found[:5]))
        what = f"expected a mapping in YAML, found: {listed}"
        raise RyeError("invalid_item", what, where=where, hint=f"fix {where}")
    return dict(values)
