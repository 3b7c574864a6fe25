"""Forms of values: what is wrong with a value, and the JSON Schema that says the same to editors.

Both are made of the same arguments. Nothing is converted: a version that is a number, because its quotes are
missing, is an issue and not guessed at (`1.10` would be `1.1`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import kind
from rye_mcp.metadata._raw import Way

__all__ = [
    "ANYTHING",
    "MAX_TEXT",
    "Form",
    "Problem",
    "Schema",
    "either",
    "expected",
    "flag",
    "list_of",
    "mapping",
    "one_of",
    "or_null",
    "text",
]

Schema = dict[str, Any]

Problem = tuple[Way, str]
"""Where in a value something is wrong, and what."""

MAX_TEXT: Final = 4096
"""How many characters a name, a description or a category may have."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a value. The check decides; the schema accepts every value without a problem."""

    check: Callable[[Any], Iterator[Problem]]
    schema: Schema

    def about(self, meaning: str) -> Form:
        """The same form, with a sentence that editors show."""
        return replace(self, schema={**self.schema, "description": meaning})


ANYTHING: Final = Form(lambda _: iter(()), {})
"""The form that every value has."""


def expected(what: str, value: object, remedy: str = "") -> Problem:
    """The problem that a value is something else altogether."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return (), f"expected {what}, found {kind(value)}{f' {value}' if is_number else ''}{remedy}"


def text(
    what: str = "text",
    pattern: str | None = None,
    *,
    is_right: Callable[[str], bool] | None = None,
    most: int | None = MAX_TEXT,
) -> Form:
    """Text that a pattern is found in. `is_right` decides in its place, where a pattern says less."""
    found_in = None if pattern is None else re.compile(_to_the_end(pattern), re.ASCII).search
    fits = is_right or found_in

    def check(value: Any) -> Iterator[Problem]:
        if not isinstance(value, str):
            yield expected(
                what, value, ": put it into quotes" if isinstance(value, bool | int | float) else ""
            )
        elif most is not None and len(value) > most:
            yield (), f"expected at most {most} characters, found {len(value)}"
        elif fits is not None and not fits(value):
            yield (), f"expected {what}, found {value[:80]!r}"

    limits: Schema = {"maxLength": most, "pattern": pattern}
    return Form(
        check, {"type": "string", **{name: each for name, each in limits.items() if each is not None}}
    )


def _to_the_end(pattern: str) -> str:
    """The same pattern for Python, whose `$` also fits before a line break; that of JSON Schema does not."""
    return f"{pattern[:-1]}\\Z" if pattern.endswith("$") else pattern


def one_of(*words: str) -> Form:
    """One of these words."""

    def check(value: Any) -> Iterator[Problem]:
        if not isinstance(value, str):
            yield expected("text", value)
        elif value not in words:
            yield (), f"expected one of {', '.join(words)}, found {value[:80]!r}"

    return Form(check, {"enum": [*words]})


def flag() -> Form:
    """True or false."""

    def check(value: Any) -> Iterator[Problem]:
        if not isinstance(value, bool):
            yield expected("true or false", value)

    return Form(check, {"type": "boolean"})


def list_of(each: Form, what: str, *, most: int | None = None) -> Form:
    """A list in which everything has one form."""

    def check(value: Any) -> Iterator[Problem]:
        if not isinstance(value, list):
            yield expected(f"a list of {what}", value)
            return
        if most is not None and len(value) > most:
            yield (), f"expected at most {most} {what}, found {len(value)}"
        for number, member in enumerate(value[:most]):
            yield from (((number, *way), problem) for way, problem in each.check(member))

    schema: Schema = {"type": "array", "items": each.schema}
    return Form(check, schema if most is None else schema | {"maxItems": most})


def mapping(
    members: Mapping[str, Form] | None = None,
    *,
    each: Form | None = None,
    needs: str | None = None,
    closed: bool = False,
) -> Form:
    """A mapping whose members have these forms, and all others `each`; a closed one has no others."""
    known = members or {}

    def check(value: Any) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield expected("a mapping" if needs is None else f"a mapping with {needs}", value)
            return
        if needs is not None and needs not in value:
            yield (), f"expected {needs}, found {', '.join(sorted(value)) or 'nothing'}"
        for name, member in value.items():
            form = known.get(name, each)
            if form is not None:
                yield from (((name, *way), problem) for way, problem in form.check(member))
            elif closed:
                yield (name,), f"expected only {', '.join(known)}, found {name}"

    schema: Schema = {"type": "object"}
    if known:
        schema["properties"] = {name: form.schema for name, form in known.items()}
    if needs is not None:
        schema["required"] = [needs]
    if each is not None or closed:
        schema["additionalProperties"] = False if each is None else each.schema
    return Form(check, schema)


def either(what: str, a_list: Form, a_mapping: Form) -> Form:
    """The one form for lists, the other one for mappings."""

    def check(value: Any) -> Iterator[Problem]:
        if isinstance(value, list | dict):
            yield from (a_list if isinstance(value, list) else a_mapping).check(value)
        else:
            yield expected(what, value)

    return Form(check, {"anyOf": [a_list.schema, a_mapping.schema]})


def or_null(schema: Schema) -> Schema:
    """The schema that accepts null, too, which is the same as nothing."""
    if "type" in schema:
        return schema | {"type": [schema["type"], "null"]}
    if "enum" in schema:
        return schema | {"enum": [*schema["enum"], None]}
    return schema | {"anyOf": [*schema["anyOf"], {"type": "null"}]}
