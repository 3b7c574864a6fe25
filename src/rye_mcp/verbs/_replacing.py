"""Whose signature may be replaced, and by whom; for items and for what they rest on."""

from __future__ import annotations

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, printable
from rye_mcp.notices import Notice
from rye_mcp.trust import signature
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.trust_store import Seen, Standing
from rye_mcp.verbs._context import Context

__all__ = ["other_signer", "require_no_stranger"]


def require_no_stranger(
    file: ItemFile, context: Context, key: SigningKey, *, item_id: str | None = None
) -> None:
    """No agent makes the user's own of what somebody signed whom they do not trust.

    `item_id` is the item that was asked for, where the file is something that it rests on.
    """
    before = _signed_before(file)
    if context.is_person or before in (None, key.public.fingerprint):
        return
    store = context.trust.store
    seen = Seen()
    signer = store.find_signer(before, file.space.name, seen)
    trusted = signer is not None and signer.standing is Standing.TRUSTED
    if signer is None or not trusted or signer.key.key_id in store.revocations(seen):
        shown, asked_for = printable(file.path), item_id or file.item_id
        what = f"expected a person to replace the signature of {before} in {shown}, whom nobody here trusts"
        raise RyeError(
            "person_required",
            f"{what}; found an agent",
            where=shown,
            item_id=asked_for,
            hint=f"ask a person to read it, and to sign it if it is good: rye sign {asked_for}",
        )


def other_signer(file: ItemFile, key: SigningKey) -> Notice | None:
    """That somebody else signed a file before, which from now on this key vouches for."""
    before, now = _signed_before(file), key.public.fingerprint
    if before in (None, now):
        return None
    what = f"{file.item_id} was signed with the key {before} before; from now on {now} vouches for it"
    return Notice("signer_changed", what)


def _signed_before(file: ItemFile) -> str | None:
    """The fingerprint in the signature line that is there, good or not."""
    try:
        return signature.parse(file, signature.locate(file)).fingerprint
    except RyeError:
        return None  # there is none that could be replaced
