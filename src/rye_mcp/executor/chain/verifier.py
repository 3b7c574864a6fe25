"""Every element of a chain passes the gate, in the role that its place demands, with all carried files.

All of it happens on the bytes that were read when the chain was built. Nothing is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lilux._dataclasses import dataclass
from rye_mcp.executor.chain.builder import Chain, ChainElement, MetadataRole
from rye_mcp.executor.chain.files import BundledFiles, OpenTree, bundled_files, open_on_disk
from rye_mcp.items import ItemFile
from rye_mcp.trust.scope import Role
from rye_mcp.trust.verify import RoleOf, Trust, VerifiedItem, verify_item

__all__ = ["IntegrityVerifier", "VerifiedChain", "roles_in"]


@dataclass(frozen=True, slots=True)
class VerifiedChain:
    """A chain whose every element passed the gate; `items` has them in the order of the chain."""

    chain: Chain
    items: tuple[VerifiedItem, ...]
    carried: BundledFiles

    @property
    def root(self) -> VerifiedItem:
        """The item that was asked for."""
        return self.items[0]

    @property
    def pairs(self) -> Iterator[tuple[ChainElement, VerifiedItem]]:
        """Each element with what the gate said of it."""
        return zip(self.chain.elements, self.items, strict=True)


class IntegrityVerifier:
    """Verifies chains by what one user trusts, in one project or in none.

    `open_tree` gives the files that a tool may bring along, by default those on the disk.
    """

    def __init__(self, trust: Trust, project: Path | None = None, open_tree: OpenTree = open_on_disk) -> None:
        self._trust = trust
        self._project = project
        self._open_tree = open_tree

    def require_verified(self, file: ItemFile) -> VerifiedItem:
        """One file by itself, in the role that it claims."""
        return verify_item(file, self._trust, role=MetadataRole.of(file))

    def verify_chain(self, chain: Chain) -> VerifiedChain:
        """The chain, when everything in it is authentic and its signers may sign it; RyeError otherwise."""
        items = tuple(
            verify_item(element.file, self._trust, role=role)
            for element, role in zip(chain.elements, roles_in(chain.elements), strict=True)
        )
        return VerifiedChain(
            chain, items, bundled_files(chain, items, self._trust, self._project, self._open_tree)
        )


def roles_in(elements: Sequence[ChainElement]) -> Iterator[RoleOf]:
    """Yield the role for which the signer of each element has to be trusted."""
    yield MetadataRole.of(elements[0].file)
    for element in elements[1:]:
        yield Role.PRIMITIVE if element.executor_id is None else Role.RUNTIME
