"""How every command says what was found out about an item, and who signed it."""

from __future__ import annotations

from collections.abc import Callable

from rye_mcp.errors import RyeError
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_store import AGENT_OWNER
from rye_mcp.trust.verify import Signer
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.survey import Surveyed

__all__ = ["lock_of", "signers_in_words", "space_of"]


def lock_of(item: Surveyed) -> str:
    """How a tool stands to its lockfile; nothing for what has no use for one, or does not get that far."""
    return "" if item.lock is None else item.lock.state or ""


def signers_in_words(context: Context) -> Callable[[Signer | None], str]:
    """What says who signed, in words that tell an agent from a person, and where to look the key up."""
    try:
        own = context.keys.show(SignerKind.PERSON).key_id
    except RyeError:
        own = None

    def in_words(signer: Signer | None) -> str:
        if signer is None:
            return "-"
        if signer.kind is SignerKind.AGENT and signer.owner == AGENT_OWNER:
            return f"by {AGENT_OWNER}, not by you ({signer.fingerprint})"
        if signer.kind is SignerKind.PERSON and signer.key_id == own:
            return f"by you ({signer.fingerprint})"
        return f"by {signer.in_words}"

    return in_words


def space_of(item: Surveyed) -> str:
    """The space, and whether another item hides this one."""
    return f"{item.space} (shadowed)" if item.shadowed else item.space.value
