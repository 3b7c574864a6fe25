"""Whether what runs a tool is there and passes the gate, for verbs that look at many tools and run none.

Tools that have the same executor and lie in the same space have the same chain behind them: it is followed
once for all.
"""

from __future__ import annotations

from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainBuilder, ChainElement
from rye_mcp.items import ItemFile, SpaceName
from rye_mcp.metadata import ItemMetadata
from rye_mcp.verbs.context import Context

__all__ = ["Runners"]


class Runners:
    """What runs the tools that one call of a verb looks at; it is not kept for the next one."""

    def __init__(self, context: Context) -> None:
        self._verify = context.verify
        self._builder = ChainBuilder(context.spaces, context.verify)
        self._known: dict[tuple[str | None, SpaceName], RyeError | None] = {}

    def why_not(self, file: ItemFile, metadata: ItemMetadata) -> RyeError | None:
        """Why nothing would run a verified tool; None when its chain is there and passes."""
        key = (metadata.executor_id, file.space.name)
        if key not in self._known:
            found = self._known[key] = self._follow(ChainElement(file, metadata))
            return found
        known = self._known[key]
        if known is None:
            return None
        return RyeError(known.code, f"{file.item_id} has the same executor: {known.message}", hint=known.hint)

    def _follow(self, root: ChainElement) -> RyeError | None:
        try:
            for element in self._builder.follow(root).elements[1:]:
                self._verify(element.file)
        except RyeError as exc:
            return exc
        return None
