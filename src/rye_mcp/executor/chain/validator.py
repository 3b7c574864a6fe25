"""Whether neighbours in a chain fit: their spaces, inputs and outputs, and versions.

`validate_chain` takes elements or mappings, and reports; `require_valid` takes a `VerifiedChain` and raises
`chain_invalid`. Every pair is checked, and every issue is reported. The rules are in
`docs/architecture/execution.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.builder import Chain, ChainElement, once_a_chain
from rye_mcp.executor.chain.verifier import VerifiedChain
from rye_mcp.items import SpaceName

__all__ = ["ChainValidation", "ChainValidator", "ValidChain", "require_valid"]

_SHOWN: Final = 5
"""How many names an issue lists."""


@dataclass(frozen=True, slots=True)
class ChainValidation:
    """The result for a chain."""

    issues: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    validated_pairs: tuple[tuple[str, str], ...] = ()

    @property
    def valid(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.issues


@dataclass(frozen=True, slots=True)
class ValidChain:
    """A verified chain whose neighbours fit."""

    verified: VerifiedChain
    validated_pairs: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Link:
    """The parts of an element that matter here, wherever it comes from."""

    item_id: str
    space: str
    version: str
    tool_type: str | None = None
    inputs: frozenset[str] | None = None
    outputs: frozenset[str] | None = None
    constraints: Mapping[str, Any] = field(default_factory=dict)
    anchors: bool = False
    verifies: bool = False


class ChainValidator:
    """Looks at chains; it keeps nothing of them."""

    def validate_chain(self, chain: Sequence[ChainElement | Mapping[str, Any]]) -> ChainValidation:
        """Look at every pair of a chain, which is ordered from the tool to the primitive."""
        return _validation([_link(element) for element in chain], everything=True)


def require_valid(verified: VerifiedChain, *, everything: bool = True) -> ValidChain:
    """The chain, when its neighbours fit; `chain_invalid` with all issues otherwise.

    Without `everything`, inputs, outputs and versions are passed over; spaces never are.
    """
    validation = _validated(verified.chain) if everything else _validated_in_part(verified.chain)
    if validation.issues:
        root = verified.chain.root
        raise RyeError(
            "chain_invalid",
            f"expected a chain whose elements fit, found: {'; '.join(validation.issues)}",
            where=root.path,
            item_id=root.item_id,
            issues=[{"message": issue} for issue in validation.issues],
        )
    return ValidChain(verified, validation.validated_pairs, validation.warnings)


@once_a_chain
def _validated(chain: Chain) -> ChainValidation:
    return _validation([_link(element) for element in chain.elements], everything=True)


@once_a_chain
def _validated_in_part(chain: Chain) -> ChainValidation:
    return _validation([_link(element) for element in chain.elements], everything=False)


def _validation(links: Sequence[_Link], *, everything: bool) -> ChainValidation:
    pairs = list(pairwise(links))
    issues = [*_order(links)]
    for child, parent in pairs:
        issues += _spaces(child, parent)
        if everything:
            issues += [*_fit(child, parent), *_versions(child, parent)]
    names = tuple((child.item_id, parent.item_id) for child, parent in pairs)
    return ChainValidation(tuple(issues), tuple(_warnings(links)), names)


# --- one rule each: what speaks against a pair ---


def _spaces(child: _Link, parent: _Link) -> Iterator[str]:
    if _precedence(parent.space) > _precedence(child.space):
        yield (
            f"{child.item_id} of the {child.space} space rests on {parent.item_id} of the {parent.space} "
            "space, which may be missing elsewhere"
        )


def _fit(child: _Link, parent: _Link) -> Iterator[str]:
    if parent.inputs is not None and child.outputs is not None and (missing := parent.inputs - child.outputs):
        named = ", ".join(sorted(missing)[:_SHOWN])
        yield f"{parent.item_id} requires {named}, which {child.item_id} does not put out"


def _versions(child: _Link, parent: _Link) -> Iterator[str]:
    low, high = parent.constraints.get("min_version"), parent.constraints.get("max_version")
    if low is None and high is None:
        return
    from packaging.version import InvalidVersion, Version

    try:
        version = Version(child.version)
        if low is not None and version < Version(low):
            yield f"{parent.item_id} takes versions from {low}, and {child.item_id} has {child.version}"
        if high is not None and version > Version(high):
            yield f"{parent.item_id} takes versions up to {high}, and {child.item_id} has {child.version}"
    except (InvalidVersion, TypeError) as exc:
        yield f"the versions of {child.item_id} and {parent.item_id} cannot be compared: {exc}"


def _order(links: Sequence[_Link]) -> Iterator[str]:
    for link in links[:-1]:
        if link.tool_type == "primitive":
            yield f"{link.item_id} is a primitive, and something stands behind it"


def _warnings(links: Sequence[_Link]) -> Iterator[str]:
    if links and links[0].space == SpaceName.SYSTEM.value:
        return
    for link in links:
        if link.anchors and not link.verifies:
            yield f"{link.item_id} anchors modules and verifies none of them: only signed files are carried"


def _precedence(space: str) -> int:
    try:
        return SpaceName(space).precedence
    except ValueError:
        raise RyeError(
            "chain_invalid", f"expected project, user or system as space, found {space!r}"
        ) from None


# --- from elements, and from the mappings of a specification ---


def _link(element: ChainElement | Mapping[str, Any]) -> _Link:
    if isinstance(element, ChainElement):
        metadata = element.metadata
        return _Link(
            element.item_id,
            element.space.value,
            metadata.version,
            metadata.tool_type,
            _required(metadata.inputs),
            _provided(metadata.outputs),
            metadata.child_constraints or {},
            _is_on(metadata.anchor),
            _is_on(metadata.verify_deps),
        )
    return _Link(
        str(element.get("item_id", "")),
        str(element.get("space", "")),
        str(element.get("version") or "0.0.0"),
        element.get("tool_type"),
        _required(element.get("inputs")),
        _provided(element.get("outputs")),
        element.get("child_constraints") or {},
        _is_on(element.get("anchor")),
        _is_on(element.get("verify_deps")),
    )


def _required(declared: Mapping[str, Any] | Sequence[str] | None) -> frozenset[str] | None:
    """The names that have to be there: all of a list, the required ones of a schema."""
    if isinstance(declared, Mapping):
        return frozenset(declared.get("required", ()))
    return None if declared is None else frozenset(declared)


def _provided(declared: Mapping[str, Any] | Sequence[str] | None) -> frozenset[str] | None:
    """The names that are put out: all of a list, the properties of a schema."""
    if isinstance(declared, Mapping):
        return frozenset(declared.get("properties", ()))
    return None if declared is None else frozenset(declared)


def _is_on(config: Mapping[str, Any] | None) -> bool:
    return config is not None and config.get("enabled", True) is True
