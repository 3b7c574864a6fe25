"""Schemas, checked and ready for use: a copy of each is kept, and an equal one is not read again.

A wrong schema is a ConfigurationError with every issue. References lead into the schema itself or to the
drafts of JSON Schema; nothing is fetched.
"""

from __future__ import annotations

import json
import marshal
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7, DRAFT202012

from lilux._dataclasses import dataclass
from lilux.primitives.errors import ConfigurationError
from lilux.schemas._keywords import KEYWORDS, Exhausted, current, limited, refuse, timed
from lilux.schemas._plain import Fits, is_plain, plainly
from lilux.schemas._reports import Reporter
from lilux.schemas._structure import Path, inside, items, pointer

__all__ = ["Compiled", "compile_schema", "known_schema"]

CACHED_SCHEMAS: Final = 256
CACHED_LARGE_SCHEMAS: Final = 8
LARGE_CHARACTERS: Final = 32 * 1024
"""How many schemas are kept, how many large ones beside them, and how long a large one is at least."""

SIZE_LIMIT: Final = 1024 * 1024
"""Characters of a schema as JSON."""

DEPTH_LIMIT: Final = 64
"""Objects and lists inside each other in a schema."""

ISSUES_LIMIT: Final = 20
"""How many issues of a schema are reported."""


def _dialect(base: Any) -> Any:
    """A validator of a draft with the keywords of this package."""
    known = {name: KEYWORDS.get(name, keyword) for name, keyword in base.VALIDATORS.items()}
    make: Any = extend
    dialect = make(base, {name: timed(keyword) for name, keyword in known.items()})
    evolve, descend = dialect.evolve, dialect.descend

    def stay(self: Any, **changes: Any) -> Any:
        """Go on with a schema inside. One that names its draft would get another validator for it."""
        schema = changes.get("schema", self.schema)
        if isinstance(schema, dict) and "$schema" in schema:
            changes["schema"] = {name: value for name, value in schema.items() if name != "$schema"}
        return evolve(self, **changes)

    def go_down(
        self: Any, instance: Any, schema: Any, path: Any = None, schema_path: Any = None, resolver: Any = None
    ) -> Any:
        """Compare a value with a schema inside; what `false` finds has its place here."""
        if schema is False:
            return refuse(instance, path, schema_path)
        return descend(self, instance, schema, path, schema_path, resolver)

    dialect.evolve, dialect.descend = stay, go_down
    return dialect


DIALECTS: Final = {
    "https://json-schema.org/draft/2020-12/schema": (_dialect(Draft202012Validator), DRAFT202012),
    "http://json-schema.org/draft-07/schema": (_dialect(Draft7Validator), DRAFT7),
}
DEFAULT_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


_MARSHAL_VERSION: Final = 2
"""The last one in which equal values are mostly written alike: later ones say which objects are the same."""

_kept: Final[OrderedDict[bytes, Compiled]] = OrderedDict()
"""Small schemas by what `marshal` makes of them, which is several times as quick as JSON."""

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("if", "then", "else")
_REFERENCES: Final = ("$ref", "$dynamicRef")
_OTHERS: Final = frozenset({"additionalProperties", "unevaluatedProperties"})

_Place = tuple[Path, Any, Any]
"""The way to a schema, the schema, and what follows its references."""


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


@dataclass(frozen=True, slots=True)
class Compiled:
    """A schema that is one: its contents, what checks values, and what follows its references.

    `hides` says whether it marks anything as `writeOnly`, `fills` whether it has a `default` anywhere,
    `names` which properties of an object it speaks of. `fits` is certain of some values, and quick. `size` is
    how many bytes `marshal` makes of it; `is_plain` says whether no keyword leads anywhere else.
    """

    contents: Any
    validator: Any
    resolver: Any
    specification: Any
    hides: bool
    fills: bool
    names: Names = field(default_factory=Names)
    fits: Fits = field(default=plainly(False), repr=False)
    size: int = 0
    is_plain: bool = False


def known_schema(schema: Any) -> Compiled | None:
    """A small schema, if it was made ready before."""
    try:
        return _kept.get(marshal.dumps(schema, _MARSHAL_VERSION))
    except ValueError:
        return None


def compile_schema(schema: Any) -> Compiled:
    """A compiled schema; ConfigurationError if it is invalid."""
    try:
        key = marshal.dumps(schema, _MARSHAL_VERSION)
    except ValueError:
        return _made(schema)
    found = _kept.get(key)
    if found is None:
        found = _made(schema)
        if len(key) < LARGE_CHARACTERS:
            while len(_kept) >= CACHED_SCHEMAS:
                _kept.popitem(last=False)
            _kept[key] = found = replace(found, size=len(key))
    return found


def _made(schema: Any) -> Compiled:
    try:
        with limited():
            return _compiled(schema)
    except Exhausted as exc:
        raise ConfigurationError(f"cannot check the schema: {exc.message}", "schema") from exc


def _compiled(schema: Any) -> Compiled:
    try:
        text = json.dumps(schema, allow_nan=False, check_circular=True)
    except (TypeError, ValueError, RecursionError) as exc:
        raise ConfigurationError(
            f"expected a schema that JSON can hold, found {type(schema).__name__}: {exc}", "schema"
        ) from exc
    if len(text) > SIZE_LIMIT:
        raise ConfigurationError(
            f"expected a schema of at most {SIZE_LIMIT} characters, found {len(text)}", "schema"
        )
    return _compile_small(text) if len(text) < LARGE_CHARACTERS else _compile_large(text)


def _compile(text: str) -> Compiled:
    contents = json.loads(text)
    if not isinstance(contents, dict | bool):
        raise ConfigurationError(
            f"expected a schema (an object, true or false), found {type(contents).__name__}", "schema"
        )
    _check_depth(contents)
    name = contents.get("$schema", DEFAULT_DIALECT) if isinstance(contents, dict) else DEFAULT_DIALECT
    found = DIALECTS.get(name.removesuffix("#")) if isinstance(name, str) else None
    if found is None:
        known = " or ".join(DIALECTS)
        raise ConfigurationError(f"expected {known} as $schema, found {name!r:.100}", "/$schema")
    dialect, specification = found
    _check(dialect, contents)
    validator = dialect(contents, registry=Registry())
    # `jsonschema` has no public way to the resolver that it has made for a schema.
    resolver = validator._resolver
    compiled = Compiled(
        contents, validator, resolver, specification, hides='"writeOnly"' in text, fills='"default"' in text
    )
    _check_references(dialect, compiled)
    body = contents
    if isinstance(contents, dict):
        body = {keyword: value for keyword, value in contents.items() if keyword != "$schema"}
    return replace(
        compiled,
        names=names_in(contents, resolver, specification),
        fits=plainly(body),
        is_plain=is_plain(body),
    )


_compile_small = lru_cache(maxsize=CACHED_SCHEMAS)(_compile)
_compile_large = lru_cache(maxsize=CACHED_LARGE_SCHEMAS)(_compile)


def _check_depth(contents: Any) -> None:
    level, depth = [contents], 0
    while level := [item for value in level for item in items(value)]:
        depth += 1
        if depth > DEPTH_LIMIT:
            raise ConfigurationError(
                f"expected a schema with at most {DEPTH_LIMIT} objects and lists inside each other", "schema"
            )


def _check(dialect: Any, contents: Any, where: Path = ()) -> None:
    """Compare a schema with the schema of its dialect."""
    checker = dialect(dialect.META_SCHEMA, registry=Registry())
    findings = list(islice(checker.iter_errors(contents), ISSUES_LIMIT))
    errors = sorted(map(Reporter().report, findings), key=lambda error: (error.field, error.error))
    if errors:
        issues = "; ".join(
            f"at {pointer(where)}{error.field or ('' if where else 'its top')}: {error.error}"
            for error in errors
        )
        raise ConfigurationError(f"the schema is wrong {issues}", field=pointer(where) + errors[0].field)


def _check_references(dialect: Any, compiled: Compiled) -> None:
    """Follow every reference once; one that leads nowhere, or to what is no schema, is an issue."""
    issues: list[tuple[str, str]] = []
    known: set[int] = set()
    pending: list[_Place] = [((), compiled.contents, compiled.resolver)]
    while pending:
        targets: list[_Place] = []
        for path, schema, resolver in pending:
            for place in _all_schemas(compiled, path, schema, resolver):
                known.add(id(place[1]))
                targets += _targets(*place, issues)
        pending = list({id(place[1]): place for place in targets if id(place[1]) not in known}.values())
        for path, schema, _ in pending:
            _check(dialect, schema, path)
            known.add(id(schema))
    if issues:
        message = "; ".join(f"at {field}: {text}" for field, text in issues[:ISSUES_LIMIT])
        raise ConfigurationError(f"the schema is wrong {message}", field=issues[0][0])


def _targets(path: Path, schema: Any, resolver: Any, issues: list[tuple[str, str]]) -> Iterator[_Place]:
    """Where the references of a schema lead."""
    for keyword in ("$ref", "$dynamicRef"):
        reference = schema.get(keyword) if isinstance(schema, dict) else None
        if not isinstance(reference, str):
            continue
        try:
            found = resolver.lookup(reference)
        except Unresolvable:
            expected = "expected a reference to a place in the schema (nothing is fetched)"
            issues.append((pointer((*path, keyword)), f"{expected}, found {reference[:100]!r}"))
        else:
            yield (*path, keyword), found.contents, found.resolver


def _all_schemas(compiled: Compiled, path: Path, schema: Any, resolver: Any) -> Iterator[_Place]:
    """A schema and every schema in it."""
    pending: list[_Place] = [(path, schema, resolver)]
    while pending:
        where, found, its = pending.pop()
        current().go_on(found)
        yield where, found, its
        for sub in inside(found):
            resource = compiled.specification.create_resource(sub.schema)
            pending.append(((*where, *sub.path), sub.schema, its.in_subresource(resource)))


def names_in(contents: Any, resolver: Any, specification: Any) -> Names:
    """Find what a valid schema says about names."""
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
