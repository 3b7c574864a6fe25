"""Who may sign which files: those that a person agreed to; agents, files that no person has signed.

An agent signs what is new, and what an agent signed before; docs/architecture/trust.md says by what a person
is known. Agreed files are compared by the SHA256 of all their bytes before anything is written.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import (
    DEPENDENCY_MANIFEST_NAME,
    MAX_ITEM_BYTES,
    SHEBANG,
    ItemFile,
    ItemType,
    Space,
    SpaceName,
    comment_style,
    parse_relative_path,
    printable,
)
from rye_mcp.notices import Notice
from rye_mcp.spaces import DIRECTORY_NAME
from rye_mcp.spaces.source_tree import SourceTree
from rye_mcp.trust import signature
from rye_mcp.trust.dependency_manifest import manifest_file, parse_listing, verify_manifest
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.listing import render_skill_listing
from rye_mcp.trust.scope import Role
from rye_mcp.trust.trust_store import Seen
from rye_mcp.verbs._commits import content_digest, note_commits, unnoted_commits
from rye_mcp.verbs.context import Context, options_of
from rye_mcp.verbs.git_objects import last_commits

__all__ = [
    "Agreement",
    "SigningPlan",
    "digest_of",
    "item_at",
    "other_signer",
    "relative_of",
    "require_may_be_listed",
    "require_not_a_persons",
    "signed_by_another",
]


@dataclass(frozen=True, slots=True)
class SigningPlan:
    """A plan for signing: the items, and every file of theirs that it would cover, path → SHA256.

    Paths are those below the space `root`. `signer` is the fingerprint of the key, `failing` are the ids of
    what would not be signed.
    """

    item_ids: tuple[str, ...]
    files: Mapping[str, str]
    signer: str
    root: Path
    failing: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """The mark of the whole plan."""
        whole = [sorted(self.files.items()), self.item_ids, self.signer, str(self.root)]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


class Agreement:
    """The files that may be signed; no others."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = {path: {digest} for path, digest in files.items()}

    @classmethod
    def of(cls, files: Mapping[str, str] | None) -> Self | None:
        """That to these files; None where nobody has to agree."""
        return None if files is None else cls(files)

    def require(self, item_id: str, files: Iterable[tuple[str, str]]) -> None:
        """Refuse to sign an item when one of these files is another than was agreed to."""
        strange = sorted(path for path, digest in files if digest not in self._files.get(path, ()))
        if strange:
            shown = ", ".join(map(printable, strange[:5]))
            what = f"expected {item_id} as it was agreed to, found what is new or has changed since: {shown}"
            raise RyeError("confirmation_outdated", what, item_id=item_id)

    def signed(self, file: ItemFile) -> None:
        """A file was signed, and is what it is now."""
        self._files.setdefault(relative_of(file), set()).add(digest_of(file))


def relative_of(file: ItemFile) -> str:
    """Where an item is below the root of its space."""
    return file.path.relative_to(file.space.root).as_posix()


def digest_of(file: ItemFile) -> str:
    """The SHA256 of all bytes of a file, its signature line among them; of a skill that of all its files."""
    content = file.content if file.skill is None else render_skill_listing(file.skill)
    return hashlib.sha256(content).hexdigest()


_Evidence = Callable[[ItemFile, Context], str | None]

_DAMAGED: Final = "has a damaged signature line"


def require_not_a_persons(file: ItemFile, context: Context, *, asked_for: ItemFile | None = None) -> None:
    """No agent signs what a person vouched for. `asked_for` is the item that rests on the file, if any."""
    _require_nobodys(file, context, asked_for or file, (*_OF_FILES, *_OF_ITEMS))


def require_may_be_listed(relative: str, content: bytes, context: Context, *, asked_for: ItemFile) -> None:
    """No agent lists what a person vouched for, whether it is an item or not, whatever else is in it."""
    space = asked_for.space
    file = item_at(space, relative, content)
    if file is not None:
        _require_nobodys(file, context, asked_for, (*_OF_FILES, *_OF_ITEMS))
    else:
        path = space.root / relative
        data = ItemFile(space, ItemType.TOOL, relative, path.suffix, path, content)
        _require_nobodys(data, context, asked_for, _OF_FILES)


def _require_nobodys(
    file: ItemFile, context: Context, asked_for: ItemFile, evidences: Sequence[_Evidence]
) -> None:
    if context.is_person:
        return
    note_commits(unnoted_commits(context), context)
    for evidence in evidences:
        whose = evidence(file, context)
        if whose is not None:
            raise _refusal(file, whose, context, asked_for)


def item_at(space: Space, relative: str, content: bytes) -> ItemFile | None:
    """The file with its id; None where no item can be, or one that could hold no signature line."""
    try:
        item_type, item_id, extension = parse_relative_path(relative)
    except RyeError:
        return None
    if comment_style(extension) is None or not (extension or content.startswith(SHEBANG)):
        return None
    return ItemFile(space, item_type, item_id, extension, space.root / relative, content)


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
    return "nobody can tell whose it is, because the record of signers of this project is full"


def _by_listing(file: ItemFile, context: Context) -> str | None:
    """That a listing of a person, in a directory above, has the file, and not as it is now."""
    relative = file.path.relative_to(file.space.root).as_posix()
    if file.path.name == DEPENDENCY_MANIFEST_NAME or not relative.startswith(f"{ItemType.TOOL.directory}/"):
        return None
    for listing in _listings_above(file, relative):
        path = relative.removeprefix(f"{listing.path.parent.relative_to(file.space.root).as_posix()}/")
        if _may_differ(listing, path, file, context) and any(
            evidence(listing, context) for evidence in (_by_line, *_OF_ITEMS)
        ):
            shown = printable(listing.path)
            return f"stands in a listing that a person signed, {shown}, and is not as it says"
    return None


def _listings_above(file: ItemFile, relative: str) -> Iterator[ItemFile]:
    """The listing of each directory that a file is in, the nearest first; empty where it is gone."""
    parts = relative.split("/")[:-1]
    with SourceTree(file.space.root) as tree:
        for depth in range(len(parts), 0, -1):
            directory = "/".join(parts[:depth])
            found = tree.read(f"{directory}/{DEPENDENCY_MANIFEST_NAME}", limit=MAX_ITEM_BYTES)
            yield manifest_file(file.space, directory, b"" if found is None else found.content)


def _may_differ(listing: ItemFile, path: str, file: ItemFile, context: Context) -> bool:
    """Whether a listing has a file, and is not good, or says that the file is another one."""
    try:
        known = verify_manifest(listing, context.trust, role=Role.TOOL).files.get(path)
    except RyeError:
        return any(_lists(each, path) for each in _versions(listing, context))
    return known is not None and known != hashlib.sha256(file.content).hexdigest()


def _versions(listing: ItemFile, context: Context) -> Iterator[ItemFile]:
    """A listing as it is, if it is there, and as the last commit has it."""
    if listing.content:
        yield listing
    if context.project is not None and listing.space.name is SpaceName.PROJECT:
        relative = listing.path.relative_to(listing.space.root).as_posix()
        for commit in last_commits(context.project, DIRECTORY_NAME):
            for _, content in commit.files(relative.__eq__):
                yield replace(listing, content=content)


def _lists(listing: ItemFile, path: str) -> bool:
    """Whether a listing, good or not, has a file; one that cannot be read may have had any."""
    try:
        return path in parse_listing(listing)
    except RyeError:
        return True


def _by_unread_commit(file: ItemFile, context: Context) -> str | None:
    if file.space.name is not SpaceName.PROJECT or not context.trust.unread_commits:
        return None
    return "nobody can tell whose it is, as the last commit holds more below .ai than is read of one"


_OF_ITEMS: Final[tuple[_Evidence, ...]] = (
    _by_other_claim,
    _by_record,
    _by_full_record,
    _by_unread_commit,
)
_OF_FILES: Final[tuple[_Evidence, ...]] = (_by_line, _by_listing)


def _signed_before(file: ItemFile) -> str | None:
    """The fingerprint in the signature line that is there, good or not."""
    try:
        return signature.parse(file, signature.locate(file)).fingerprint
    except RyeError:
        return None  # there is nothing to replace
