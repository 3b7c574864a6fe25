"""The anchor of a chain: the directory that a tool of several files resolves its modules from.

`docs/reference/metadata.md` has the fields of `anchor`. They are merged from the primitive up
(`Declarations`), and everything that is wrong is reported at once. Nothing here says that a file is
authentic: see `files`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Literal, Protocol, Self, get_args

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import Chain, ChainElement, once_a_chain
from rye_mcp.items import ItemType, printable
from rye_mcp.spaces.source_tree import SourceFile, SourceName, SourceTree

__all__ = [
    "LIBRARY_NAME",
    "Anchor",
    "Check",
    "Declarations",
    "EnvPaths",
    "Library",
    "Tree",
    "anchor_of",
    "directory_of",
    "is_flag",
    "is_text",
    "is_texts",
    "library_of",
    "markers_of",
    "names_library",
]

Check = Callable[[Any], str | None]
"""Returns the problem of a value, or None."""


class Tree(Protocol):
    """The files below the root of a space, wherever they are: see `spaces.source_tree.SourceTree`."""

    def __enter__(self) -> Self:
        """Begin to use it."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what is open."""
        ...

    def read(self, relative: str, *, limit: int) -> SourceFile | None:
        """A file; None if it is missing."""
        ...

    def holds(self, relative: str) -> bool:
        """Whether there is a regular file."""
        ...

    def list(
        self, directory: str, *, recursive: bool = True, without: Collection[str] = ()
    ) -> list[SourceName]:
        """All that is no directory in a directory, and below it, by path."""
        ...

    def unsafe(self, name: SourceName) -> RyeError:
        """The error for something that stands where a file has to."""
        ...


@dataclass(slots=True)
class Declarations:
    """The declarations so far for the field of this name."""

    name: str
    checks: Mapping[str, Check]
    values: dict[str, Any] = field(default_factory=dict)
    _issues: list[tuple[ChainElement, dict[str, Any]]] = field(default_factory=list)

    def add(self, element: ChainElement, declared: Mapping[str, Any] | None) -> None:
        """Take over what an element declares, above all that was added before."""
        for key, value in (declared or {}).items():
            check = self.checks.get(key)
            if check is None:
                self.issue(element, str(key), f"expected one of {', '.join(self.checks)}")
            elif problem := check(value):
                self.issue(element, key, problem)
            elif isinstance(value, dict):
                self.values[key] = {**self.values.get(key, {}), **value}
            else:
                self.values[key] = value

    def issue(self, element: ChainElement, key: str, problem: str) -> None:
        """Take note of what is wrong."""
        where = f"{self.name}.{key}"
        found = {"message": f"{where} of {element.item_id}: {problem}", "field": where}
        self._issues.append((element, {**found, "item_id": element.item_id}))

    def raise_any(self) -> None:
        """RyeError `invalid_item` with every issue, when there are any."""
        if not self._issues:
            return
        element, _ = self._issues[0]
        shown = printable(element.path)
        raise RyeError(
            "invalid_item",
            "; ".join(found["message"] for _, found in self._issues),
            where=shown,
            hint=f"fix {shlex.quote(shown)}, then: rye sign {element.item_id}",
            item_id=element.item_id,
            issues=[found for _, found in self._issues],
        )


def is_flag(value: Any) -> str | None:
    """Whether it is true or false."""
    return None if isinstance(value, bool) else f"expected true or false, found {value!r:.80}"


def is_text(value: Any) -> str | None:
    """Whether it is text that a system can be given."""
    if not isinstance(value, str):
        return f"expected text, found {type(value).__name__}"
    return None if value and "\0" not in value else "expected text, found none, or a NUL in it"


def is_texts(value: Any) -> str | None:
    """Whether it is a list of such texts."""
    if not isinstance(value, list):
        return f"expected a list of texts, found {type(value).__name__}"
    return next((problem for each in value if (problem := is_text(each))), None)


LIBRARY_NAME: Final = "runtime_lib"
"""The name of a runtime's library in templates; a tool that does not name it cannot reach it."""

RootKind = Literal["tool_dir", "tool_parent", "project_path"]

_MODES: Final = ("auto", "always", "never")
_ROOTS: Final = get_args(RootKind)
_MARKERS: Final = ("__init__.py", "pyproject.toml")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_PLAIN_NAME = re.compile(r"[^/\0]{1,255}")
_TOOLS: Final = ItemType.TOOL.directory


@dataclass(frozen=True, slots=True)
class EnvPaths:
    """Paths before and after the value of a variable that holds paths; templates."""

    prepend: tuple[str, ...] = ()
    append: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Anchor:
    """An anchor that is active.

    `source` is the real directory, `relative` where it is below the root of the tool's space, None for a
    project. `env_paths` and `cwd` are templates, of verified text. `marker` is the file that switched it on.
    """

    root_kind: RootKind
    source: Path
    relative: str | None
    env_paths: Mapping[str, EnvPaths] = field(default_factory=dict)
    cwd: str | None = None
    marker: str | None = None


@dataclass(frozen=True, slots=True)
class Library:
    """A directory that a runtime brings along: `relative` is where it is below the root of its space."""

    runtime: ChainElement
    relative: str


def anchor_of(chain: Chain, project: Path | None, tree: Tree | None = None) -> Anchor | None:
    """The anchor of a chain, when it has one that is active; RyeError `invalid_item` if it is invalid.

    `tree` is the space of the tool, for a caller that has it open already.
    """
    declared = _declared(chain)
    values = declared.values
    if not values or not values.get("enabled", True) or values.get("mode", "auto") == "never":
        return None
    marker = None
    if values.get("mode", "auto") == "auto":
        with nullcontext(tree) if tree else SourceTree(chain.root.file.space.root) as opened:
            marker = next(_markers_there(chain, values, opened), None)
        if marker is None:
            return None
    kind: RootKind = values.get("root", "tool_dir")
    source, relative = _root(chain.root, kind, project)
    return Anchor(kind, source, relative, MappingProxyType(_env_paths(values)), values.get("cwd"), marker)


def markers_of(chain: Chain, tree: Tree) -> tuple[str, ...]:
    """The files that switch the anchor of a chain on, by their paths in `tree`, the space of the tool."""
    values = _declared(chain).values
    if not values or not values.get("enabled", True) or values.get("mode", "auto") != "auto":
        return ()
    return tuple(_markers_there(chain, values, tree))


@once_a_chain
def library_of(chain: Chain) -> Library | None:
    """The library of the runtime that is nearest to the tool, whether or not an anchor is active."""
    _declared(chain)
    for element in chain.elements[1:]:
        relative = (element.metadata.anchor or {}).get("lib")
        if relative is not None:
            return Library(element, f"{directory_of(element)}/{relative.rstrip('/')}")
    return None


def names_library(anchor: Anchor) -> bool:
    """Whether an active anchor asks for the library of the runtime."""
    templates = [anchor.cwd or ""]
    for paths in anchor.env_paths.values():
        templates += (*paths.prepend, *paths.append)
    return any(LIBRARY_NAME in template for template in templates)


def directory_of(element: ChainElement) -> str:
    """The directory of an element, below the root of its space: `tools/demo`."""
    directory = f"{element.file.item_type.directory}/{element.item_id}"
    return directory.rpartition("/")[0]


@once_a_chain
def _declared(chain: Chain) -> Declarations:
    declared = Declarations("anchor", _CHECKS)
    for element in chain.upward:
        declared.add(element, element.metadata.anchor)
        if element is chain.root and "lib" in (element.metadata.anchor or {}):
            declared.issue(element, "lib", "expected it in a runtime, found it in the tool itself")
    declared.raise_any()
    return declared


def _markers_there(chain: Chain, values: Mapping[str, Any], tree: Tree) -> Iterator[str]:
    directory = directory_of(chain.root)
    paths = (f"{directory}/{name}" for name in values.get("markers_any", _MARKERS))
    return filter(tree.holds, paths)


def _root(tool: ChainElement, kind: RootKind, project: Path | None) -> tuple[Path, str | None]:
    if kind == "project_path":
        if project is None:
            what = f"expected a project, which the anchor of {tool.item_id} is, found none"
            raise RyeError("no_project", what, item_id=tool.item_id)
        return project, None
    relative = directory_of(tool)
    if kind == "tool_parent":
        relative = relative.rpartition("/")[0]
        if not relative:
            shown = printable(tool.path)
            what = (
                f"expected a tool below another directory of {_TOOLS}/, as its anchor is tool_parent, found"
            )
            raise RyeError("invalid_item", f"{what} {shown}", where=shown, item_id=tool.item_id)
    return tool.file.space.root / relative, relative


def _env_paths(values: Mapping[str, Any]) -> dict[str, EnvPaths]:
    given: Mapping[str, Mapping[str, list[str]]] = values.get("env_paths", {})
    return {
        name: EnvPaths(tuple(paths.get("prepend", ())), tuple(paths.get("append", ())))
        for name, paths in given.items()
    }


# --- one check a field: what is wrong, or nothing ---


def _one_of(words: tuple[str, ...]) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        return None if value in words else f"expected one of {', '.join(words)}, found {value!r:.80}"

    return check


def _markers(value: Any) -> str | None:
    if problem := is_texts(value):
        return problem
    wrong = next((each for each in value if not _PLAIN_NAME.fullmatch(each) or each in (".", "..")), None)
    return None if wrong is None else f"expected names of files, found {wrong!r:.80}"


def _library(value: Any) -> str | None:
    if problem := is_text(value):
        return problem
    parts = value.rstrip("/").split("/")
    inside = all(_PLAIN_NAME.fullmatch(part) and not part.startswith(".") for part in parts)
    return None if inside else f"expected a directory below that of the runtime, found {value!r:.80}"


def _variables(value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"expected a mapping of variables, found {type(value).__name__}"
    for name, paths in value.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            return f"expected names of variables, found {name!r:.80}"
        if not isinstance(paths, dict) or not paths.keys() <= {"prepend", "append"}:
            return f"{name}: expected prepend and append, found something else"
        for each in paths.values():
            if problem := is_texts(each):
                return f"{name}: {problem}"
    return None


_CHECKS: Final[Mapping[str, Callable[[Any], str | None]]] = MappingProxyType(
    {
        "enabled": is_flag,
        "mode": _one_of(_MODES),
        "markers_any": _markers,
        "root": _one_of(_ROOTS),
        "lib": _library,
        "env_paths": _variables,
        "cwd": is_text,
    }
)
