"""The parameters of a tool as words, as `rye run` takes them: options and their values.

    --name Ada --count=3 --verbose --no-colour --tag a --tag b

What the schema of the tool says decides how a value is read. Words that say nothing are a `WordsError`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["WordsError", "read_words"]

_PREFIX = "--"
_NO = "no-"


class WordsError(ValueError):
    """Words that are no options with values."""


def read_words(words: Sequence[str], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The parameters that these words give; WordsError when they give none."""
    properties = (schema or {}).get("properties")
    known: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
    given: dict[str, list[Any]] = {}
    for name, value in _pairs(words, known):
        given.setdefault(name, []).append(value)
    return {name: _one_or_list(values, known.get(name)) for name, values in given.items()}


def _pairs(words: Sequence[str], known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith(_PREFIX) or word.partition("=")[0] == _PREFIX:
            raise WordsError(f"expected --name value, found {word!r:.80}")
        written, equals, text = word.removeprefix(_PREFIX).partition("=")
        if equals:
            name = _name(written, known)
            yield name, _value(text, known.get(name), written)
        elif position < len(words) and _takes_value(written, words[position], known):
            name = _name(written, known)
            yield name, _value(words[position], known.get(name), written)
            position += 1
        else:
            yield _switch(written, known, words[position] if position < len(words) else None)


def _takes_value(written: str, following: str, known: Mapping[str, Any]) -> bool:
    """Whether the next word is the value: never for a boolean that is not spelled out after it."""
    if "boolean" in _types(known.get(_name(written, known))):
        return following in ("true", "false")
    return not following.startswith(_PREFIX)


def _switch(written: str, known: Mapping[str, Any], following: str | None) -> tuple[str, bool]:
    """A name without a value; `following` is the option behind it, if any."""
    name = _name(written, known)
    if name not in known and written.startswith(_NO):
        negated = _name(written.removeprefix(_NO), known)
        if _may_be_boolean(known.get(negated)):
            return negated, False
    if not _may_be_boolean(known.get(name)):
        raise WordsError(f"expected a value for --{written}, found {_instead(written, following)}")
    return name, True


def _instead(written: str, following: str | None) -> str:
    if following is None:
        return "none"
    return f"the option {following!r:.80}; if that is the value, write --{written}=VALUE"


def _name(written: str, known: Mapping[str, Any]) -> str:
    if written in known or "-" not in written:
        return written
    other = written.replace("-", "_")
    return other if other in known or not known else written


def _value(text: str, schema: Any, written: str) -> Any:
    types = _types(schema)
    if types == {"string"}:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if not types or "string" in types or "array" in types:
            return text
        wanted = " or ".join(sorted(types))
        raise WordsError(f"expected {wanted} for --{written}, found {text!r:.80}") from None


def _one_or_list(values: list[Any], schema: Any) -> Any:
    is_list = "array" in _types(schema)
    if len(values) == 1 and not (is_list and not isinstance(values[0], list)):
        return values[0]
    return values


def _types(schema: Any) -> set[str]:
    declared = schema.get("type") if isinstance(schema, Mapping) else None
    if isinstance(declared, str):
        return {declared}
    return set(declared) if isinstance(declared, list) else set()


def _may_be_boolean(schema: Any) -> bool:
    types = _types(schema)
    return not types or "boolean" in types
