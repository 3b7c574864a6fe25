"""The keywords of JSON Schema, and where a schema uses an unknown one.

- A name counts as a keyword if Draft 2020-12 or an earlier draft, back to Draft 4, defines it.
- Names that begin with `x-` are for programs, and are left alone.
- A validator ignores every other name, so a misspelt keyword refuses nothing.

    >>> list(unknown_keywords({"properties": {"name": {"maxLenght": 3}}}))
    ['/properties/name/maxLenght']
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lilux.schemas._structure import Path, inside, pointer

__all__ = ["unknown_keywords"]

_KEYWORDS: Final = frozenset(
    [
        *("$schema", "$id", "$ref", "$anchor", "$comment", "$defs", "$vocabulary", "id"),
        *("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"),
        *("definitions", "dependencies", "dependentSchemas", "dependentRequired", "propertyNames"),
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
        *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
        *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"),
        *("type", "enum", "const", "format", "pattern", "required"),
        *("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems"),
        *("minContains", "maxContains", "minProperties", "maxProperties"),
        *("contentEncoding", "contentMediaType", "contentSchema"),
        *("title", "description", "default", "deprecated", "readOnly", "writeOnly", "examples"),
    ]
)

_FOR_PROGRAMS: Final = "x-"


def unknown_keywords(schema: Any) -> Iterator[str]:
    """The places, as JSON pointers, of names in a schema that no draft defines."""
    pending: list[tuple[Path, Any]] = [((), schema)]
    while pending:
        path, found = pending.pop()
        if isinstance(found, dict):
            unknown = (name for name in found if name not in _KEYWORDS and not name.startswith(_FOR_PROGRAMS))
            yield from (pointer((*path, name)) for name in unknown)
            pending += reversed([((*path, *each.path), each.schema) for each in inside(found)])
