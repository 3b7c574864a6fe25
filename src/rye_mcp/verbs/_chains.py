"""The chain of a tool, verified and valid, for verbs that run nothing: they lock it, or look at its lock."""

from __future__ import annotations

from functools import cache, cached_property

from rye_mcp.errors import RyeError
from rye_mcp.executor.chain import Chain, ChainBuilder, ChainElement
from rye_mcp.executor.chain_validator import ValidChain, require_valid
from rye_mcp.executor.integrity_verifier import IntegrityVerifier
from rye_mcp.executor.lockfile_resolver import LockfileResolver
from rye_mcp.verbs._context import Context, whole_hints

__all__ = ["Chains"]


class Chains:
    """The chains of one context, through the same stages that a run goes through."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._verifier = IntegrityVerifier(context.trust, context.project)
        self._builder = ChainBuilder(context.spaces, self._verifier.require_verified)

    @cached_property
    def lockfiles(self) -> LockfileResolver:
        """The lockfiles of this context."""
        return LockfileResolver(
            self._context.spaces,
            self._context.trust,
            package_version=_package_version(),
            locked=self._context.locked,
        )

    def find(self, item_id: str) -> ChainElement:
        """The root of a chain, as it is now."""
        return self._builder.find(item_id)

    def behind(self, root: ChainElement) -> Chain | None:
        """The chain of a root that is not verified, when everything behind it is; None for all others."""
        try:
            chain = self._builder.follow(root)
            for element in chain.elements[1:]:
                self._verifier.require_verified(element.file)
        except RyeError:
            return None
        return chain

    def follow(self, root: ChainElement) -> ValidChain:
        """The whole chain of a root; RyeError when it is not one that may run."""
        with whole_hints(root.file):
            return require_valid(self._verifier.verify_chain(self._builder.follow(root)))


@cache
def _package_version() -> str:
    from importlib.metadata import version

    return version("rye-mcp")
