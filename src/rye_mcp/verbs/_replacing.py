"""What an agent may sign: what is new, and what an agent signed before; items, and what they rest on.

Rules:

- What a person is known to have vouched for is theirs: `person_required`, with the command for a person.
- A person is known from the signature line, good or broken, unless it names the key of an agent that the
  user trusts; from the lockfiles of the item, of every version; from an item of the same id in the user
  space; and from the user's record, by id and by content. The record knows the last commits too
  (`rye_mcp.verbs._committed`).
- Each of these is enough: to remove one of them helps nobody.
- Where the record is full no agent signs, since it would not learn what a person signs from then on.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection
from typing import Final

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, printable
from rye_mcp.notices import Notice
from rye_mcp.trust import signature
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.trust_store import Seen
from rye_mcp.verbs._committed import content_digest, note_commits, unnoted_commits
from rye_mcp.verbs.context import Context, options_of

__all__ = ["other_signer", "require_not_a_persons", "signed_by_another"]

_DAMAGED: Final = "has a damaged signature line"


def require_not_a_persons(file: ItemFile, context: Context, *, asked_for: ItemFile | None = None) -> None:
    """No agent signs what a person vouched for. `asked_for` is the item that rests on the file, if any."""
    if context.is_person:
        return
    note_commits(unnoted_commits(context), context)
    for evidence in _EVIDENCE:
        whose = evidence(file, context)
        if whose is not None:
            raise _refusal(file, whose, context, asked_for or file)


def other_signer(file: ItemFile, key: SigningKey, context: Context) -> Notice | None:
    """That somebody else signed a file before, which from now on this key vouches for."""
    before, now = _signed_before(file), key.public.fingerprint
    if before in (None, now) or _is_former(before, key, file, context):
        return None
    what = f"{file.item_id} was signed with the key {before} before; from now on {now} vouches for it"
    return Notice("signer_changed", what)


def _is_former(fingerprint: str, key: SigningKey, file: ItemFile, context: Context) -> bool:
    """Whether the same person had this key before, by signed rotations."""
    store, seen = context.trust.store, Seen()
    former = store.find_signer(fingerprint, file.space.name, seen)
    own = store.find_signer(key.public.fingerprint, file.space.name, seen)
    return former is not None and own is not None and former.key.key_id in own.before


def signed_by_another(file: ItemFile, context: Context, own: Collection[str]) -> bool:
    """Whether the signature line names a key that is neither in `own` nor of an agent of the user."""
    fingerprint = _signed_before(file)
    if fingerprint is None or context.trust.is_agents(fingerprint, file.space.name):
        return False
    signer = context.trust.store.find_signer(fingerprint, file.space.name, Seen())
    return signer is None or signer.key.key_id not in own


def _refusal(file: ItemFile, whose: str, context: Context, asked_for: ItemFile) -> RyeError:
    shown = printable(file.path)
    project = "" if context.project is None else f" --project {shlex.quote(printable(context.project))}"
    first = "to read it, to remove that line" if whose == _DAMAGED else "to read it"
    command = f"rye sign {asked_for.item_id}{options_of(asked_for.item_type, asked_for.space.name)}{project}"
    return RyeError(
        "person_required",
        f"expected a person to sign {shown}, which {whose}; found an agent, which signs only what is new or "
        "what an agent signed before",
        where=shown,
        item_id=asked_for.item_id,
        hint=f"ask a person {first}, and to sign it if it is good: {command}",
    )


# --- what tells of a person: each gives the end of a sentence, or None ---


def _by_line(file: ItemFile, context: Context) -> str | None:
    try:
        claim = signature.locate(file)
        fingerprint = signature.parse(file, claim).fingerprint
    except RyeError as exc:
        return None if exc.code == "unsigned" else _DAMAGED
    return (
        None
        if context.trust.is_agents(fingerprint, file.space.name)
        else f"carries a signature of {fingerprint}"
    )


def _by_other_claim(file: ItemFile, context: Context) -> str | None:
    return context.trust.other_claim(file)


def _by_record(file: ItemFile, context: Context) -> str | None:
    fact = context.trust.persons_claim(file, content_digest(file))  # a copy today is a renamed file tomorrow
    return None if fact is None else f"{fact.owner} has signed before, as {fact.item_id}"


def _by_full_record(file: ItemFile, context: Context) -> str | None:
    if not context.trust.is_record_full:
        return None
    return "nobody can tell whose it is, as the record of who signed what in this project is full"


_EVIDENCE: Final[tuple[Callable[[ItemFile, Context], str | None], ...]] = (
    _by_line,
    _by_other_claim,
    _by_record,
    _by_full_record,
)


def _signed_before(file: ItemFile) -> str | None:
    """The fingerprint in the signature line that is there, good or not."""
    try:
        return signature.parse(file, signature.locate(file)).fingerprint
    except RyeError:
        return None  # there is none that could be replaced
