"""Keys in words: whose they are, and what they may sign."""

from __future__ import annotations

from rye_mcp.trust.decisions import KeyState, KnownKey
from rye_mcp.trust.scope import AGENT_ROLES, Origin, Role, Scope, SignerKind

__all__ = ["scope_text", "whose"]

_RESERVED = "rye/"
_WHERE = {
    Origin.USER: "every project and of yours",
    Origin.PROJECT: "this project",
    Origin.SYSTEM: "the package",
}
_PLURALS = {
    Role.TOOL: "tools",
    Role.RUNTIME: "runtimes",
    Role.PRIMITIVE: "primitives",
    Role.ENGINE: "engines",
    Role.DIRECTIVE: "directives",
    Role.KNOWLEDGE: "knowledge",
    Role.SKILL: "skills",
}


def scope_text(scope: Scope, origin: Origin, kind: SignerKind | None) -> str:
    """Describe in words which items a key may sign: those that `rye_mcp.trust.scope` would let pass."""
    if kind is SignerKind.RUNNER:
        return "receipts of runs, and no item"
    is_agent = kind is SignerKind.AGENT
    usual = AGENT_ROLES if is_agent or origin is Origin.PROJECT else frozenset(Role)
    roles = usual if scope.roles is None else scope.roles
    named = [_PLURALS[role] for role in Role if role in (roles & AGENT_ROLES if is_agent else roles)]
    if not named:
        return "nothing: an agent signs no runtimes and no primitives"
    where = _WHERE[origin] if origin is Origin.PROJECT or not is_agent else "a project"
    return f"{', '.join(named)} of {where}, {_ids(scope, origin, is_agent=is_agent)}"


def _ids(scope: Scope, origin: Origin, *, is_agent: bool) -> str:
    ids = [each for each in scope.ids or ("*",) if not (is_agent and _is_reserved(each))]
    if "*" not in ids:
        return f"ids {' '.join(ids)}" if ids else "no id"
    if origin is not Origin.PROJECT and not is_agent:
        return "any id"
    return ", and ".join([f"any id not below {_RESERVED}", *filter(_is_reserved, ids)])


def _is_reserved(pattern: str) -> bool:
    return pattern.casefold().startswith(_RESERVED)


def whose(row: KnownKey) -> str:
    """Name the owner of a key; what a project says of one is a claim."""
    if row.owner is None:
        return "a key of which only the id is known"
    owner = row.owner if row.origin is not Origin.PROJECT else f"the project says: {row.owner}"
    marks = [mark for mark, holds in _marks(row).items() if holds]
    return f"{owner} ({', '.join(marks)})" if marks else owner


def _marks(row: KnownKey) -> dict[str, bool]:
    return {
        "you": row.yours and row.kind is not SignerKind.AGENT,
        "a runner": row.kind is SignerKind.RUNNER,
        "an agent": row.kind is SignerKind.AGENT and not row.yours,
        "by RYE_TRUSTED_KEYS": row.state is KeyState.ACCEPTED_BY_ENVIRONMENT,
        "the old key signed it": row.state is KeyState.ACCEPTED_BY_ROTATION,
    }
