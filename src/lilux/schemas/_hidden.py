"""Which values must not be shown: those that a schema marks `writeOnly`.

A part of a schema that marks a value counts whether it applies or not, and whether the value fits it or
not: a secret stays one though it stands in the wrong form. Where there is too much to look at, everything
is hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lilux.schemas._compiled import Compiled
from lilux.schemas._effort import current
from lilux.schemas._subschemas import Path, inside

__all__ = ["hidden_paths"]

WALK_LIMIT: Final = 100_000
"""How many pairs of a schema and a value are looked at."""


_Pair = tuple[Any, Any, Any, Path]
"""A schema, what follows its references, a value that it speaks of, and the way to that."""


def hidden_paths(compiled: Compiled, parameters: Any) -> frozenset[Path]:
    """The ways to the values that are hidden; what is inside them is too."""
    hidden: set[Path] = set()
    seen: set[tuple[int, Path]] = set()
    pending: list[_Pair] = []
    if compiled.hides:
        pending.append((compiled.contents, compiled.resolver, parameters, ()))
    while pending:
        schema, resolver, value, path = pending.pop()
        current().go_on(value)
        if not isinstance(schema, dict) or (id(schema), path) in seen:
            continue
        seen.add((id(schema), path))
        if len(seen) > WALK_LIMIT:
            return frozenset([()])
        if schema.get("writeOnly") is True:
            hidden.add(path)
        else:
            pending += _next(compiled, schema, resolver, value, path)
    return frozenset(hidden)


def _next(
    compiled: Compiled, schema: dict[str, Any], resolver: Any, value: Any, path: Path
) -> Iterator[_Pair]:
    """What a schema refers to and has inside, with the values that these speak of."""
    for keyword in ("$ref", "$dynamicRef"):
        if isinstance(schema.get(keyword), str):
            found = resolver.lookup(schema[keyword])
            yield found.contents, found.resolver, value, path
    for sub in inside(schema):
        inner = resolver.in_subresource(compiled.specification.create_resource(sub.schema))
        yield from ((sub.schema, inner, item, (*path, *way)) for way, item in sub.values(value))
