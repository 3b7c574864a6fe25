"""The limits of one validation, and the keywords that `jsonschema` decides or reports otherwise than here.

Every keyword first asks the `Effort` of the running validation whether there is time left. What could not be
decided in time counts as an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any, Final

from jsonschema.exceptions import ValidationError

from lilux.schemas._patterns import matches

__all__ = ["KEYWORDS", "Exhausted", "current", "described", "limited", "refuse", "timed"]

TIME_LIMIT_S: Final = 0.3
"""How long a validation may work, and making its schema ready as long: through references, a schema can
demand more work than its size tells. While the thread waits for others, no time passes."""

PATTERN_LIMIT_S: Final = 0.25
"""How long all regular expressions of a validation may take together."""


class Exhausted(Exception):  # noqa: N818 - it is no error of anybody
    """A validation has taken too long; `instance` is the value that it was looking at."""

    def __init__(self, message: str, instance: Any) -> None:
        super().__init__(message)
        self.message = message
        self.instance = instance


class Effort:
    """The work that is left for one validation."""

    def __init__(self) -> None:
        self._deadline = time.thread_time() + TIME_LIMIT_S
        self._patterns_s = PATTERN_LIMIT_S

    def go_on(self, instance: Any) -> None:
        """Raise Exhausted when the time is up."""
        if time.thread_time() > self._deadline:
            raise Exhausted(f"expected a value that can be checked within {TIME_LIMIT_S:g} s", instance)

    def matches(self, pattern: str, text: str) -> bool:
        """Whether a pattern is found in a text; Exhausted when that takes too long to tell."""
        started = time.monotonic()
        try:
            if self._patterns_s > 0:
                return matches(pattern, text, timeout_s=self._patterns_s)
        except TimeoutError:
            pass
        finally:
            self._patterns_s -= time.monotonic() - started
        raise Exhausted(
            f"expected a text on which all patterns can be tried within {PATTERN_LIMIT_S:g} s, "
            f"found one that is too hard for {_short(pattern)}",
            text,
        )


_current: ContextVar[Effort | None] = ContextVar("effort", default=None)


@contextmanager
def limited() -> Iterator[Effort]:
    """Give what happens in the block a new effort."""
    token = _current.set(Effort())
    try:
        yield current()
    finally:
        _current.reset(token)


def current() -> Effort:
    """The effort of the validation that is under way."""
    found = _current.get()
    if found is None:
        raise LookupError("expected a validation that is under way, found none")
    return found


def _short(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 60 else f"{pattern[:60]}…")


Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


def timed(keyword: Keyword) -> Keyword:
    """The same keyword, which stops when the time is up."""

    def checked(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError] | None:
        current().go_on(instance)
        return keyword(validator, value, instance, schema)

    return checked


def refuse(instance: Any, path: Any, schema_path: Any) -> Iterator[ValidationError]:
    """Report a value that meets the schema `false`."""
    places = ([place] if place is not None else [] for place in (path, schema_path))
    at, where = places
    yield ValidationError(
        "false", validator="false", instance=instance, schema=False, path=at, schema_path=where
    )


# --- texts and numbers ------------------------------------------------------------


def _pattern(validator: Any, value: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not current().matches(value, instance):
        yield ValidationError("pattern")


def _format(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    from lilux.schemas._formats import fits  # most schemas name no format, and its patterns take 15 ms

    if isinstance(instance, str) and not fits(value, instance):
        yield ValidationError("format")


def _multiple_of(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "number") and _exactly(instance) % _exactly(value):
        yield ValidationError("multipleOf")


def _exactly(number: float) -> Fraction:
    """The number that was written, not the one that a float comes closest to it."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _unique_items(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if value and isinstance(instance, list) and len({_identity(item) for item in instance}) < len(instance):
        yield ValidationError("uniqueItems")


def _identity(item: Any) -> Any:
    """Return a key that is equal for two values exactly when JSON Schema calls them equal."""
    if isinstance(item, bool):
        return "true" if item else "false", None
    if isinstance(item, dict | list):
        current().go_on(item)
    if isinstance(item, dict):
        return "object", frozenset((name, _identity(value)) for name, value in item.items())
    if isinstance(item, list):
        return "array", tuple(map(_identity, item))
    return "text" if isinstance(item, str) else "number", item


# --- properties -------------------------------------------------------------------


def _required(validator: Any, value: list[str], instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        yield from (_missing(name, "required") for name in value if name not in instance)


def _dependent_required(
    validator: Any, value: dict[str, list[str]], instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for given, names in value.items():
            if given in instance:
                yield from (
                    _missing(name, "dependentRequired", given) for name in names if name not in instance
                )


def _missing(name: str, keyword: str, given: str | None = None) -> ValidationError:
    return ValidationError(keyword, validator=keyword, validator_value=given, path=[name], instance=None)


def _pattern_properties(
    validator: Any, value: dict[str, Any], instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in value.items():
        for name, item in instance.items():
            if current().matches(pattern, name):
                yield from validator.descend(item, subschema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, value: Any, instance: Any, schema: dict[str, Any]
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        known = described(instance, schema)
        yield from _others(validator, "additionalProperties", value, instance, known)


def _unevaluated_properties(
    validator: Any, value: Any, instance: Any, schema: dict[str, Any]
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        own = {name: item for name, item in schema.items() if name != "unevaluatedProperties"}
        known = _evaluated(validator, instance, own)
        yield from _others(validator, "unevaluatedProperties", value, instance, known)


def _others(
    validator: Any, keyword: str, value: Any, instance: dict[str, Any], known: set[str]
) -> Iterator[ValidationError]:
    """Check the properties that are not listed against a subschema."""
    for name, item in instance.items():
        if name in known:
            continue
        if value is False:
            yield ValidationError(keyword, validator=keyword, path=[name], instance=item)
        else:
            yield from validator.descend(item, value, path=name)


def described(instance: dict[str, Any], schema: Mapping[str, Any]) -> set[str]:
    """The properties that `properties` and `patternProperties` speak of."""
    known = set(instance.keys() & schema.get("properties", {}).keys())
    for pattern in schema.get("patternProperties", {}):
        known |= {name for name in instance if name not in known and current().matches(pattern, name)}
    return known


def _evaluated(validator: Any, instance: dict[str, Any], schema: Any) -> set[str]:
    """The properties that a schema, which the instance fits, speaks of in any way."""
    if not isinstance(schema, dict):
        return set()
    if not schema.keys().isdisjoint({"additionalProperties", "unevaluatedProperties"}):
        return set(instance)
    known = described(instance, schema)
    for applied in _applied(validator, instance, schema):
        if applied.is_valid(instance):
            known |= _evaluated(applied, instance, applied.schema)
    return known


def _applied(validator: Any, instance: dict[str, Any], schema: dict[str, Any]) -> Iterator[Any]:
    """A validator for each subschema that is applied to the same instance."""
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema:
            # `jsonschema` has no public way to follow a reference from inside a keyword.
            resolved = validator._resolver.lookup(schema[keyword])
            yield validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)
    subschemas = [item for keyword in ("allOf", "anyOf", "oneOf") for item in schema.get(keyword, ())]
    subschemas += [item for name, item in schema.get("dependentSchemas", {}).items() if name in instance]
    if "if" in schema:
        chosen = "then" if validator.evolve(schema=schema["if"]).is_valid(instance) else "else"
        subschemas += [schema["if"], schema.get(chosen, True)]
    for subschema in subschemas:
        yield validator.evolve(schema=subschema)


KEYWORDS: dict[str, Keyword] = {
    "pattern": _pattern,
    "format": _format,
    "multipleOf": _multiple_of,
    "uniqueItems": _unique_items,
    "required": _required,
    "dependentRequired": _dependent_required,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
}
"""Each keyword and what it does."""
