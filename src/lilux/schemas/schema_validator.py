"""Checks values against JSON Schemas (Draft 2020-12), and fills in what the schema says is there by default.

- `validate_parameters` reports every error, with its place, in an order that depends on nothing but the
  values. It returns a result whatever the values are: too deep, too many, not JSON.
- A schema that is itself wrong is a ConfigurationError, with its issues: whoever wrote it has to know,
  not whoever passes values.
- Nothing that is given is changed, and nothing is fetched. References of a schema to itself are fine.
- Nothing takes for ever: a validation has 0.3 s of the processor's time, making its schema ready has as much,
  and regular expressions together have 0.25 s. What could not be decided by then counts as an error. That is
  too long for an event loop: callers there do it in a thread. Patterns are those of JavaScript.
- Formats are checked. Values that are marked `writeOnly` stand in no error.

    >>> schema = {"properties": {"age": {"type": "integer"}}, "required": ["name"]}
    >>> for error in validate_parameters({"age": "x"}, schema).errors:
    ...     print(error)
    /age: expected a whole number, found "x"
    /name: expected a value, found nothing
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from lilux.primitives.errors import ConfigurationError, ValidationError
from lilux.schemas._compiled import Compiled, compile_schema, known_schema
from lilux.schemas._defaults import fill
from lilux.schemas._effort import Exhausted, limited
from lilux.schemas._hidden import hidden_paths
from lilux.schemas._reports import Reporter, pointer
from lilux.schemas._values import everything, refusal

__all__ = ["Examination", "ValidationResult", "apply_defaults", "examine", "is_quick", "validate_parameters"]

ERRORS_LIMIT: Final = 1000
"""How many errors are reported."""

QUICK_LIMIT: Final = 64 * 1024
"""How many bytes of a schema times how many values are compared without a thread."""

PLACES_LIMIT: Final = 10_000
"""How many values are looked at to say where time was up."""


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Whether values fit a schema, and if not, every reason."""

    valid: bool
    errors: Sequence[ValidationError] = field(default_factory=list)


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
    reporter = Reporter(hidden_paths(compiled, parameters))
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
            return parameters if refusal(parameters) is not None else fill(compiled, parameters)
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
    values = fill(compiled, parameters)
    # What was filled in has not been looked at yet.
    errors = (_validated if compiled.fills else _compared)(values, compiled).errors
    if errors:
        return Examination(values, errors, compiled.names.described)
    undescribed = compiled.names.undescribed(values)
    paths = hidden_paths(compiled, values)
    if () in paths:
        paths = frozenset((name,) for name in values)
    hidden = frozenset(str(path[0]) for path in paths)
    return Examination(values, (), compiled.names.described, undescribed, hidden, paths)
