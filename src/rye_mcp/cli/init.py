"""`rye init`: keys to sign with, and a project to sign in.

Nothing is asked, and doing it again changes nothing. Exit codes: 0 done, also in a project that is not yours
yet, which is then left as it is; 1 refused, and nothing half-made is left behind; 2 wrong use.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rye_mcp.cli._options import JsonOption
from rye_mcp.cli._printing import print_json, say
from rye_mcp.errors import RyeError
from rye_mcp.items import printable
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.app import App, Settings
    from rye_mcp.initialization import InitializedProject, InitializedUser

__all__ = ["init"]

NOT_YOURS = "this project is not yours yet: rye trust"
"""The note about a project that somebody else has made."""


def init(
    project: Annotated[
        Path | None, typer.Option("--project", metavar="DIR", help="The directory; by default this one.")
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="NAME", help="The name that others see as the owner of your key."),
    ] = None,
    propose: Annotated[
        bool,
        typer.Option("--propose/--no-propose", help="Propose your public key in a project made here."),
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Make your keys, and a project of this directory."""
    from rye_mcp.app import App
    from rye_mcp.initialization import initialize_project, initialize_user

    app = App.open(_settings(project))
    user = initialize_user(app.spaces.user.root, app.keys, app.trust, owner=owner)
    made = None
    if app.settings.project is not None:
        made = initialize_project(app.settings.project, user, app.trust, propose=propose)
    if as_json:
        _print_json(app, user, made)
        return
    _print_user(app, user)
    if made is None:
        reason = app.settings.no_project
        typer.echo(f"Made no project: {visible(reason.message) if reason else 'there is no directory'}")
        return
    _print_project(made, user)


def _settings(project: Path | None) -> Settings:
    """The settings for exactly this directory, whatever is above it."""
    from rye_mcp.app import Settings

    try:
        return Settings.find(project=project or _working_directory())
    except RyeError as exc:
        if exc.code != "no_project":
            raise
        if project is None:
            return replace(Settings.find(), project=None, no_project=exc)
        if not os.path.lexists(project):
            hint = f"mkdir -p {shlex.quote(printable(project))}"
            raise RyeError("no_project", exc.message, where=exc.where, hint=hint) from exc
        raise


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as exc:
        what = "expected a working directory, found that it was removed"
        raise RyeError("no_project", what, hint="cd to a directory that is there") from exc


def _print_json(app: App, user: InitializedUser, made: InitializedProject | None) -> None:
    answer = {
        "status": "success",
        "user": user.as_dict() | {"encrypted": _is_encrypted(app)},
        "project": None if made is None else made.as_dict(),
    }
    if made is None and app.settings.no_project is not None:
        answer["no_project"] = app.settings.no_project.message
    if made is not None and not made.yours:
        answer["hint"] = NOT_YOURS if made.unapproved is None else "rye trust project"
    print_json(answer)


def _is_encrypted(app: App) -> bool:
    from rye_mcp.trust.scope import SignerKind

    return app.keys.is_encrypted(SignerKind.PERSON)


def _print_user(app: App, user: InitializedUser) -> None:
    verb = "Made your key pair" if user.made else "Your key pair"
    typer.echo(f"{verb}: {visible(user.owner)}, fingerprint {user.key.fingerprint}")
    typer.echo(f"  in {visible(printable(user.space / 'keys/person'))}")
    if user.made and not _is_encrypted(app):
        typer.echo("  it is not encrypted, and whatever runs as you can read it: rye keys passphrase")


def _print_project(made: InitializedProject, user: InitializedUser) -> None:
    space = visible(printable(made.root / ".ai"))
    if not made.yours and made.unapproved is None:
        typer.echo(f"There is {'now ' if made.made else ''}a project in {space}; {NOT_YOURS}")
        return
    typer.echo(_what_was_made(made, space))
    if made.proposed is not None:
        owner = visible(user.owner)
        typer.echo(f"Proposed your public key in it, as {owner}: whoever clones it can accept it.")
    elif made.made:
        typer.echo("Your public key is not in it; for others to decide on it: rye trust propose")
    if made.ignored:
        typer.echo(f"Added to .gitignore: {' '.join(made.ignored)}")
    for notice in made.notices:
        say(notice)
    if made.made:
        typer.echo("Now write a tool: rye new demo/hello")


def _what_was_made(made: InitializedProject, space: str) -> str:
    if made.unapproved is not None:
        what = f"Made the project {space}; its .env, .venv and node_modules are not used:"
        return f"{what}\n  {visible(made.unapproved)}"
    if made.made:
        return f"Made the project {space}; its .env, .venv and node_modules will be used."
    return f"Your project: {space}"
