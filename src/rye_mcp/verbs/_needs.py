"""What an item rests on, for whoever signs it: the same rules as for a run of it.

What has to be authentic is said in one place: `verify_deps` of the chain, and the library of a runtime. Only
what passes the gate behind the item is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rye_mcp.executor.chain.anchor import anchor_of, directory_of, markers_of
from rye_mcp.executor.chain.builder import ChainElement, MetadataRole
from rye_mcp.executor.chain.verify_deps import DependencyRules, directory_asked_for, names_asked_for, rules_of
from rye_mcp.spaces.source_tree import SourceName, SourceTree
from rye_mcp.trust.scope import Role
from rye_mcp.verbs._chains import Chains

__all__ = ["Needs", "needs_of"]


@dataclass(frozen=True, slots=True)
class Needs:
    """What has to be authentic, in which role; the directories whose listings count, the nearest first.

    `markers` are the files that make the directory of the tool its anchor.
    """

    role: Role
    directories: tuple[str, ...]
    asked_for: tuple[SourceName, ...] = ()
    markers: tuple[str, ...] = ()


def needs_of(element: ChainElement, tree: SourceTree, chains: Chains, project: Path | None) -> Needs:
    """What an item rests on."""
    own = directory_of(element)
    role = MetadataRole.of(element.file)(element.file.content)
    if element.metadata.is_runtime:
        library = (element.metadata.anchor or {}).get("lib")
        below = f"{own}/{library.rstrip('/')}" if isinstance(library, str) else None
        return Needs(role, (own,), tuple(names_asked_for(tree, DependencyRules(), below)))
    chain = chains.behind(element)
    if chain is None:
        return Needs(role, (own,))
    anchor, rules = anchor_of(chain, project), rules_of(chain)
    directories = [own]
    if anchor is not None and anchor.relative not in (None, own):
        directories.append(str(anchor.relative))
    asked_for = names_asked_for(tree, rules, directory_asked_for(element, anchor, rules))
    return Needs(role, tuple(directories), tuple(asked_for), markers_of(chain, tree))
