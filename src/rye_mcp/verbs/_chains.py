"""The chain of a tool, verified and valid, for verbs that run nothing: they lock it, or look at its lock."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, cached_property

from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import Chain, ChainBuilder, ChainElement
from rye_mcp.executor.chain.validator import ValidChain, require_valid
from rye_mcp.executor.chain.verifier import IntegrityVerifier
from rye_mcp.executor.lock.resolver import LockfileResolver, Signed
from rye_mcp.executor.lock.store import LockPlace
from rye_mcp.items import ItemType, SpaceName
from rye_mcp.notices import Notice
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.verify import VerifiedItem
from rye_mcp.verbs._agreement import relative_of
from rye_mcp.verbs._configuration import asks_for_locks
from rye_mcp.verbs.context import Context, whole_hints

__all__ = ["Chains"]


class Chains:
    """The chains of one context, through the same stages that a run goes through."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._verifier = IntegrityVerifier(context.trust, context.project)
        self._builder = ChainBuilder(context.spaces, self._verifier.require_verified)

    @cached_property
    def lockfiles(self) -> LockfileResolver:
        """The lockfiles of this context."""
        return LockfileResolver(
            self._context.spaces,
            self._context.trust,
            package_version=_package_version(),
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
        """Whose work it is: of a person, that of her agents and of her old keys is hers."""
        by_person = self._context.is_person
        own = (item.signer.key_id or "", *item.signer.before)
        return Signed((*own, *self._key_of_agents()) if by_person else own, by_person)

    def _key_of_agents(self) -> tuple[str, ...]:
        try:
            return (self._context.keys.show(SignerKind.AGENT).key_id,)
        except RyeError:
            return ()


@cache
def _package_version() -> str:
    from importlib.metadata import version

    return version("rye-mcp")
