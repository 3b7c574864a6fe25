"""Other evidence that an item belongs to a person, and hints about a file that did not pass the gate.

The user space and the lockfiles are looked at on each call, and ids are compared without case. A hint decides
nothing: a record that cannot be read costs the hint and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lilux import _files as whole_files
from lilux import _json
from lilux._footprints import unnoted
from lilux._stamps import KeptFile
from lilux.primitives.errors import LockfileError
from lilux.primitives.lockfile import MAX_LOCKFILE_BYTES, Lockfile
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS, Tree, translated
from rye_mcp.items import EXTENSIONS, ItemFile, ItemType, SpaceName, is_item_id, printable, signed_path
from rye_mcp.permissions import Permissions, read_permissions
from rye_mcp.trust import signature
from rye_mcp.trust.signature import Claim, SignatureLine
from rye_mcp.trust.signers import Fact, Facts

if TYPE_CHECKING:
    from rye_mcp.trust.verify import Trust

__all__ = [
    "AgreedPermissions",
    "claim_by_lockfile",
    "claim_by_user_space",
    "hint_for_changed",
    "hint_for_renamed",
    "whose_unsigned",
]

_LOCKFILES: Final = "lockfiles"
_SUFFIX: Final = ".lock.json"


def claim_by_user_space(file: ItemFile, user_space: Path) -> str | None:
    """That the user space has an item with the id of one of a project: the end of a sentence, or None."""
    if file.space.name is not SpaceName.PROJECT:
        return None
    above, _, last = file.item_id.lower().rpartition("/")
    wanted = {f"{last}{extension}" for extension in EXTENSIONS[file.item_type]}
    try:
        for _, names in _in_any_letters(user_space, file.item_type.directory, above):
            if not wanted.isdisjoint(map(str.lower, names)):
                return "would take the place of an item of the user space"
    except RyeError as exc:
        return f"may be in the user space, which cannot be read there ({exc.code})"
    return None


def claim_by_lockfile(
    file: ItemFile, spaces: Iterable[Path], agents: Callable[[], frozenset[str]]
) -> str | None:
    """Whose key a lockfile of the item pins, unless it is one of `agents`: the end of a sentence, or None."""
    if file.item_type not in (ItemType.TOOL, ItemType.SKILL):
        return None
    try:
        for signer in _pinned_signers(file, spaces):
            if signer not in agents():
                return f"is locked as signed with the key {signer[:16]}"
    except RyeError as exc:
        return f"has a lockfile that cannot be read ({exc.code})"
    except (LockfileError, LookupError, AttributeError):
        return "has a lockfile that cannot be read (malformed_lockfile)"
    return None


def _pinned_signers(file: ItemFile, spaces: Iterable[Path]) -> Iterator[str]:
    """The id of each key that a lockfile of an item says it was signed with."""
    for root in spaces:
        for path in _lockfiles_of(file, root):
            data = Tree(root).read(path, limit=MAX_LOCKFILE_BYTES)
            signer = None if data is None else Lockfile.from_bytes(data).resolved_chain[0].get("signer")
            if signer is not None:
                yield str(signer)


def _lockfiles_of(file: ItemFile, root: Path) -> Iterator[str]:
    """The lockfiles of an item in a space, of every version, whatever the case of their names."""
    is_skill = file.item_type is ItemType.SKILL
    item_id = f"{ItemType.SKILL.directory}/{file.item_id}" if is_skill else file.item_id
    above, _, last = item_id.lower().rpartition("/")
    for directory, names in _in_any_letters(root, _LOCKFILES, above):
        for name in names:
            known = name.removesuffix(_SUFFIX) if is_skill else name.removesuffix(_SUFFIX).rpartition("@")[0]
            if name.endswith(_SUFFIX) and known.lower() == last:
                yield f"{directory}/{name}"


def _in_any_letters(root: Path, directory: str, below: str) -> Iterator[tuple[str, list[str]]]:
    """The directories of this name, whatever the case of its letters, and the names in each of them."""
    directories = [directory]
    for segment in filter(None, below.split("/")):
        found = (
            (each, name) for each in directories for name, is_file in _entries(root, each) if not is_file
        )
        directories = [f"{each}/{name}" for each, name in found if name.lower() == segment]
    for each in directories:
        yield each, [name for name, _ in _entries(root, each)]


def _entries(root: Path, directory: str) -> list[tuple[str, bool]]:
    """The names in a directory, and whether each is a file; RyeError where a link or a file stands for it."""
    try:
        with Tree(root).opened(directory) as descriptor, os.scandir(descriptor) as entries:
            return sorted((each.name, each.is_file(follow_symlinks=False)) for each in entries)
    except FileNotFoundError:
        return []


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
    """Return the hint for a content that differs from the one which the line names."""
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
    """Return the facts about persons, and those about agents."""
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


# --- permissions that were agreed to ---
# The permissions that this user agreed to for each item; kept in the state directory, never in a project.
#
# The record is the permissions that were agreed to last: those of the first version that a trusted person had
# signed, of the latest one that the user has signed, or of one that the user was shown the difference of.


_DIRECTORY: Final = "agreed"
_VERSION: Final = 1
_MAX_BYTES: Final = 1 << 20
_MAX_KEPT: Final = 4096
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


class AgreedPermissions:
    """The record of one user. `use` is what an item is run as: a tool and a runtime are two things."""

    def __init__(self, state: Callable[[], Path]) -> None:
        self._state = state
        self._kept: dict[str, KeptFile[Permissions | None]] = {}

    def of(self, file: ItemFile, use: str) -> Permissions | None:
        """Return the agreed permissions; None for an item never used. RyeError for a damaged record."""
        place = _place(file, use)
        kept = self._kept.get(place)
        if kept is None:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            kept = self._kept[place] = KeptFile(self._tree(), place, _parse, limit=_MAX_BYTES)
        return kept.value()

    def write(self, file: ItemFile, use: str, permissions: Permissions) -> None:
        """Replace what was agreed to; RyeError when it cannot be written."""
        tree, place = self._tree(), _place(file, use)
        path = tree.root / place
        known = {
            "version": _VERSION,
            "item": file.item_id,
            "use": use,
            "permissions": permissions.canonical(),
        }
        data = (json.dumps(known, indent=2) + "\n").encode("ascii")
        with (
            translated("write_failed", path),
            tree.opened(place.rpartition("/")[0], create_mode=_DIRECTORY_MODE) as directory,
        ):
            whole_files.write_whole(path, data, mode=_FILE_MODE, directory=directory)

    def _tree(self) -> Tree:
        with unnoted():  # once found, the state directory stays where it is
            return Tree(Path(os.path.realpath(self._state())), forbidden=OTHERS)


def _place(file: ItemFile, use: str) -> str:
    """Where the record of an item is: by the real path of its space, and its id in whatever case."""
    space = hashlib.sha256(os.fsencode(file.space.root)).hexdigest()
    item = hashlib.sha256(f"{use}/{file.item_id.lower()}".encode()).hexdigest()
    return f"{_DIRECTORY}/{space}/{item}.json"


def _parse(data: bytes | None, place: Path) -> Permissions | None:
    if data is None:
        return None
    known: Any = None
    try:
        known = _json.decode(data)
    except _json.NotJsonError as exc:
        raise _malformed(place) from exc
    if not isinstance(known, dict) or known.get("version") != _VERSION or "permissions" not in known:
        raise _malformed(place)
    permissions, problems = read_permissions(known["permissions"])
    if problems or permissions is None:
        raise _malformed(place)
    return permissions


def _malformed(place: Path) -> RyeError:
    what = f"expected what was agreed that an item may do, in {place}, found something else"
    return RyeError("malformed_trust", what, where=place)
