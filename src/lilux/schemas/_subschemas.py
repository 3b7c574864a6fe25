"""Where a schema has schemas inside, and which values these speak of.

The structure is followed by reading only: whether a value fits anything is for others to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Path", "Subschema", "inside"]

Path = tuple[str | int, ...]
"""The way to a value: names and positions."""

Target = Callable[[Any, str | int | None], Iterator[tuple[Path, Any]]]


def _itself(instance: Any, key: str | int | None) -> Iterator[tuple[Path, Any]]:
    yield (), instance


def _property(instance: Any, key: str | int | None) -> Iterator[tuple[Path, Any]]:
    if isinstance(instance, dict) and isinstance(key, str) and key in instance:
        yield (key,), instance[key]


def _properties(instance: Any, key: str | int | None) -> Iterator[tuple[Path, Any]]:
    if isinstance(instance, dict):
        yield from (((name,), value) for name, value in instance.items())


def _item(instance: Any, key: str | int | None) -> Iterator[tuple[Path, Any]]:
    if isinstance(instance, list) and isinstance(key, int) and key < len(instance):
        yield (key,), instance[key]


def _items(instance: Any, key: str | int | None) -> Iterator[tuple[Path, Any]]:
    if isinstance(instance, list):
        yield from (((position,), value) for position, value in enumerate(instance))


def _nothing(instance: Any, key: str | int | None) -> Iterator[tuple[Path, Any]]:
    return iter(())


ONE: Final[dict[str, Target]] = {
    "not": _itself,
    "if": _itself,
    "then": _itself,
    "else": _itself,
    "additionalProperties": _properties,
    "unevaluatedProperties": _properties,
    "items": _items,
    "contains": _items,
    "unevaluatedItems": _items,
    "additionalItems": _items,
    "propertyNames": _nothing,
    "contentSchema": _nothing,
}
LISTS: Final[dict[str, Target]] = {
    "allOf": _itself,
    "anyOf": _itself,
    "oneOf": _itself,
    "prefixItems": _item,
    "items": _item,
}
NAMED: Final[dict[str, Target]] = {
    "dependentSchemas": _itself,
    "dependencies": _itself,
    "properties": _property,
    "patternProperties": _properties,
    "$defs": _nothing,
    "definitions": _nothing,
}
"""Keywords that hold one schema, a list of them, or names and schemas; and the values that these speak of.

Values that only may be meant (those of a pattern, say) count as meant.
"""


@dataclass(frozen=True, slots=True)
class Subschema:
    """A schema inside another: the way to it, and what it speaks of."""

    path: Path
    schema: Any
    target: Target

    def values(self, instance: Any) -> Iterator[tuple[Path, Any]]:
        """What it speaks of when the schema around it speaks of `instance`, and the way to each."""
        return self.target(instance, self.path[-1])


def inside(schema: Any) -> Iterator[Subschema]:
    """Every schema directly inside a schema."""
    return (found for found in _held(schema) if isinstance(found.schema, dict | bool))


def _held(schema: Any) -> Iterator[Subschema]:
    for keyword, held in schema.items() if isinstance(schema, dict) else ():
        if keyword in LISTS and isinstance(held, list):
            for position, subschema in enumerate(held):
                yield Subschema((keyword, position), subschema, LISTS[keyword])
        elif keyword in NAMED and isinstance(held, dict):
            for name, subschema in held.items():
                yield Subschema((keyword, name), subschema, NAMED[keyword])
        elif keyword in ONE:
            yield Subschema((keyword,), held, ONE[keyword])
