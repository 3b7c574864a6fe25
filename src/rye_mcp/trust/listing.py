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
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rye_mcp.errors import RyeError, printable
from rye_mcp.items import DEPENDENCY_MANIFEST_NAME, NO_FILES, ItemFile, ItemType, ListedFile, SkillFiles
from rye_mcp.trust import signature
from rye_mcp.visible import find_hidden

__all__ = [
    "case_collisions",
    "folded",
    "listed_paths",
    "parse",
    "path_problem",
    "render",
    "render_skill_listing",
    "require_as_listed",
    "require_may_be_listed",
    "unsigned_content",
]

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


# --- the listing of a skill ---
# `<name>.rye.sig.yaml` beside the directory of a skill names its files with their hashes and sizes, and is
# signed like any other item. So a file that was changed, added or removed refuses the skill, whose own bytes
# stay as they are.

_VALUE: Final = re.compile(r"[0-9a-f]{64} (?:0|[1-9][0-9]{0,9})")
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?", re.IGNORECASE)
_NOT_ON_WINDOWS: Final = re.compile(r'[<>:"|?*]')
_OF_GIT: Final = ".git"


def unsigned_content(file: ItemFile) -> bytes:
    """What a signature of this item covers: the listing of a skill as it is, else the rest of the file."""
    return signature.detach(file) if file.skill is None else render_skill_listing(file.skill)


def render_skill_listing(skill: SkillFiles) -> bytes:
    """The listing of these files without a signature."""
    require_may_be_listed(skill.files)
    return render({path: f"{each.digest} {each.size}" for path, each in skill.files.items()}, _VALUE)


def require_may_be_listed(paths: Iterable[str]) -> None:
    """Refuse what not every machine can have as a file, and what git would take for a repository."""
    for path in paths:
        for segment in path.split("/"):
            if (
                _RESERVED.fullmatch(segment)
                or segment != segment.rstrip(". ")
                or _NOT_ON_WINDOWS.search(segment)
            ):
                raise _unlisted("names that every system can have as those of files", path)
            if segment.lower() == _OF_GIT:
                raise _unlisted(f"no {_OF_GIT} in a skill", path)


def require_as_listed(file: ItemFile) -> None:
    """Refuse a skill whose files are not exactly those that its listing has; the first other one is named.

    The listing has passed the gate; what it says of files is compared with what was read beside it.
    """
    if file.item_type is not ItemType.SKILL:
        return
    listed, found = _listed(signature.detach(file), file.path), (file.skill or NO_FILES).files
    for path in sorted(listed.keys() | found.keys()):
        if listed.get(path) != found.get(path):
            raise _changed(file, path, _how(listed.get(path), found.get(path)))


def listed_paths(file: ItemFile) -> frozenset[str]:
    """The files that a listing names, which nobody has verified yet; none without a listing."""
    return frozenset(_listed(signature.detach(file), file.path)) if file.content else frozenset()


@lru_cache(maxsize=2048)
def _listed(content: bytes, place: Path) -> Mapping[str, ListedFile]:
    hint = "sign the skill again, which writes a new one"
    values = {path: value.split(" ") for path, value in parse(content, _VALUE, place, hint=hint).items()}
    return MappingProxyType({path: ListedFile(digest, int(size)) for path, (digest, size) in values.items()})


def _how(listed: ListedFile | None, found: ListedFile | None) -> str:
    if listed is None:
        return "has been added"
    return "is gone" if found is None else "has changed"


def _changed(file: ItemFile, path: str, how: str) -> RyeError:
    where = printable(file.text_path.parent / path)
    what = f"expected the files of the skill {file.item_id} as they were signed, found that {path} {how}"
    hint = f"look at what changed, then: rye sign {file.item_id}"
    return RyeError("content_changed", what, where=where, item_id=file.item_id, file=path, hint=hint)


def _unlisted(expected: str, path: str) -> RyeError:
    return RyeError("unsafe_path", f"expected {expected}, found {path[:80]!r}", file=path)
