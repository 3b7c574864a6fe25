"""How each tool of a survey stands to its lockfile, and whether anything behind it keeps it from running."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.items import ItemFile, ItemType, SpaceName
from rye_mcp.metadata import ItemMetadata
from rye_mcp.verbs._chains import Chains
from rye_mcp.verbs._configuration import asks_for_locks
from rye_mcp.verbs.context import Context

__all__ = ["LockOutlook", "LockOutlooks"]

MISSING: Final = "missing"

_WORDS: Final = {"match": "matches", "outdated": "outdated", "none": "none"}
_REFUSALS: Final = {
    "lock_mismatch": "differs",
    "lock_missing": MISSING,
    "malformed_lockfile": "malformed",
}


@dataclass(frozen=True, slots=True)
class LockOutlook:
    """How a tool stands to its lockfile, None where it has no use for one; and why it would not run."""

    state: str | None = None
    obstacle: RyeError | None = None


class LockOutlooks:
    """Looks at the tools of one context, as a run would up to its parameters; nothing runs."""

    def __init__(self, context: Context) -> None:
        self._chains = Chains(context)
        self._asks = asks_for_locks(context)
        self._locked = {place.item_id for place in self._chains.lockfiles.store.list()}

    def of(self, file: ItemFile, metadata: ItemMetadata) -> LockOutlook:
        """What becomes of an item that passed the gate. Of the package, only what is locked is looked at."""
        is_part = metadata.is_library or metadata.is_runtime or metadata.is_primitive
        is_packaged = file.space.name is SpaceName.SYSTEM and file.item_id not in self._locked
        if file.item_type is not ItemType.TOOL or is_part or is_packaged:
            return LockOutlook()
        root = ChainElement(file, metadata)
        lockfiles = self._chains.lockfiles
        try:
            root_lock = lockfiles.check_root(root)
            state = lockfiles.pin(self._chains.follow(root), root_lock).lock.state
        except RyeError as exc:
            return LockOutlook(_REFUSALS.get(exc.code), exc)
        is_asked_for = self._asks and file.space.name is SpaceName.PROJECT
        return LockOutlook(MISSING if state == "none" and is_asked_for else _WORDS[state])
