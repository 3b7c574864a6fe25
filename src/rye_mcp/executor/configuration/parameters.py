"""Checks what a caller gives a tool, before anything runs.

Parameters are compared with the tool's `config_schema` after its defaults are filled in. Every error is
reported with its place, and no `writeOnly` value is in any of them. The rules are in
`docs/architecture/execution.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Final

from lilux import _json
from lilux._dataclasses import dataclass
from lilux.primitives.errors import ConfigurationError, ValidationError
from lilux.schemas import quick_validator
from lilux.schemas.quick_validator import Examination
from rye_mcp.apart import LARGE, apart, off_loop, size_of
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.executor.job.decoding import parse_json
from rye_mcp.items import printable
from rye_mcp.notices import Notice
from rye_mcp.runs.results import KeptResults, is_result_handle

__all__ = [
    "HANDLE_FORMAT",
    "MAX_BYTES",
    "MAX_DEPTH",
    "Parameters",
    "UnfilledError",
    "check_parameters",
    "checked_parameters",
    "is_quick",
    "sketched_parameters",
    "takes_handle",
    "with_results",
]

MAX_BYTES: Final = 16 << 20
"""How long parameters may be as JSON in UTF-8: 16 MiB."""

MAX_DEPTH: Final = 64
"""How many objects and lists may stand inside each other."""

HANDLE_FORMAT: Final = "rye-handle"
"""The format of a parameter that takes a handle: a program gets a file with the result."""

_MAX_ISSUES = 50
_NAMED = 5
_SHOWN_CHARACTERS = 64
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\[(\d+)\]|\[\"(.*?)\"\]")
_OF_PRIMITIVE = ("config", "params")


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters that fit, with defaults.

    `json` is all of them as compact JSON; `declared` are the names that the tool's schema speaks of, given or
    not; `secret` those whose value is marked `writeOnly`, or has something inside that is, and `secret_paths`
    the ways to just these values. `handles` are those that a program gets as a file. `needs` are those
    without which nothing runs: a call has none missing.
    """

    values: Mapping[str, Any] = field(repr=False)
    json: str = field(repr=False)
    declared: frozenset[str] = frozenset()
    secret: frozenset[str] = frozenset()
    notices: tuple[Notice, ...] = ()
    needs: tuple[str, ...] = ()
    secret_paths: frozenset[tuple[str | int, ...]] = frozenset()
    handles: frozenset[str] = frozenset()

    def with_values(self, changed: Mapping[str, str]) -> Parameters:
        """The same parameters, some of them with another text."""
        values = {**self.values, **changed}
        return replace(self, values=values, json=_json.encode(values, _ENCODER))


class UnfilledError(RyeError):
    """Raised while `needs` are missing; nothing is wrong with the tool."""

    needs: tuple[str, ...] = ()

    @classmethod
    def of(cls, element: ChainElement, needs: Sequence[str]) -> UnfilledError:
        """The one for a tool that needs these."""
        what = f"expected {', '.join(needs)} for {element.item_id}, found nothing"
        found = cls("invalid_parameters", what, where=element.path, item_id=element.item_id)
        found.needs = tuple(needs)
        return found


async def checked_parameters(
    element: ChainElement, parameters: Mapping[str, Any] | None, *, sketched: bool = False
) -> Parameters:
    """The same as `check_parameters`, or as `sketched_parameters`, for an event loop.

    Others choose the schema and the parameters: what is not sure to be quick is done apart.
    """
    check = partial(sketched_parameters, element)
    if not sketched:
        check = partial(check_parameters, element, parameters)
    return check() if is_quick(element.metadata.config_schema, parameters) else await apart(check)


def is_quick(schema: Mapping[str, Any] | None, parameters: Any) -> bool:
    """Whether values are few, and comparing them with the schema takes the event loop no time."""
    size = size_of(parameters or {})
    if schema is None or size >= LARGE:
        return size < LARGE
    return quick_validator.is_quick(schema, size)


def check_parameters(element: ChainElement, parameters: Mapping[str, Any] | None) -> Parameters:
    """The parameters of a call, when they fit; RyeError `invalid_parameters` with every issue otherwise."""
    given = {} if parameters is None else parameters
    if not isinstance(given, dict):
        if not isinstance(given, Mapping):
            raise _refused(element, [_Issue("", f"expected an object, found {type(given).__name__}")])
        given = dict(given)
    if element.metadata.is_primitive:
        return _of_primitive(element, given)
    schema = element.metadata.config_schema
    if schema is None:
        return _undeclared(element, given)
    return _fitting(element, given, schema)


def sketched_parameters(element: ChainElement) -> Parameters:
    """The parameters of a call that nobody has given any for: defaults, and what it would need besides.

    UnfilledError where what it needs has no name; RyeError when it would be refused whatever is given.
    """
    schema = element.metadata.config_schema
    if element.metadata.is_primitive:
        raise UnfilledError.of(element, ("config",))
    return check_parameters(element, None) if schema is None else _fitting(element, {}, schema, sketched=True)


@dataclass(frozen=True, slots=True)
class _Issue:
    """A place, as a JSON pointer, and what is wrong there."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def _of_primitive(element: ChainElement, given: dict[str, Any]) -> Parameters:
    """`config` is compared with the schema; `params` are only put into its templates."""
    _text_of(element, given)
    issues = [
        _Issue(f"/{name}", "expected only config and params for a primitive, found another name")
        for name in sorted(given.keys() - set(_OF_PRIMITIVE))
    ]
    issues += [
        _Issue(f"/{name}", f"expected an object, found {type(given[name]).__name__}")
        for name in _OF_PRIMITIVE
        if name in given and not isinstance(given[name], dict)
    ]
    if "config" not in given:
        issues.append(_Issue("/config", "expected the configuration of the primitive, found nothing"))
    if issues:
        raise _refused(element, issues)
    schema = element.metadata.config_schema
    config, paths = given["config"], frozenset[tuple[str | int, ...]]()
    if schema is not None:
        fitting = _fitting(element, config, schema, place="/config")
        config, paths = fitting.values, fitting.secret_paths
    values = {"config": config, "params": given.get("params", {})}
    secret_paths = frozenset(("config", *path) for path in paths)
    return Parameters(values, _text_of(element, values), secret_paths=secret_paths)


def _undeclared(element: ChainElement, given: dict[str, Any]) -> Parameters:
    """The parameters of a tool that says nothing about them."""
    text = _text_of(element, given)
    if not given:
        return Parameters(given, text)
    level: list[Any] = [given]
    for _ in range(MAX_DEPTH):
        level = [item for value in level for item in _items(value)]
    if any(isinstance(value, dict | list) for value in level):
        issue = f"expected at most {MAX_DEPTH} objects and lists inside each other, found more"
        raise _refused(element, [_Issue("", issue)])
    notice = Notice(
        "undeclared_parameters", f"{element.item_id} declares no parameters, and gets {_named(given)}"
    )
    return Parameters(given, text, notices=(notice,))


def _fitting(
    element: ChainElement,
    given: dict[str, Any],
    schema: Mapping[str, Any],
    place: str = "",
    *,
    sketched: bool = False,
) -> Parameters:
    """The values with the schema's defaults, when they fit; of a sketch, as far as there are any."""
    text = _text_of(element, given)
    try:
        found = quick_validator.examine(given, schema)
    except ValidationError as exc:
        raise _refused(element, _issues([exc], place)) from exc
    except ConfigurationError as exc:
        raise RyeError(
            "invalid_item",
            f"expected a config_schema that is a JSON Schema in {element.item_id}, found: {exc.message}",
            where=element.path,
            item_id=element.item_id,
            field="config_schema",
        ) from exc
    needs = _needs(element, found) if sketched else ()
    if found.errors and not needs:
        raise _refused(element, _issues(found.errors, place))
    if found.values != given:
        text = _text_of(element, found.values)
    notices = _notices(element, found.undescribed)
    return Parameters(
        found.values,
        text,
        found.described,
        found.hidden,
        notices,
        needs,
        secret_paths=found.hidden_paths,
        handles=frozenset(name for name, value in found.values.items() if takes_handle(schema, name, value)),
    )


def takes_handle(schema: Mapping[str, Any], name: str, value: Any) -> bool:
    """Whether this is a handle of a parameter that takes one, and not the result behind it."""
    if not is_result_handle(value):
        return False
    properties = schema.get("properties")
    declared = properties.get(name) if isinstance(properties, Mapping) else None
    return isinstance(declared, Mapping) and declared.get("format") == HANDLE_FORMAT


def _needs(element: ChainElement, found: Examination) -> tuple[str, ...]:
    """The parameters that are missing; nothing when a default is wrong, which the caller cannot fix."""
    places = [error.field.removeprefix("/") for error in found.errors]
    names = [place.replace("~1", "/").replace("~0", "~") for place in places]
    if any(place.partition("/")[0] in found.values for place in places):
        return ()
    if not all(names):
        texts = (name or error.error for name, error in zip(names, found.errors, strict=True))
        raise UnfilledError.of(element, tuple(dict.fromkeys(texts)))
    return tuple(dict.fromkeys(names))


def _issues(errors: Sequence[ValidationError], place: str) -> list[_Issue]:
    return [_Issue(f"{place}{error.field}", error.error) for error in errors]


def _notices(element: ChainElement, others: frozenset[str]) -> tuple[Notice, ...]:
    if not others:
        return ()
    message = f"{element.item_id} does not declare {_named(others)}; it is sent, but may not be looked at"
    return (Notice("undeclared_parameters", message),)


def _text_of(element: ChainElement, values: dict[str, Any]) -> str:
    """The values as JSON, when JSON can hold them and they are not too long."""
    try:
        text = _json.encode(values, _ENCODER)
        size = len(text) if text.isascii() else len(text.encode())
    except _json.NotJsonError as exc:
        raise _refused(
            element, [_Issue(_pointer(issue.path), issue.problem) for issue in exc.issues]
        ) from None
    except UnicodeEncodeError:
        issues = [_Issue(path, "expected text, found a lone surrogate") for path in _broken_texts(values, "")]
        raise _refused(element, issues) from None
    if size > MAX_BYTES:
        issue = f"expected at most {MAX_BYTES} bytes as JSON, found {size}"
        raise _refused(element, [_Issue("", issue)])
    return text


def _pointer(path: str) -> str:
    """`$.chain[2]` as a JSON pointer, as all other places are given."""
    return _STEP.sub(lambda step: f"/{step[1] or step[2] or step[3]}", path.removeprefix("$"))


def _broken_texts(value: Any, path: str) -> Iterator[str]:
    """Where there is text that UTF-8 cannot hold; `value` is known not to be too deep."""
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            yield path
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _broken_texts(name, path)
            yield from _broken_texts(item, f"{path}/{printable(name)}")
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from _broken_texts(item, f"{path}/{position}")


def _items(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list | tuple) else ()


def _named(names: Mapping[str, Any] | frozenset[str]) -> str:
    shown = [name[:_SHOWN_CHARACTERS] for name in sorted(names)]
    others = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    return ", ".join(shown[:_NAMED]) + others


def _refused(element: ChainElement, issues: Sequence[_Issue]) -> RyeError:
    listed = issues[:_MAX_ISSUES]
    first = "; ".join(map(str, listed[:_NAMED]))
    others = f"; and {len(issues) - _NAMED} more" if len(issues) > _NAMED else ""
    return RyeError(
        "invalid_parameters",
        f"expected parameters that fit {element.item_id}, found: {first}{others}",
        where=element.path,
        item_id=element.item_id,
        issues=[{"path": issue.path, "message": issue.message} for issue in listed],
    )


# --- handles ---
# Puts kept results in the place of their handles, where a parameter is nothing but `rye://result/<sha256>`.
#
# A parameter of type string gets the text; any other gets the JSON value or, if it isn't JSON, the text. The
# schema is compared afterwards, with what the tool would get. A parameter with `format: rye-handle` keeps its
# handle, and a program gets the path of a file. Handles inside of lists, objects or longer texts are data.


async def with_results(
    element: ChainElement, given: Mapping[str, Any] | None, results: KeptResults
) -> Mapping[str, Any] | None:
    """The parameters of a call with every handle replaced; RyeError for one that opens nothing."""
    if not isinstance(given, Mapping) or not any(map(is_result_handle, given.values())):
        return given
    return await off_loop(lambda: {**given, **dict(_opened(element, given, results))})


def _opened(
    element: ChainElement, given: Mapping[str, Any], results: KeptResults
) -> Iterator[tuple[str, Any]]:
    schema = element.metadata.config_schema or {}
    for name, handle in given.items():
        if takes_handle(schema, name, handle):
            with results.opened(handle):
                continue  # it is there
        if is_result_handle(handle):
            yield name, _value(name, results.read_whole(handle, limit=MAX_BYTES), element)


def _value(name: str, data: bytes, element: ChainElement) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        what = f"expected text as {name} of {element.item_id}, found the handle of a file that isn't UTF-8"
        hint = f"only a parameter with format: {HANDLE_FORMAT} takes such a file"
        raise RyeError("invalid_parameters", what, hint=hint, item_id=element.item_id) from exc
    if _type_of(element, name) == "string":
        return text
    try:
        return parse_json(text)
    except ValueError:
        return text


def _type_of(element: ChainElement, name: str) -> Any:
    properties = (element.metadata.config_schema or {}).get("properties")
    declared = properties.get(name) if isinstance(properties, Mapping) else None
    return declared.get("type") if isinstance(declared, Mapping) else None
