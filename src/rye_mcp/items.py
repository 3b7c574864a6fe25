"""Defines what an item is: its type, its id, its extension, its space, and the bytes that were read of it.

Id and path are two forms of one thing: `relative_path` and `parse_relative_path` are inverse to each other,
so no file can claim the id of another one. This module does no I/O. The rules are in
`docs/architecture/items.md`.

    >>> relative_path(ItemType.TOOL, "demo/hello", ".py")
    'tools/demo/hello.py'
    >>> parse_relative_path("tools/demo/hello.py")
    (<ItemType.TOOL: 'tool'>, 'demo/hello', '.py')
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError, printable

__all__ = [
    "COMMENT_STYLES",
    "DEPENDENCY_MANIFEST_NAME",
    "EXTENSIONS",
    "MARKER",
    "MAX_ID_SEGMENTS",
    "MAX_ITEM_BYTES",
    "MAX_SKILL_BYTES",
    "MAX_SKILL_FILES",
    "NO_FILES",
    "SHEBANG",
    "SKILL_TEXT",
    "SYSTEM_MANIFEST_KIND",
    "SYSTEM_MANIFEST_NAME",
    "CommentStyle",
    "ItemFile",
    "ItemPlace",
    "ItemType",
    "ListedFile",
    "SkillFiles",
    "Space",
    "SpaceName",
    "check_item_id",
    "comment_style",
    "is_item_id",
    "parse_relative_path",
    "path_below",
    "printable",
    "relative_path",
    "signed_path",
]

MAX_ITEM_BYTES: Final = 1 << 20
"""How many bytes an item may have: 1 MiB."""

MAX_ID_SEGMENTS: Final = 8
"""How many segments an item id may have."""

MAX_SKILL_FILES: Final = 512
"""How many files a skill may have: as many as every host of the MCP extension for skills has to take."""

MAX_SKILL_BYTES: Final = 16 << 20
"""How many bytes the files of a skill may have together: 16 MiB, for the same reason."""

SKILL_TEXT: Final = "SKILL.md"
"""The file of a skill that says what it is, and what to do."""

SHEBANG: Final = b"#!"
"""The first bytes of an item without an extension."""

MARKER: Final = b"rye:signed:"
"""The text in every signature line, which may stand in no other place of the file or right after it."""

SYSTEM_MANIFEST_NAME: Final = "manifest.json"
"""The file, directly in a space, that lists every file of the system space."""

SYSTEM_MANIFEST_KIND: Final = "rye-system-manifest"
"""The value of `kind` in the JSON object of a system manifest: whatever holds it is no project."""

DEPENDENCY_MANIFEST_NAME: Final = "deps.manifest.yaml"
"""The file that lists what the tools in its directory rest on; it is no item itself."""

_SEGMENT = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
_ITEM_ID = re.compile(rf"(?:{_SEGMENT}/){{0,{MAX_ID_SEGMENTS - 1}}}{_SEGMENT}", re.ASCII)
_SKILL_NAME = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_NO_SEGMENT = "__pycache__"
_SHOWN_CHARACTERS = 80
_KEPT_PATHS: Final = 4096


class ItemType(StrEnum):
    """A kind of item: what an agent runs, what it follows, what it reads, and a directory of all these."""

    TOOL = "tool"
    DIRECTIVE = "directive"
    KNOWLEDGE = "knowledge"
    SKILL = "skill"

    @property
    def directory(self) -> str:
        """The directory of a space that holds the items of this type."""
        return _DIRECTORIES[self]


_DIRECTORIES: Final[Mapping[ItemType, str]] = MappingProxyType(
    {
        ItemType.TOOL: "tools",
        ItemType.DIRECTIVE: "directives",
        ItemType.KNOWLEDGE: "knowledge",
        ItemType.SKILL: "skills",
    }
)
_TYPES: Final[Mapping[str, ItemType]] = MappingProxyType(
    {directory: item_type for item_type, directory in _DIRECTORIES.items()}
)


class SpaceName(StrEnum):
    """The three spaces, in the order in which they are searched."""

    PROJECT = "project"
    USER = "user"
    SYSTEM = "system"

    @property
    def precedence(self) -> int:
        """3, 2 or 1: the higher one wins, and nothing may rest on what is higher than itself."""
        return _PRECEDENCE[self]


_PRECEDENCE: Final[Mapping[SpaceName, int]] = MappingProxyType(
    {SpaceName.PROJECT: 3, SpaceName.USER: 2, SpaceName.SYSTEM: 1}
)


@dataclass(frozen=True, slots=True)
class Space:
    """One of the three spaces, and where it is.

    `root` is the directory that holds `tools/` and the others, usually called `.ai`, with every symbolic link
    on the way to it resolved. It need not exist.
    """

    name: SpaceName
    root: Path

    @property
    def precedence(self) -> int:
        """3 for the project, 2 for the user, 1 for the system."""
        return self.name.precedence


@dataclass(frozen=True, slots=True)
class CommentStyle:
    """The text before and after a comment line, blanks included."""

    opening: bytes
    closing: bytes = b""


_HASH = CommentStyle(b"# ")
_SLASHES = CommentStyle(b"// ")
_DASHES = CommentStyle(b"-- ")
_MARKUP = CommentStyle(b"<!-- ", b" -->")

COMMENT_STYLES: Final[Mapping[str, CommentStyle]] = MappingProxyType(
    {
        **dict.fromkeys(("", ".py", ".sh", ".bash", ".yaml", ".yml", ".toml", ".rb", ".pl"), _HASH),
        ".rye.sig.yaml": _HASH,
        **dict.fromkeys((".js", ".mjs", ".cjs", ".ts", ".go", ".rs"), _SLASHES),
        **dict.fromkeys((".lua", ".sql"), _DASHES),
        **dict.fromkeys((".md", ".html"), _MARKUP),
    }
)
"""The comments of each extension. Some are no extension of an item, but files that an item rests on."""

_TOOL_EXTENSIONS = (
    ".py",
    ".yaml",
    ".yml",
    ".sh",
    ".bash",
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".rb",
    ".pl",
    ".lua",
    ".go",
    ".rs",
    ".sql",
    "",
)

EXTENSIONS: Final[Mapping[ItemType, tuple[str, ...]]] = MappingProxyType(
    {
        ItemType.TOOL: _TOOL_EXTENSIONS,
        ItemType.DIRECTIVE: (".md",),
        ItemType.KNOWLEDGE: (".md",),
        ItemType.SKILL: (".rye.sig.yaml",),
    }
)
"""The extensions that an item of each type can have, in the order in which they are looked for.

The file of a skill is the signed listing that stands beside its directory.
"""


@dataclass(frozen=True, slots=True)
class ItemPlace:
    """Where an item is, before anything of it was read."""

    space: Space
    item_type: ItemType
    item_id: str
    extension: str

    @property
    def path(self) -> Path:
        """The whole path of the file, for messages and for callers that ask where an item is."""
        return path_below(self.space.root, relative_path(self.item_type, self.item_id, self.extension))


@lru_cache(maxsize=_KEPT_PATHS)
def path_below(root: Path, relative: str) -> Path:
    """The path of what is below a root; kept, as paths take longer to make than files to read."""
    return root / relative


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of a skill, as it was read: the SHA256 of its bytes, and how many these are."""

    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class SkillFiles:
    """The directory of a skill, as it was read: the bytes of its `SKILL.md`, and all files by their paths.

    `text` is empty where there is no `SKILL.md`.
    """

    text: bytes = field(repr=False)
    files: Mapping[str, ListedFile]


NO_FILES: Final = SkillFiles(b"", MappingProxyType({}))
"""A directory that is missing."""


@dataclass(frozen=True, slots=True)
class ItemFile:
    """An item, as it was read: its bytes, and where they come from.

    `content` is the whole file, read once: these bytes are verified, parsed and run. `path` is where they
    were found, and is never read again. A skill is the listing of its files, empty where there is none yet,
    and `skill` is what stands beside it.
    """

    space: Space
    item_type: ItemType
    item_id: str
    extension: str
    path: Path
    content: bytes = field(repr=False)
    skill: SkillFiles | None = None

    @property
    def text(self) -> bytes:
        """What it says: the whole file, and of a skill its `SKILL.md`."""
        return self.content if self.skill is None else self.skill.text

    @property
    def text_path(self) -> Path:
        """Where that stands."""
        if self.skill is None:
            return self.path
        return self.space.root / self.item_type.directory / self.item_id / SKILL_TEXT


def is_item_id(text: object) -> bool:
    """Whether this is an item id; who goes on with it asks `check_item_id` instead."""
    return (
        isinstance(text, str) and _ITEM_ID.fullmatch(text) is not None and _NO_SEGMENT not in text.split("/")
    )


def check_item_id(item_id: object) -> str:
    """The item id, when it is one; RyeError `invalid_id` when it is anything else."""
    if isinstance(item_id, str) and is_item_id(item_id):
        return item_id
    raise RyeError("invalid_id", f"expected an item id such as demo/hello, found {_described(item_id)}")


def relative_path(item_type: ItemType, item_id: str, extension: str) -> str:
    """Where an item is in its space; RyeError `invalid_id` when no item can be called that."""
    if not isinstance(item_id, str):
        check_item_id(item_id)
    return _relative_path(item_type, item_id, extension)


@lru_cache(maxsize=_KEPT_PATHS)
def _relative_path(item_type: ItemType, item_id: str, extension: str) -> str:
    path = signed_path(item_type, item_id, extension)
    name = path.rpartition("/")[2]
    if name == DEPENDENCY_MANIFEST_NAME:
        raise RyeError("invalid_id", f"expected an item, found what lists the files of one: {name}")
    return path


def signed_path(item_type: ItemType, item_id: str, extension: str) -> str:
    """Where what is signed by this name is in its space: an item, or what lists the files of a directory."""
    check_item_id(item_id)
    if extension not in EXTENSIONS[item_type]:
        known = " ".join(each or "(none)" for each in EXTENSIONS[item_type])
        raise RyeError(
            "invalid_id", f"expected one of {known} as extension of a {item_type}, found {extension!r}"
        )
    if item_type is ItemType.SKILL and not _SKILL_NAME.fullmatch(item_id):
        what = "expected the name of a skill, of a-z, 0-9 and single hyphens between them"
        raise RyeError("invalid_id", f"{what}, found {item_id!r}")
    last = item_id.rpartition("/")[2]
    if not extension and "." in last:
        what = "expected an item id whose last segment has no dot, as the file has no extension"
        raise RyeError("invalid_id", f"{what}, found {item_id!r}")
    return f"{item_type.directory}/{item_id}{extension}"


@lru_cache(maxsize=_KEPT_PATHS)
def parse_relative_path(path: str) -> tuple[ItemType, str, str]:
    """The type, id and extension of the item at a path in its space, which is separated by `/`.

    RyeError `invalid_id` when no item can be there. Whether one is there, is not asked.
    """
    directory, _, rest = path.partition("/")
    item_type = _TYPES.get(directory)
    stem, dot, ending = rest.partition(".") if item_type is ItemType.SKILL else rest.rpartition(".")
    item_id, extension = (stem, dot + ending) if dot and "/" not in ending else (rest, "")
    if item_type is None or extension not in EXTENSIONS[item_type]:
        what = "expected the path of an item, such as tools/demo/hello.py"
        raise RyeError("invalid_id", f"{what}, found {_described(path)}")
    relative_path(item_type, item_id, extension)
    return item_type, item_id, extension


def comment_style(extension: str) -> CommentStyle | None:
    """The comments of a file with this extension; None when it can hold none (JSON, images)."""
    return COMMENT_STYLES.get(extension)


def _described(found: object) -> str:
    if not isinstance(found, str):
        return f"a value of type {type(found).__name__}"
    shown = repr(found[:_SHOWN_CHARACTERS])
    return (
        shown
        if len(found) <= _SHOWN_CHARACTERS
        else f"{shown} and {len(found) - _SHOWN_CHARACTERS} more characters"
    )
