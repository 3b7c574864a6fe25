"""Finds the schemas inside a schema, and decides whether a value is JSON of a size that can be checked.

Both are only read here, values without recursion. Whether a value fits a schema is decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from lilux._dataclasses import dataclass
from lilux.primitives.errors import ValidationError

__all__ = ["Path", "count", "cut", "everything", "inside", "items", "pointer", "refusal"]

NAME_LIMIT: Final = 200
"""Characters of a name that are shown."""

Path = tuple[str | int, ...]
"""The way to a value: names and positions."""


def pointer(path: Iterable[str | int]) -> str:
    """The JSON Pointer of a way to a value."""
    return "".join("/" + cut(str(part), NAME_LIMIT).replace("~", "~0").replace("/", "~1") for part in path)


def cut(text: str, limit: int) -> str:
    """A text as it is shown: a long one without its end."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


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
        """Yield each value that it applies to, with its path, when the outer schema applies to `instance`."""
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


DEPTH_LIMIT: Final = 64
"""Objects and lists inside each other in a value."""

VALUES_LIMIT: Final = 1_000_000
"""How many values a value may have inside."""

DIGITS_LIMIT: Final = 4000
"""Digits of a whole number."""

BITS_LIMIT: Final = DIGITS_LIMIT * 3
"""Bits that never make more digits than that."""


def refusal(parameters: Any) -> ValidationError | None:
    """Why a value cannot be checked at all; None when it can."""
    level, count, depth = [parameters], 0, 0
    while level:
        if any(map(_is_odd, level)):
            return _oddity(parameters)
        level = [item for value in level for item in items(value)]
        depth, count = depth + bool(level), count + len(level)
        if depth > DEPTH_LIMIT:
            return ValidationError(
                "", f"expected at most {DEPTH_LIMIT} objects and lists inside each other, found more"
            )
        if count > VALUES_LIMIT:
            return ValidationError("", f"expected at most {VALUES_LIMIT} values, found more")
    return None


def items(value: Any) -> Iterator[Any]:
    """The values directly inside a value."""
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def everything(value: Any) -> Iterator[tuple[Path, Any]]:
    """A value and all values inside it, and the way to each."""
    pending: list[tuple[Path, Any]] = [((), value)]
    while pending:
        path, found = pending.pop()
        yield path, found
        if len(path) <= DEPTH_LIMIT and isinstance(found, dict | list):
            pairs = list(found.items() if isinstance(found, dict) else enumerate(found))
            pending.extend(((*path, key), item) for key, item in reversed(pairs))


def count(value: Any) -> int:
    """How many values a value is, with all that are inside it."""
    return sum(1 for _ in everything(value))


def _is_odd(value: Any) -> bool:
    """Whether JSON cannot hold a value though Python can."""
    if isinstance(value, dict):
        return not all(isinstance(name, str) for name in value)
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, int) and value.bit_length() > BITS_LIMIT


def _oddity(parameters: Any) -> ValidationError:
    path, value = next((path, value) for path, value in everything(parameters) if _is_odd(value))
    if isinstance(value, dict):
        return ValidationError(pointer(path), "expected an object whose names are text")
    return ValidationError(pointer(path), f"expected a finite number of less than {DIGITS_LIMIT} digits")
