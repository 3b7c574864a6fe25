"""The one form of a text that lists files, each with its SHA256: of a directory of tools, or of a skill.

    version: 1
    files:
      "helpers.py": "fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9"

It is YAML in exactly the form that `render` writes, so that no two programs read it differently.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from rye_mcp.errors import RyeError, printable
from rye_mcp.items import DEPENDENCY_MANIFEST_NAME
from rye_mcp.visible import find_hidden

__all__ = ["case_collisions", "folded", "parse", "path_problem", "render"]

_MAX_SEGMENT_BYTES = 255
_MAX_SEGMENTS = 32
_HEAD = "version: 1\nfiles:\n"
_EMPTY = "version: 1\nfiles: {}\n"
_LINE = re.compile(r'  "((?:[^"\\]|\\")+)": "([0-9a-f ]+)"')
_NO_SEGMENTS = frozenset({"", ".", "..", "__pycache__", DEPENDENCY_MANIFEST_NAME})
_BYTECODE = (".pyc", ".pyo")


def render(files: Mapping[str, str], form: re.Pattern[str]) -> bytes:
    """The text for these files, whose values have this form: the same for the same files."""
    if problem := _problem(files, form):
        raise RyeError("invalid_item", f"expected files that can be listed: {problem}")
    if not files:
        return _EMPTY.encode("ascii")
    lines = (f'  "{_escape(path)}": "{value}"\n' for path, value in sorted(files.items()))
    return (_HEAD + "".join(lines)).encode("utf-8")


def parse(content: bytes, form: re.Pattern[str], place: Path, *, hint: str) -> Mapping[str, str]:
    """The files and their values; RyeError `invalid_item` for a text that `render` would not write."""
    if content == _EMPTY.encode("ascii"):
        return MappingProxyType({})
    head, _, rest = content.decode("utf-8", "replace").partition(_HEAD)
    lines = rest.split("\n")
    if head or lines.pop() != "" or not lines:
        raise _malformed(place, "`version: 1` and `files:`, and a file in each line after these", hint)
    files: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        found = _LINE.fullmatch(line)
        if found is None:
            raise _malformed(place, f'`  "path": "<sha256>"` as its file {number}', hint)
        files[found[1].replace('\\"', '"')] = found[2]
    if problem := _problem(files, form):
        raise _malformed(place, problem, hint)
    if render(files, form) != content:
        raise _malformed(place, "each file once, in the order of their paths", hint)
    return MappingProxyType(files)


def folded(path: str) -> str:
    """Return a path as a file system sees it that ignores case and the forms of letters."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def case_collisions(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The files and directories that such a file system takes for others of the same paths, with these."""
    seen: dict[str, str] = {}
    for path in paths:
        for each in _with_directories(path):
            other = seen.setdefault(folded(each), each)
            if other != each:
                yield other, each


def _with_directories(path: str) -> list[str]:
    """A path, and every directory that it is in."""
    found = [path]
    while "/" in path:
        path = path.rpartition("/")[0]
        found.append(path)
    return found


def _problem(files: Mapping[str, str], form: re.Pattern[str]) -> str | None:
    """Why these cannot be the files of one directory."""
    for path, value in files.items():
        if problem := path_problem(path):
            return f"{problem}, found {path[:80]!r}"
        if not form.fullmatch(value):
            return f"a SHA256 for {path!r}, found another text"
    return _clash(files)


def path_problem(path: str) -> str | None:
    """Why this cannot be the path of a file that is listed; None for one that can."""
    segments = path.split("/")
    if len(segments) > _MAX_SEGMENTS:
        return f"a path of at most {_MAX_SEGMENTS} segments"
    if not _NO_SEGMENTS.isdisjoint(segments) or "\\" in path:
        return "a path of a file in the directory, with no `.`, `..`, `\\` or `__pycache__` in it"
    if path.lower().endswith(_BYTECODE):
        return "no bytecode, which Python makes from what is listed"
    return _text_problem(path, segments)


def _text_problem(path: str, segments: Sequence[str]) -> str | None:
    try:
        longest = max(len(segment.encode("utf-8")) for segment in segments)
    except UnicodeEncodeError:
        return "a path that is text"
    if longest > _MAX_SEGMENT_BYTES:
        return f"segments of at most {_MAX_SEGMENT_BYTES} bytes"
    if find_hidden(path) is not None or "\t" in path or "\n" in path:
        return "a path whose characters can all be seen"
    return None


def _clash(paths: Collection[str]) -> str | None:
    """Two paths that some file system, or any, cannot have beside each other."""
    for one, other in case_collisions(paths):
        return f"paths that differ in more than case, found {one!r} and {other!r}"
    for path in paths:
        for above in _with_directories(path)[1:]:
            if above in paths:
                return f"files, found {above!r}, which is a directory of {path!r}"
    return None


def _escape(path: str) -> str:
    return path.replace('"', '\\"')


def _malformed(place: Path, expected: str, hint: str) -> RyeError:
    shown = printable(place)
    what = f"expected {expected} in {shown}, found something else"
    return RyeError("invalid_item", what, where=shown, hint=hint)
