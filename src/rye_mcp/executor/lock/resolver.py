"""Compares the chain of a tool with its lockfile, and writes lockfiles.

`check_root` compares the root before anything else is read, `pin` compares the whole verified chain,
`create` writes a lockfile after a success, `refresh` moves the pins after signing. The rules are in
`docs/architecture/execution.md`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from lilux._dataclasses import dataclass
from lilux.primitives.lockfile import Lockfile
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainElement, MetadataRole
from rye_mcp.executor.chain.validator import ValidChain
from rye_mcp.executor.lock import pins
from rye_mcp.executor.lock.pins import PACKAGE, Pins
from rye_mcp.executor.lock.store import LockfileStore, LockPlace, StoredLock, comparable
from rye_mcp.items import ItemFile, SpaceName, printable
from rye_mcp.notices import Notice
from rye_mcp.spaces import Spaces
from rye_mcp.trust import signature
from rye_mcp.trust.verify import Trust, verify_item

__all__ = [
    "LockState",
    "LockfileResolver",
    "PinnedChain",
    "RootLock",
    "Signed",
    "older_than",
]

State = Literal["none", "created", "match", "outdated", "refreshed", "off"]


@dataclass(frozen=True, slots=True)
class LockState:
    """The state of a lockfile: missing, created, matching, outdated, or not asked for (off).

    An upgraded package makes it outdated, and it is refreshed. `digest` is the SHA-256 of the compared file.
    """

    state: State
    path: Path | None = None
    digest: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the state as data."""
        path = {} if self.path is None else {"path": printable(self.path)}
        return {"state": self.state, **path}


@dataclass(frozen=True, slots=True)
class RootLock:
    """What is locked for a root that was compared already; nothing, or nothing that was asked for."""

    item_id: str
    stored: StoredLock | None = None
    used: bool = True
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class PinnedChain:
    """A valid chain that equals its lockfile, or has no lockfile."""

    valid: ValidChain
    lock: LockState
    notices: tuple[Notice, ...] = ()

    def as_data(self) -> tuple[Mapping[str, Any], ...]:
        """Each element with where it is, its hash, and who vouches for it."""
        return tuple(
            {
                "item_id": element.item_id,
                "space": element.space.value,
                "path": printable(element.path),
                "version": element.version,
                "integrity": item.digest,
                "signer": item.signer.as_dict(),
                "executor_id": element.executor_id,
            }
            for element, item in self.valid.verified.pairs
        )


@dataclass(frozen=True, slots=True)
class Signed:
    """What was signed just now, and by whom.

    `own` are the ids of the keys that count as the signer's: the one that signed first of all. `path` is the
    file that was signed, below the root of its space; None when it was the tool itself, which brings along
    whatever it brings along. `locks_first` says that a tool without a lockfile gets one.
    """

    own: tuple[str, ...]
    by_person: bool = False
    path: str | None = None
    locks_first: bool = False

    def may_move(self, stored: StoredLock, valid: ValidChain) -> bool:
        """Whether this signature covers everything in which a chain differs from its lockfile."""
        if not self.by_person:
            is_own = stored.pins.elements[0].get("signer") == self.own[0]
            return is_own and pins.only_the_root_differs(stored.pins, Pins.of_chain(valid))
        return pins.only_own_parts_differ(stored.lockfile, valid, frozenset(self.own), self.path)


class LockfileResolver:
    """The lockfiles of one project and one user."""

    def __init__(
        self,
        spaces: Spaces,
        trust: Trust,
        *,
        package_version: str,
        locked: bool = False,
        writes: Callable[[SpaceName], bool] = lambda space: True,
    ) -> None:
        """`writes` says for which tools a successful run writes a lockfile: all, as it was specified."""
        self.store = LockfileStore(spaces, trust)
        self._trust = trust
        self._package_version = package_version
        self._locked = locked
        self._writes = writes

    # --- the two looks, and what is written after a success ---

    def check_root(self, root: ChainElement, *, use_lockfile: bool = True) -> RootLock:
        """What is locked for a root, when the root is what it was then."""
        if not use_lockfile:
            self._require_not_locked_mode(root.item_id)
            return RootLock(root.item_id, used=False)
        self._require_no_older(root)
        stored = self.store.find(root.item_id, root.version)
        if stored is None:
            if self._locked:
                raise _missing(root)
            return RootLock(root.item_id, notices=tuple(self._other_versions(root)))
        found = pins.pins_of_root(root.item_id, root.version, _digest_of(root.file))
        if stored.pins.root != found:
            item = verify_item(root.file, self._trust, role=MetadataRole.of(root.file))
            if root.space is not SpaceName.SYSTEM or not self._is_outdated(stored):
                found = pins.pins_of_root(root.item_id, root.version, item.digest)
                different = pins.differences_of_root(stored.pins, found, root)
                raise pins.mismatch(different, root.item_id, stored.path)
        return RootLock(root.item_id, stored)

    def pin(self, valid: ValidChain, root_lock: RootLock) -> PinnedChain:
        """The chain, when everything about it is as it is locked."""
        root = valid.verified.chain.root
        if root_lock.item_id != root.item_id:
            raise ValueError(f"expected what is locked for {root.item_id}, found {root_lock.item_id}")
        stored = root_lock.stored
        if stored is None:
            state: State = "none" if root_lock.used else "off"
            return PinnedChain(valid, LockState(state), root_lock.notices)
        different = pins.differences(stored.pins, Pins.of_chain(valid))
        if not different:
            return PinnedChain(valid, LockState("match", stored.path, stored.digest), root_lock.notices)
        if self._is_outdated(stored) and pins.only_the_package_differs(stored.pins, valid):
            notice = self._upgrade_notice(root.item_id, stored)
            return PinnedChain(
                valid, LockState("outdated", stored.path, stored.digest), (*root_lock.notices, notice)
            )
        raise pins.mismatch(different, root.item_id, stored.path)

    def create(self, pinned: PinnedChain) -> PinnedChain:
        """Write down what has run, where nothing is written yet or what is there is outdated."""
        state = pinned.lock.state
        if state not in ("none", "outdated") or not self.store.is_writable:
            return pinned
        lockfile = self.create_lockfile(pinned.valid)
        space = pinned.valid.verified.chain.root.space
        try:
            if space is SpaceName.SYSTEM or not self._writes(space):
                return pinned
            path = self.save_lockfile(lockfile, replace=state == "outdated")
            done = LockState("created" if state == "none" else "refreshed", path)
            return PinnedChain(pinned.valid, done, pinned.notices)
        except FileExistsError:
            return self._created_by_another(pinned)
        except RyeError as exc:
            what = f"the lockfile of {lockfile.root.tool_id} could not be written: {exc.message}"
            return PinnedChain(pinned.valid, pinned.lock, (*pinned.notices, Notice("lock_not_saved", what)))

    def refresh(self, valid: ValidChain, signed: Signed) -> Notice | None:
        """Lock a tool as it is now that something of it was signed, where the signer may move the pins.

        An agent may when the project's lockfile has its very key as the signer of the root, and nothing but
        the root's own hash and version has changed. A version that is not locked yet goes on where the newest
        locked one ends, whose lockfile stays. The notice says what became of it.
        """
        root = valid.verified.chain.root
        try:
            return self._older_notice(root) or self._refreshed(valid, signed)
        except RyeError as exc:
            how = _how_to_lock(root.item_id, signed)
            return Notice(exc.code, f"{exc.message}; if {root.item_id} may run as it is now, {how}")

    def _refreshed(self, valid: ValidChain, signed: Signed) -> Notice | None:
        root = valid.verified.chain.root
        stored = None if self._locked else self._to_be_refreshed(root)
        if stored is None:
            return self._lock_first(valid) if signed.locks_first and not self._locked else None
        if pins.is_written_alike(stored.pins, Pins.of_chain(valid)):
            return None
        item_id, version = root.item_id, root.version
        if not signed.may_move(stored, valid):
            if stored.pins.root["version"] != version:
                return None  # that another version is locked is said when it runs
            what = f"{item_id} {version} is locked as something else; if it may run"
            return Notice("lock_mismatch", f"{what}, {_how_to_lock(item_id, signed)}")
        why = "since its pinned signer signed it"
        return self._save(
            valid, Notice("lock_refreshed", f"{item_id} {version} is locked as it is now, {why}")
        )

    def _lock_first(self, valid: ValidChain) -> Notice | None:
        """Lock a tool that is not locked yet in any version, when the project asks for that."""
        root = valid.verified.chain.root
        if root.space is not SpaceName.PROJECT or self.store.versions(root.item_id):
            return None
        what = f"{root.item_id} {root.version} is locked as it is now, as the project asks for it"
        return self._save(valid, Notice("lock_created", what))

    def _save(self, valid: ValidChain, done: Notice) -> Notice:
        try:
            self.save_lockfile(self.create_lockfile(valid))
        except RyeError as exc:
            item_id = valid.verified.chain.root.item_id
            return Notice(
                "lock_not_saved", f"the lockfile of {item_id} could not be refreshed: {exc.message}"
            )
        return done

    def _older_notice(self, root: ChainElement) -> Notice | None:
        """That a later version is locked, where one is."""
        newer = self.store.newer(root.item_id, root.version)
        if not newer:
            return None
        what = f"{root.item_id} is locked in version {newer[0].version}: {root.version} is refused"
        return Notice("lock_mismatch", f"{what}; if it may run: rye lock update {root.item_id}")

    def _to_be_refreshed(self, root: ChainElement) -> StoredLock | None:
        """The project's lockfile of this version, or of the newest one that is locked."""
        others = sorted(self.store.versions(root.item_id), key=comparable, reverse=True)
        for version in (root.version, *others):
            stored = self.store.find(root.item_id, version)
            if stored is not None:
                return stored if stored.space.name is SpaceName.PROJECT else None
        return None

    def _created_by_another(self, pinned: PinnedChain) -> PinnedChain:
        """Somebody else was faster, and theirs counts from now on."""
        root = pinned.valid.verified.chain.root
        stored = self.store.find(root.item_id, root.version)
        if stored is not None and not pins.differences(stored.pins, Pins.of_chain(pinned.valid)):
            return PinnedChain(pinned.valid, LockState("match", stored.path, stored.digest), pinned.notices)
        what = f"{root.item_id} was locked meanwhile, as something else than what has run: rye lock verify"
        return PinnedChain(pinned.valid, pinned.lock, (*pinned.notices, Notice("lock_not_saved", what)))

    # --- the lockfiles themselves ---

    def get_lockfile(self, item_id: str, version: str) -> Lockfile | None:
        """The lockfile that counts for this version of a tool; None without one."""
        stored = self.store.find(item_id, version)
        return None if stored is None else stored.lockfile

    def create_lockfile(self, valid: ValidChain) -> Lockfile:
        """A lockfile that pins this very chain; not written yet."""
        return pins.render(valid, package_version=self._package_version)

    def save_lockfile(self, lockfile: Lockfile, *, replace: bool = True) -> Path:
        """Write a lockfile to the project; FileExistsError for one that is there and may not be replaced."""
        return self.store.write(lockfile, replace=replace)

    # --- when and why ---

    def _require_no_older(self, root: ChainElement) -> None:
        """Refuse a version below one that is locked: a file that was put back is signed as well as ever."""
        if root.space is SpaceName.SYSTEM:
            return  # which package is installed, a person has decided
        newer = self.store.newer(root.item_id, root.version)
        if newer:
            verify_item(root.file, self._trust, role=MetadataRole.of(root.file))
            raise pins.mismatch((older_than(newer[0], root.version),), root.item_id, newer[0].path)

    def _require_not_locked_mode(self, item_id: str) -> None:
        if self._locked:
            what = (
                f"expected the lockfile of {item_id} to be used, as in locked mode, found use_lockfile=False"
            )
            raise RyeError("lock_missing", what, item_id=item_id, hint="leave out use_lockfile")

    def _is_outdated(self, stored: StoredLock) -> bool:
        """Whether an upgrade of this package may be why it differs."""
        return not self._locked and stored.package_version not in (None, self._package_version)

    def _upgrade_notice(self, item_id: str, stored: StoredLock) -> Notice:
        before, now = stored.package_version, self._package_version
        what = (
            f"{item_id} was locked under {PACKAGE} {before}, this is {now}, and nothing but what comes with "
            f"it has changed: rye lock update {item_id} updates the lockfile"
        )
        return Notice("lock_outdated", what)

    def _other_versions(self, root: ChainElement) -> Iterator[Notice]:
        versions = self.store.versions(root.item_id)
        if versions:
            what = f"{root.item_id} is locked in version {', '.join(versions)}; this is {root.version}"
            yield Notice("version_changed", what)


def older_than(newer: LockPlace, version: str) -> pins.Difference:
    """What is different when an older version stands where a newer one is locked."""
    return pins.Difference(newer.item_id, "version", newer.version, version)


def _how_to_lock(item_id: str, signed: Signed) -> str:
    return f"{'run' if signed.by_person else 'ask a person to run'}: rye lock update {item_id}"


def _missing(root: ChainElement) -> RyeError:
    what = f"expected a lockfile of {root.item_id} {root.version}, as locked mode demands, found none"
    return RyeError("lock_missing", what, item_id=root.item_id)


def _digest_of(file: ItemFile) -> str:
    """The hash that the gate would give of a file; whether it passes is another question."""
    if file.space.name is SpaceName.SYSTEM:
        return hashlib.sha256(file.content).hexdigest()
    return signature.locate(file).digest
