"""How keys and signers are shown to people: whole key ids, owners as claims, what a key may sign in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import typer

from rye_mcp.errors import RyeError
from rye_mcp.trust.decisions import KeyState, KnownKey
from rye_mcp.trust.scope import AGENT_ROLES, Origin, Role, Scope, SignerKind
from rye_mcp.trust.trust_store import AGENT_OWNER
from rye_mcp.trust.verify import Signer
from rye_mcp.verbs.context import Context
from rye_mcp.visible import visible

__all__ = ["key_lines", "print_key", "print_problems", "scope_text", "signers_in_words"]

_STATES = {state: state.value.partition("_")[0] for state in KeyState}
_WIDTH = max(map(len, _STATES.values())) + 2
_COLOURS = {KeyState.REVOKED: typer.colors.RED, KeyState.DENIED: typer.colors.RED}
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


def print_key(row: KnownKey, *, number: int | None = None) -> None:
    """Print a key on a few lines, with a number to choose it by."""
    first, *others = key_lines(row)
    mark = "" if number is None else f"{number:>2}. "
    state = f"{_STATES[row.state]:<{_WIDTH}}"
    if row.state in _COLOURS:
        state = typer.style(state, fg=_COLOURS[row.state])
    typer.echo(f"{mark}{state}{first}")
    for line in others:
        typer.echo(f"{' ' * (len(mark) + _WIDTH)}{line}")


def key_lines(row: KnownKey) -> list[str]:
    """Describe a key; the first line names its owner."""
    lines = [visible(_whose(row)), f"key id       {row.key_id}"]
    if row.key is not None:
        lines.append(f"fingerprint  {row.key.fingerprint}")
        lines.append(f"may sign     {visible(scope_text(row.scope, row.origin, row.kind))}")
    if row.document is not None and row.origin is Origin.PROJECT:
        lines.append(f"document     {row.document.short_digest}")
    if row.reason is not None:
        lines.append(f"revoked      {visible(row.reason)}")
    return lines


def print_problems(problems: Iterable[RyeError]) -> None:
    """Say on standard error which documents cannot be read."""
    for problem in problems:
        typer.echo(f"rye: {problem.code}: {visible(problem.message)}", err=True)
        typer.echo(f"  hint:  {visible(problem.hint)}", err=True)


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


def _whose(row: KnownKey) -> str:
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


def signers_in_words(context: Context) -> Callable[[Signer | None], str]:
    """Return a function that names a signer, tells agents from persons, and says where to look up the key."""
    try:
        own = context.keys.show(SignerKind.PERSON).key_id
    except RyeError:
        own = None

    def in_words(signer: Signer | None) -> str:
        if signer is None:
            return "-"
        if signer.kind is SignerKind.AGENT and signer.owner == AGENT_OWNER:
            return f"by {AGENT_OWNER}, not by you ({signer.fingerprint})"
        if signer.kind is SignerKind.PERSON and signer.key_id == own:
            return f"by you ({signer.fingerprint})"
        return f"by {signer.in_words}"

    return in_words
