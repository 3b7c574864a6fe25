"""How keys and signers are shown to people: whole key ids, owners as claims, what a key may sign in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import typer

from rye_mcp.errors import RyeError
from rye_mcp.trust.decisions import KeyState, KnownKey
from rye_mcp.trust.key_words import scope_text, whose
from rye_mcp.trust.scope import AGENT_OWNER, Origin, Signer, SignerKind
from rye_mcp.verbs.context import Context
from rye_mcp.visible import visible

__all__ = ["key_lines", "print_key", "print_problems", "scope_text", "signers_in_words"]

_STATES = {state: state.value.partition("_")[0] for state in KeyState}
_WIDTH = max(map(len, _STATES.values())) + 2
_COLOURS = {KeyState.REVOKED: typer.colors.RED, KeyState.DENIED: typer.colors.RED}


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
    lines = [visible(whose(row)), f"key id       {row.key_id}"]
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
