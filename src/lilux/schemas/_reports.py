"""Turns a finding of `jsonschema` into a ValidationError with a place, a sentence and a value.

The place is a JSON Pointer (RFC 6901) from the whole value. Long values are cut. A value that is marked
`writeOnly` is never shown, nor is anything inside it; its name may be.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from jsonschema.exceptions import ValidationError as Finding

from lilux.primitives.errors import ValidationError
from lilux.schemas._patterns import PatternError, compile_pattern
from lilux.schemas._structure import Path, cut, pointer

__all__ = ["Reporter"]

TEXT_LIMIT: Final = 80
"""Characters of a text, or of a name, that are shown in a sentence."""

VALUE_LIMIT: Final = 200
"""Characters of a text in a `value`."""

ITEMS_LIMIT: Final = 10
DEPTH_LIMIT: Final = 3
"""Items of a list or an object that are shown, and how deep."""

FORMS_LIMIT: Final = 4
"""How many forms of a value are told, of those that the schema allows."""

HIDDEN: Final = "a value that is not shown"

KINDS: Final = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "text",
}


class Reporter:
    """Puts findings about one value into words; `hidden` are the ways to what must not be shown."""

    def __init__(self, hidden: frozenset[Path] = frozenset()) -> None:
        self._hidden = hidden

    def report(self, finding: Finding) -> ValidationError:
        """A finding as an error."""
        path = tuple(finding.absolute_path)
        value = None if finding.validator in MISSING else self._shown(finding.instance, path)
        return ValidationError(pointer(path), self._sentence(finding), value)

    def _sentence(self, finding: Finding) -> str:
        if finding.validator in MISSING:
            given = f", since {_json(finding.validator_value)} is given" if finding.validator_value else ""
            return f"expected a value{given}, found nothing"
        return f"expected {self._expected(finding)}, found {self._found(finding)}"

    def _expected(self, finding: Finding) -> str:
        if finding.validator == "anyOf" or (finding.validator == "oneOf" and finding.context):
            return self._alternatives(finding)
        return SENTENCES.get(str(finding.validator), _unknown)(finding)

    def _alternatives(self, finding: Finding) -> str:
        """Name the forms, or the problem of the form that the value comes closest to."""
        branches: dict[Any, list[Finding]] = {}
        for inner in finding.context or ():
            branch = inner.relative_schema_path[0] if inner.relative_schema_path else id(inner)
            branches.setdefault(branch, []).append(inner)
        closest = min(branches.values(), key=_distance)
        if not _distance(closest)[0]:
            error = self.report(closest[0])
            where = error.field or "the top"
            return f"one of {len(branches)} forms (the closest one, at {where}: {error.error})"
        if len(branches) > FORMS_LIMIT:
            return f"one of {len(branches)} forms"
        return " or ".join(dict.fromkeys(self._expected(branch[0]) for branch in branches.values()))

    def _found(self, finding: Finding) -> str:
        path, value = tuple(finding.absolute_path), finding.instance
        if self._is_hidden(path):
            return HIDDEN
        if isinstance(value, dict):
            return (
                "an object"
                if finding.validator not in COUNTING
                else _count(len(value), "properties", "property")
            )
        if isinstance(value, list):
            return "an array" if finding.validator not in COUNTING else _count(len(value), "items", "item")
        if isinstance(value, str) and finding.validator in COUNTING:
            return _count(len(value), "characters", "character")
        return _json(value)

    def _is_hidden(self, path: Path) -> bool:
        return any(path[:length] in self._hidden for length in range(len(path) + 1))

    def _shown(self, value: Any, path: Path, depth: int = 0) -> Any:
        """A copy of a value without what is hidden, too long or too deep."""
        if self._is_hidden(path):
            return None
        if isinstance(value, str):
            return cut(value, VALUE_LIMIT)
        if isinstance(value, dict | list):
            return self._part(value, path, depth)
        return value if _is_short(value) else f"<{_json(value)}>"

    def _part(self, value: dict[str, Any] | list[Any], path: Path, depth: int) -> Any:
        """The beginning of a list or an object, and how much more there is."""
        if depth == DEPTH_LIMIT:
            return "{…}" if isinstance(value, dict) else "[…]"
        items = value.items() if isinstance(value, dict) else enumerate(value)
        pairs: list[tuple[str | int, Any]] = list(items)
        shown = [(key, self._shown(item, (*path, key), depth + 1)) for key, item in pairs[:ITEMS_LIMIT]]
        if len(pairs) > ITEMS_LIMIT:
            shown.append(("…", f"… {len(pairs) - ITEMS_LIMIT} more"))
        if isinstance(value, list):
            return [item for _, item in shown]
        return {cut(str(key), VALUE_LIMIT): item for key, item in shown}


def _distance(branch: list[Finding]) -> tuple[bool, int, int]:
    """How far a value is from a form: of another kind altogether, wrong at the top, wrong in many places."""
    other = any(
        not finding.relative_path and finding.validator in {"type", "const", "enum", "false"}
        for finding in branch
    )
    return other, -max(len(finding.relative_path) for finding in branch), len(branch)


# --- sentences --------------------------------------------------------------------


def _type(finding: Finding) -> str:
    kinds: Any = finding.validator_value
    return " or ".join(KINDS.get(kind, str(kind)) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _one_of(finding: Finding) -> str:
    values: Any = finding.validator_value
    more = f", … {len(values) - ITEMS_LIMIT} more" if len(values) > ITEMS_LIMIT else ""
    return f"one of {', '.join(map(_written, values[:ITEMS_LIMIT]))}{more}"


def _known_names(finding: Finding) -> str:
    names = sorted(_properties_of(finding))
    if not names:
        return "no such property"
    more = f", … {len(names) - ITEMS_LIMIT} more" if len(names) > ITEMS_LIMIT else ""
    return f"only {', '.join(cut(name, TEXT_LIMIT) for name in names[:ITEMS_LIMIT])}{more} here"


def _properties_of(finding: Finding) -> list[str]:
    schema = finding.schema
    return list(schema.get("properties", {})) if isinstance(schema, dict) else []


def _only_prefix_items(finding: Finding) -> str:
    """Explain `items: false`: it stands for all items behind those of `prefixItems` at once."""
    schema: Any = finding.schema
    return f"at most {_count(len(schema.get('prefixItems', ())), 'items', 'item')}"


def _format(finding: Finding) -> str:
    try:
        if finding.validator_value == "regex":
            compile_pattern(finding.instance)
    except PatternError as exc:
        return f"a regular expression ({exc})"
    return f"text in the format {_written(finding.validator_value)}"


def _unknown(finding: Finding) -> str:
    return "nothing here" if finding.schema is False else f"what {finding.validator!r} asks for"


def _saying(words: str) -> Callable[[Finding], str]:
    return lambda finding: words.format(_written(finding.validator_value))


def _counting(words: str, one: str, many: str) -> Callable[[Finding], str]:
    def sentence(finding: Finding) -> str:
        number: Any = finding.validator_value
        return f"{words} {_count(number, many, one)}"

    return sentence


MISSING: Final = frozenset(["required", "dependentRequired"])
COUNTING: Final = frozenset(
    [
        *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        *("items", "additionalItems", "unevaluatedItems"),
    ]
)

SENTENCES: Final[dict[str, Callable[[Finding], str]]] = {
    "type": _type,
    "enum": _one_of,
    "const": _saying("{}"),
    "minimum": _saying("at least {}"),
    "maximum": _saying("at most {}"),
    "exclusiveMinimum": _saying("more than {}"),
    "exclusiveMaximum": _saying("less than {}"),
    "multipleOf": _saying("a multiple of {}"),
    "minLength": _counting("at least", "character", "characters"),
    "maxLength": _counting("at most", "character", "characters"),
    "pattern": _saying("text that matches {}"),
    "format": _format,
    "minItems": _counting("at least", "item", "items"),
    "maxItems": _counting("at most", "item", "items"),
    "items": _only_prefix_items,
    "additionalItems": _saying("no further items"),
    "unevaluatedItems": _saying("no further items"),
    "uniqueItems": _saying("items that differ from each other"),
    "contains": _saying("an item of the kind that the schema asks for"),
    "minContains": _saying("at least {} items of the kind that the schema asks for"),
    "maxContains": _saying("at most {} items of the kind that the schema asks for"),
    "minProperties": _counting("at least", "property", "properties"),
    "maxProperties": _counting("at most", "property", "properties"),
    "additionalProperties": _known_names,
    "unevaluatedProperties": _known_names,
    "oneOf": _saying("exactly one of the forms to fit"),
    "not": _saying("something else than what the schema excludes"),
}
"""The sentence for each keyword."""


# --- values -----------------------------------------------------------------------


def _count(number: int, many: str, one: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _is_short(value: Any) -> bool:
    """Whether a value that is no text can be shown as it is."""
    return value is None or isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= 256)


def _written(value: Any) -> str:
    """A value of a schema as JSON, cut."""
    return cut(json.dumps(value, ensure_ascii=False), TEXT_LIMIT)


def _json(value: Any) -> str:
    """A value as JSON, cut; of a list or an object only the kind."""
    if isinstance(value, str):
        return json.dumps(cut(value, TEXT_LIMIT), ensure_ascii=False)
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    if value is None or isinstance(value, bool | int | float):
        return cut(json.dumps(value), TEXT_LIMIT)
    return type(value).__name__
