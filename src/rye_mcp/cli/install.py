"""`rye install`: put this server into the configuration of an MCP client, or take it out.

One member of the file changes; a file where that is impossible is refused. The former file is kept beside it.
"""

from __future__ import annotations

import os
import shlex
import stat
import sysconfig
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from lilux import _files as whole_files
from lilux._dataclasses import dataclass
from rye_mcp.cli._client_files import (
    CLIENTS,
    Client,
    ClientName,
    Surroundings,
    entry,
    parse_object,
    with_member,
    without_member,
)
from rye_mcp.cli._options import JsonOption, ProjectOption
from rye_mcp.cli._printing import print_json
from rye_mcp.errors import RyeError, printable
from rye_mcp.visible import visible

__all__ = ["BACKUP_SUFFIX", "install"]

BACKUP_SUFFIX: Final = ".before-rye"
"""The suffix of a file's backup copy."""

_COMMAND: Final = "rye-mcp"
_MAX_BYTES: Final = 64 << 20
_NEW_MODE: Final = 0o600
_NO_PROJECT: Final = (
    "no project is named: the server has your own items and those of the system, and a project only where "
    "the client names one. Do it in a project, or with --project DIR"
)


@dataclass(frozen=True, slots=True)
class _Change:
    """The old and new content of a file, and a note about an entry that is gone."""

    file: Path
    before: str | None
    after: str
    mode: int
    note: str | None = None

    @property
    def is_one(self) -> bool:
        return self.after != (self.before or "")


def install(
    client: Annotated[ClientName, typer.Argument(metavar="CLIENT", help=", ".join(ClientName))],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="What the client calls the server.")
    ] = "rye",
    remove: Annotated[bool, typer.Option("--remove", help="Take the server out again.")] = False,
    only_print: Annotated[
        bool, typer.Option("--print", help="Show what would be put in, and change nothing.")
    ] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put the MCP server into the configuration of a client."""
    if remove and only_print:
        raise typer.BadParameter("expected --remove or --print, found both")
    known = CLIENTS[client]
    where = _project(project)
    server = None if remove else entry(known, _command(), where, os.environ, user_directory=Path.home())
    if server is not None and where is None and not as_json:
        typer.echo(_NO_PROJECT, err=True)
    path = known.path_of(name, where)
    file = Path(os.path.realpath(known.file(Surroundings(Path.home(), os.environ))))
    if only_print:
        _print_entry(path, server, file, as_json=as_json)
    else:
        _write(client, name, file, path, server, where, as_json=as_json)


def _write(
    client: ClientName,
    name: str,
    file: Path,
    path: tuple[str, ...],
    server: dict[str, Any] | None,
    where: Path | None,
    *,
    as_json: bool,
) -> None:
    """Change the file, and say so."""
    known = CLIENTS[client]
    change = _change(file, path, server, known)
    if server is not None:
        change = replace(change, note=_note(change, path, where, client))
    backup = _apply(change) if change.is_one else None
    if as_json:
        print_json(_answer(client, name, change, server, backup))
    else:
        _print_done(known, name, change, backup, removed=server is None)


def _project(named: Path | None) -> Path | None:
    from rye_mcp.app import Settings

    settings = Settings.find(project=named)
    return None if settings.spaces().project is None else settings.project


def _command() -> Path:
    command = Path(sysconfig.get_path("scripts")) / _COMMAND
    if not os.access(command, os.X_OK):
        what = f"expected {_COMMAND} beside the interpreter that runs this, found none"
        raise RyeError("internal", what, where=command, hint="pip install --force-reinstall rye-mcp")
    return command


def _change(file: Path, path: tuple[str, ...], server: dict[str, Any] | None, client: Client) -> _Change:
    before, mode = _read(file)
    text = before or ""
    try:
        after = without_member(text, path) if server is None else with_member(text, path, server)
    except (ValueError, RecursionError) as exc:
        what = f"expected strict JSON that {client.title} and every program read alike, found: {exc}"
        hint = f"put it in by hand: rye install {_name_of(client)} --print"
        raise RyeError("client_configuration", what, where=file, hint=hint) from exc
    return _Change(file, before, after, mode)


def _note(change: _Change, path: tuple[str, ...], project: Path | None, client: ClientName) -> str | None:
    """Return which other project an entry of this name was for, if any; and how to have both."""
    old: Any = parse_object(change.before or "")
    for name in path:
        old = old.get(name) if isinstance(old, dict) else None
    if not isinstance(old, dict):
        return None
    command = old.get("command")
    if not isinstance(command, str) or Path(command).name != _COMMAND:
        return "the entry that was there started something else; --name NAME puts this one beside it"
    before = _project_in(old.get("args"))
    if before == (None if project is None else str(project)):
        return None
    if before is None:
        return "it was for no project; to have both, put this one in with --name NAME"
    again = f"rye install {client} --name NAME --project {shlex.quote(before)}"
    return f"it was for the project {before}; to have both: {again}"


def _project_in(args: Any) -> str | None:
    """The project that arguments of the server name."""
    words = [word for word in args if isinstance(word, str)] if isinstance(args, list) else []
    named = [word.removeprefix("--project=") for word in words if word.startswith("--project=")]
    named += [after for word, after in pairwise(words) if word == "--project"]
    return named[-1] if named else None


def _read(file: Path) -> tuple[str | None, int]:
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        return whole_files.read_capped(file, _MAX_BYTES).decode("utf-8"), mode
    except FileNotFoundError:
        return None, _NEW_MODE
    except UnicodeDecodeError as exc:
        raise RyeError("client_configuration", f"expected UTF-8, found: {exc}", where=file) from exc
    except OSError as exc:
        raise RyeError("read_failed", f"the system said: {exc.strerror or exc}", where=file) from exc


def _apply(change: _Change) -> Path | None:
    """Write the file, and what it was beside it."""
    backup = change.file.with_name(change.file.name + BACKUP_SUFFIX)
    try:
        change.file.parent.mkdir(parents=True, exist_ok=True)
        if change.before is not None:
            whole_files.write_whole(backup, change.before.encode(), mode=change.mode)
        if _read(change.file)[0] != change.before:
            what = "expected the file as it was read, found that its program has written it meanwhile"
            raise RyeError("client_configuration", what, where=change.file, hint="do it again")
        whole_files.write_whole(change.file, change.after.encode(), mode=change.mode)
    except OSError as exc:
        raise RyeError("write_failed", f"the system said: {exc.strerror or exc}", where=change.file) from exc
    return None if change.before is None else backup


def _name_of(client: Client) -> ClientName:
    return next(name for name, each in CLIENTS.items() if each is client)


def _answer(
    client: ClientName, name: str, change: _Change, server: dict[str, Any] | None, backup: Path | None
) -> dict[str, Any]:
    return {
        "status": "success",
        "client": client.value,
        "name": name,
        "file": printable(change.file),
        "changed": change.is_one,
        "server": server,
        "backup": None if backup is None else printable(backup),
        "note": None if change.note is None else printable(change.note),
    }


def _print_entry(path: tuple[str, ...], server: dict[str, Any] | None, file: Path, *, as_json: bool) -> None:
    """Print the entry as a document of its own; its place, on standard error."""
    document: Any = server
    for name in reversed(path):
        document = {name: document}
    if not as_json:
        typer.echo(f"for {visible(printable(file))}:", err=True)
    print_json(document)


def _print_done(client: Client, name: str, change: _Change, backup: Path | None, *, removed: bool) -> None:
    file = visible(printable(change.file))
    if not change.is_one:
        typer.echo(f"{file}: nothing to do")
        return
    typer.echo(f"{'Took' if removed else 'Put'} {visible(name)} {'out of' if removed else 'into'} {file}")
    if change.note is not None:
        typer.echo(f"  {visible(printable(change.note))}")
    if backup is not None:
        typer.echo(f"  what it was: {visible(shlex.quote(printable(backup)))}")
    if removed:
        typer.echo(f"  {client.title} may use it until you start it again")
    else:
        typer.echo(f"  now {client.restart}")
