"""Which values must not be shown: those that a schema marks `writeOnly`.

A part of a schema that marks a value counts whether it applies or not, and whether the value fits it or
not: a secret stays one though it stands in the wrong form. Where there is too much to look at, everything
is hidden.
"""

from __future__ import annotations

from typing import Any, Final

from lilux.schemas._compiled import Compiled
from lilux.schemas._subschemas import Path, inside

__all__ = ["hidden_paths"]

WALK_LIMIT: Final = 100_000
"""How many pairs of a schema and a value are looked at."""


def hidden_paths(compiled: Compiled, parameters: Any) -> frozenset[Path]:
    """The ways to the values that are hidden; what is inside them is too."""
    hidden: set[Path] = set()
    seen: set[tuple[int, Path]] = set()
    pending: list[tuple[Any, Any, Any, Path]] = []
    if compiled.hides:
        pending.append((compiled.contents, compiled.resolver, parameters, ()))
    while pending:
        schema, resolver, value, path = pending.pop()
        if not isinstance(schema, dict) or (id(schema), path) in seen:
            continue
        seen.add((id(schema), path))
        if len(seen) > WALK_LIMIT:
            return frozenset([()])
        if schema.get("writeOnly") is True:
            hidden.add(path)
            continue
        for keyword in ("$ref", "$dynamicRef"):
            if isinstance(schema.get(keyword), str):
                found = resolver.lookup(schema[keyword])
                pending.append((found.contents, found.resolver, value, path))
        for sub in inside(schema):
            inner = resolver.in_subresource(compiled.specification.create_resource(sub.schema))
            pending.extend((sub.schema, inner, item, (*path, *way)) for way, item in sub.values(value))
    return frozenset(hidden)
