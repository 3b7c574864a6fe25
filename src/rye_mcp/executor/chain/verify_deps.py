"""The files that have to be authentic for a tool to run, as `verify_deps` of its chain says.

The fields are merged from the primitive up. Signing and running ask this same module, so they look at the
same files. `docs/reference/metadata.md` has the fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.executor.chain.anchor import Anchor, Check, Declarations, Tree, directory_of, is_flag, is_texts
from rye_mcp.executor.chain.builder import Chain, ChainElement, once_a_chain
from rye_mcp.items import DEPENDENCY_MANIFEST_NAME
from rye_mcp.spaces.source_tree import SourceName

__all__ = ["DependencyRules", "directory_asked_for", "names_asked_for", "rules_of"]

_SCOPES: Final = ("anchor", "tool_dir", "tool_siblings", "tool_file")


@dataclass(frozen=True, slots=True)
class DependencyRules:
    """The `verify_deps` of a chain; `extensions` is None for every file."""

    enabled: bool = False
    scope: str = "anchor"
    recursive: bool = True
    extensions: tuple[str, ...] | None = None
    exclude_dirs: frozenset[str] = frozenset()

    def matches(self, name: str) -> bool:
        """Whether a file of this name has to be authentic."""
        return self.extensions is None or name.endswith(self.extensions)


@once_a_chain
def rules_of(chain: Chain) -> DependencyRules:
    """Return `verify_deps`, merged over the chain; RyeError `invalid_item` for nonsense."""
    declared = Declarations("verify_deps", _CHECKS)
    for element in chain.upward:
        declared.add(element, element.metadata.verify_deps)
    declared.raise_any()
    values = declared.values
    if not values:
        return DependencyRules()
    extensions = values.get("extensions")
    return DependencyRules(
        enabled=values.get("enabled", True),
        scope=values.get("scope", "anchor"),
        recursive=values.get("recursive", True),
        extensions=None if extensions is None else tuple(extensions),
        exclude_dirs=frozenset(values.get("exclude_dirs", ())),
    )


def directory_asked_for(tool: ChainElement, anchor: Anchor | None, rules: DependencyRules) -> str | None:
    """The directory in which files have to be authentic; None without one."""
    if not rules.enabled or rules.scope == "tool_file":
        return None
    if rules.scope != "anchor":
        return directory_of(tool)
    return None if anchor is None else anchor.relative


def names_asked_for(tree: Tree, rules: DependencyRules, directory: str | None) -> Iterator[SourceName]:
    """Everything in a directory that has to be authentic, files or not; nothing in none."""
    if directory is None:
        return
    recursive = rules.recursive and rules.scope != "tool_siblings"
    for name in tree.list(directory, recursive=recursive, without=rules.exclude_dirs):
        last = name.relative.rpartition("/")[2]
        if last != DEPENDENCY_MANIFEST_NAME and rules.matches(last):
            yield name


# --- one check a field of `verify_deps`: what is wrong, or nothing ---


def _scope(value: Any) -> str | None:
    return None if value in _SCOPES else f"expected one of {', '.join(_SCOPES)}, found {value!r:.80}"


def _extensions(value: Any) -> str | None:
    if problem := is_texts(value):
        return problem
    wrong = next((each for each in value if not each.startswith(".") or "/" in each), None)
    return None if wrong is None else f"expected extensions such as .py, found {wrong!r:.80}"


_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "enabled": is_flag,
        "scope": _scope,
        "recursive": is_flag,
        "extensions": _extensions,
        "exclude_dirs": is_texts,
    }
)
