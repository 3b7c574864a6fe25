"""`rye secret`: the secrets that tools get which you signed for them.

A value is typed at a terminal without being shown, or comes on standard input. No command prints one, and
none takes one as an argument, which others could read and the shell would remember.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rye_mcp.cli._command_groups import command_group
from rye_mcp.cli._options import JsonOption, open_app
from rye_mcp.cli._printing import print_json, say
from rye_mcp.cli._terminal import ask_secret
from rye_mcp.secret_store import SecretStore, problem_of_name

__all__ = ["secret"]

secret = command_group("The secrets that tools get which you signed for them.")

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The name, which is that of the variable for the tool.")
]


@secret.command("set", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def set_secret(ctx: typer.Context, name: NameArgument, as_json: JsonOption = False) -> None:
    """Keep a secret, from a question at a terminal or from standard input."""
    if ctx.args:
        # Without showing them: one of them may be the secret.
        what = "expected nothing behind NAME: the value is asked for, or comes on standard input"
        raise typer.BadParameter(f"{what}. A value that was typed here is in the history of your shell")
    if problem := problem_of_name(name):
        raise typer.BadParameter(problem)
    _store().set(name, _value(name, as_json=as_json))
    if as_json:
        print_json({"status": "kept", "name": name})
        return
    say(f"kept {name}; a tool gets it that names it in permissions.secrets, once a person has signed that")


@secret.command("list")
def list_secrets(as_json: JsonOption = False) -> None:
    """List the names of the secrets."""
    names = _store().names()
    if as_json:
        print_json({"status": "success", "secrets": list(names)})
        return
    for name in names:
        say(name)
    if not names:
        say("There are none: rye secret set NAME")


@secret.command("remove")
def remove(name: NameArgument, as_json: JsonOption = False) -> None:
    """Forget a secret."""
    _store().remove(name)
    if as_json:
        print_json({"status": "removed", "name": name})
        return
    say(f"removed {name}")


def _store() -> SecretStore:
    return SecretStore(open_app(None).spaces.user.root)


def _value(name: str, *, as_json: bool) -> str:
    asked = ask_secret(name, as_json=as_json)
    if asked is not None:
        return asked
    given = sys.stdin.buffer.read().decode("utf-8", "replace")
    return given.removesuffix("\n").removesuffix("\r")
