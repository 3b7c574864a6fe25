"""Fills in what a schema says is there by default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lilux.primitives.errors import ConfigurationError
from lilux.schemas._compiled import Compiled
from lilux.schemas._effort import current
from lilux.schemas._keywords import described
from lilux.schemas._values import count

__all__ = ["fill"]

STEPS_LIMIT: Final = 192
"""Schemas inside each other, references and parts of `allOf` included, that are followed to a value."""

VALUES_LIMIT: Final = 1_000_000
"""How many values may be inserted."""

_NONE: Final = object()


def fill(compiled: Compiled, value: Any) -> Any:
    """A copy of a value, filled in."""
    copy = _copied(value)
    if compiled.fills and isinstance(copy, dict | list):
        _Filling(compiled).fill(compiled.contents, compiled.resolver, copy, 0)
    return copy


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


class _Filling:
    """Walks through a schema and a value of our own at once."""

    def __init__(self, compiled: Compiled) -> None:
        self._specification = compiled.specification
        self._left = VALUES_LIMIT

    def fill(self, schema: Any, resolver: Any, value: Any, steps: int) -> None:
        """Insert into `value`, an object or a list, and into what is inside it."""
        if steps > STEPS_LIMIT:
            raise ConfigurationError(
                "expected defaults that come to an end, found some that hold themselves", "schema"
            )
        current().go_on(value)
        if not isinstance(schema, dict):
            return
        for target, inner in self._same(schema, resolver):
            self.fill(target, inner, value, steps + 1)
        if isinstance(value, dict):
            self._insert(schema, resolver, value)
            pairs = self._of_object(schema, value)
        else:
            pairs = self._of_list(schema, value)
        for subschema, item in pairs:
            if isinstance(item, dict | list):
                self.fill(subschema, self._inner(resolver, subschema), item, steps + 1)

    def _same(self, schema: dict[str, Any], resolver: Any) -> Iterator[tuple[Any, Any]]:
        """The schemas that speak of the same value."""
        if "$ref" in schema:
            found = resolver.lookup(schema["$ref"])
            yield found.contents, found.resolver
        for subschema in schema.get("allOf", ()):
            yield subschema, self._inner(resolver, subschema)

    def _insert(self, schema: dict[str, Any], resolver: Any, value: dict[str, Any]) -> None:
        for name, subschema in schema.get("properties", {}).items():
            if name not in value and (default := self._default(subschema, resolver, 0)) is not _NONE:
                value[name] = self._counted(default)

    def _counted(self, default: Any) -> Any:
        self._left -= count(default) if isinstance(default, dict | list) else 1
        if self._left < 0:
            raise ConfigurationError(
                f"expected defaults of at most {VALUES_LIMIT} values, found more", "schema"
            )
        return _copied(default)

    def _default(self, schema: Any, resolver: Any, steps: int) -> Any:
        """The default of a schema, or of what it refers to."""
        current().go_on(schema)
        if not isinstance(schema, dict) or steps > STEPS_LIMIT:
            return _NONE
        if "default" in schema:
            return schema["default"]
        if "$ref" not in schema and "allOf" not in schema:
            return _NONE
        inner = self._inner(resolver, schema)
        found = (self._default(target, its, steps + 1) for target, its in self._same(schema, inner))
        return next((default for default in found if default is not _NONE), _NONE)

    def _of_object(self, schema: dict[str, Any], value: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        yield from ((properties[name], item) for name, item in value.items() if name in properties)
        for pattern, subschema in patterns.items():
            names = described(value, {"patternProperties": {pattern: subschema}})
            yield from ((subschema, value[name]) for name in names)
        if "additionalProperties" in schema:
            known = described(value, schema)
            yield from (
                (schema["additionalProperties"], item) for name, item in value.items() if name not in known
            )

    def _of_list(self, schema: dict[str, Any], value: list[Any]) -> Iterator[tuple[Any, Any]]:
        rest = schema.get("items", True)
        first = rest if isinstance(rest, list) else schema.get("prefixItems", [])
        rest = schema.get("additionalItems", True) if isinstance(rest, list) else rest
        yield from zip(first, value, strict=False)
        yield from ((rest, item) for item in value[len(first) :])

    def _inner(self, resolver: Any, schema: Any) -> Any:
        return resolver.in_subresource(self._specification.create_resource(schema))
