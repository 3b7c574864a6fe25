"""What a schema says about the names directly in an object: which of them it speaks of, and which are secret.

Everything that may apply counts as applied, as it does for `writeOnly`: parts of `anyOf`, `then`, references.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lilux.schemas._compiled import compile_schema
from lilux.schemas._effort import limited
from lilux.schemas._hidden import hidden_paths
from lilux.schemas._keywords import described

__all__ = ["described_names", "hidden_names", "undescribed_names"]

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("if", "then", "else")
_REFERENCES: Final = ("$ref", "$dynamicRef")
_OTHERS: Final = frozenset({"additionalProperties", "unevaluatedProperties"})


def described_names(schema: Any) -> frozenset[str]:
    """The names of all properties that a schema may speak of; those of a pattern are not known."""
    return frozenset(name for each in _of_same_object(schema) for name in each.get("properties", ()))


def undescribed_names(parameters: Any, schema: Any) -> frozenset[str]:
    """The names in an object that a schema says nothing of, not even what all others have to be."""
    if not isinstance(parameters, dict):
        return frozenset()
    names = set(parameters)
    with limited():
        for each in _of_same_object(schema):
            if not _OTHERS.isdisjoint(each):
                return frozenset()
            names -= described(parameters, each)
    return frozenset(names)


def hidden_names(parameters: Any, schema: Any) -> frozenset[str]:
    """The names in an object whose value is marked `writeOnly`, or has something inside that is."""
    compiled = compile_schema(schema)
    paths = hidden_paths(compiled, parameters) if compiled.hides else frozenset()
    if () in paths:
        return frozenset(parameters)
    return frozenset(path[0] for path in paths if isinstance(path[0], str))


def _of_same_object(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema, and every one that may be applied to the same value."""
    compiled = compile_schema(schema)
    seen: set[int] = set()
    pending = [(compiled.contents, compiled.resolver)]
    while pending:
        found, resolver = pending.pop()
        if not isinstance(found, dict) or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        for keyword in _REFERENCES:
            if isinstance(found.get(keyword), str):
                target = resolver.lookup(found[keyword])
                pending.append((target.contents, target.resolver))
        pending += (
            (inner, resolver.in_subresource(compiled.specification.create_resource(inner)))
            for inner in _applied(found)
        )


def _applied(schema: dict[str, Any]) -> Iterator[Any]:
    for keyword in _LISTS:
        yield from schema.get(keyword, ())
    yield from (schema[keyword] for keyword in _SINGLE if keyword in schema)
    yield from schema.get("dependentSchemas", {}).values()
