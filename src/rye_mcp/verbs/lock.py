"""`lock`: list, show, compare and update lockfiles; for people only.

`update` pins what would run now, and reports every difference; `verify` compares as a run would. A lockfile
that cannot be read is listed with its refusal, and stops nothing.

    lock_update(LockUpdateRequest("demo/hello"), context).as_dict()
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainElement, MetadataRole
from rye_mcp.executor.lock.pins import Difference, Pins, differences, is_version, mismatch
from rye_mcp.executor.lock.resolver import older_than
from rye_mcp.executor.lock.skills import SkillLocks, pins_of_skill
from rye_mcp.executor.lock.store import LockPlace, StoredLock
from rye_mcp.items import ItemType, SpaceName, check_item_id, printable
from rye_mcp.trust.verify import verify_item
from rye_mcp.verbs._chains import Chains
from rye_mcp.verbs._selection import EVERYTHING, is_pattern, matches, require_pattern
from rye_mcp.verbs.context import Context, options_of, whole_hints

__all__ = [
    "LockListRequest",
    "LockListResult",
    "LockShowRequest",
    "LockShowResult",
    "LockUpdateRequest",
    "LockUpdateResult",
    "LockVerifyRequest",
    "LockVerifyResult",
    "Locked",
    "Updated",
    "Verified",
    "lock_list",
    "lock_show",
    "lock_update",
    "lock_verify",
]

_PERSON_HINT: Final = "ask a person: rye lock"


@dataclass(frozen=True, slots=True)
class LockListRequest:
    """A selection of lockfiles: for an id or a pattern of ids, by default all."""

    item_id: str = EVERYTHING


@dataclass(frozen=True, slots=True)
class LockShowRequest:
    """A lockfile: by default the one for the current version of the tool."""

    item_id: str
    version: str | None = None
    item_type: ItemType = ItemType.TOOL


@dataclass(frozen=True, slots=True)
class LockUpdateRequest:
    """The tools or skills to lock: one, or all locked ones that match a pattern."""

    item_id: str
    item_type: ItemType = ItemType.TOOL


@dataclass(frozen=True, slots=True)
class LockVerifyRequest:
    """The tools to compare with their lockfiles: an id, a pattern, by default all locked ones."""

    item_id: str = EVERYTHING


@dataclass(frozen=True, slots=True)
class Locked:
    """One lockfile in a list. `stored` is None for what cannot be read as one."""

    place: LockPlace
    stored: StoredLock | None
    refusal: RyeError | None = None

    @property
    def version(self) -> str:
        """The version that is locked; empty for a skill whose lockfile cannot be read."""
        return self.place.version or (self.stored.pins.root["version"] or "" if self.stored else "")

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        answer: dict[str, Any] = {
            "item_id": self.place.item_id,
            "type": self.place.item_type.value,
            "version": self.version,
            "space": self.place.space.name.value,
            "path": printable(self.place.path),
        }
        if self.stored is not None:
            answer |= {
                "generated_at": printable(self.stored.lockfile.generated_at),
                "package_version": self.stored.package_version,
                "elements": len(self.stored.pins.elements),
            }
        return answer | _refusal(self.refusal)


@dataclass(frozen=True, slots=True)
class LockListResult:
    """The lockfiles of every space, the nearest first."""

    lockfiles: tuple[Locked, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the list as data."""
        return {
            "status": "success",
            "lockfiles": [each.as_dict() for each in self.lockfiles],
            "total": len(self.lockfiles),
        }


@dataclass(frozen=True, slots=True)
class LockShowResult:
    """A lockfile, and everything that it pins."""

    stored: StoredLock

    def as_dict(self) -> dict[str, Any]:
        """Return the lockfile as data."""
        stored, pinned = self.stored, self.stored.pins
        return {
            "status": "success",
            "item_id": pinned.root["tool_id"],
            "version": pinned.root["version"],
            "integrity": pinned.root["integrity"],
            "space": stored.space.name.value,
            "path": printable(stored.path),
            "generated_at": stored.lockfile.generated_at,
            "package_version": stored.package_version,
            "chain": [dict(element) for element in pinned.elements],
            "verified_deps": None if pinned.dependencies is None else dict(pinned.dependencies),
        }


@dataclass(frozen=True, slots=True)
class Updated:
    """A tool that was locked, and in what it differs from what was locked before."""

    item_id: str
    version: str
    path: Path
    state: Literal["created", "updated", "unchanged"]
    changes: tuple[Difference, ...] = ()
    removed: tuple[LockPlace, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "item_id": self.item_id,
            "version": self.version,
            "path": printable(self.path),
            "state": self.state,
            "changes": [change.as_dict() for change in self.changes],
            "removed": [printable(place.path) for place in self.removed],
        }


@dataclass(frozen=True, slots=True)
class Verified:
    """A tool and its lockfile: `match`, `outdated` by an upgrade of the package, or refused."""

    item_id: str
    state: str
    path: Path | None = None
    refusal: RyeError | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        path = {} if self.path is None else {"path": printable(self.path)}
        return {"item_id": self.item_id, "state": self.state, **path, **_refusal(self.refusal)}


@dataclass(frozen=True, slots=True)
class LockUpdateResult:
    """The tools that were locked, and those that could not be."""

    updated: tuple[Updated, ...]
    failed: tuple[Verified, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the result as data."""
        return {
            "status": "refused" if self.failed else "updated",
            "updated": [each.as_dict() for each in self.updated],
            "failed": [each.as_dict() for each in self.failed],
            "total": len(self.updated) + len(self.failed),
        }


@dataclass(frozen=True, slots=True)
class LockVerifyResult:
    """How everything that is locked compares with what would run."""

    tools: tuple[Verified, ...]

    @property
    def refused(self) -> tuple[Verified, ...]:
        """Those that would not run in locked mode."""
        return tuple(each for each in self.tools if each.refusal is not None)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as data."""
        refused = len(self.refused)
        return {
            "status": "refused" if refused else "verified",
            "tools": [each.as_dict() for each in self.tools],
            "total": len(self.tools),
            "refused": refused,
        }


def lock_list(request: LockListRequest, context: Context) -> LockListResult:
    """The lockfiles that are there, good or not: those of tools, then those of skills."""
    store, locks = Chains(context).lockfiles.store, SkillLocks(context.spaces)
    found: list[Locked] = []
    for place in _selected([*store.list(), *locks.list()], request.item_id):
        try:
            stored = locks.find(place.item_id) if place.item_type is ItemType.SKILL else store.read(place)
            found.append(Locked(place, stored))
        except RyeError as exc:
            found.append(Locked(place, None, exc))
    return LockListResult(tuple(found))


def lock_show(request: LockShowRequest, context: Context) -> LockShowResult:
    """One lockfile; RyeError `lock_missing` without one."""
    if request.item_type is ItemType.SKILL:
        return LockShowResult(_of_skill(request.item_id, context))
    chains = Chains(context)
    if request.version is not None and not is_version(request.version):
        what = f"expected a version such as 1.2.0, found {printable(request.version)!r:.80}"
        raise RyeError("invalid_item", what, item_id=request.item_id, hint="rye lock list")
    version = request.version or chains.find(request.item_id).version
    stored = chains.lockfiles.store.find(request.item_id, version)
    if stored is None:
        raise _missing(request.item_id, version, chains.lockfiles.store.versions(request.item_id))
    return LockShowResult(stored)


def _of_skill(name: str, context: Context) -> StoredLock:
    stored = SkillLocks(context.spaces).find(name)
    if stored is None:
        hint = f"rye lock update {name}{options_of(ItemType.SKILL)}"
        what = f"expected a lockfile of the skill {name}, found none"
        raise RyeError("lock_missing", what, item_id=name, hint=hint)
    return stored


def lock_update(request: LockUpdateRequest, context: Context) -> LockUpdateResult:
    """Pin what would run now; RyeError when a tool that is named by its id cannot be locked."""
    if not context.is_person:
        what = f"expected a person to move the pins of {request.item_id}, found an agent"
        raise RyeError("person_required", what, item_id=request.item_id, hint=_PERSON_HINT)
    context.spaces.require_project()
    chains = Chains(context)
    if request.item_type is not ItemType.TOOL:
        return _update_skills(request, chains, context)
    if not is_pattern(request.item_id):
        updated_one = _update(request.item_id, chains, may_be_older=True)
        return LockUpdateResult((replace(updated_one, removed=_remove_left_behind(request.item_id, chains)),))
    updated: list[Updated] = []
    failed: list[Verified] = []
    for item_id in _locked_ids(request.item_id, chains):
        try:
            updated.append(_update(item_id, chains, may_be_older=False))
        except RyeError as exc:
            failed.append(Verified(item_id, exc.code, refusal=exc))
    return LockUpdateResult(tuple(updated), tuple(failed))


def _update_skills(request: LockUpdateRequest, chains: Chains, context: Context) -> LockUpdateResult:
    if request.item_type is not ItemType.SKILL:
        what = f"expected a tool or a skill, as nothing else is locked, found {request.item_type}"
        raise RyeError("unknown_argument", what, item_id=request.item_id)
    if not is_pattern(request.item_id):
        return LockUpdateResult((_update_skill(request.item_id, chains, context),))
    updated: list[Updated] = []
    failed: list[Verified] = []
    for name in _names(SkillLocks(context.spaces), request.item_id):
        try:
            updated.append(_update_skill(name, chains, context))
        except RyeError as exc:
            failed.append(Verified(name, exc.code, refusal=exc))
    return LockUpdateResult(tuple(updated), tuple(failed))


def _update_skill(name: str, chains: Chains, context: Context) -> Updated:
    file = context.spaces.find(name, ItemType.SKILL, only=SpaceName.PROJECT).item
    with whole_hints(file):
        item = verify_item(file, context.trust, role=MetadataRole.of(file))
    locks, found = SkillLocks(context.spaces), pins_of_skill(item)
    try:
        before = locks.find(name)
    except RyeError:
        before = None  # it is going to be replaced
    version = found.root["version"] or ""
    changes = () if before is None else differences(before.pins, found)
    if before is not None and not changes:
        return Updated(name, version, before.path, "unchanged")
    return Updated(name, version, chains.lock_skill(item), "updated" if before else "created", changes)


def lock_verify(request: LockVerifyRequest, context: Context) -> LockVerifyResult:
    """Compare what is locked with what would run; nothing runs, and nothing is written."""
    chains = Chains(context)
    ids = _locked_ids(request.item_id, chains)
    if not is_pattern(request.item_id) and not _names(SkillLocks(context.spaces), request.item_id):
        ids = [request.item_id]
    tools = tuple(_verify(item_id, chains) for item_id in ids)
    skills = (_verify_skill(name, context) for name in _names(SkillLocks(context.spaces), request.item_id))
    return LockVerifyResult((*tools, *skills))


def _verify_skill(name: str, context: Context) -> Verified:
    try:
        file = context.spaces.find(name, ItemType.SKILL, only=SpaceName.PROJECT).item
        context.verify(file)
        return Verified(name, "match", LockPlace(file.space, name, "", ItemType.SKILL).path)
    except RyeError as exc:
        return Verified(name, exc.code, refusal=exc)


def _names(locks: SkillLocks, pattern: str) -> list[str]:
    """The locked skills that match."""
    return [place.item_id for place in _selected(locks.list(), pattern)]


def _update(item_id: str, chains: Chains, *, may_be_older: bool) -> Updated:
    lockfiles = chains.lockfiles
    root = chains.find(item_id)
    valid = chains.follow(root)
    newer = lockfiles.store.newer(root.item_id, root.version)
    older = _older(root, newer, may_be_older=may_be_older)
    before = _readable(chains, root.item_id, root.version)
    changes = older + (() if before is None else differences(before.pins, Pins.of_chain(valid)))
    if before is not None and not changes and before.space.name is SpaceName.PROJECT:
        return Updated(root.item_id, root.version, before.path, "unchanged")
    path = lockfiles.save_lockfile(lockfiles.create_lockfile(valid))
    for place in newer:
        if place.space.name is SpaceName.PROJECT:
            lockfiles.store.remove(place)
    state: Literal["created", "updated"] = "created" if before is None else "updated"
    return Updated(root.item_id, root.version, path, state, changes)


def _older(root: ChainElement, newer: Sequence[LockPlace], *, may_be_older: bool) -> tuple[Difference, ...]:
    """That a later version is locked; RyeError where nobody named the tool by its id."""
    older = tuple(older_than(place, root.version) for place in newer[:1])
    if older and not may_be_older:
        raise mismatch(older, root.item_id, newer[0].path)
    return older


def _remove_left_behind(item_id: str, chains: Chains) -> tuple[LockPlace, ...]:
    """Remove the lockfiles of the former ids of a tool that was renamed; those that were there."""
    places = chains.left_behind(chains.follow(chains.find(item_id)).verified.root)
    for place in places:
        chains.lockfiles.store.remove(place)
    return places


def _readable(chains: Chains, item_id: str, version: str) -> StoredLock | None:
    """The lockfile that counts so far; None if it is missing or invalid, since it is going to be replaced."""
    try:
        return chains.lockfiles.store.find(item_id, version)
    except RyeError:
        return None


def _verify(item_id: str, chains: Chains) -> Verified:
    try:
        root = chains.find(item_id)
        root_lock = chains.lockfiles.check_root(root)
        if root_lock.stored is None:
            raise _missing(root.item_id, root.version, chains.lockfiles.store.versions(root.item_id))
        pinned = chains.lockfiles.pin(chains.follow(root), root_lock)
    except RyeError as exc:
        return Verified(item_id, exc.code, refusal=exc)
    return Verified(item_id, pinned.lock.state, pinned.lock.path)


def _locked_ids(pattern: str, chains: Chains) -> list[str]:
    """Every tool that matches and has a lockfile, each once."""
    return sorted({place.item_id for place in _selected(chains.lockfiles.store.list(), pattern)})


def _selected(places: Iterable[LockPlace], pattern: str) -> list[LockPlace]:
    if not is_pattern(pattern):
        check_item_id(pattern)
        return [place for place in places if place.item_id == pattern]
    require_pattern(pattern)
    return [place for place in places if matches(pattern, place.item_id)]


def _missing(item_id: str, version: str, others: tuple[str, ...]) -> RyeError:
    found = f"those of {', '.join(others)}" if others else "none"
    return RyeError(
        "lock_missing", f"expected a lockfile of {item_id} {version}, found {found}", item_id=item_id
    )


def _refusal(error: RyeError | None) -> dict[str, Any]:
    if error is None:
        return {}
    return {name: value for name, value in error.as_dict().items() if name not in ("status", "item_id")}
