"""What the user's record knows of a file that did not pass: hints for the person, and no decisions.

Rules:

- Signing is proposed only for exactly the bytes that somebody signed last under the other id. For anything
  else, the hint says to look first, with the command that shows what changed.
- A hint has a command of git only in a project that was approved: a repository can name programs, and every
  command of git that a person types there starts them.
- A record that cannot be read costs the hint and nothing else.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, SpaceName, is_item_id, printable, signed_path
from rye_mcp.trust import signature
from rye_mcp.trust.signature import Claim, SignatureLine
from rye_mcp.trust.signers import Fact, Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rye_mcp.trust.verify import Trust

__all__ = ["hint_for_changed", "hint_for_renamed", "whose_unsigned"]

_MAX_TRIED: Final = 8
"""How many former ids of a content are tried on a signature that is bad for its own."""


def whose_unsigned(file: ItemFile, trust: Trust) -> tuple[str, str] | None:
    """For a file without a signature that is known as a person's: who signed it, and the hint."""
    with suppress(RyeError):
        fact = trust.persons_claim(file, signature.content_digest(file.content))
        if fact is not None:
            name = "this" if fact.item_id == file.item_id else fact.item_id
            what = f"{fact.owner} signed {name} before"
            return fact.owner, f"{what}: {_look(file, trust, fact)}, then: rye sign {file.item_id}"
        if trust.other_claim(file) is not None:
            what = "a person signed this before"
            return "a person", f"{what}: {_look(file, trust)}, then: rye sign {file.item_id}"
    return None


def hint_for_changed(file: ItemFile, line: SignatureLine, trust: Trust) -> str:
    """What to do about a content that is not the one which the line names."""
    facts = _of_content(line.content_hash, _facts(file, trust))
    is_own = any(fact.item_id == file.item_id for fact in facts)
    former = None if is_own else next((fact for fact in facts if is_item_id(fact.item_id)), None)
    if former is None:
        return f"{_look(file, trust)}, then: rye sign {file.item_id}"
    what = f"{former.owner} signed it as {former.item_id}, and it also changed since"
    return f"{what}: {_look(file, trust, former)}, then: rye sign {file.item_id}"


def hint_for_renamed(
    file: ItemFile,
    claim: Claim,
    line: SignatureLine,
    trust: Trust,
    is_signed_as: Callable[[ItemFile, Claim, SignatureLine], bool],
) -> str | None:
    """The hint for a signature that is good for the same bytes under another id; None for any other."""
    facts = _facts(file, trust)
    for fact in _of_content(claim.digest, facts)[-_MAX_TRIED:]:
        before = replace(file, item_id=fact.item_id, extension=fact.extension)
        if is_item_id(fact.item_id) and is_signed_as(before, claim, line):
            return _renamed(file, before, fact, trust)
    return None


def _renamed(file: ItemFile, before: ItemFile, fact: Fact, trust: Trust) -> str:
    persons = _facts(file, trust)[0]
    own, latest = persons.person_of(file), persons.person_of(before)
    sign = f"rye sign {file.item_id}"
    if own is not None and own.digest != fact.digest:
        what = f"{fact.owner} signed it as {fact.item_id}, and {own.owner} signed something else here"
        return f"{what}: {_look(file, trust)}, then: {sign}"
    if latest is not None and latest.digest != fact.digest:
        what = f"{fact.owner} signed it as {fact.item_id}, and something else there later"
        return f"{what}: {_look(file, trust, fact)}, then: {sign}"
    return f"{fact.owner} signed exactly these bytes as {fact.item_id}; if you renamed it: {sign}"


def _facts(file: ItemFile, trust: Trust) -> tuple[Facts, Facts]:
    """What is known of persons, and of agents."""
    with suppress(RyeError):
        return trust.records[file.space.name].all_facts()
    return Facts(), Facts()


def _of_content(digest: str, known: Iterable[Facts]) -> list[Fact]:
    return [fact for facts in known for fact in facts.by_digest.get(digest, [])]


def _look(file: ItemFile, trust: Trust, former: Fact | None = None) -> str:
    """How to see what changed. In a repository, `git` shows it, whether the change was committed or not."""
    above = file.space.root.parent
    if not (os.path.lexists(above / ".git") and _may_run_git(file, trust)):
        return "look at what changed"
    git = f"git -C {shlex.quote(printable(above))}"
    if former is None or former.item_id == file.item_id:
        path = shlex.quote(printable(file.path.relative_to(above)))
        shown = f"{git} diff HEAD -- {path}; {git} log -p -- {path}; if both show nothing, read it"
        return f"look at what changed ({shown})"
    before = f"{file.space.root.name}/{signed_path(file.item_type, former.item_id, former.extension)}"
    shown = f"{git} show {shlex.quote(f'HEAD:./{before}')} | diff - {shlex.quote(printable(file.path))}"
    return f"look at what changed ({shown})"


def _may_run_git(file: ItemFile, trust: Trust) -> bool:
    """Whether the programs that a repository names are those of the user, or of a project they approved."""
    if file.space.name is SpaceName.USER:
        return True
    with suppress(RyeError):
        return trust.approvals is not None and trust.approvals.read().approved
    return False
