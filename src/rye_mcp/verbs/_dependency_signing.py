"""Signs what an item rests on, before the item itself.

What can carry a signature gets one, everything else is listed in `deps.manifest.yaml`; only what the signer
named or vouched for before. Everything is looked at before anything is written. The rules are in
docs/architecture/trust.md.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.anchor import directory_of
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.items import DEPENDENCY_MANIFEST_NAME, MAX_ITEM_BYTES, ItemFile, SpaceName, printable
from rye_mcp.metadata import examine
from rye_mcp.notices import Notice
from rye_mcp.spaces.source_tree import SourceTree
from rye_mcp.trust.dependency_manifest import MAX_LISTED_BYTES, manifest_file, render_listing, verify_manifest
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.scope import Signer, SignerKind
from rye_mcp.trust.sign import sign_item, sign_listing
from rye_mcp.trust.signature import require_honest_text
from rye_mcp.trust.trust_store import Seen
from rye_mcp.trust.verify import VerifiedItem, verify_item
from rye_mcp.verbs._chains import Chains, Dependencies, dependencies_of
from rye_mcp.verbs._signing_rights import (
    Agreement,
    digest_of,
    item_at,
    other_signer,
    relative_of,
    require_may_be_listed,
    require_not_a_persons,
    signed_by_another,
)
from rye_mcp.verbs.context import Context, options_of

__all__ = ["CompanionSigner"]

MAX_SIGNED_ALONG: Final = 8
"""How many files get a signature each; to check it takes about as long as all else that is done for one."""

_ANY_DIGEST: Final = "0" * 64
_SHOWN: Final = 20
"""How many files a warning names."""


@dataclass(slots=True)
class _Listing:
    """The listing of a directory: what was there, and what it is going to be.

    `signed_by` is the id of the key of a good one.
    """

    directory: str
    before: bytes | None
    good: Mapping[str, str] | None
    by_old_key: bool = False
    signed_by: str | None = None
    files: dict[str, str] = field(default_factory=dict)

    @property
    def known(self) -> Mapping[str, str]:
        """The files that it listed, when it was good."""
        return self.good or {}

    @property
    def is_changed(self) -> bool:
        """Whether it has to be written. An invalid listing would refuse the run, whatever it lists."""
        if self.good is None:
            return self.before is not None or bool(self.files)
        return self.by_old_key or dict(self.good) != self.files


class CompanionSigner:
    """Signs, with one key, what items rest on."""

    def __init__(
        self, context: Context, key: SigningKey, chains: Chains, named: Container[str] | None = ()
    ) -> None:
        """`named` are paths below the space that may be signed along; None for whatever an item rests on."""
        self._context = context
        self._key = key
        self._chains = chains
        self._named = named

    def is_settled(self, element: ChainElement) -> bool:
        """Whether there is nothing to sign or to list; RyeError for what cannot be."""
        with SourceTree(element.file.space.root) as tree:
            return self._looked(element, (), tree).is_settled

    def planned(self, element: ChainElement, named: Sequence[str]) -> dict[str, str]:
        """Return the files that signing would cover: path below the space → SHA256; writes nothing."""
        with SourceTree(element.file.space.root) as tree:
            return dict(self._looked(element, named, tree).planned())

    def sign(
        self, element: ChainElement, named: Sequence[str], agreement: Agreement | None = None
    ) -> list[Notice]:
        """Sign and list what an item rests on, which is not signed itself yet; warnings."""
        with SourceTree(element.file.space.root) as tree:
            task = self._looked(element, named, tree)
            if agreement is not None:
                agreement.require(element.item_id, task.planned())
            task.sign_files(agreement)
            task.write_listings()
            return task.warnings()

    def _looked(self, element: ChainElement, named: Sequence[str], tree: SourceTree) -> _Task:
        task = _Task(
            self._context,
            self._key,
            element,
            tree,
            dependencies_of(element, tree, self._chains, self._context.project),
            self._named,
        )
        for name in named:
            task.list_named(name)
        task.look()
        return task

    def list_again(self, element: ChainElement, verified: VerifiedItem) -> None:
        """List a file as it is now that it was signed, where its directory lists it."""
        directory = directory_of(element)
        relative = element.path.relative_to(element.file.space.root).as_posix()
        with SourceTree(element.file.space.root) as tree:
            task = _Task(self._context, self._key, element, tree, Dependencies(verified.role, (directory,)))
            task.list_as(relative, hashlib.sha256(verified.file.content).hexdigest())


class _Task:
    """The work for one item."""

    def __init__(
        self,
        context: Context,
        key: SigningKey,
        element: ChainElement,
        tree: SourceTree,
        needs: Dependencies,
        named: Container[str] | None = (),
    ) -> None:
        self._context = context
        self._key = key
        self._element = element
        self._tree = tree
        self._needs = needs
        self._old_keys = _old_keys(context, key)
        self._own_keys = frozenset({key.public.key_id, *self._old_keys})
        self._own = element.path.relative_to(element.file.space.root).as_posix()
        self._listings = [self._read_listing(directory) for directory in needs.directories]
        self._to_sign: list[ItemFile] = []
        self._signed: list[str] = []
        self._listed: list[str] = []
        self._gone: list[str] = []
        self._others: list[Notice] = []
        self._named = named
        self._by_name: set[str] = set()
        self._not_named: list[str] = []

    def look(self) -> None:
        """Find what has to be signed, and refuse what cannot be, before anything is."""
        require_honest_text(self._element.file)
        for name in self._needs.asked_for:
            if not name.is_regular:
                raise self._refusal(self._tree.unsafe(name), name.relative)
            if name.relative != self._own:
                self._look_at(name.relative)
        if len(self._to_sign) > MAX_SIGNED_ALONG:
            for file in self._to_sign:
                self._list(relative_of(file))
            self._to_sign.clear()
        for listing in self._listings:
            for path in sorted(listing.known.keys() - listing.files.keys()):
                self._list_again(listing, path)
        self._look_at_markers()
        for listing in self._listings:
            self._look_at_listing(listing)
        self._require_named()

    @property
    def is_settled(self) -> bool:
        """Whether nothing is to be done."""
        return not self._to_sign and not any(listing.is_changed for listing in self._listings)

    def planned(self) -> Iterator[tuple[str, str]]:
        """Each file that is vouched for from now on, and was not as it is: its path, its SHA256."""
        for file in self._to_sign:
            yield relative_of(file), digest_of(file)
        for listing in self._listings:
            for path, digest in listing.files.items():
                if listing.known.get(path) != digest:
                    yield f"{listing.directory}/{path}", digest

    def sign_files(self, agreement: Agreement | None) -> None:
        """Give each file that can carry one its signature."""
        for file in self._to_sign:
            relative = relative_of(file)
            try:
                verified = sign_item(file, self._key, self._context.trust, role=self._needs.role)
            except RyeError as exc:
                raise self._refusal(exc, relative) from exc
            if agreement is not None:
                agreement.signed(verified.file)
            self._signed.append(relative)
            self._note_other_signer(file)

    def list_named(self, name: str) -> None:
        """List a file that the signer has named, by its path from the item."""
        relative = posixpath.normpath(posixpath.join(directory_of(self._element), name))
        elsewhere = posixpath.isabs(name) or "\0" in name or not any(self._places(relative))
        if elsewhere or relative == self._own:
            what = f"expected a file beside {self._element.item_id}, or below, found {printable(name)!r}"
            raise RyeError("unsafe_path", what, where=printable(name), hint="put it beside the tool")
        render_listing({path: _ANY_DIGEST for _, path in self._places(relative)})
        self._by_name.add(relative)
        self._list(relative)

    def write_listings(self) -> None:
        """Write what differs from what was listed before."""
        for listing in self._listings:
            if listing.is_changed:
                self._write(listing)

    def list_as(self, relative: str, digest: str) -> None:
        """Change the one line of a file in a good listing that has it."""
        for listing, path in self._places(relative):
            if listing.known.get(path, digest) != digest:
                listing.files = {**listing.known, path: digest}
                self._write(listing)

    def warnings(self) -> list[Notice]:
        """Everything that the caller should know about this."""
        done = [
            Notice(code, f"{what}: {_shown(paths)}")
            for code, what, paths in (
                ("signed_along", f"signed along with {self._element.item_id}", self._signed),
                ("listed", f"listed as they are now, in {DEPENDENCY_MANIFEST_NAME}", self._listed),
                ("listed_no_more", f"not listed any more in {DEPENDENCY_MANIFEST_NAME}", self._gone),
            )
            if paths
        ]
        return [*self._others, *done]

    # --- files ---

    def _require_allowed(self, file: ItemFile) -> None:
        require_not_a_persons(file, self._context, asked_for=self._element.file)

    def _is_listed_in(self, listing: _Listing) -> bool:
        """Whether signing the item itself changes the listing."""
        return any(each is listing and path in listing.known for each, path in self._places(self._own))

    def _look_at(self, relative: str) -> None:
        file = self._as_item(relative)
        listed = self._is_listed(relative)
        if file is not None and not listed and self._is_authentic(file):
            return
        self._note_unless_hers(relative, file)
        if file is None or listed or signed_by_another(file, self._context, self._own_keys):
            self._list(relative)
            return
        try:
            self._require_allowed(file)
            require_honest_text(file)
        except RyeError as exc:
            raise self._refusal(exc, relative) from exc
        self._to_sign.append(file)

    def _look_at_markers(self) -> None:
        """Name a marker that nobody vouches for, where no chain asks for it and it widens what is signed."""
        markers = self._needs.markers
        if self.is_settled or {name.relative for name in self._needs.asked_for}.intersection(markers):
            return
        if not any(self._is_listed(each) or self._is_signed(each) for each in markers):
            for each in markers:
                self._note_unless_hers(each, None)
                self._list(each)

    def _look_at_listing(self, listing: _Listing) -> None:
        if not listing.is_changed and not self._is_listed_in(listing):
            return
        for path in listing.files:
            self._require_may_be_listed(f"{listing.directory}/{path}")
        content = listing.before or render_listing(listing.files)
        file = manifest_file(self._element.file.space, listing.directory, content)
        self._require_allowed(file)
        if self._named is not None and signed_by_another(file, self._context, self._own_keys):
            self._not_named.append(relative_of(file))

    # --- what the signer named, or vouched for before ---

    def _note_unless_hers(self, relative: str, file: ItemFile | None) -> None:
        if not self._is_hers(relative, file):
            self._not_named.append(relative)

    def _is_hers(self, relative: str, file: ItemFile | None) -> bool:
        if self._named is None or relative in self._named or relative in self._by_name:
            return True
        for listing, path in self._places(relative):
            if path in listing.known:
                return listing.signed_by in self._own_keys or listing.known[path] == self._digest(relative)
        if file is None or signed_by_another(file, self._context, self._own_keys):
            return False
        return self._context.trust.was_signed_with(file, self._own_keys)

    def _require_named(self) -> None:
        if not self._not_named:
            return
        item_id, found = self._element.item_id, tuple(dict.fromkeys(self._not_named))
        what = (
            f"expected what {item_id} rests on to be named, or signed by you before, "
            f"found {len(found)} that would be signed or listed along: {_shown(found)}"
        )
        file = self._element.file
        command = f"rye sign {item_id}{options_of(file.item_type, file.space.name)}"
        hint = f"look at them; then {command} --with FILE for each, or --all-beside for all of them"
        if not self._context.is_person:
            hint = "read them, and name those that it needs in with"
        files = [printable(each) for each in found]
        raise RyeError("not_named", what, item_id=item_id, hint=hint, files=files)

    # --- items ---

    def _as_item(self, relative: str) -> ItemFile | None:
        """The file as an item; None if it isn't an item or declares an impossible type."""
        try:
            found = self._tree.read(relative, limit=MAX_ITEM_BYTES)
        except RyeError:
            return None
        file = None if found is None else item_at(self._element.file.space, relative, found.content)
        return file if file is not None and (self._is_authentic(file) or _is_sound(file)) else None

    def _is_listed(self, relative: str) -> bool:
        return any(path in {**listing.known, **listing.files} for listing, path in self._places(relative))

    def _is_signed(self, relative: str) -> bool:
        file = self._as_item(relative)
        return file is not None and self._is_authentic(file)

    def _is_authentic(self, file: ItemFile) -> bool:
        try:
            signer = verify_item(file, self._context.trust, role=self._needs.role).signer
            return self._may_rest_on(signer) and signer.key_id not in self._old_keys
        except RyeError:
            return False

    def _may_rest_on(self, signer: Signer) -> bool:
        """Tell whether the signer may rest on it: a person's item rests on nothing that an agent signed."""
        return self._key.kind is not SignerKind.PERSON or signer.kind is not SignerKind.AGENT

    # --- listings ---

    def _list(self, relative: str) -> None:
        digest = self._digest(relative)
        if digest is None:
            shown = printable(self._element.file.space.root / relative)
            what = f"expected a file to be listed with {self._element.item_id}, found none: {shown}"
            raise RyeError("read_failed", what, where=shown, item_id=self._element.item_id)
        places = list(self._places(relative))
        listing, path = next((each for each in places if each[1] in each[0].known), places[0])
        listing.files[path] = digest
        if listing.known.get(path) != digest and relative not in self._listed:
            self._listed.append(relative)

    def _list_again(self, listing: _Listing, path: str) -> None:
        relative = f"{listing.directory}/{path}"
        known = listing.known[path]
        digest = known if relative == self._own else self._digest(relative)
        if digest is None:
            self._gone.append(relative)
            return
        listing.files[path] = digest
        if digest != known:
            self._note_unless_hers(relative, None)
            self._listed.append(relative)

    def _digest(self, relative: str) -> str | None:
        """The SHA256 of a file that may be listed; None when it is gone."""
        try:
            found = self._tree.read(relative, limit=MAX_LISTED_BYTES)
        except RyeError as exc:
            raise self._refusal(exc, relative) from exc
        return None if found is None else hashlib.sha256(found.content).hexdigest()

    def _require_may_be_listed(self, relative: str) -> None:
        """No agent lists what is a person's, whatever else is in it; the item itself is signed for itself."""
        if self._context.is_person or relative == self._own:
            return
        try:
            found = self._tree.read(relative, limit=MAX_LISTED_BYTES)
            content = b"" if found is None else found.content
            require_may_be_listed(relative, content, self._context, asked_for=self._element.file)
        except RyeError as exc:
            raise self._refusal(exc, relative) from exc

    def _places(self, relative: str) -> Iterator[tuple[_Listing, str]]:
        """The listings that a file can stand in, and its path there."""
        for listing in self._listings:
            if relative.startswith(f"{listing.directory}/"):
                yield listing, relative.removeprefix(f"{listing.directory}/")

    def _read_listing(self, directory: str) -> _Listing:
        found = self._tree.read(f"{directory}/{DEPENDENCY_MANIFEST_NAME}", limit=MAX_ITEM_BYTES)
        if found is None:
            return _Listing(directory, None, None)
        file = manifest_file(self._element.file.space, directory, found.content)
        try:
            manifest = verify_manifest(file, self._context.trust, role=self._needs.role)
        except RyeError:
            return _Listing(directory, found.content, None)
        good = manifest.files if self._may_rest_on(manifest.signer) else None
        by_old_key = manifest.signer.key_id in self._old_keys
        return _Listing(directory, found.content, good, by_old_key, manifest.signer.key_id)

    def _write(self, listing: _Listing) -> None:
        space = self._element.file.space
        if listing.before is not None:
            before = manifest_file(space, listing.directory, listing.before)
            self._note_other_signer(before)
            if listing.good is None:
                what = f"{printable(before.path)} was invalid: files that only it listed are no longer listed"
                self._others.append(Notice("listing_replaced", what))
        file = manifest_file(space, listing.directory, render_listing(listing.files))
        sign_listing(file, self._key, self._context.trust, role=self._needs.role, before=listing.before)

    # --- what is told ---

    def _note_other_signer(self, file: ItemFile) -> None:
        notice = other_signer(file, self._key, self._context)
        if notice is not None:
            self._others.append(notice)

    def _refusal(self, error: RyeError, relative: str) -> RyeError:
        """The same refusal, which says what rests on the file."""
        what = f"{self._element.item_id} rests on {printable(relative)}: {error.message}"
        details = {**error.details, "item_id": self._element.item_id, "dependency": relative}
        return RyeError(error.code, what, where=error.where, hint=error.hint, **details)


def _old_keys(context: Context, key: SigningKey) -> tuple[str, ...]:
    """The ids of the keys that the signer had before this one."""
    found = context.trust.store.find_signer(key.public.fingerprint, SpaceName.PROJECT, Seen())
    return () if found is None else found.before


def _is_sound(file: ItemFile) -> bool:
    """Whether what a file says about itself can be signed as an item."""
    try:
        examine(file)
    except RyeError:
        return False
    return True


def _shown(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(map(printable, paths[:_SHOWN])) + more
