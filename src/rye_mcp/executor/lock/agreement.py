"""The agreement of a person before a tool runs, and the check that nothing else runs.

A mark stands for everything that a lockfile would pin, for what it may do, and for what of that was not
agreed to before. It is compared inside of the run. The parameters are not in it: whoever asks holds them. The
rules about widening are in `docs/architecture/permissions.md`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Self

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.executor.chain.validator import ValidChain
from rye_mcp.executor.chain.verifier import VerifiedChain
from rye_mcp.executor.configuration.merged import runs_given_code
from rye_mcp.executor.configuration.parameters import Parameters
from rye_mcp.executor.lock.pins import Pins
from rye_mcp.items import ItemFile, SpaceName
from rye_mcp.metadata import ItemMetadata
from rye_mcp.permissions import Permissions, difference, phrases, sentence, taken_to_declare
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.verify import Trust, VerifiedItem

__all__ = [
    "Comparison",
    "Preview",
    "Way",
    "agreed_before",
    "mark_of",
    "require_agreed",
    "widened_by_signing",
]

_TOOL: Final = "tool"
_RUNTIME: Final = "runtime"

Way = tuple[str | int, ...]
"""The names and numbers that lead to a value."""


@dataclass(frozen=True, slots=True)
class Preview:
    """A planned run: `mark` stands for all of its files, `root` is the tool with its signer.

    `brought` are the files of its own that the tool brings along, path → SHA256. `is_direct`
    says that a primitive is called by itself, where the caller invents the names of the parameters, and
    `runs_given_code` that what runs may come from the caller.
    `declared` are the ways to values that the tool's schema names, one name after the other. `may` says what
    the tool may do, `widened` what of that goes beyond what was agreed to before.
    """

    mark: str
    item_id: str
    digest: str
    signer: Mapping[str, Any]
    brought: Mapping[str, str]
    parameters: Parameters
    is_direct: bool = False
    runs_given_code: bool = False
    declared: frozenset[Way] = frozenset()
    may: str = ""
    widened: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        valid: ValidChain,
        parameters: Parameters,
        permissions: Permissions,
        widened: tuple[str, ...] = (),
    ) -> Preview:
        """That of a chain which is ready to run."""
        root, chain = valid.verified.root, valid.verified.chain
        return cls(
            mark_of(valid, permissions, widened),
            chain.root.item_id,
            root.digest,
            root.signer.as_dict(),
            {file.relative: file.digest for file in valid.verified.carried.files[1:]},
            parameters,
            is_direct=chain.root.metadata.is_primitive,
            runs_given_code=runs_given_code(chain, parameters.declared),
            declared=frozenset(_declared(parameters.values, chain.root.metadata.config_schema)),
            may=sentence(permissions),
            widened=widened,
        )

    @property
    def too_wide(self) -> RyeError | None:
        """The refusal of what somebody has to be asked about: RyeError `permissions_widened`."""
        return _too_wide(self.item_id, self.widened) if self.widened else None

    def require_agreed(self) -> None:
        """Refuse what somebody has to be asked about."""
        if self.too_wide is not None:
            raise self.too_wide


def _declared(value: Any, schema: Any, way: Way = ()) -> Iterator[Way]:
    """The ways to the values whose names stand in a schema itself; it follows no references."""
    if not isinstance(schema, Mapping):
        return
    properties = schema.get("properties")
    if isinstance(value, Mapping) and isinstance(properties, Mapping):
        for name in value.keys() & properties.keys():
            yield (*way, name)
            yield from _declared(value[name], properties[name], (*way, name))
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _declared(each, schema.get("items"), (*way, number))


def mark_of(valid: ValidChain, permissions: Permissions, widened: tuple[str, ...] = ()) -> str:
    """Return the mark of a run: it covers every file, and the rights of the run."""
    pins = Pins.of_chain(valid)
    whole = [pins.root, pins.elements, sorted((pins.dependencies or {}).items())]
    may = [permissions.canonical(), list(widened)]
    return hashlib.sha256(json.dumps([*whole, *may], sort_keys=True).encode()).hexdigest()


def require_agreed(
    valid: ValidChain, permissions: Permissions, widened: tuple[str, ...], mark: str | None
) -> None:
    """Refuse what is not what was agreed to; None is for what nobody was asked about.

    RyeError `permissions_widened` for what nobody was asked about and should have been.
    """
    item_id = valid.verified.chain.root.item_id
    if mark is None and widened:
        raise _too_wide(item_id, widened)
    if mark is not None and mark_of(valid, permissions, widened) != mark:
        what = (
            f"expected {item_id} as it was agreed to, found that it, or what it rests on, has changed since"
        )
        raise RyeError("confirmation_outdated", what, item_id=item_id)


def _too_wide(item_id: str, widened: tuple[str, ...]) -> RyeError:
    what = f"expected {item_id} to do no more than was agreed, found that it {'; '.join(widened)}"
    return RyeError("permissions_widened", what, item_id=item_id, added=list(widened))


# --- what a chain may do, and what was agreed to before ---


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rights of a chain, compared with those that this user agreed to.

    `widened` says in words what goes beyond it, `new` is what to keep once the chain is used.
    """

    widened: tuple[str, ...] = ()
    new: tuple[tuple[ItemFile, str, Permissions], ...] = ()

    @classmethod
    def of(cls, verified: VerifiedChain, trust: Trust) -> Self:
        """That of a chain. The package itself is not compared: whoever installs it agrees to it."""
        widened: list[str] = []
        new: list[tuple[ItemFile, str, Permissions]] = []
        for item, use, now in _declared_by(verified):
            known = trust.agreed_permissions.of(item.file, use)
            if known == now or trust.is_draft(item.signer):
                continue
            if known is None:
                is_agreed = item.signer.kind is SignerKind.PERSON
            else:
                is_agreed = trust.is_own(item.signer)
                added = () if is_agreed else _added(known, now)
                widened += (each if use == _TOOL else f"{each} (by {item.file.item_id})" for each in added)
                is_agreed = is_agreed or bool(added)
            if is_agreed:
                new.append((item.file, use, now))
        return cls(tuple(widened), tuple(new))

    def keep(self, trust: Trust) -> None:
        """Remember that it was agreed to; RyeError when it cannot be written."""
        for file, use, now in self.new:
            trust.agreed_permissions.write(file, use, now)


def _added(known: Permissions, now: Permissions) -> tuple[str, ...]:
    """Say in words which rights are new. For a tool that was not confined, every named right is new."""
    handed = Permissions(env=now.env, secrets=now.secrets) if known.unconfined else Permissions()
    return (*difference(known, now), *phrases(handed))


def widened_by_signing(verified: VerifiedItem, metadata: ItemMetadata, trust: Trust) -> tuple[str, ...]:
    """Say in words which rights this user's new signature adds to those agreed to before, and keep them.

    A state directory that cannot be written stops nobody.
    """
    if not metadata.is_run or not trust.is_own(verified.signer):
        return ()
    now = taken_to_declare(metadata.permissions, verified.signer.kind)
    known = trust.agreed_permissions.of(verified.file, _TOOL)
    if known != now:
        with suppress(RyeError, OSError):
            trust.agreed_permissions.write(verified.file, _TOOL, now)
    return () if known is None else _added(known, now)


def agreed_before(verified: VerifiedItem, trust: Trust) -> Permissions | None:
    """Return the rights agreed to before; None for a tool that was never used."""
    return trust.agreed_permissions.of(verified.file, _TOOL)


def _declared_by(verified: VerifiedChain) -> Iterator[tuple[VerifiedItem, str, Permissions]]:
    """Yield the rights that elements outside of the package bring to the chain."""
    root = verified.chain.root
    for element, item in verified.pairs:
        if element.space is SpaceName.SYSTEM:
            continue
        if element is root:
            yield item, _TOOL, taken_to_declare(element.metadata.permissions, item.signer.kind)
        else:
            yield item, _RUNTIME, _of_runtime(element)


def _of_runtime(element: ChainElement) -> Permissions:
    needs = element.metadata.needs
    read = frozenset[str]() if needs is None else needs.read
    return Permissions(env=frozenset(element.metadata.permitted_env), read=read)
