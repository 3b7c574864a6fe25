"""Recognises values that plainly fit: most schemas use few keywords, and most values fit them.

True is certain. False says nothing, and the caller compares the value in full.

    >>> fits = plainly({"type": "object", "properties": {"age": {"type": "integer"}}})
    >>> fits({"age": 3}), fits({"age": 3.0})
    (True, False)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType, NoneType
from typing import Any, Final

from lilux.schemas._structure import inside

__all__ = ["Fits", "is_plain", "plainly"]

Fits = Callable[[Any], bool]
"""Whether a value is known to fit."""

_TYPES: Final[Mapping[str, tuple[type, ...]]] = MappingProxyType(
    {
        "array": (list,),
        "boolean": (bool,),
        "integer": (int,),
        "null": (NoneType,),
        "number": (int, float),
        "object": (dict,),
        "string": (str,),
    }
)
_PLAIN: Final = frozenset(kind for kinds in _TYPES.values() for kind in kinds)
_NUMBERS: Final = frozenset(_TYPES["number"])

_WORDS: Final = frozenset(
    (
        *("title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly"),
        *("$defs", "definitions"),
    )
)
"""Keywords that say nothing about which values fit."""


def plainly(schema: Any) -> Fits:
    """Return a check for values of this schema, which is known to be valid."""
    if schema is True:
        return _always
    if not isinstance(schema, dict) or schema.keys() - _MAKERS.keys() - _WORDS:
        return _never
    checks = tuple(make(schema) for keyword, make in _MAKERS.items() if keyword in schema)
    if _never in checks:
        return _never

    def fits(value: Any) -> bool:
        if type(value) not in _PLAIN:
            return False
        for check in checks:  # noqa: SIM110 - this is what it is all for
            if not check(value):
                return False
        return True

    return fits


def is_plain(schema: Any) -> bool:
    """Whether a schema, and every one in it, has only keywords that look at each value once."""
    pending = [schema]
    while pending:
        found = pending.pop()
        if isinstance(found, dict) and found.keys() - _MAKERS.keys() - _WORDS:
            return False
        pending += (each.schema for each in inside(found))
    return True


def _always(_value: Any) -> bool:
    return True


def _never(_value: Any) -> bool:
    return False


def _type(schema: dict[str, Any]) -> Fits:
    named = schema["type"]
    names = [named] if isinstance(named, str) else named
    kinds = frozenset(kind for name in names for kind in _TYPES[name])
    return lambda value: type(value) in kinds


def _enum(schema: dict[str, Any]) -> Fits:
    texts = frozenset(each for each in schema["enum"] if type(each) is str)
    return lambda value: type(value) is str and value in texts


def _const(schema: dict[str, Any]) -> Fits:
    return _enum({"enum": [schema["const"]]})


def _required(schema: dict[str, Any]) -> Fits:
    names = frozenset(schema["required"])
    return lambda value: type(value) is not dict or names <= value.keys()


def _properties(schema: dict[str, Any]) -> Fits:
    inside = {name: plainly(each) for name, each in schema["properties"].items()}

    def fits(value: Any) -> bool:
        if type(value) is not dict:
            return True
        return all(inside[name](item) for name, item in value.items() if name in inside)

    return fits


def _additional_properties(schema: dict[str, Any]) -> Fits:
    known = frozenset(schema.get("properties", ()))
    others = schema["additionalProperties"]
    if others is False:
        return lambda value: type(value) is not dict or value.keys() <= known
    fit = plainly(others)
    return lambda value: (
        type(value) is not dict or all(fit(item) for name, item in value.items() if name not in known)
    )


def _items(schema: dict[str, Any]) -> Fits:
    if isinstance(schema["items"], list):  # of Draft 7: a schema for each place
        return _never
    fit = plainly(schema["items"])
    return lambda value: type(value) is not list or all(map(fit, value))


def _at_least(keyword: str, *kinds: type) -> Callable[[dict[str, Any]], Fits]:
    def make(schema: dict[str, Any]) -> Fits:
        limit = schema[keyword]
        return lambda value: type(value) not in kinds or len(value) >= limit

    return make


def _at_most(keyword: str, *kinds: type) -> Callable[[dict[str, Any]], Fits]:
    def make(schema: dict[str, Any]) -> Fits:
        limit = schema[keyword]
        return lambda value: type(value) not in kinds or len(value) <= limit

    return make


def _minimum(schema: dict[str, Any]) -> Fits:
    limit = schema["minimum"]
    return lambda value: type(value) not in _NUMBERS or value >= limit


def _maximum(schema: dict[str, Any]) -> Fits:
    limit = schema["maximum"]
    return lambda value: type(value) not in _NUMBERS or value <= limit


def _exclusive_minimum(schema: dict[str, Any]) -> Fits:
    limit = schema["exclusiveMinimum"]
    return lambda value: type(value) not in _NUMBERS or value > limit


def _exclusive_maximum(schema: dict[str, Any]) -> Fits:
    limit = schema["exclusiveMaximum"]
    return lambda value: type(value) not in _NUMBERS or value < limit


_MAKERS: Final[Mapping[str, Callable[[dict[str, Any]], Fits]]] = MappingProxyType(
    {
        "type": _type,
        "enum": _enum,
        "const": _const,
        "required": _required,
        "additionalProperties": _additional_properties,
        "properties": _properties,
        "items": _items,
        "minItems": _at_least("minItems", list),
        "maxItems": _at_most("maxItems", list),
        "minLength": _at_least("minLength", str),
        "maxLength": _at_most("maxLength", str),
        "minProperties": _at_least("minProperties", dict),
        "maxProperties": _at_most("maxProperties", dict),
        "minimum": _minimum,
        "maximum": _maximum,
        "exclusiveMinimum": _exclusive_minimum,
        "exclusiveMaximum": _exclusive_maximum,
    }
)
"""How each keyword is compiled."""
