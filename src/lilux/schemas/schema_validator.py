"""Checks values against JSON Schemas (Draft 2020-12, Draft 7), and fills in the defaults of a schema.

The rules are in `docs/architecture/lilux.md`. A validation may take longer than an event loop can wait.

    >>> schema = {"properties": {"age": {"type": "integer"}}, "required": ["name"]}
    >>> for error in validate_parameters({"age": "x"}, schema).errors:
    ...     print(error)
    /age: expected a whole number, found "x"
    /name: expected a value, found nothing
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import islice
from typing import Any, Final

from lilux._dataclasses import dataclass
from lilux.primitives.errors import ConfigurationError, ValidationError
from lilux.schemas._compiled import Compiled, compile_schema, known_schema
from lilux.schemas._keywords import Exhausted, current, described, limited
from lilux.schemas._reports import Reporter
from lilux.schemas._structure import Path, count, everything, inside, pointer, refusal
from lilux.schemas.quick_validator import QUICK_LIMIT, Examination

__all__ = [
    "Examination",
    "ValidationResult",
    "apply_defaults",
    "examine",
    "is_quick",
    "unknown_keywords",
    "validate_parameters",
]

ERRORS_LIMIT: Final = 1000
"""How many errors are reported."""

PLACES_LIMIT: Final = 10_000
"""How many values are looked at to say where time was up."""


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Whether values fit a schema, and if not, every reason."""

    valid: bool
    errors: Sequence[ValidationError] = field(default_factory=list)


def is_quick(schema: Any, size: int) -> bool:
    """Whether comparing so many values with a schema is sure to take a few milliseconds at most.

    The schema was made ready before, and each of its keywords looks at each value once.
    """
    known = known_schema(schema)
    return known is not None and known.is_plain and known.size * size <= QUICK_LIMIT


def validate_parameters(parameters: Any, schema: Any) -> ValidationResult:
    """Compare values with a schema; ConfigurationError when the schema is wrong."""
    with limited():
        compiled = compile_schema(schema)
        try:
            return _validated(parameters, compiled)
        except Exhausted as exc:
            return ValidationResult(False, [_out_of_time(exc, parameters)])


def _validated(parameters: Any, compiled: Compiled) -> ValidationResult:
    refused = refusal(parameters)
    return _compared(parameters, compiled) if refused is None else ValidationResult(False, [refused])


def _out_of_time(exhausted: Exhausted, parameters: Any) -> ValidationError:
    """The error of a validation that took too long, with its place as far as that is quickly found."""
    nearest = islice(everything(parameters), PLACES_LIMIT)
    path = next((path for path, value in nearest if value is exhausted.instance), ())
    return ValidationError(pointer(path), exhausted.message)


def _compared(parameters: Any, compiled: Compiled) -> ValidationResult:
    if compiled.fits(parameters):
        return ValidationResult(True)
    try:
        findings = list(islice(compiled.validator.iter_errors(parameters), ERRORS_LIMIT + 1))
    except RecursionError as exc:
        raise ConfigurationError(
            "expected a schema that comes to an end, found one that leads back to itself for the same value",
            "schema",
        ) from exc
    if not findings:
        return ValidationResult(True)
    reporter = Reporter(_hidden_paths(compiled, parameters))
    findings.sort(key=lambda finding: [(isinstance(part, str), part) for part in finding.absolute_path])
    reports = map(reporter.report, findings[:ERRORS_LIMIT])
    errors = list({(error.field, error.error): error for error in reports}.values())
    if len(findings) > ERRORS_LIMIT:
        errors.append(ValidationError("", f"expected fewer errors, found more than {ERRORS_LIMIT}"))
    return ValidationResult(False, errors)


def apply_defaults(parameters: Any, schema: Any) -> Any:
    """A copy of values in which what is missing is there, as far as the schema has a `default` for it.

    Defaults of properties are filled in, also inside objects and lists, and inside defaults; those behind
    `$ref` and `allOf` too. What only may apply (`anyOf`, `oneOf`, `if`) fills in nothing. Whether the
    values fit is not asked; what `validate_parameters` refuses to look at comes back as it is.
    """
    with limited():
        compiled = compile_schema(schema)
        try:
            return parameters if refusal(parameters) is not None else _filled(compiled, parameters)
        except Exhausted as exc:
            raise ValidationError("", exc.message) from exc


def examine(parameters: dict[str, Any], schema: Any) -> Examination:
    """Fill in defaults, then compare an object with a schema; ConfigurationError when the schema is wrong."""
    with limited():
        compiled = compile_schema(schema)
        try:
            return _examined(parameters, compiled)
        except Exhausted as exc:
            return Examination(parameters, [_out_of_time(exc, parameters)], compiled.names.described)


def _examined(parameters: dict[str, Any], compiled: Compiled) -> Examination:
    refused = refusal(parameters)
    if refused is not None:
        return Examination(parameters, [refused], compiled.names.described)
    values = _filled(compiled, parameters)
    # What was filled in has not been looked at yet.
    errors = (_validated if compiled.fills else _compared)(values, compiled).errors
    if errors:
        return Examination(values, errors, compiled.names.described)
    undescribed = compiled.names.undescribed(values)
    paths = _hidden_paths(compiled, values)
    if () in paths:
        paths = frozenset((name,) for name in values)
    hidden = frozenset(str(path[0]) for path in paths)
    return Examination(values, (), compiled.names.described, undescribed, hidden, paths)


STEPS_LIMIT: Final = 192
"""Schemas inside each other, references and parts of `allOf` included, that are followed to a value."""

VALUES_LIMIT: Final = 1_000_000
"""How many values may be inserted."""

_NONE: Final = object()


def _filled(compiled: Compiled, value: Any) -> Any:
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


WALK_LIMIT: Final = 100_000
"""How many pairs of a schema and a value are looked at."""


_Pair = tuple[Any, Any, Any, Path]
"""A schema, what follows its references, a value that it speaks of, and the way to that."""


def _hidden_paths(compiled: Compiled, parameters: Any) -> frozenset[Path]:
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
    """Yield the schemas that a schema refers to and contains, with the values that these apply to."""
    for keyword in ("$ref", "$dynamicRef"):
        if isinstance(schema.get(keyword), str):
            found = resolver.lookup(schema[keyword])
            yield found.contents, found.resolver, value, path
    for sub in inside(schema):
        inner = resolver.in_subresource(compiled.specification.create_resource(sub.schema))
        yield from ((sub.schema, inner, item, (*path, *way)) for way, item in sub.values(value))


# --- misspelt keywords ---
# A validator ignores every name that it does not know, so a misspelt keyword refuses nothing. Known are the
# keywords of Draft 2020-12 and of earlier drafts, back to Draft 4. Names that begin with `x-` are for
# programs.

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
