"""Checks of the parts of a configuration: each gives the value back, or raises what was expected and found.

A text is never shown in a message unless it stands where one of a few words must: it may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, Final, NoReturn, TypeVar

from lilux.primitives.errors import ConfigurationError

__all__ = ["choice", "count", "flag", "is_whole", "kind", "mapping", "refuse", "seconds", "text_of", "utf8"]

MAX_SECONDS: Final = 365 * 24 * 3600

_SHOWN_BITS: Final = 64
"""Larger numbers are not shown."""

C = TypeVar("C", bound=str)


def refuse(name: str, expected: str, found: str) -> NoReturn:
    """A ConfigurationError about the field with this name."""
    raise ConfigurationError(f"expected {expected} as {name}, found {found}", field=name)


def kind(value: Any) -> str:
    """What a value is, without showing it unless it is a number."""
    if value is None or value == "":
        return "nothing"
    if isinstance(value, float | bool) or (is_whole(value) and value.bit_length() <= _SHOWN_BITS):
        return repr(value)
    return type(value).__name__


def is_whole(value: Any) -> bool:
    """True for a whole number; `True` is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def mapping(name: str, value: Any, keys: Set[str] | None = None, prefix: str = "") -> Mapping[str, Any]:
    """The keys of an object that are given a value; with `keys`, all of them known."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or (keys is None and not {*map(type, value)} <= {str}):
        refuse(name, "an object", kind(value))
    if keys is not None:
        _check_keys(name, value.keys(), keys, prefix)
    return {key: item for key, item in value.items() if item is not None}


def _check_keys(name: str, given: Set[Any], keys: Set[str], prefix: str) -> None:
    unknown = [str(key) for key in given if key not in keys]
    if unknown:
        message = f"expected only {', '.join(sorted(keys))} in {name}, found {', '.join(unknown):.200}"
        raise ConfigurationError(message, field=prefix + unknown[0])


def text_of(name: str, value: object) -> str:
    """A text; an empty one is as good."""
    if not isinstance(value, str):
        refuse(name, "text", kind(value))
    return value


def choice(name: str, value: object, words: Iterable[C]) -> C:
    """One of a few words."""
    for word in words:
        if word == value:
            return word
    refuse(name, " or ".join(words), f"{value!r:.60}" if isinstance(value, str) and value else kind(value))


def flag(name: str, given: Mapping[str, Any]) -> bool:
    """True or false; false when it is not given."""
    value = given.get(name, False)
    if not isinstance(value, bool):
        refuse(name, "true or false", kind(value))
    return value


def seconds(name: str, value: Any) -> float:
    """A time that is more than nothing."""
    number = is_whole(value) or isinstance(value, float)
    if not number or not 0 < value <= MAX_SECONDS:  # which is False for NaN too
        refuse(name, f"seconds, more than 0 and at most {MAX_SECONDS}", kind(value))
    return float(value)


def count(name: str, value: Any) -> int:
    """A whole number from 1."""
    if not is_whole(value) or value < 1:
        refuse(name, "a whole number, at least 1", kind(value))
    return int(value)


def utf8(name: str, text: str) -> bytes:
    """The bytes of a text."""
    try:
        return text.encode()
    except UnicodeEncodeError as exc:
        message = f"expected text that UTF-8 can hold as {name}, found a lone surrogate"
        raise ConfigurationError(message, field=name) from exc
