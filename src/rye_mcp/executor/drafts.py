"""Runs a draft: the stages of every call, with an unsigned file in the place of the root.

Only commands of people at a terminal import this: see `.importlinter`. Drafts are pinned nowhere, and the
log names nobody as their signer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainBuilder, ChainElement
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.items import ItemFile, printable
from rye_mcp.metadata import parse_metadata
from rye_mcp.spaces import Spaces
from rye_mcp.trust.drafts import Draft

__all__ = ["DraftExecutor"]


class DraftExecutor(PrimitiveExecutor):
    """Runs one draft, for a person at a terminal."""

    @classmethod
    def of_draft(
        cls,
        draft: Draft,
        spaces: Spaces,
        *,
        project: Path | None,
        state: Path,
        locked: bool,
        environment: Mapping[str, str],
    ) -> Self:
        """One for this draft alone."""
        executor = cls.of(
            spaces,
            draft.trust,
            project=project,
            state=state,
            locked=locked,
            environment=environment,
            writes_locks=lambda space: False,  # nobody has signed a draft
        )
        executor._preparation.secrets = None  # nobody has signed for one
        decider = executor._decider
        decider.builder = _DraftBuilder(spaces, decider.verifier.require_verified, draft)
        return executor


class _DraftBuilder(ChainBuilder):
    """Builds the chain of one draft."""

    def __init__(self, spaces: Spaces, require_verified: Callable[[ItemFile], object], draft: Draft) -> None:
        super().__init__(spaces, require_verified)
        self._draft = draft

    def find(self, item_id: str) -> ChainElement:
        """The draft, as long as its file says what was looked at."""
        root = super().find(item_id)
        if root.file != self._draft.source:
            where = printable(root.path)
            what = f"expected {where} as it was looked at, found that it has changed since then"
            raise RyeError("content_changed", what, where=where, item_id=root.item_id, hint="look again")
        return ChainElement(self._draft.file, parse_metadata(self._draft.file), root.shadowed)
