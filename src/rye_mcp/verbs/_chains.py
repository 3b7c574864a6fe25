"""The chains of tools for verbs that run nothing: followed, compared with locks, and what tools rest on.

A chain goes through the same stages as in a run, so a verb and a run never disagree about it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp import package_version
from rye_mcp.configuration import asks_for_locks
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.anchor import anchor_of, directory_of, markers_of
from rye_mcp.executor.chain.builder import Chain, ChainBuilder, ChainElement, Finder, MetadataRole
from rye_mcp.executor.chain.validator import ValidChain, require_valid
from rye_mcp.executor.chain.verifier import IntegrityVerifier
from rye_mcp.executor.chain.verify_deps import DependencyRules, directory_asked_for, names_asked_for, rules_of
from rye_mcp.executor.lock.resolver import LockfileResolver, Signed
from rye_mcp.executor.lock.skills import SkillLocks
from rye_mcp.executor.lock.store import LockPlace
from rye_mcp.items import ItemFile, ItemType, SpaceName
from rye_mcp.metadata import ItemMetadata
from rye_mcp.notices import Notice
from rye_mcp.spaces import Found, Spaces
from rye_mcp.spaces.source_tree import SourceName, SourceTree
from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.trust.verify import VerifiedItem
from rye_mcp.verbs._signing_rights import relative_of
from rye_mcp.verbs.context import Context, whole_hints

__all__ = [
    "Chains",
    "Dependencies",
    "Executors",
    "FoundOnce",
    "LockState",
    "LockStates",
    "Runners",
    "dependencies_of",
]


class FoundOnce:
    """Finds each executor once, for one call of a verb that looks at many tools."""

    def __init__(self, spaces: Spaces) -> None:
        self._spaces = spaces
        self._found: dict[tuple[str, SpaceName | None], Found] = {}

    def find(self, item_id: str) -> Found:
        """The item with this id, read."""
        return self._spaces.find(item_id)

    def find_executor(self, name: str, *, seen_from: SpaceName | None = None) -> Found:
        """The executor of this name, as it was when it was asked for first."""
        key = (name, seen_from)
        if key not in self._found:
            self._found[key] = self._spaces.find_executor(name, seen_from=seen_from)
        return self._found[key]


class Chains:
    """The chains of one context, through the same stages that a run goes through."""

    def __init__(self, context: Context, finder: Finder | None = None) -> None:
        self._context = context
        self._verifier = IntegrityVerifier(context.trust, context.project)
        self._builder = ChainBuilder(finder or context.spaces, self._verifier.require_verified)

    @cached_property
    def lockfiles(self) -> LockfileResolver:
        """The lockfiles of this context."""
        return LockfileResolver(
            self._context.spaces,
            self._context.trust,
            package_version=package_version(),
            locked=self._context.locked,
        )

    def find(self, item_id: str) -> ChainElement:
        """The root of a chain, as it is now."""
        return self._builder.find(item_id)

    def behind(self, root: ChainElement) -> Chain | None:
        """The chain of a root that is not verified, when everything behind it is; None for all others."""
        try:
            chain = self._builder.follow(root)
            for element in chain.elements[1:]:
                self._verifier.require_verified(element.file)
        except RyeError:
            return None
        return chain

    def follow(self, root: ChainElement) -> ValidChain:
        """The whole chain of a root; RyeError when it is not one that may run."""
        with whole_hints(root.file):
            return require_valid(self._verifier.verify_chain(self._builder.follow(root)))

    def refresh(self, valid: ValidChain, item: VerifiedItem) -> Notice | None:
        """Let the lockfile of a tool follow that was signed just now, where the signer may move it."""
        signed = self._signed(item)
        if signed.by_person:
            try:
                signed = replace(signed, locks_first=asks_for_locks(self._context))
            except RyeError as exc:
                return self.lockfiles.refresh(valid, signed) or Notice("lock_not_saved", exc.message)
        return self.lockfiles.refresh(valid, signed)

    def refresh_skill(self, item: VerifiedItem) -> Notice | None:
        """The same for a skill: only its owner moves its pins."""
        name = item.file.item_id
        if item.file.space.name is not SpaceName.PROJECT or self._context.locked:
            return None
        locks, signed = SkillLocks(self._context.spaces), self._signed(item)
        try:
            stored = locks.find(name)
            if stored is None and not (signed.by_person and asks_for_locks(self._context)):
                return None
            if stored is not None and stored.pins.elements[0].get("signer") not in signed.own:
                locks.require(item)
                return None
            self.lock_skill(item)
        except RyeError as exc:
            return Notice(exc.code, f"{exc.message}; if it may be used: {exc.hint}")
        return Notice(
            "lock_created" if stored is None else "lock_refreshed", f"{name} is locked as it is now"
        )

    def lock_skill(self, item: VerifiedItem) -> Path:
        """Lock a skill of the project as it is."""
        return SkillLocks(self._context.spaces).write(item, package_version=package_version())

    def refresh_others(self, item: VerifiedItem) -> list[Notice]:
        """Let the lockfiles follow of the tools that rest on what a person signed just now."""
        signed = replace(self._signed(item), path=relative_of(item.file))
        if not signed.by_person or item.file.space.name is not SpaceName.PROJECT:
            return []
        return [
            notice
            for place in self.lockfiles.store.list()
            if place.space.name is SpaceName.PROJECT and place.item_id != item.file.item_id
            if (notice := self._refresh_other(place, item, signed)) is not None
        ]

    def _refresh_other(self, place: LockPlace, item: VerifiedItem, signed: Signed) -> Notice | None:
        try:
            stored = self.lockfiles.store.read(place).pins
            is_element = item.file.item_id in (element["item_id"] for element in stored.elements)
            if not is_element and signed.path not in (stored.dependencies or {}):
                return None
            root = self.find(place.item_id)
            if root.version != place.version:
                return None
            return self.lockfiles.refresh(self.follow(root), signed)
        except RyeError:
            return None  # what is wrong with it is said when it runs

    @cached_property
    def _of_gone(self) -> tuple[LockPlace, ...]:
        """The project's lockfiles of tools that are in no space any more."""
        return tuple(
            place
            for place in self.lockfiles.store.list()
            if place.space.name is SpaceName.PROJECT and self._is_gone(place.item_id)
        )

    def _is_gone(self, item_id: str) -> bool:
        try:
            self._context.spaces.find(item_id, ItemType.TOOL)
        except RyeError as exc:
            return exc.code == "item_not_found"
        return False

    def left_behind(self, item: VerifiedItem) -> tuple[LockPlace, ...]:
        """The lockfiles of tools that are gone and had this content: it was renamed, most likely."""
        return tuple(place for place in self._of_gone if self._pins_content(place, item.digest))

    def _pins_content(self, place: LockPlace, digest: str) -> bool:
        try:
            return self.lockfiles.store.read(place).pins.root["integrity"] == digest
        except RyeError:
            return False

    def left_behind_notice(self, item: VerifiedItem) -> Notice | None:
        """That a renamed tool is still locked under its former id; for a person, who may change that."""
        places = self.left_behind(item) if self._context.is_person else ()
        if not places:
            return None
        former, now = places[0].item_id, item.file.item_id
        what = f"{former} is gone but still locked, and {now} has its content"
        return Notice("lock_left_behind", f"{what}: rye lock update {now} removes that lockfile")

    def _signed(self, item: VerifiedItem) -> Signed:
        """Return the owner of an item: work of a person's agents and of her old keys counts as hers."""
        by_person = self._context.is_person
        own = (item.signer.key_id or "", *item.signer.before)
        return Signed((*own, *self._key_of_agents()) if by_person else own, by_person)

    def _key_of_agents(self) -> tuple[str, ...]:
        try:
            return (self._context.keys.show(SignerKind.AGENT).key_id,)
        except RyeError:
            return ()


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The files that have to be authentic, with their roles; directories whose listings count, nearest first.

    `markers` are the files that make the directory of the tool its anchor.
    """

    role: Role
    directories: tuple[str, ...]
    asked_for: tuple[SourceName, ...] = ()
    markers: tuple[str, ...] = ()


def dependencies_of(
    element: ChainElement, tree: SourceTree, chains: Chains, project: Path | None
) -> Dependencies:
    """Return the files that an item rests on."""
    own = directory_of(element)
    role = MetadataRole.of(element.file)(element.file.content)
    if element.metadata.is_runtime:
        library = (element.metadata.anchor or {}).get("lib")
        below = f"{own}/{library.rstrip('/')}" if isinstance(library, str) else None
        return Dependencies(role, (own,), tuple(names_asked_for(tree, DependencyRules(), below)))
    chain = chains.behind(element)
    if chain is None:
        return Dependencies(role, (own,))
    anchor, rules = anchor_of(chain, project), rules_of(chain)
    directories = [own]
    if anchor is not None and anchor.relative not in (None, own):
        directories.append(str(anchor.relative))
    asked_for = names_asked_for(tree, rules, directory_asked_for(element, anchor, rules))
    return Dependencies(role, tuple(directories), tuple(asked_for), markers_of(chain, tree))


MISSING: Final = "missing"

_WORDS: Final = {"match": "matches", "outdated": "outdated", "none": "none"}
_REFUSALS: Final = {
    "lock_mismatch": "differs",
    "lock_missing": MISSING,
    "malformed_lockfile": "malformed",
}


@dataclass(frozen=True, slots=True)
class LockState:
    """How a tool stands to its lockfile, None where it has no use for one; and why it would not run."""

    state: str | None = None
    obstacle: RyeError | None = None


class LockStates:
    """Looks at the tools of one context, as a run would up to its parameters; nothing runs."""

    def __init__(self, context: Context) -> None:
        self._chains = Chains(context)
        self._asks = asks_for_locks(context)
        self._locked = {place.item_id for place in self._chains.lockfiles.store.list()}
        self._locked_skills = {place.item_id for place in SkillLocks(context.spaces).list()}

    def of(self, file: ItemFile, metadata: ItemMetadata) -> LockState:
        """Return the state of a verified item's lock. In the package, only locked items are looked at."""
        if file.item_type is ItemType.SKILL:
            return LockState(self._of_skill(file))
        is_packaged = file.space.name is SpaceName.SYSTEM and file.item_id not in self._locked
        if file.item_type is not ItemType.TOOL or is_packaged or _is_part(metadata):
            return LockState()
        root = ChainElement(file, metadata)
        lockfiles = self._chains.lockfiles
        try:
            root_lock = lockfiles.check_root(root)
            state = lockfiles.pin(self._chains.follow(root), root_lock).lock.state
        except RyeError as exc:
            return LockState(_REFUSALS.get(exc.code), exc)
        is_asked_for = self._asks and file.space.name is SpaceName.PROJECT
        return LockState(MISSING if state == "none" and is_asked_for else _WORDS[state])

    def _of_skill(self, file: ItemFile) -> str | None:
        """How a skill stands to its lockfile, which it was compared with when it was verified."""
        if file.space.name is not SpaceName.PROJECT:
            return None
        return _WORDS["match"] if file.item_id in self._locked_skills else MISSING if self._asks else None


def _is_part(metadata: ItemMetadata) -> bool:
    """Whether nobody runs an item by itself."""
    return metadata.is_library or metadata.is_runtime or metadata.is_primitive


@dataclass(frozen=True, slots=True)
class Executors:
    """The elements that run a tool, each with the answer of the gate."""

    pairs: tuple[tuple[ChainElement, VerifiedItem], ...] = ()


class Runners:
    """Finds the executors of tools; kept for one call of a verb only."""

    def __init__(self, context: Context) -> None:
        self._verify = context.verify
        self._builder = ChainBuilder(context.spaces, context.verify)
        self._known: dict[tuple[str | None, SpaceName], RyeError | Executors] = {}

    def why_not(self, file: ItemFile, metadata: ItemMetadata) -> RyeError | None:
        """Why nothing would run a verified tool; None when its chain is there and passes."""
        found = self.executors(file, metadata)
        return found if isinstance(found, RyeError) else None

    def executors(self, file: ItemFile, metadata: ItemMetadata) -> Executors | RyeError:
        """Return the executors of a verified tool, or the error that keeps it from running."""
        key = (metadata.executor_id, file.space.name)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._follow(ChainElement(file, metadata))
            return known
        if not isinstance(known, RyeError):
            return known
        return RyeError(known.code, f"{file.item_id} has the same executor: {known.message}", hint=known.hint)

    def _follow(self, root: ChainElement) -> Executors | RyeError:
        try:
            elements = self._builder.follow(root).elements[1:]
            return Executors(tuple((element, self._verify(element.file)) for element in elements))
        except RyeError as exc:
            return exc
