"""The arguments of a call, checked against the definition of its tool.

Rules:

- An argument that is not known is `unknown_argument`, which lists the known ones, and says which one may be
  meant; it is never ignored.
- Clients that send an object, a number or a boolean as a JSON string are understood: where the schema takes
  no text, text is read as JSON, once.
- Everything that is wrong is reported at once (`invalid_parameters`). Defaults are filled in.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import Any

from rye_mcp.errors import RyeError
from rye_mcp.mcp_server.definitions import Definition

__all__ = ["check_arguments"]

_SHOWN_CHARACTERS = 80
_COMPARED = 10
_IDS = frozenset({"id", "name", "tool", "item"})


def check_arguments(definition: Definition, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments with defaults; RyeError with all that is wrong."""
    from lilux.schemas import validate_parameters

    arguments = dict(given or {})
    unknown = sorted(arguments.keys() - definition.properties.keys())
    if unknown:
        known = ", ".join(definition.properties)
        found = ", ".join(name[:_SHOWN_CHARACTERS] for name in unknown)
        what = f"expected arguments of {definition.name} out of {known}, found {found}"
        hint = _hint_for(unknown, definition.properties) or f"leave out {found}"
        raise RyeError("unknown_argument", what, hint=hint, known=list(definition.properties))
    read = {name: _read(definition.properties[name], value) for name, value in arguments.items()}
    values = {name: copy(default) for name, default in definition.defaults.items()} | read
    errors = validate_parameters(values, definition.input_schema).errors
    if errors:
        listed = "; ".join(map(str, errors))
        issues = [{"path": error.field, "message": error.error} for error in errors]
        what = f"expected the arguments of {definition.name}, found: {listed}"
        raise RyeError("invalid_parameters", what, hint=f"correct {errors[0].field}", issues=issues)
    return values


def _hint_for(unknown: Sequence[str], known: Collection[str]) -> str:
    """Which known argument may be meant by each: leaving out what was meant would be another call.

    Of very many only the first are compared: each takes a while, in which nobody else is answered.
    """
    from difflib import get_close_matches

    unknown = unknown[:_COMPARED]
    close = {name: get_close_matches(name[:_SHOWN_CHARACTERS], known, n=1) for name in unknown}
    close |= {name: ["item_id"] for name in unknown if name in _IDS and "item_id" in known}
    meant = [f"{found[0]} instead of {name[:_SHOWN_CHARACTERS]}" for name, found in close.items() if found]
    return f"perhaps {', '.join(meant)}" if meant else ""


def _read(schema: Mapping[str, Any], value: Any) -> Any:
    """What text stands for, where the schema takes anything but text."""
    branches = schema.get("anyOf", (schema,))
    if not isinstance(value, str) or any(each.get("type", "string") == "string" for each in branches):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
