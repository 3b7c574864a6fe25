"""`rye trust`: who may sign what you run, and whether a project's unsigned files may be used.

These commands are the only way to trust anybody: no agent reaches them over MCP. In a terminal, `rye trust`
and `rye trust review` ask once; elsewhere, and with `--json`, they list what is undecided and say the
commands that decide it. What is decided on is what was shown. Exit codes: 0 done, also when something stays
undecided; 1 refused; 2 wrong use.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rye_mcp.cli._command_groups import command_group
from rye_mcp.cli._options import ItemArgument, JsonOption, ProjectOption, close_ids, open_app
from rye_mcp.cli._printing import print_json, say
from rye_mcp.cli._signers import print_key, print_problems, scope_text
from rye_mcp.cli._terminal import ask_which, can_ask
from rye_mcp.errors import RyeError
from rye_mcp.items import printable
from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.decisions import (
    KeyToAdd,
    KnownKey,
    Undecided,
    add_key,
    decide_on,
    find_proposal,
    find_undecided,
    list_keys,
    make_scope,
    owner_of,
    propose_key,
    revoke_key,
    scope_as_dict,
)
from rye_mcp.trust.scope import Origin, Scope, SignerKind, signer_in_words
from rye_mcp.trust.trust_document import MAX_DOCUMENT_BYTES, TrustDocument
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.executor.lock.agreement import Preview

__all__ = ["trust"]

STANDARD_INPUT = "-"

_COMMIT = "Commit it. Everyone who clones the project decides with: rye trust review"
_COMMIT_ROTATED = (
    "Commit it. Everyone who trusts your old key trusts this one too, and has nothing to decide; "
    "everyone else decides with: rye trust review"
)

trust = command_group("Who may sign what you run: everything undecided, and the decisions.")

KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY_ID", help="A whole key id, 64 digits; rye trust list shows them.")
]
IdsOption = Annotated[
    list[str] | None,
    typer.Option("--ids", metavar="PATTERN", help="Only for these ids, such as leo/*. May be repeated."),
]
RoleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        metavar="ROLE",
        help="Only as tool, runtime, primitive, engine, directive, knowledge or skill.",
    ),
]
ReplaceOption = Annotated[
    bool, typer.Option("--replace", help="Replace a document that says something else.")
]


@trust.callback(invoke_without_command=True, no_args_is_help=False)
def everything(ctx: typer.Context, project: ProjectOption = None, as_json: JsonOption = False) -> None:
    """Show everything undecided, and ask once."""
    if ctx.invoked_subcommand is not None:
        if project is not None or as_json:
            raise typer.BadParameter(f"expected options after {ctx.invoked_subcommand}, found some before it")
        return
    app = open_app(project)
    _decide(app, find_undecided(app.trust, app.keys, project=_project(app)), as_json=as_json)


@trust.command()
def review(
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="KEY_ID[@DIGEST]",
            help="Trust this proposal: as it is, or with @DIGEST as it was shown. May be repeated.",
        ),
    ] = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the keys that the project proposes, and ask once; or accept some."""
    app = open_app(project)
    app.spaces.require_project()
    if accept:
        _settle(app, accept, Decision.ACCEPTED, as_json=as_json)
        return
    undecided = find_undecided(app.trust, app.keys, project=None)
    _decide(app, undecided, as_json=as_json)


@trust.command()
def deny(
    key_ids: Annotated[
        list[str],
        typer.Argument(metavar="KEY_ID[@DIGEST]…", help="Whole key ids; rye trust review shows them."),
    ],
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deny keys that the project proposes, as their documents are now."""
    app = open_app(project)
    app.spaces.require_project()
    _settle(app, key_ids, Decision.DENIED, as_json=as_json)


@trust.command("list")
def list_command(project: ProjectOption = None, as_json: JsonOption = False) -> None:
    """Show every key that is trusted, proposed, denied or revoked."""
    app = open_app(project)
    known = list_keys(app.trust, app.keys)
    if as_json:
        print_json(
            {
                "status": "success",
                "keys": [row.as_dict() for row in known.rows],
                "problems": [problem.as_dict() for problem in known.problems],
            }
        )
        return
    if not known.rows:
        typer.echo("No keys yet: rye init")
    for row in known.rows:
        print_key(row)
    print_problems(known.problems)


@trust.command()
def add(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A document from rye keys export, or a PEM; - is input.")
    ],
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="Whose key it is; for a PEM, required.")
    ] = None,
    ids: IdsOption = None,
    role: RoleOption = None,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Trust somebody's public key, in every project of yours."""
    app = open_app(None)
    key = KeyToAdd(
        _read(file),
        Path("standard input" if file == STANDARD_INPUT else file),
        owner,
        make_scope(ids or (), role or ()),
    )
    document = key.as_document()
    change = add_key(app.trust, app.spaces.user.root, document, replace=replace)
    if as_json:
        print_json({"status": change.value, **_described(document)})
        return
    typer.echo(f"Trusted ({change.value}): {visible(document.owner)}")
    _print_document(document, Origin.USER)


@trust.command()
def propose(
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="The owner's name that others see.")
    ] = None,
    ids: IdsOption = None,
    role: RoleOption = None,
    replace: ReplaceOption = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put your public key into the project, for others to decide on."""
    app = open_app(project)
    space = app.spaces.require_project()
    key = app.keys.show(SignerKind.PERSON)
    name = owner or owner_of(app.trust, key) or "unknown"
    scope = make_scope(ids or (), role or ()) or Scope()
    rotation = app.keys.rotation_of(SignerKind.PERSON)
    document = TrustDocument.create(key, name, scope=scope, rotation=rotation)
    change = propose_key(app.trust, space.root, document, replace=replace)
    path = printable(space.root / "trusted_keys" / document.file_name)
    if as_json:
        print_json({"status": change.value, "path": path, **_described(document)})
        return
    typer.echo(f"Proposed ({change.value}): {visible(document.owner)}, in {visible(path)}")
    _print_document(document, Origin.PROJECT)
    typer.echo(_COMMIT_ROTATED if document.rotation is not None else _COMMIT)


@trust.command()
def revoke(
    key_id: KeyArgument,
    reason: Annotated[
        str,
        typer.Option("--reason", metavar="TEXT", help="The reason, shown whenever the key turns up again."),
    ] = "revoked with rye trust revoke",
    as_json: JsonOption = False,
) -> None:
    """Revoke a key in all your projects, whoever else trusts it."""
    app = open_app(None)
    revoke_key(app.spaces.user.root, key_id, reason)
    [row, *_] = [row for row in list_keys(app.trust, app.keys).rows if row.key_id == key_id]
    if as_json:
        print_json({"status": "revoked", **row.as_dict()})
        return
    print_key(row)
    if row.yours:
        typer.echo("That is a key that you sign with; for a new one: rye keys rotate")


@trust.command("project")
def project_command(
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Stop using them.")] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let the project's unsigned files be used: .env, .venv, node_modules."""
    app = open_app(project)
    path = _approve(app, approved=not withdraw)
    status = "withdrawn" if withdraw else "approved"
    if as_json:
        print_json({"status": status, "project": path})
        return
    use = "are not used any more" if withdraw else "are used from now on"
    typer.echo(f"The unsigned files of {visible(path)} {use}.")
    if not withdraw:
        typer.echo("None of its keys is trusted by that: rye trust review")


@trust.command("tool")
def tool_command(
    item: ItemArgument,
    accept: Annotated[
        str | None,
        typer.Option("--accept", metavar="MARK", help="Agree to it as it was shown; --json shows the mark."),
    ] = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a tool may do now and what of that is new, and ask once; or agree to it."""
    import anyio

    app = open_app(project)
    found = anyio.run(_capability, app, item, accept)
    if accept is None and found.widened and can_ask(as_json=as_json):
        _say_capability(found)
        if typer.confirm(f"May {found.item_id} do that from now on?", default=False, err=True):
            anyio.run(_capability, app, item, found.mark)
        return
    if as_json:
        status = "success" if accept is None else "accepted"
        widened = list(found.widened) if accept is None else []
        print_json(
            {
                "status": status,
                "item_id": found.item_id,
                "permissions": found.may,
                "signer": dict(found.signer),
                "widened": widened,
                "mark": found.mark,
            }
        )
        return
    _say_capability(found)
    if accept is not None:
        typer.echo("agreed")
    elif found.widened:
        typer.echo("\nNothing is asked, as this is no terminal. What agrees to it:")
        typer.echo(f"  rye trust tool {found.item_id} --accept {found.mark}")


async def _capability(app: App, item_id: str, accept: str | None) -> Preview:
    async with app.closing():
        with close_ids(app.spaces):
            return await app.executor().capability(item_id, accept)


def _say_capability(found: Preview) -> None:
    signer = found.signer
    by = signer_in_words(SignerKind(signer["kind"]), signer["owner"], signer["fingerprint"])
    say(f"{'tool':<13}{found.item_id}")
    say(f"{'signed by':<13}{by}")
    say(f"{'permissions':<13}{found.may}")
    for each in found.widened:
        say(f"{'new':<13}{each}")


# --- what is undecided --------------------------------------------------------------


def _decide(app: App, undecided: Undecided, *, as_json: bool) -> None:
    """Show what is undecided; ask which of it is accepted, or say the commands that do."""
    if as_json:
        print_json(
            {
                "status": "success",
                "project": None if undecided.project is None else printable(undecided.project),
                "keys": [row.as_dict() for row in undecided.keys],
                "problems": [problem.as_dict() for problem in undecided.problems],
                "commands": _commands(undecided),
            }
        )
        return
    print_problems(undecided.problems)
    if not undecided:
        typer.echo("Nothing is undecided.")
        return
    _show(undecided)
    if not can_ask():
        typer.echo("\nNothing is asked, as this is no terminal. What decides it:")
        for command in _commands(undecided):
            typer.echo(f"  {command}")
        return
    _accept(app, undecided, ask_which(len(undecided.keys) + bool(undecided.project)))


def _show(undecided: Undecided) -> None:
    for number, row in enumerate(undecided.keys, start=1):
        print_key(row, number=number)
    if undecided.project is not None:
        path = visible(printable(undecided.project))
        typer.echo(f"{len(undecided.keys) + 1:>2}. the project {path}:")
        typer.echo("    its .env, .venv and node_modules are signed by nobody, and not used yet")


def _accept(app: App, undecided: Undecided, chosen: Sequence[int]) -> None:
    """Accept what was chosen, exactly as it was shown."""
    rows = [undecided.keys[number - 1] for number in chosen if number <= len(undecided.keys)]
    documents = [row.document for row in rows if row.document is not None]
    decide_on(app.trust, documents, Decision.ACCEPTED)
    _say_for_what(app)
    if len(undecided.keys) + 1 in chosen:
        _approve(app, approved=True)
    total = len(undecided.keys) + bool(undecided.project)
    rest = "" if len(chosen) == total else "; the others stay undecided"
    typer.echo(f"Accepted {len(chosen)} of {total}{rest}.")


def _commands(undecided: Undecided) -> list[str]:
    keys = [f"rye trust review --accept {row.name}" for row in undecided.keys]
    denied = [f"rye trust deny {row.key_id}" for row in undecided.keys]
    return [*keys, *denied, *(["rye trust project"] if undecided.project is not None else [])]


def _settle(app: App, key_ids: Sequence[str], decision: Decision, *, as_json: bool) -> None:
    """Decide on proposals by their key ids: all of them, or none when one is not there."""
    documents = [find_proposal(app.trust, key_id) for key_id in dict.fromkeys(key_ids)]
    decide_on(app.trust, documents, decision)
    digests = {document.digest for document in documents}
    rows = [row for row in list_keys(app.trust, app.keys).proposals if _digest(row) in digests]
    if as_json:
        print_json({"status": decision.value, "keys": [row.as_dict() for row in rows]})
        return
    for row in rows:
        print_key(row)
    _say_for_what(app)


def _say_for_what(app: App) -> None:
    """Name the repository that a decision is for, where it was made in a worktree of it."""
    approvals = app.trust.approvals
    if approvals is not None and approvals.project != approvals.root:
        typer.echo(f"This counts for {visible(printable(approvals.project))} and all its worktrees.")


def _digest(row: KnownKey) -> str | None:
    return None if row.document is None else row.document.digest


def _project(app: App) -> Path | None:
    """The directory of the project, when there is one with an `.ai`."""
    space = app.spaces.project
    return app.settings.project if space is not None and space.root.is_dir() else None


def _approve(app: App, *, approved: bool) -> str:
    space = app.spaces.require_project()
    if not space.root.is_dir():
        what = f"expected a project, found no {space.root}"
        raise RyeError("no_project", what, where=space.root)
    if app.trust.approvals is None:
        raise RyeError("no_project", "expected a project, found none")
    app.trust.approvals.approve_project(approved=approved)
    return printable(app.trust.approvals.project)


# --- documents ----------------------------------------------------------------------


def _read(file: str) -> bytes:
    """Read a file, or standard input, up to one byte more than allowed, which shows that it is too long."""
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
    path = Path(file)
    try:
        if path.exists() and not path.is_file():
            what = f"expected a file at {printable(path)}, found something else"
            raise RyeError("unsafe_path", what, where=printable(path), hint="name a file")
        with path.open("rb") as opened:
            return opened.read(MAX_DOCUMENT_BYTES + 1)
    except (OSError, ValueError) as exc:
        what = f"expected a public key in {printable(path)}, found: {exc}"
        raise RyeError("read_failed", what, where=printable(path)) from exc


def _described(document: TrustDocument) -> dict[str, object]:
    return {
        "key_id": document.key.key_id,
        "fingerprint": document.key.fingerprint,
        "owner": document.owner,
        "kind": document.kind.value,
        "scope": scope_as_dict(document.scope),
    }


def _print_document(document: TrustDocument, origin: Origin) -> None:
    typer.echo(f"  key id       {document.key.key_id}")
    typer.echo(f"  fingerprint  {document.key.fingerprint}")
    typer.echo(f"  may sign     {visible(scope_text(document.scope, origin, document.kind))}")
