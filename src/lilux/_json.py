"""Reads and writes strict JSON: nothing that `json` would accept or change silently.

Strings are the only keys, numbers are finite, no key stands twice, and at most `MAX_DEPTH` containers stand
inside each other. `NotJsonError` lists what is wrong, each with its path (`$.chain[2]`). `ValueCount` counts
the values of text that is still arriving.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from lilux._dataclasses import dataclass

__all__ = [
    "MAX_DEPTH",
    "MAX_ISSUES",
    "MAX_VALUES",
    "Issue",
    "NotJsonError",
    "ValueCount",
    "decode",
    "encode",
    "find_issues",
    "is_finite",
]

MAX_DEPTH = 200
"""How many containers may stand inside each other; well below what the recursion of `json` allows."""

MAX_VALUES = 250_000
"""How many values a message of somebody else may hold; a reader takes about 0.3 s for them."""

MAX_ISSUES = 20
"""How many findings are listed."""

MAX_KEY_CHARACTERS = 40
"""How much of a key stands in a path."""

_TOO_DEEP = f"expected at most {MAX_DEPTH} lists and objects inside each other"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BEGIN_VALUES = (b",", b"[", b"{")
_PIECE_BYTES = 64 * 1024
_STRING = frozenset({str})
_CONTAINERS = (dict, list, tuple)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class ValueCount:
    """Counts the values of JSON text that comes in pieces: commas and brackets outside of its strings."""

    def __init__(self, limit: int = MAX_VALUES) -> None:
        self.values = 0
        self._limit = limit
        self._is_in_string = False
        self._rest = b""

    def feed(self, data: bytes) -> bool:
        """Take the next piece; False when there are more than the limit by now."""
        for start in range(0, len(data), _PIECE_BYTES):
            self._take(self._rest + data[start : start + _PIECE_BYTES])
            if self.values > self._limit:
                return False
        return True

    def _take(self, piece: bytes) -> None:
        escapes = len(piece) - len(piece.rstrip(b"\\"))
        self._rest = b"\\" if escapes % 2 else b""
        piece = piece.removesuffix(self._rest)
        texts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        for text in texts[self._is_in_string :: 2]:
            self.values += sum(map(text.count, _BEGIN_VALUES))
        self._is_in_string ^= len(texts) % 2 == 0


@dataclass(frozen=True, slots=True)
class Issue:
    """One place in a value, and what is wrong there."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class NotJsonError(ValueError):
    """A value that JSON cannot hold, or bytes that are not JSON."""

    def __init__(self, issues: tuple[Issue, ...]) -> None:
        super().__init__("; ".join(map(str, issues)))
        self.issues = issues


def encode(value: Any, encoder: json.JSONEncoder) -> str:
    """The text of a value, from an encoder that refuses NaN and has no `default`."""
    try:
        text = encoder.encode(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise NotJsonError(find_issues(value) or (Issue("$", str(exc)),)) from exc
    if not _is_sound(value):
        raise NotJsonError(find_issues(value))
    return text


def decode(data: bytes) -> Any:
    """The value that stands in UTF-8 bytes."""
    text = _text_of(data)
    issues: list[Issue] = []
    value = None
    try:
        value = _decoder(issues).decode(text)
    except json.JSONDecodeError as exc:
        issues.append(Issue(f"line {exc.lineno}, column {exc.colno}", f"expected JSON: {exc.msg}"))
    except RecursionError:
        issues.append(Issue("$", _TOO_DEEP))
    except ValueError as exc:
        issues.append(Issue("$", f"expected a number that can be read: {exc}"))
    if not issues and not _is_sound(value):
        issues.extend(find_issues(value))
    if issues:
        raise NotJsonError(tuple(issues[:MAX_ISSUES]))
    return value


def _decoder(issues: list[Issue]) -> json.JSONDecoder:
    """A reader that adds to `issues` what Python's own would let pass."""
    return json.JSONDecoder(
        object_pairs_hook=lambda pairs: _object_of(pairs, issues),
        parse_constant=lambda name: issues.append(Issue("$", f"expected a finite number, found {name}")),
        parse_float=lambda digits: _float_of(digits, issues),
    )


def _text_of(data: bytes) -> str:
    if data.startswith(_BYTE_ORDER_MARK):
        raise NotJsonError((Issue("byte 0", "expected JSON, found a byte order mark"),))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise NotJsonError(
            (Issue(f"byte {exc.start}", f"expected UTF-8, found {data[exc.start]:#04x}"),)
        ) from exc


def _object_of(pairs: list[tuple[str, Any]], issues: list[Issue]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        issues.extend(
            Issue("$", f"expected each key once in an object, found {_shortened(key)} again") for key in twice
        )
    return found


def _float_of(digits: str, issues: list[Issue]) -> float:
    value = float(digits)
    if not math.isfinite(value):
        issues.append(
            Issue("$", f"expected a number in the range of float, found {digits[:MAX_KEY_CHARACTERS]}")
        )
    return value


def find_issues(value: Any) -> tuple[Issue, ...]:
    """Find all problems of a value, in the order of its content, at most `MAX_ISSUES`."""
    return tuple(islice(_walk(value), MAX_ISSUES))


def is_finite(value: Any) -> bool:
    """Whether no number in a value is NaN or infinite, which JSON cannot hold and other readers let pass."""
    level: list[Any] = [value]
    while level:
        if not all(math.isfinite(item) for item in level if isinstance(item, float)):
            return False
        level = [below for item in level if isinstance(item, _CONTAINERS) for below in _items(item)]
    return True


def _is_sound(value: Any) -> bool:
    """Whether keys are strings and the depth is allowed: all that the encoder has not looked at.

    Level by level and without paths: every value comes this way, only the bad ones go through `_walk`.
    """
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [item for item in level if isinstance(item, _CONTAINERS)]
        if not level:
            return True
        if not all(_has_string_keys(item) for item in level if isinstance(item, dict)):
            return False
        level = [below for item in level for below in _items(item)]
    return False


def _items(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def _has_string_keys(container: dict[Any, Any]) -> bool:
    return _STRING.issuperset(map(type, container)) or all(isinstance(key, str) for key in container)


def _walk(root: Any) -> Iterator[Issue]:
    """Every issue, depth first, on a stack of our own: the value may be deeper than Python's."""
    stack: list[Iterator[tuple[str, Any]]] = [iter([("$", root)])]
    open_containers: list[int] = []
    while stack:
        path, value = next(stack[-1], ("", stack))
        if value is stack:
            stack.pop()
            del open_containers[-1:]
        elif not isinstance(value, _CONTAINERS):
            if problem := _scalar_problem(value):
                yield Issue(path, problem)
        elif id(value) in open_containers:
            yield Issue(path, "expected no value that contains itself")
        elif len(open_containers) == MAX_DEPTH:
            yield Issue(path, _TOO_DEEP)
        else:
            yield from _key_issues(path, value)
            stack.append(_children(path, value))
            open_containers.append(id(value))


def _key_issues(path: str, container: Any) -> Iterator[Issue]:
    if isinstance(container, dict):
        for key in container:
            if not isinstance(key, str):
                yield Issue(path, f"expected strings as keys, found {_shortened(key)} ({type(key).__name__})")


def _children(path: str, container: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(container, dict):
        for key, item in container.items():
            plain = isinstance(key, str) and len(key) <= MAX_KEY_CHARACTERS and _PLAIN_KEY.fullmatch(key)
            yield (f"{path}.{key}" if plain else f"{path}[{_shortened(key)}]"), item
    else:
        for index, item in enumerate(container):
            yield f"{path}[{index}]", item


def _shortened(key: Any) -> str:
    if isinstance(key, str):
        return json.dumps(key if len(key) <= MAX_KEY_CHARACTERS else key[:MAX_KEY_CHARACTERS] + "…")
    text = repr(key)
    return text if len(text) <= MAX_KEY_CHARACTERS else text[:MAX_KEY_CHARACTERS] + "…"


def _scalar_problem(value: Any) -> str | None:
    if isinstance(value, float):
        return None if math.isfinite(value) else f"expected a finite number, found {value!r}"
    if isinstance(value, int):
        try:
            int.__repr__(value)
        except ValueError as exc:
            return f"expected a number that can be written: {exc}"
        return None
    if value is None or isinstance(value, str):
        return None
    return f"expected a JSON value, found {type(value).__name__}"
