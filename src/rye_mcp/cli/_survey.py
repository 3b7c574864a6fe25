"""How `rye verify` and `rye list` show what was found out about an item."""

from __future__ import annotations

from rye_mcp.verbs.survey import Surveyed

__all__ = ["signer_of", "space_of"]


def signer_of(item: Surveyed) -> str:
    """Who signed, as far as anybody can be told: the owner, the kind, and where to look the key up."""
    signer = item.integrity.signer
    if signer is None:
        return "-"
    return " ".join(filter(None, (signer.owner, f"({signer.kind})", signer.fingerprint)))


def space_of(item: Surveyed) -> str:
    """The space, and whether another item hides this one."""
    return f"{item.space} (shadowed)" if item.shadowed else item.space.value
