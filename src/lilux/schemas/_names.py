"""What a schema says about the names directly in an object: which of them it speaks of, and which are others.

Everything that may apply counts as applied, as it does for `writeOnly`: parts of `anyOf`, `then`, references.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from lilux.schemas._effort import current

__all__ = ["Names", "names_in"]

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("if", "then", "else")
_REFERENCES: Final = ("$ref", "$dynamicRef")
_OTHERS: Final = frozenset({"additionalProperties", "unevaluatedProperties"})


@dataclass(frozen=True, slots=True)
class Names:
    """The names of properties that a schema speaks of, and the patterns of others; `others` is true when it
    says what all other properties have to be.
    """

    described: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    others: bool = False

    def undescribed(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the names that the schema says nothing of; patterns cost effort, which is limited."""
        left = set() if self.others else {name for name in names if name not in self.described}
        return frozenset(
            name for name in left if not any(current().matches(each, name) for each in self.patterns)
        )


def names_in(contents: Any, resolver: Any, specification: Any) -> Names:
    """What a schema, which is one, says about names."""
    schemas = list(_of_same_object(contents, resolver, specification))
    described = frozenset(name for each in schemas for name in each.get("properties", ()))
    patterns = dict.fromkeys(name for each in schemas for name in each.get("patternProperties", ()))
    return Names(described, tuple(patterns), any(not _OTHERS.isdisjoint(each) for each in schemas))


def _of_same_object(contents: Any, resolver: Any, specification: Any) -> Iterator[dict[str, Any]]:
    """A schema, and every one that may be applied to the same value."""
    seen: set[int] = set()
    pending = [(contents, resolver)]
    while pending:
        found, its = pending.pop()
        if not isinstance(found, dict) or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        for keyword in _REFERENCES:
            if isinstance(found.get(keyword), str):
                target = its.lookup(found[keyword])
                pending.append((target.contents, target.resolver))
        pending += (
            (inner, its.in_subresource(specification.create_resource(inner))) for inner in _applied(found)
        )


def _applied(schema: dict[str, Any]) -> Iterator[Any]:
    for keyword in _LISTS:
        yield from schema.get(keyword, ())
    yield from (schema[keyword] for keyword in _SINGLE if keyword in schema)
    yield from schema.get("dependentSchemas", {}).values()
