"""Decides what a signer may sign: which ids, in which roles, in which space.

A pattern is `*`, an id, or an id and `/*` for everything below it. "Trusted, but not for this" is
`out_of_scope`, not `untrusted_key`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, SpaceName, is_item_id

__all__ = [
    "AGENT_OWNER",
    "AGENT_ROLES",
    "Evidence",
    "Origin",
    "Role",
    "Scope",
    "Signer",
    "SignerKind",
    "is_id_pattern",
    "require_in_scope",
    "signer_in_words",
]

AGENT_OWNER: Final = "your agent"
"""The owner of the key that this user's agents sign with."""

_RESERVED = "rye/"


class Role(StrEnum):
    """The role of an item in its chain."""

    TOOL = "tool"
    RUNTIME = "runtime"
    PRIMITIVE = "primitive"
    ENGINE = "engine"
    DIRECTIVE = "directive"
    KNOWLEDGE = "knowledge"
    SKILL = "skill"


class SignerKind(StrEnum):
    """Kinds of signers: a person, a program for a person, the runner of a machine, or this package."""

    PERSON = "person"
    AGENT = "agent"
    RUNNER = "runner"
    SYSTEM = "system"


class Origin(StrEnum):
    """Why a signer is trusted: a file of the user, an accepted proposal of the project, or the manifest."""

    USER = "user"
    PROJECT = "project"
    SYSTEM = "system"


AGENT_ROLES = frozenset({Role.TOOL, Role.DIRECTIVE, Role.KNOWLEDGE, Role.SKILL})
"""The roles that may be signed without a person having looked at the item."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The ids and roles that a key is trusted for; None is a list that is missing."""

    ids: tuple[str, ...] | None = None
    roles: frozenset[Role] | None = None

    def names(self, item_id: str) -> bool:
        """Whether one of the patterns, `*` aside, holds this id."""
        return any(each != "*" and _matches(each, item_id) for each in self.ids or ())

    def holds_id(self, item_id: str) -> bool:
        """Whether this id is one of them."""
        return self.ids is None or "*" in self.ids or self.names(item_id)


def is_id_pattern(text: object) -> bool:
    """Whether this is a pattern of ids."""
    return isinstance(text, str) and (text == "*" or is_item_id(text.removesuffix("/*")))


def require_in_scope(file: ItemFile, role: Role, *, kind: SignerKind, origin: Origin, scope: Scope) -> None:
    """RyeError `out_of_scope` unless this signer is trusted for this item."""
    if kind is SignerKind.RUNNER:
        raise _out_of_scope(
            file, "the key of a person or an agent", "that of a runner, which signs receipts alone"
        )
    if kind is SignerKind.AGENT:
        _require_agents_work(file, role)
    if origin is Origin.PROJECT:
        _require_named_by_project(file, role, scope)
    if not scope.holds_id(file.item_id):
        raise _out_of_scope(file, f"an id of {', '.join(scope.ids or ())}", file.item_id)
    if scope.roles is not None and role not in scope.roles:
        raise _out_of_scope(file, f"one of the roles {', '.join(sorted(scope.roles))}", role)


def _require_agents_work(file: ItemFile, role: Role) -> None:
    if file.space.name is not SpaceName.PROJECT:
        raise _out_of_scope(
            file, "an item of a project, as an agent signed it", f"the {file.space.name} space"
        )
    if role not in AGENT_ROLES:
        raise _out_of_scope(
            file, "a tool, a directive, knowledge or a skill, as an agent signed it", f"a {role}"
        )
    if _is_reserved(file.item_id):
        raise _out_of_scope(file, f"no id below {_RESERVED}, as an agent signed it", file.item_id)


def _require_named_by_project(file: ItemFile, role: Role, scope: Scope) -> None:
    if file.space.name is not SpaceName.PROJECT:
        raise _out_of_scope(
            file, "an item of the project that proposed the key", f"the {file.space.name} space"
        )
    if role not in AGENT_ROLES and (scope.roles is None or role not in scope.roles):
        raise _out_of_scope(file, f"a key whose scope names the role {role}", "one that does not")
    if _is_reserved(file.item_id) and not scope.names(file.item_id):
        raise _out_of_scope(file, f"a key whose scope names an id below {_RESERVED}", "one that does not")


def _space(file: ItemFile) -> str:
    return f"the {file.space.name} space"


def _is_reserved(item_id: str) -> bool:
    """Below `rye/`, also where a file system takes `RYE/` for the same."""
    return item_id.casefold().startswith(_RESERVED)


def _matches(pattern: str, item_id: str) -> bool:
    return item_id.startswith(pattern[:-1]) if pattern.endswith("/*") else item_id == pattern


def _out_of_scope(file: ItemFile, expected: str, found: str) -> RyeError:
    return RyeError(
        "out_of_scope",
        f"expected {expected} in {file.path}, found {found}",
        where=file.path,
        item_id=file.item_id,
    )


class Evidence(StrEnum):
    """The evidence by which an item was authenticated."""

    SIGNATURE = "signature"
    MANIFEST = "manifest"


@dataclass(frozen=True, slots=True)
class Signer:
    """The signer of an item. A system item's signer has no key of its own."""

    kind: SignerKind
    owner: str
    fingerprint: str | None
    key_id: str | None
    origin: Origin
    before: tuple[str, ...] = ()
    """The ids of the keys that the same person had before, by signed rotations."""

    def as_dict(self) -> dict[str, Any]:
        """Return what every answer shows of a signer."""
        return {"kind": self.kind.value, "owner": self.owner, "fingerprint": self.fingerprint}

    @property
    def in_words(self) -> str:
        """The signer, in words for a reader: an agent is called an agent, and no signer is called `you`."""
        return signer_in_words(self.kind, self.owner, self.fingerprint)


def signer_in_words(kind: SignerKind, owner: str, fingerprint: str | None) -> str:
    """The same of what `as_dict` returns."""
    if kind is SignerKind.SYSTEM:
        return f"the system ({owner})"
    key = "" if fingerprint is None else f" ({fingerprint})"
    if kind is SignerKind.AGENT:
        return f"an agent{key}" if owner == AGENT_OWNER else f"an agent: {owner}{key}"
    return f"{owner}{key}"
