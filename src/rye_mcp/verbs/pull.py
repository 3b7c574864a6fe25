"""`pull` and `sync`: items from a registry or a repository, verified before any of them is written.

A pull pins what it brought in `.ai/sources.toml`, by the digest of the source and of each file. A sync brings
back exactly that. Neither trusts anybody: a key that is unknown here stays undecided.

    await pull(PullRequest("registry.example.com/team/tools:1"), context)
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from lilux import _files as whole_files
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.lock.store import LOCKFILES_DIRECTORY
from rye_mcp.files import Tree, make_user_space, translated
from rye_mcp.items import (
    DEPENDENCY_MANIFEST_NAME,
    ItemFile,
    ItemType,
    Space,
    SpaceName,
    parse_relative_path,
    printable,
)
from rye_mcp.sharing.artifact import SharedFile
from rye_mcp.sharing.fetching import Fetch
from rye_mcp.sharing.paths import KEYS_DIRECTORY, check_paths
from rye_mcp.sharing.reference import GitReference, parse_reference
from rye_mcp.sharing.sources import SOURCES_FILE, Pin, Source, Sources, read_sources
from rye_mcp.sharing.writing import Changes, compare, content_in, sha256_in, write
from rye_mcp.spaces.source_tree import SourceTree
from rye_mcp.trust import signature
from rye_mcp.trust.signers import Fact
from rye_mcp.trust.trust_store import Seen
from rye_mcp.trust.verify import Trust
from rye_mcp.verbs._arriving import Arriving, Judged, judge, require_person, without_strays
from rye_mcp.verbs.context import Context

__all__ = ["PullRequest", "Pulled", "SyncRequest", "Synced", "pull", "sync"]

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class PullRequest:
    """What to pull, and to which space.

    `accepted` are the ids of keys that a person accepts in place of those that signed before. `overwrite`
    lets files go that were edited here.
    """

    reference: str
    space: SpaceName = SpaceName.PROJECT
    accepted: Collection[str] = ()
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Pulled:
    """What came of one source: which files were written or removed, and who signed what is there now."""

    reference: str
    digest: str
    items: int
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    signers: Mapping[str, str] = field(default_factory=dict)
    undecided: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "reference": self.reference,
            "digest": self.digest,
            "items": self.items,
            "written": list(self.written),
            "removed": list(self.removed),
            "signers": dict(self.signers),
            "undecided": list(self.undecided),
        }


async def pull(request: PullRequest, context: Context, fetch: Fetch) -> Pulled:
    """Bring in what a reference names, whole or not at all.

    1. it is fetched, and compared with its digests
    2. all of it passes the gate, or nothing is written
    3. no other person signed the items that were here before
    4. nothing is in the way that was edited here
    5. the files are written, then the pins
    """
    require_person(context, "pull")
    reference = parse_reference(request.reference)
    space = _destination(context, request.space)
    read_sources(space)  # a list that cannot be read is said before anything is fetched
    digest, files = await fetch(reference)
    before = _Before(space, context, read_sources(space))
    return _put(Source(reference, digest), files, before, request)


def _destination(context: Context, name: SpaceName) -> Space:
    if name is SpaceName.SYSTEM:
        raise RyeError("out_of_scope", "expected the project or the user space, found the system space")
    space = context.spaces.space(name)
    if name is SpaceName.USER:
        with translated("write_failed", space.root):
            make_user_space(space.root)
    elif not space.root.is_dir():
        what = f"expected a project, found no {printable(space.root)}"
        raise RyeError("no_project", what, where=space.root)
    return space


def _put(source: Source, files: tuple[SharedFile, ...], before: _Before, request: PullRequest) -> Pulled:
    """Steps 2 to 5, while no other pull writes to the space."""
    space = before.space
    with (
        translated("write_failed", space.root),
        Tree(space.root).opened() as directory,
        whole_files.lock(directory),
    ):
        arriving = judge(_wanted(files, source, space), space, before.context.trust)
        _require_decided(arriving, space)
        sources = read_sources(space)
        pins = _pins_of(sources, source.reference.name)
        before.require_same_signers(arriving, request.accepted)
        foreign = {
            path for each in arriving.kept if (path := each.path) not in pins and sources.owner_of(path)
        }
        changes = compare(space, arriving.kept, pins, foreign=foreign, overwrite=request.overwrite)
        _require_room(changes, space)
        now = Source(source.reference, source.digest, _pins(arriving))
        pinned = _without(sources, foreign).having(now).render()
        others = () if pinned == sources.before else (SharedFile(SOURCES_FILE, pinned),)
        keys = _new_keys(arriving, space)
        if changes or others or keys:
            write(space, changes, *keys, *others)
        _record(arriving, before.context.trust)
    return _pulled(now, arriving, changes)


def _record(arriving: Arriving, trust: Trust) -> None:
    """Write down who vouches for what is there now, of those whom this user trusts."""
    for each in arriving.judged.values():
        if each.undecided is None:
            fact = Fact.of(each.file, each.digest, kind=each.kind, key_id=each.key_id, owner=each.owner)
            trust.note(each.file, fact)


def _wanted(files: tuple[SharedFile, ...], source: Source, space: Space) -> tuple[SharedFile, ...]:
    """The files that go to this space: nothing is locked for the user space."""
    if isinstance(source.reference, GitReference):
        files = without_strays(files, space)
    if space.name is SpaceName.PROJECT:
        return files
    return tuple(each for each in files if not each.path.startswith(f"{LOCKFILES_DIRECTORY}/"))


def _require_decided(arriving: Arriving, space: Space) -> None:
    """In the user space a key is trusted or not there: nobody can decide about it later."""
    if space.name is SpaceName.PROJECT:
        return
    for each in arriving.judged.values():
        if each.undecided is not None:
            each.undecided.hint = "rye trust add, with the key of whoever signed it; or pull it to a project"
            raise each.undecided


def _pins_of(sources: Sources, name: str) -> Mapping[str, Pin]:
    before = sources.of(name)
    return {} if before is None else before.files


def _without(sources: Sources, paths: Collection[str]) -> Sources:
    """The sources, without files that another one brings from now on."""
    if not paths:
        return sources
    kept = (
        Source(
            each.reference, each.digest, {path: pin for path, pin in each.files.items() if path not in paths}
        )
        for each in sources.sources
    )
    return Sources(tuple(kept), sources.before)


def _pins(arriving: Arriving) -> dict[str, Pin]:
    judged = arriving.judged
    return {
        each.path: Pin(each.sha256, judged[each.path].key_id if each.path in judged else None)
        for each in arriving.kept
    }


@dataclass(frozen=True, slots=True)
class _Before:
    """What was there before: the files of a space, and who is known to have signed them.

    `pins` are those whose word about signers counts: for a sync none, as it brings back what these say.
    """

    space: Space
    context: Context
    pins: Sources

    def require_same_signers(self, arriving: Arriving, accepted: Collection[str]) -> None:
        """RyeError `signer_changed` where another key signed before, unless a person accepts the new one."""
        changed: dict[str, tuple[Judged, str]] = {}
        for path, each in arriving.judged.items():
            before = self._signer_of(path, each)
            same = {each.key_id, each.fingerprint, *each.before}
            if before is not None and before not in same and each.key_id not in accepted:
                changed[path] = (each, before)
        if changed:
            raise _signer_changed(changed)

    def _signer_of(self, path: str, judged: Judged) -> str | None:
        """The key that signed what is there under this name, or was under this id.

        Nobody signs the pins. So they count after the file, if that is as it was pulled, and after the
        record, if there is none.
        """
        pin, found = self._pin_of(path), content_in(self.space, path)
        is_edited = found is not None and pin is not None and hashlib.sha256(found).hexdigest() != pin.sha256
        if is_edited and pin is not None and pin.signer is not None:
            return pin.signer
        if found is not None and not is_edited and (signer := self._key_in(found, judged.file)) is not None:
            return signer
        if (signer := self._signer_of_namesake(path, judged.file)) is not None:
            return signer
        fact = self.context.trust.persons_claim(judged.file)
        if fact is not None:
            return self._id_of(fact.key_id)
        return None if pin is None else pin.signer

    def _pin_of(self, path: str) -> Pin | None:
        owner = self.pins.owner_of(path)
        return None if owner is None else owner.files[path]

    def _signer_of_namesake(self, path: str, file: ItemFile) -> str | None:
        """The key that signed a file of the same id with another extension, which this one replaces."""
        wanted = _id_of(path).lower()
        for source in self.pins.sources:
            for other, pin in source.files.items():
                if other == path or _id_of(other).lower() != wanted:
                    continue
                found = content_in(self.space, other)
                return (found and self._key_in(found, _at(other, file))) or pin.signer
        return None

    def _key_in(self, content: bytes, file: ItemFile) -> str | None:
        """The key on the signature line of what is there; None for what nobody signed."""
        there = ItemFile(file.space, file.item_type, file.item_id, file.extension, file.path, content)
        try:
            return self._id_of(signature.parse(there, signature.locate(there)).fingerprint)
        except RyeError:
            return None  # it is looked at as an edited file

    def _id_of(self, fingerprint: str) -> str:
        """The id of a key, or its fingerprint if it is not known here."""
        signer = self.context.trust.store.find_signer(fingerprint, self.space.name, Seen())
        return fingerprint if signer is None else signer.key.key_id


def _at(path: str, file: ItemFile) -> ItemFile:
    """An item at another path of the same space."""
    return ItemFile(file.space, *parse_relative_path(path), file.space.root / path, b"")


def _signer_changed(changed: Mapping[str, tuple[Judged, str]]) -> RyeError:
    path, (now, before) = min(changed.items())
    shown = ", ".join(sorted(changed)[:_SHOWN])
    return RyeError(
        "signer_changed",
        f"expected {path} signed by the key {before}, as it was before, found {now.key_id}, which says that "
        f"it belongs to {now.owner}; this concerns {len(changed)} files: {shown}",
        where=path,
        item_id=now.file.item_id,
        hint=f"ask the person whom you know; if it is right: do it again with --new-signer {now.key_id}",
        key_id=now.key_id,
    )


def _require_room(changes: Changes, space: Space) -> None:
    """No file of another id, or in another case, may be in the way of one that is new."""
    removed = set(changes.removed)
    with SourceTree(space.root) as tree:
        existing = {
            name.relative
            for item_type in ItemType
            for name in tree.list(item_type.directory)
            if name.relative not in removed
        }
    new = changes.written.keys() - existing
    check_paths(sorted(new), sorted(existing))
    by_id: dict[str, str] = {}
    for path in sorted(existing | new):
        other = by_id.setdefault(_id_of(path).lower(), path)
        if other != path and (path in new or other in new):
            what = f"expected one file for each id, found {other} and {path}"
            raise RyeError("ambiguous_item", what, where=space.root / path)


def _id_of(path: str) -> str:
    """What an item at this path would be called, or the path itself where it can be none."""
    try:
        item_type, item_id, _ = parse_relative_path(path)
    except RyeError:
        return path
    return f"{item_type.directory}/{item_id}:"


def _new_keys(arriving: Arriving, space: Space) -> list[SharedFile]:
    """The keys that the project does not know yet. One that it knows stays as it is."""
    if space.name is not SpaceName.PROJECT:
        return []
    keys = (each for each in arriving.files if each.path.startswith(f"{KEYS_DIRECTORY}/"))
    return [each for each in keys if sha256_in(space, each.path) is None]


def _pulled(source: Source, arriving: Arriving, changes: Changes) -> Pulled:
    return Pulled(
        source.reference.unpinned(),
        source.digest,
        _count(arriving.judged),
        tuple(sorted(changes.written)),
        tuple(sorted(changes.removed)),
        {each.key_id: each.owner for each in arriving.judged.values()},
        tuple(sorted({each.key_id for each in arriving.judged.values() if each.undecided is not None})),
    )


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Which space. `frozen` changes nothing: what is missing or different is an error."""

    space: SpaceName = SpaceName.PROJECT
    frozen: bool = False
    accepted: Collection[str] = ()
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Synced:
    """What came of each source."""

    sources: tuple[Pulled, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {"status": "success", "sources": [each.as_dict() for each in self.sources]}


async def sync(request: SyncRequest, context: Context, fetch: Fetch) -> Synced:
    """Bring a space to what its `sources.toml` pins; a source whose files are all there is not asked."""
    require_person(context, "sync")
    space = _destination(context, request.space)
    sources = read_sources(space)
    if request.frozen:
        return Synced(tuple(_require_as_pinned(each, space) for each in sources.sources))
    synced = []
    for each in sources.sources:
        if not _differing(each, space):
            synced.append(_unchanged(each))
            continue
        _require_approved(context, space)
        synced.append(await _restored(each, space, context, request, fetch))
    return Synced(tuple(synced))


def _differing(source: Source, space: Space) -> list[str]:
    return [path for path, pin in source.files.items() if sha256_in(space, path) != pin.sha256]


def _unchanged(source: Source) -> Pulled:
    signed = (path for path, pin in source.files.items() if pin.signer is not None)
    return Pulled(source.reference.unpinned(), source.digest, _count(signed))


def _count(signed: Iterable[str]) -> int:
    """How many of these are items, and no listings."""
    return sum(not path.endswith(f"/{DEPENDENCY_MANIFEST_NAME}") for path in signed)


def _require_as_pinned(source: Source, space: Space) -> Pulled:
    if paths := _differing(source, space):
        shown = ", ".join(paths[:_SHOWN]) + (
            f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
        )
        what = f"expected the files of {source.reference} as they are pinned, found others, or none: {shown}"
        raise RyeError("sources_differ", what, where=space.root / SOURCES_FILE, files=paths)
    return _unchanged(source)


def _require_approved(context: Context, space: Space) -> None:
    """Nobody signs the list of a project: it names no server to ask before a person has approved it."""
    approvals = context.trust.approvals
    if space.name is not SpaceName.PROJECT or (approvals is not None and approvals.read().approved):
        return
    what = f"expected that you have approved the project of {printable(space.root)}, found that you have not"
    raise RyeError("project_not_approved", what, where=space.root / SOURCES_FILE)


async def _restored(
    source: Source, space: Space, context: Context, request: SyncRequest, fetch: Fetch
) -> Pulled:
    digest, files = await fetch(source.pinned)
    found = {
        each.path: each.sha256
        for each in _wanted(files, source, space)
        if not each.path.startswith(f"{KEYS_DIRECTORY}/")
    }
    pinned = {path: pin.sha256 for path, pin in source.files.items()}
    if found != pinned:
        path = min(path for path in found.keys() | pinned.keys() if found.get(path) != pinned.get(path))
        what = f"expected {source.pinned} to hold the files that are pinned, found that {path} differs"
        raise RyeError("invalid_artifact", what, where=path)
    asked = PullRequest(source.reference.unpinned(), request.space, request.accepted, request.overwrite)
    return _put(Source(source.reference, digest), files, _Before(space, context, Sources()), asked)
