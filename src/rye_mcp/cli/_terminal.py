"""Questions to a person, on standard error, and whether a person is there to answer.

Nothing is asked unless standard input and standard error are a terminal and `--json` is missing; every
command has a form that asks nothing. An answer that is empty or invalid decides nothing.
"""

from __future__ import annotations

import os
import sys
from typing import Final

import typer

from rye_mcp.errors import RyeError
from rye_mcp.trust.keys import PASSPHRASE_VARIABLE

__all__ = [
    "NEW_PASSPHRASE_VARIABLE",
    "ask_secret",
    "ask_which",
    "can_ask",
    "given_passphrase",
    "new_passphrase",
    "old_passphrase",
    "parse_choice",
]

NEW_PASSPHRASE_VARIABLE: Final = "RYE_NEW_KEY_PASSPHRASE"  # noqa: S105 - where it is, not what it is
"""The environment variable that holds the passphrase to change to."""

_ALL = "all"


def can_ask(*, as_json: bool = False) -> bool:
    """Whether there is a person to ask."""
    return not as_json and sys.stdin.isatty() and sys.stderr.isatty()


def ask_which(count: int) -> tuple[int, ...]:
    """Ask which of so many numbered things a person accepts; none for an empty answer."""
    question = f"Accept which of these? Numbers such as 1 2, {_ALL}, or nothing for none"
    answer: str = typer.prompt(question, default="", show_default=False, err=True)
    return parse_choice(answer, count)


def parse_choice(answer: str, count: int) -> tuple[int, ...]:
    """The numbers of an answer, from 1 on; wrong use when there is anything else in it."""
    words = answer.replace(",", " ").split()
    if words == [_ALL]:
        return tuple(range(1, count + 1))
    known = {str(number): number for number in range(1, count + 1)}
    if unknown := [word for word in words if word not in known]:
        found = ascii(unknown[0])[:40]
        raise typer.BadParameter(f"expected numbers from 1 to {count}, or {_ALL}, found {found}")
    return tuple(sorted({known[word] for word in words}))


def old_passphrase(*, as_json: bool) -> bytes | None:
    """The passphrase that a private key has: from the environment, else from the person."""
    given = given_passphrase(PASSPHRASE_VARIABLE)
    return given or _ask("Passphrase of the private key", confirm=False, as_json=as_json)


def new_passphrase(*variables: str, as_json: bool) -> bytes:
    """A passphrase to encrypt a private key with: from the first variable that has one, else the person."""
    for variable in variables:
        if given := given_passphrase(variable):
            return given
    asked = _ask("New passphrase", confirm=True, as_json=as_json)
    if asked is None:
        what = "expected a new passphrase, found none, and no terminal to ask for it"
        raise RyeError("passphrase_required", what, hint=f"set {variables[0]}, or use a terminal")
    return asked


def ask_secret(name: str, *, as_json: bool) -> str | None:
    """The value of a secret, which is not shown as it is typed; None where nobody can be asked."""
    if not can_ask(as_json=as_json):
        return None
    answer: str = typer.prompt(f"Value of {name}", hide_input=True, err=True)
    return answer


def given_passphrase(variable: str) -> bytes | None:
    """Return the value of this variable of the environment; None for an empty one."""
    return os.fsencode(os.environ.get(variable, "")) or None


def _ask(question: str, *, confirm: bool, as_json: bool) -> bytes | None:
    if not can_ask(as_json=as_json):
        return None
    answer: str = typer.prompt(question, hide_input=True, confirmation_prompt=confirm, err=True)
    return answer.encode("utf-8", "surrogateescape")
