"""Examines values against plain schemas without `jsonschema`, which takes longer to load than a short tool.

A schema is plain when it has only the keywords below, spelled as JSON Schema defines them. Values that
plainly fit are decided here; `schema_validator` examines all others, and reports what is wrong.
"""

from __future__ import annotations

import marshal
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final

from lilux._dataclasses import dataclass
from lilux.primitives.errors import ValidationError
from lilux.schemas._plain import Fits, plainly
from lilux.schemas._structure import refusal

__all__ = ["Examination", "examine", "is_quick"]

QUICK_LIMIT: Final = 64 * 1024
"""How many bytes of a schema times how many values are compared without a thread."""

_DEPTH_LIMIT: Final = 16
_SIZE_LIMIT: Final = 32 * 1024
_CACHED: Final = 256
_MARSHAL_VERSION: Final = 2
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_DIALECTS: Final = frozenset(
    f"{name}{end}"
    for name in (
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-07/schema",
    )
    for end in ("", "#")
)


@dataclass(frozen=True, slots=True)
class Examination:
    """Values with the defaults of a schema, and all that the schema says about them.

    `errors` is empty when they fit. `described` are the names of properties that the schema speaks of, given
    or not; `undescribed` those of the values that it says nothing of; `hidden` those whose value is marked
    `writeOnly`, or has something inside that is; `hidden_paths` are the ways to just these values.
    """

    values: Any = field(repr=False)
    errors: Sequence[ValidationError] = ()
    described: frozenset[str] = frozenset()
    undescribed: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    hidden_paths: frozenset[tuple[str | int, ...]] = frozenset()


@dataclass(frozen=True, slots=True)
class _PlainSchema:
    """A plain schema of an object: what fits it, its names, the defaults of its properties, its size."""

    fits: Fits
    described: frozenset[str]
    says_others: bool
    defaults: Mapping[str, Any]
    size: int


def examine(parameters: dict[str, Any], schema: Any) -> Examination:
    """Fill in defaults, then compare an object with a schema; ConfigurationError when the schema is wrong."""
    plain = _plain_schema(schema)
    if plain is not None and refusal(parameters) is None:
        values = _copied(parameters)
        for name, default in plain.defaults.items():
            values.setdefault(name, default)
        if plain.fits(values):
            others = frozenset() if plain.says_others else frozenset(values.keys() - plain.described)
            return Examination(values, (), plain.described, others)
    from lilux.schemas import schema_validator

    return schema_validator.examine(parameters, schema)


def is_quick(schema: Any, size: int) -> bool:
    """Whether comparing so many values with a schema is sure to take a few milliseconds at most."""
    plain = _plain_schema(schema)
    if plain is not None:
        return plain.size * size <= QUICK_LIMIT
    from lilux.schemas import schema_validator

    return schema_validator.is_quick(schema, size)


_known: Final[OrderedDict[bytes, _PlainSchema | None]] = OrderedDict()


def _plain_schema(schema: Any) -> _PlainSchema | None:
    """A plain schema, made once; None for any other."""
    try:
        key = marshal.dumps(schema, _MARSHAL_VERSION)
    except ValueError:
        return None
    if len(key) > _SIZE_LIMIT:
        return None
    if key not in _known:
        while len(_known) >= _CACHED:
            _known.popitem(last=False)
        _known[key] = _made(schema, len(key))
    return _known[key]


def _made(schema: Any, size: int) -> _PlainSchema | None:
    if type(schema) is not dict or schema.get("$schema", "") not in _DIALECTS | {""}:
        return None
    body = {name: value for name, value in schema.items() if name != "$schema"}
    if not _is_plain(body, 0):
        return None
    properties = body.get("properties", {})
    described = {name: each for name, each in properties.items() if type(each) is dict}
    if any(map(_has_default, _below(body, described))):
        return None  # only those of the properties themselves are filled in here
    defaults = {name: each["default"] for name, each in described.items() if "default" in each}
    return _PlainSchema(plainly(body), frozenset(properties), "additionalProperties" in body, defaults, size)


def _below(body: Mapping[str, Any], described: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas inside of a schema, but for those of the properties themselves."""
    yield from (body[name] for name in ("items", "additionalProperties") if name in body)
    for each in described.values():
        yield from _inner(each)


def _inner(schema: Any) -> list[Any]:
    """The schemas directly inside a schema."""
    if type(schema) is not dict:
        return []
    found = [*schema.get("properties", {}).values()]
    return found + [schema[name] for name in ("items", "additionalProperties") if name in schema]


def _has_default(schema: Any) -> bool:
    return type(schema) is dict and ("default" in schema or any(map(_has_default, _inner(schema))))


def _is_plain(schema: Any, depth: int) -> bool:
    """Whether a schema is spelled right, and has only keywords that look at each value once."""
    if type(schema) is bool:
        return True
    if type(schema) is not dict or depth > _DEPTH_LIMIT or not schema.keys() <= _KEYWORDS.keys():
        return False
    spelled = all(_KEYWORDS[name](value) for name, value in schema.items())
    return spelled and all(_is_plain(each, depth + 1) for each in _inner(schema))


def _is_scalar(value: Any) -> bool:
    return value is None or type(value) in (str, bool) or _is_number(value)


def _is_number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_bool(value: Any) -> bool:
    return type(value) is bool


def _is_schema(value: Any) -> bool:
    return type(value) in (dict, bool)


def _are_texts(value: Any) -> bool:
    return type(value) is list and all(map(_is_text, value)) and len({*value}) == len(value)


def _are_types(value: Any) -> bool:
    names = [value] if type(value) is str else value
    return bool(names) and _are_texts(names) and _TYPES.issuperset(names)


def _are_named(value: Any) -> bool:
    return type(value) is dict and all(map(_is_text, value))


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


_KEYWORDS: Final[Mapping[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "type": _are_types,
        "enum": lambda value: bool(value) and _are_texts(value),
        "required": _are_texts,
        "properties": _are_named,
        "additionalProperties": _is_schema,
        "items": _is_schema,
        **dict.fromkeys(("title", "description", "$comment"), _is_text),
        **dict.fromkeys(("deprecated", "readOnly"), _is_bool),
        "default": _is_scalar,
        **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), _is_count),
        **dict.fromkeys(("minProperties", "maxProperties"), _is_count),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    }
)
"""The keywords of a plain schema, and what says that their value is spelled right."""
