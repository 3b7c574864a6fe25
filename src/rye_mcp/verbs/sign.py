"""`sign`: check what items say about themselves, and sign them.

A person signs with their own key, an agent with the agents'. Everything is examined first, and every mistake
is reported at once. An item is replaced whole, or stays as it was. docs/architecture/command-line.md has the
rules, and docs/architecture/trust.md those of what an agent may sign.

    sign(SignRequest("demo/*"), context).as_dict()
"""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final, Self

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainElement, MetadataRole
from rye_mcp.executor.chain.skill_scripts import require_persons_tool
from rye_mcp.executor.lock.agreement import widened_by_signing
from rye_mcp.items import ItemFile, ItemPlace, ItemType, SpaceName, printable, relative_path
from rye_mcp.metadata import ItemMetadata, examine, without_values
from rye_mcp.notices import Notice
from rye_mcp.permissions import sentence
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.scope import Signer, SignerKind
from rye_mcp.trust.sign import require_unchanged, sign_item
from rye_mcp.trust.trust_store import Seen
from rye_mcp.trust.verify import VerifiedItem
from rye_mcp.verbs._chains import Chains
from rye_mcp.verbs._dependency_signing import CompanionSigner
from rye_mcp.verbs._selection import Selection, Tracked, is_pattern, select
from rye_mcp.verbs._signing_rights import (
    Agreement,
    SigningPlan,
    digest_of,
    other_signer,
    relative_of,
    require_not_a_persons,
)
from rye_mcp.verbs._signing_warnings import (
    about_calls,
    cannot_run,
    examples_that_do_not_fit,
    in_shell,
    lacks_wishes,
    misspelt_fields,
    named_secrets,
    not_carried,
    to_look_at,
    unknown_keywords_in,
)
from rye_mcp.verbs.context import Context, options_of, whole_hints

__all__ = [
    "BatchResult",
    "SignFailure",
    "SignRequest",
    "SignResult",
    "SigningPlan",
    "lacks_wishes",
    "plan",
    "sign",
]


_TOLD_ALREADY: Final = frozenset({"executor_not_found", "item_not_found"})


@dataclass(frozen=True, slots=True)
class SignRequest:
    """The items to sign: an id, or a pattern such as `demo/*`, in the project or in the user space.

    `companions` are files beside one tool, or below, that are listed with it: by their paths from there.
    `all_beside` names everything that an item rests on. `agreed` are the files of a plan that somebody has
    agreed to; no other is signed then. `exactly` is the item as somebody has looked at it.
    """

    item_id: str
    item_type: ItemType = ItemType.TOOL
    source: SpaceName = SpaceName.PROJECT
    companions: tuple[str, ...] = ()
    agreed: Mapping[str, str] | None = None
    all_beside: bool = False
    exactly: ItemFile | None = None


@dataclass(frozen=True, slots=True)
class SignResult:
    """An item that was signed; what a tool declares that it may do, and what of that is new, in words."""

    item: VerifiedItem
    warnings: tuple[Notice, ...] = ()
    declares: str | None = None
    widened: tuple[str, ...] = ()

    def also(self, *warnings: Notice) -> SignResult:
        """The same, with more warnings."""
        return SignResult(self.item, (*self.warnings, *warnings), self.declares, self.widened)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as data."""
        return {
            "status": "signed",
            "item_id": self.item.file.item_id,
            "path": printable(self.item.file.path),
            "signer": self.item.signer.as_dict(),
            "hash": self.item.digest,
            "timestamp": self.item.timestamp,
            **({} if self.declares is None else {"declares": self.declares, "widened": list(self.widened)}),
            "warnings": [warning.as_dict() for warning in self.warnings],
        }


@dataclass(frozen=True, slots=True)
class SignFailure:
    """An item that was not signed, and why."""

    item_id: str
    error: RyeError

    def as_dict(self) -> dict[str, Any]:
        """Return the failure as data."""
        known = {name: value for name, value in self.error.as_dict().items() if name != "status"}
        return {"item_id": self.item_id, **known}


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result for all selected items; `unchanged` were signed already, as they are."""

    signed: tuple[SignResult, ...]
    failed: tuple[SignFailure, ...]
    unchanged: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """How many items were selected."""
        return len(self.signed) + len(self.failed) + len(self.unchanged)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as data."""
        return {
            "status": "completed",
            "signed": [each.as_dict() for each in self.signed],
            "failed": [each.as_dict() for each in self.failed],
            "unchanged": list(self.unchanged),
            "total": self.total,
        }


def sign(
    request: SignRequest, context: Context, *, tracked: Tracked = lambda places: places
) -> SignResult | BatchResult:
    """Sign one item, or everything that a pattern selects.

    1. the caller may sign there
    2. what is meant is there
    3. there is a key to sign with
    4. each item is looked at, signed, and passes the gate before it is written; what it rests on comes first
    5. its lockfile follows, where the one who signs may move it
    """
    _require_allowed(request, context)
    _require_one_tool(request)
    if is_pattern(request.item_id):
        return _sign_all(request, context, tracked)
    found = context.spaces.find(request.item_id, request.item_type, only=request.source)
    _require_exactly(request, found.item)
    with whole_hints(found.item):
        metadata = _examined(found.item, context)
        signer = _Signer.of(request, context)
        result = signer.with_outlook(signer.sign(found.item, metadata, request.companions))
        return result.also(*cannot_run(found.item, metadata))


def plan(request: SignRequest, context: Context) -> SigningPlan:
    """Plan what to sign, for the person who has to agree to it first; nothing is signed."""
    _require_allowed(request, context)
    _require_one_tool(request)
    key = _public_key(context)
    signer = _Signer(context, key, named=_named(request))
    files: dict[str, str] = {}
    item_ids: list[str] = []
    failing: list[str] = []
    if is_pattern(request.item_id):
        selection = _selected(request, context)
        signer = _Signer(context, key, named=_named(request, selection.places))
        failing += [each.item_id for each in selection.refused]
        for place in selection.places:
            try:
                file = context.spaces.read(place)
                if signer.is_settled(file):
                    continue
                files |= signer.planned(file)
                item_ids.append(place.item_id)
            except RyeError:
                failing.append(place.item_id)
    else:
        found = context.spaces.find(request.item_id, request.item_type, only=request.source)
        _require_exactly(request, found.item)
        files |= signer.planned(found.item, request.companions)
        item_ids.append(found.item.item_id)
    root = context.spaces.space(request.source).root
    return SigningPlan(tuple(item_ids), files, key.public.fingerprint, root, tuple(sorted(failing)))


def _require_allowed(request: SignRequest, context: Context) -> None:
    if request.source is SpaceName.SYSTEM:
        what = "expected an item of the project or the user, found the system space, which is sealed"
        hint = "rye copy ID --to project"
        raise RyeError("out_of_scope", what, item_id=request.item_id, hint=hint)
    if request.source is SpaceName.USER and not context.is_person:
        what = f"expected a person to sign {request.item_id} in the user space, found an agent"
        options = options_of(request.item_type, request.source)
        hint = f"ask a person: rye sign {shlex.quote(request.item_id)}{options}"
        raise RyeError("person_required", what, item_id=request.item_id, hint=hint)


def _require_one_tool(request: SignRequest) -> None:
    """Files are named for one tool: everything else rests on nothing, or it is not clear what does."""
    if request.companions and (is_pattern(request.item_id) or request.item_type is not ItemType.TOOL):
        what = (
            f"expected one tool, which the named files are for, found {request.item_type} {request.item_id}"
        )
        raise RyeError("unknown_argument", what, item_id=request.item_id)


def _sign_all(request: SignRequest, context: Context, tracked: Tracked) -> BatchResult:
    selection = _selected(request, context)
    failed = [SignFailure(each.item_id, each.error) for each in selection.refused]
    signed: list[SignResult] = []
    unchanged: list[str] = []
    signer = _Signer.of(request, context, selection.places)
    for place in tracked(selection.places):
        try:
            file = context.spaces.read(place)
            if signer.is_settled(file):
                unchanged.append(place.item_id)
                continue
            with whole_hints(file):
                signed.append(signer.sign(file, _examined(file, context)))
        except RyeError as exc:
            failed.append(SignFailure(place.item_id, exc))
    # Only now: what runs a tool may have been signed after it.
    foreseen: list[SignResult] = []
    for result in signed:
        try:
            foreseen.append(signer.with_outlook(result))
        except RyeError as exc:
            failed.append(SignFailure(result.item.file.item_id, exc))
    in_order = tuple(sorted(failed, key=lambda failure: failure.item_id))
    return BatchResult(tuple(foreseen), in_order, tuple(unchanged))


def _selected(request: SignRequest, context: Context) -> Selection:
    found = select(context.spaces, request.item_id, names=[request.source], types=[request.item_type])
    if not found.places and not found.refused:
        what = f"expected {request.item_type} ids that match {request.item_id}, found none"
        raise RyeError("item_not_found", f"{what} in the {request.source} space", item_id=request.item_id)
    return found


def _require_exactly(request: SignRequest, file: ItemFile) -> None:
    """Refuse what is not what was looked at; RyeError `content_changed`."""
    if request.exactly is not None and file != request.exactly:
        what = f"expected {file.item_id} as it was looked at, found something else in its place"
        raise RyeError("content_changed", what, where=printable(file.path), item_id=file.item_id)


def _named(request: SignRequest, selected: Iterable[ItemPlace] = ()) -> Container[str] | None:
    """The files that may be signed along, because the signer named them: by a pattern, or all of them."""
    if request.all_beside:
        return None
    return frozenset(relative_path(each.item_type, each.item_id, each.extension) for each in selected)


def _key(context: Context) -> SigningKey:
    """The caller's key; a person is asked for its passphrase."""
    if not context.is_person:
        context.keys.ensure(SignerKind.AGENT)
        return context.keys.load(SignerKind.AGENT)
    try:
        return context.keys.load(SignerKind.PERSON)
    except RyeError as exc:
        if exc.code != "passphrase_required" or context.ask_passphrase is None:
            raise
        return context.keys.load(SignerKind.PERSON, passphrase=context.ask_passphrase())


def _public_key(context: Context) -> SigningKey:
    """The caller's key, which signs nothing here: planning needs no passphrase."""
    if not context.is_person:
        context.keys.ensure(SignerKind.AGENT)
    return SigningKey(context.caller, context.keys.show(context.caller), b"")


def _examined(file: ItemFile, context: Context) -> ItemMetadata:
    """Return the metadata of an item. A file that an agent may not sign is refused before it is read out.

    Nobody knows whose an unsigned file is: an agent is told what is wrong where, and not what stands there.
    """
    require_not_a_persons(file, context)
    try:
        metadata = examine(file)
    except RyeError as exc:
        if context.is_person:
            raise
        raise without_values(exc, file) from None
    if metadata.skill is not None and not context.is_person:
        require_persons_tool(ChainElement(file, metadata), None)
    return metadata


def _files_of(file: ItemFile) -> dict[str, str]:
    """The files of a skill, by their paths in the space, with their hashes."""
    if file.skill is None:
        return {}
    directory = f"{file.item_type.directory}/{file.item_id}"
    return {f"{directory}/{path}": each.digest for path, each in file.skill.files.items()}


class _Signer:
    """Signs with one key, and looks for each executor once."""

    def __init__(
        self,
        context: Context,
        key: SigningKey,
        agreement: Agreement | None = None,
        *,
        named: Container[str] | None = (),
    ) -> None:
        self._context = context
        self._key = key
        self._agreement = agreement
        self._chains = Chains(context)
        self._companions = CompanionSigner(context, key, self._chains, named)
        self._executors: dict[str, Notice | None] = {}

    @classmethod
    def of(cls, request: SignRequest, context: Context, selected: Iterable[ItemPlace] = ()) -> Self:
        """The signer for a request, with the caller's key."""
        agreement = Agreement.of(request.agreed)
        return cls(context, _key(context), agreement, named=_named(request, selected))

    def is_settled(self, file: ItemFile) -> bool:
        """Whether an item is validly signed, with all that it rests on, and needs no other signature."""
        try:
            verified = self._context.verify(file)
            element = ChainElement(file, self._context.metadata(verified))
            if self._context.is_person and self._is_of_a_former_key(verified.signer):
                return False
            return file.item_type is not ItemType.TOOL or self._companions.is_settled(element)
        except RyeError:
            return False

    def _is_of_a_former_key(self, signer: Signer) -> bool:
        """Whether a signature is that of a key which this person has replaced by a new one."""
        own = self._context.trust.store.find_signer(self._key.public.fingerprint, SpaceName.PROJECT, Seen())
        return own is None or signer.key_id in own.before

    def planned(self, file: ItemFile, named: Sequence[str] = ()) -> dict[str, str]:
        """Return the files that signing an item would cover; RyeError for an item that would be refused."""
        with whole_hints(file):
            metadata = _examined(file, self._context)
            is_tool = file.item_type is ItemType.TOOL
            along = (
                self._companions.planned(ChainElement(file, metadata), named) if is_tool else _files_of(file)
            )
            return {**along, relative_of(file): digest_of(file)}

    def sign(self, file: ItemFile, metadata: ItemMetadata, named: Sequence[str] = ()) -> SignResult:
        """Sign an item that was examined, and what it rests on first."""
        agreement = self._agreement
        if agreement is not None:
            agreement.require(file.item_id, [(relative_of(file), digest_of(file))])
        element = ChainElement(file, metadata)
        is_tool = file.item_type is ItemType.TOOL
        along = self._companions.sign(element, named, agreement) if is_tool else []
        verified = sign_item(file, self._key, self._context.trust, role=MetadataRole.of(file))
        if agreement is not None:
            agreement.signed(verified.file)
        warnings = [
            other_signer(file, self._key, self._context),
            self._missing_executor(file, metadata),
            *along,
        ]
        if is_tool:
            self._companions.list_again(element, verified)
            warnings += examples_that_do_not_fit(file, metadata)
            warnings += about_calls(file, metadata, self._context)
        # The signature has moved the lines: those of the file as it is now are told.
        warnings += misspelt_fields(verified.file)
        warnings += unknown_keywords_in(metadata)
        if self._context.is_person:
            warnings += named_secrets(file, metadata)
            warnings += to_look_at(file)
        found = tuple(warning for warning in warnings if warning is not None)
        added = widened_by_signing(verified, metadata, self._context.trust)
        declared = metadata.permissions if metadata.is_run else None
        return SignResult(verified, found, None if declared is None else sentence(declared), added)

    def with_outlook(self, result: SignResult) -> SignResult:
        """The same, with what will become of a tool when it runs; once all that it rests on is signed.

        RyeError `content_changed` when something else has taken the item's place before its lockfile stood.
        """
        file = result.item.file
        outlook: list[Notice | None] = []
        if file.item_type is ItemType.TOOL:
            outlook = self._outlook(ChainElement(file, self._context.metadata(result.item)), result.item)
        elif file.item_type is ItemType.SKILL:
            outlook = [self._chains.refresh_skill(result.item)]
        require_unchanged(file)
        return result.also(*filter(None, outlook))

    def _outlook(self, root: ChainElement, item: VerifiedItem) -> list[Notice | None]:
        """Warn of the consequences for the tool, and for those that rest on it: lockfiles, files, command."""
        others = self._chains.refresh_others(item)
        if root.metadata.is_library or root.metadata.is_runtime or root.metadata.is_primitive:
            return [*others]
        try:
            valid = self._chains.follow(root)
        except RyeError as exc:
            known = exc.code in _TOLD_ALREADY
            refusal = None if known else Notice(exc.code, f"{root.item_id} would be refused: {exc.message}")
            return [*others, refusal]
        refreshed = self._chains.refresh(valid, item)
        return [
            *others,
            refreshed,
            self._chains.left_behind_notice(item),
            *not_carried(root, valid.verified.carried),
            *in_shell(valid.verified.chain),
        ]

    def _missing_executor(self, file: ItemFile, metadata: ItemMetadata) -> Notice | None:
        executor_id = metadata.executor_id
        if executor_id is None:
            return None
        if executor_id not in self._executors:
            self._executors[executor_id] = self._look_for(executor_id, file.space.name)
        return self._executors[executor_id]

    def _look_for(self, executor_id: str, seen_from: SpaceName) -> Notice | None:
        try:
            self._context.spaces.find_executor(executor_id, seen_from=seen_from)
        except RyeError as exc:
            code = "executor_not_found" if exc.code == "item_not_found" else exc.code
            return Notice(code, f"the executor {executor_id}: {exc.message}")
        return None
