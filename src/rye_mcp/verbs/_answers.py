"""The parts that the answers of several verbs are made of: metadata and integrity, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError, printable
from rye_mcp.metadata import ItemMetadata
from rye_mcp.permissions import Permissions
from rye_mcp.trust.scope import Signer
from rye_mcp.trust.verify import VerifiedItem

__all__ = ["CARRIED", "VERIFIED", "Integrity", "metadata_as_dict"]

VERIFIED: Final = "verified"
"""The state of an item that passed the gate; that of any other one is the code of its refusal."""

CARRIED: Final = "carried"
"""The state of a file that a good listing vouches for, as a part of the tools beside it."""

_NOT_SHOWN: Final = frozenset({"declares_executor", "extra", "executor_id"})


@dataclass(frozen=True, slots=True)
class Integrity:
    """Whether an item passed the gate: its signer and its hash, or the refusal.

    `listing` is what vouches for a file that carries no good signature of its own; its signer is that of it.
    """

    signer: Signer | None = None
    digest: str | None = None
    refusal: RyeError | None = None
    listing: Path | None = None

    @classmethod
    def of(cls, verified: VerifiedItem) -> Integrity:
        """Return the integrity of an item that passed the gate."""
        return cls(verified.signer, verified.digest)

    @property
    def state(self) -> str:
        """`verified`, `carried`, or the code of the refusal."""
        if self.refusal is not None:
            return self.refusal.code
        return VERIFIED if self.listing is None else CARRIED

    def as_dict(self) -> dict[str, Any]:
        """Return it as data; a refusal with its reason and hint."""
        answer: dict[str, Any] = {
            "state": self.state,
            "signer": None if self.signer is None else self.signer.as_dict(),
            "hash": self.digest,
        }
        if self.listing is not None:
            answer["listing"] = printable(self.listing)
        if self.refusal is not None:
            answer |= {"error": self.refusal.message, "hint": self.refusal.hint}
            if owner := self.refusal.details.get("signed_before_by"):
                answer["signed_before_by"] = owner
        return answer


def metadata_as_dict(metadata: ItemMetadata) -> dict[str, Any]:
    """Return the metadata of an item as data, without empty fields; a copy, because metadata is cached."""
    shown: dict[str, Any] = {}
    for each in fields(metadata):
        value = getattr(metadata, each.name)
        if each.name in _NOT_SHOWN or value is None or value == ():
            continue
        shown[each.name] = _copied(value)
    if metadata.declares_executor:
        shown["executor_id"] = metadata.executor_id
    if metadata.extra:
        shown["extra"] = _copied(metadata.extra)
    return shown


def _copied(value: Any) -> Any:
    """The same value as data, in lists and mappings of its own."""
    if isinstance(value, Permissions):
        return value.canonical()
    if isinstance(value, Mapping):
        return {name: _copied(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(each) for each in value]
    return value
