"""`sign`: check what items say about themselves, and sign them.

Rules:

- A person signs with their own key, an agent with the agents'; who asks decides, not the request. An agent's
  pair is made when it is needed first, a person's never here (`rye init`, `rye keys generate`).
- Only items of the project are signed by an agent; those of the user need a person. So does what carries the
  signature of somebody whom the user does not trust: no agent makes a stranger's file the user's own.
- What is signed was looked at first: all of its metadata, its schemas, and the syntax of its code. All that
  is wrong is reported at once, with lines. Nothing is signed that the gate would refuse afterwards.
- An executor that cannot be found is a warning: it may come later. So is a signature of somebody else that is
  replaced: from now on it is the new signer who vouches for the item.
- A pattern signs everything that matches, one after the other: what fails is reported, and stops nothing.
- What a tool rests on is signed or listed before it: see `rye_mcp.verbs._companions`. What its code names and
  will not be there when it runs is a warning, and so are text of a caller inside of a shell's command, and
  examples that its own schema refuses.
- What is no field is signed as it stands; a name that is nearly one is a warning.
- Who signs one script by its id wants to run it: that it names no executor is a warning. A pattern meets
  libraries too.
- The lockfile of a tool follows when the pinned signer has signed it and nothing else has changed.
- An item is replaced whole, or stays as it was.
- What somebody has agreed to (`plan`) is signed as it was then, or not at all.

    sign(SignRequest("demo/*"), context).as_dict()
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rye_mcp.errors import RyeError
from rye_mcp.executor.chain import ChainElement
from rye_mcp.executor.roles import MetadataRole
from rye_mcp.items import ItemFile, ItemType, SpaceName, printable
from rye_mcp.metadata import ItemMetadata, examine
from rye_mcp.notices import Notice
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.sign import sign_item
from rye_mcp.trust.verify import VerifiedItem
from rye_mcp.verbs._agreement import Agreement, SigningPlan, digest_of, relative_of
from rye_mcp.verbs._chains import Chains
from rye_mcp.verbs._companions import CompanionSigner
from rye_mcp.verbs._context import Context, options_of, whole_hints
from rye_mcp.verbs._outlook import (
    cannot_run,
    examples_that_do_not_fit,
    in_shell,
    misspelt_fields,
    not_carried,
)
from rye_mcp.verbs._replacing import other_signer, require_no_stranger
from rye_mcp.verbs._selection import Selection, Tracked, is_pattern, select

__all__ = ["BatchResult", "SignFailure", "SignRequest", "SignResult", "SigningPlan", "plan", "sign"]


_TOLD_ALREADY: Final = frozenset({"executor_not_found", "item_not_found"})


@dataclass(frozen=True, slots=True)
class SignRequest:
    """What to sign: an item id, or a pattern such as `demo/*`, in the project or in the user space.

    `companions` are files beside one tool, or below, that are listed with it: by their paths from there.
    `agreed` are the files of a plan that somebody has agreed to; no other is signed then.
    """

    item_id: str
    item_type: ItemType = ItemType.TOOL
    source: SpaceName = SpaceName.PROJECT
    companions: tuple[str, ...] = ()
    agreed: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class SignResult:
    """An item that was signed."""

    item: VerifiedItem
    warnings: tuple[Notice, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the result as data."""
        return {
            "status": "signed",
            "item_id": self.item.file.item_id,
            "path": printable(self.item.file.path),
            "signer": self.item.signer.as_dict(),
            "hash": self.item.digest,
            "timestamp": self.item.timestamp,
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
    """What became of everything that a pattern selected."""

    signed: tuple[SignResult, ...]
    failed: tuple[SignFailure, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the result as data."""
        return {
            "status": "completed",
            "signed": [each.as_dict() for each in self.signed],
            "failed": [each.as_dict() for each in self.failed],
            "total": len(self.signed) + len(self.failed),
        }


def sign(
    request: SignRequest, context: Context, *, tracked: Tracked = lambda places: places
) -> SignResult | BatchResult:
    """Sign one item, or everything that a pattern selects.

    1. whoever asks may sign there
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
    with whole_hints(found.item):
        metadata = examine(found.item)
        signer = _Signer(context, _key(context), Agreement.of(request.agreed))
        result = signer.with_outlook(signer.sign(found.item, metadata, request.companions))
        return SignResult(result.item, (*result.warnings, *cannot_run(found.item, metadata)))


def plan(request: SignRequest, context: Context) -> SigningPlan:
    """What would be signed, for somebody who has to agree to it first; nothing is."""
    _require_allowed(request, context)
    _require_one_tool(request)
    key = _key(context)
    signer = _Signer(context, key)
    files: dict[str, str] = {}
    item_ids: list[str] = []
    failing: list[str] = []
    if is_pattern(request.item_id):
        selection = _selected(request, context)
        failing += [each.item_id for each in selection.refused]
        for place in selection.places:
            try:
                files |= signer.planned(context.spaces.read(place))
                item_ids.append(place.item_id)
            except RyeError:
                failing.append(place.item_id)
    else:
        found = context.spaces.find(request.item_id, request.item_type, only=request.source)
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
    signer = _Signer(context, _key(context), Agreement.of(request.agreed))
    for place in tracked(selection.places):
        try:
            file = context.spaces.read(place)
            with whole_hints(file):
                signed.append(signer.sign(file, examine(file)))
        except RyeError as exc:
            failed.append(SignFailure(place.item_id, exc))
    # Only now: what runs a tool may have been signed after it.
    foreseen = tuple(map(signer.with_outlook, signed))
    return BatchResult(foreseen, tuple(sorted(failed, key=lambda failure: failure.item_id)))


def _selected(request: SignRequest, context: Context) -> Selection:
    found = select(context.spaces, request.item_id, names=[request.source], types=[request.item_type])
    if not found.places and not found.refused:
        what = f"expected {request.item_type} ids that match {request.item_id}, found none"
        raise RyeError("item_not_found", f"{what} in the {request.source} space", item_id=request.item_id)
    return found


def _key(context: Context) -> SigningKey:
    """The key of whoever asks; a person is asked for the passphrase where there is one."""
    if not context.is_person:
        context.keys.ensure(SignerKind.AGENT)
        return context.keys.load(SignerKind.AGENT)
    try:
        return context.keys.load(SignerKind.PERSON)
    except RyeError as exc:
        if exc.code != "passphrase_required" or context.ask_passphrase is None:
            raise
        return context.keys.load(SignerKind.PERSON, passphrase=context.ask_passphrase())


class _Signer:
    """Signs with one key, and looks for each executor once."""

    def __init__(self, context: Context, key: SigningKey, agreement: Agreement | None = None) -> None:
        self._context = context
        self._key = key
        self._agreement = agreement
        self._chains = Chains(context)
        self._companions = CompanionSigner(context, key, self._chains)
        self._executors: dict[str, Notice | None] = {}

    def planned(self, file: ItemFile, named: Sequence[str] = ()) -> dict[str, str]:
        """What would be vouched for with an item; RyeError for what would not be signed."""
        with whole_hints(file):
            metadata = examine(file)
            require_no_stranger(file, self._context, self._key)
            is_tool = file.item_type is ItemType.TOOL
            along = self._companions.planned(ChainElement(file, metadata), named) if is_tool else {}
            return {**along, relative_of(file): digest_of(file)}

    def sign(self, file: ItemFile, metadata: ItemMetadata, named: Sequence[str] = ()) -> SignResult:
        """Sign an item that was looked at, and what it rests on first."""
        require_no_stranger(file, self._context, self._key)
        agreement = self._agreement
        if agreement is not None:
            agreement.require(file.item_id, [(relative_of(file), digest_of(file))])
        element = ChainElement(file, metadata)
        is_tool = file.item_type is ItemType.TOOL
        along = self._companions.sign(element, named, agreement) if is_tool else []
        verified = sign_item(file, self._key, self._context.trust, role=MetadataRole.of(file))
        if agreement is not None:
            agreement.signed(verified.file)
        warnings = [other_signer(file, self._key), self._missing_executor(file, metadata), *along]
        if is_tool:
            self._companions.list_again(element, verified)
            warnings += examples_that_do_not_fit(file, metadata)
        # The signature has moved the lines: those of the file as it is now are told.
        warnings += misspelt_fields(verified.file)
        return SignResult(verified, tuple(warning for warning in warnings if warning is not None))

    def with_outlook(self, result: SignResult) -> SignResult:
        """The same, with what will become of a tool when it runs; once all that it rests on is signed."""
        file = result.item.file
        if file.item_type is not ItemType.TOOL:
            return result
        outlook = self._outlook(ChainElement(file, self._context.metadata(result.item)))
        return SignResult(result.item, (*result.warnings, *filter(None, outlook)))

    def _outlook(self, root: ChainElement) -> list[Notice | None]:
        """What will become of the tool when it runs: its lockfile, its files, its command."""
        if root.metadata.is_library or root.metadata.is_runtime or root.metadata.is_primitive:
            return []
        try:
            valid = self._chains.follow(root)
        except RyeError as exc:
            known = exc.code in _TOLD_ALREADY
            return [None if known else Notice(exc.code, f"{root.item_id} would be refused: {exc.message}")]
        refreshed = self._chains.lockfiles.refresh(valid, self._key.public.key_id)
        return [refreshed, *not_carried(root, valid.verified.carried), *in_shell(valid.verified.chain)]

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
