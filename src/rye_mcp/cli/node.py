"""`rye node`: this machine as one that runs calls of other servers.

Nobody may send calls here until a person has accepted the key of their server, for tools that they name. What
runs is verified again here, by what you trust: accepting a server trusts no signer.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from rye_mcp.app import App, Settings
from rye_mcp.cli._command_groups import command_group
from rye_mcp.cli._options import JsonOption, open_app
from rye_mcp.cli._printing import print_json, print_table, say
from rye_mcp.errors import RyeError
from rye_mcp.nodes.acceptance import accept as accept_server
from rye_mcp.nodes.acceptance import forget as forget_server
from rye_mcp.nodes.submitters import Submitters
from rye_mcp.receipts.runner import RunnerKeys
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.trust_document import MAX_DOCUMENT_BYTES, PublicKey, TrustDocument
from rye_mcp.visible import visible

__all__ = ["node", "worker"]

node = command_group("This machine as one that runs calls of other servers: its key, and whom it accepts.")

_STANDARD_INPUT = "-"


@node.command()
def init(
    owner: Annotated[
        str, typer.Option("--owner", metavar="NAME", help="What to call this machine.")
    ] = "node",
) -> None:
    """Print the public key of this machine, for the other side: rye node init > NODE.toml."""
    document = TrustDocument.create(_key(open_app(None)), owner, kind=SignerKind.RUNNER)
    typer.echo(document.data.decode("utf-8"), nl=False)


@node.command()
def accept(
    document: Annotated[
        Path, typer.Argument(metavar="SERVER.toml", help="What rye node init printed there; - reads it.")
    ],
    ids: Annotated[
        list[str],
        typer.Option("--ids", metavar="PATTERN", help="Which tools it may run here, such as sim/*."),
    ],
    as_json: JsonOption = False,
) -> None:
    """Let a server send calls of these tools to this machine. Whose signatures count is another decision."""
    app = open_app(None)
    accepted = accept_server(_read(document), document, app.settings.state, _submitters(app), ids=ids)
    shown = ", ".join(ids)
    if as_json:
        print_json({"status": "accepted", "key_id": accepted.key.key_id, "ids": ids})
        return
    say(f"accepted {visible(accepted.owner)} ({accepted.key.key_id}) for {shown}")
    say("They run if you trust the signer of the tool: rye trust add FILE --ids PATTERN")


@node.command()
def forget(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="A whole key id: rye node status.")],
    as_json: JsonOption = False,
) -> None:
    """Accept a server no longer. A worker that runs refuses its next call."""
    app = open_app(None)
    forgotten = forget_server(key_id, app.settings.state, _submitters(app))
    if as_json:
        print_json({"status": "forgotten", "key_id": forgotten.key.key_id})
    else:
        say(f"forgot {visible(forgotten.owner)} ({forgotten.key.key_id})")


@node.command()
def status(as_json: JsonOption = False) -> None:
    """Show the key of this machine, and which servers it accepts."""
    app = open_app(None)
    submitters = _submitters(app)
    key, accepted = _key(app), submitters.all()
    if as_json:
        servers = [
            {
                "key_id": each.key.key_id,
                "owner": each.owner,
                "ids": list(each.scope.ids or ()),
                "revoked": submitters.is_revoked(each.key.key_id),
            }
            for each in accepted
        ]
        print_json({"status": "success", "key_id": key.key_id, "servers": servers})
        return
    say(f"the key of this machine: {key.key_id}")
    rows = [
        (
            each.key.key_id,
            visible(each.owner),
            ", ".join(each.scope.ids or ()),
            "revoked" if submitters.is_revoked(each.key.key_id) else "accepted",
        )
        for each in accepted
    ]
    if rows:
        print_table(("SERVER", "OWNER", "TOOLS", "STATE"), rows)
    else:
        say("It accepts no server: rye node accept SERVER.toml --ids PATTERN")


def _submitters(app: App) -> Submitters:
    return Submitters(app.settings.state, app.trust.store.revocations)


def _key(app: App) -> PublicKey:
    return RunnerKeys(app.settings.state).ready(app.trust.store.revocations()).public


def _read(path: Path) -> bytes:
    try:
        if str(path) == _STANDARD_INPUT:
            return sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
        with path.open("rb") as file:
            return file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as exc:
        raise RyeError("read_failed", f"expected a file, found: {exc.strerror}", where=path) from exc


# --- rye worker ---


def worker() -> None:
    """Run sealed calls of accepted servers; an engine starts it.

    It goes on until its standard input ends, and says nothing that a person reads. Which servers may send
    calls, `rye node accept` says.
    """
    import anyio

    anyio.run(_serve)


async def _serve() -> None:
    import anyio

    from rye_mcp.configuration import shared_directories
    from rye_mcp.executor.job.snapshot import private_directory
    from rye_mcp.mcp_server.stdio import claimed
    from rye_mcp.nodes.seal import Instance
    from rye_mcp.nodes.submitters import Submitters
    from rye_mcp.nodes.worker import Worker
    from rye_mcp.nodes.workspaces import Workspaces
    from rye_mcp.receipts.runner import RunnerKeys

    app = App.open(Settings.find(working_directory=Path("/")))
    state, revoked = app.settings.state, app.trust.store.revocations
    submitters = Submitters(state, revoked)
    instance = Instance.begin(RunnerKeys(state).ready(revoked()), submitters.key, package=version("rye-mcp"))
    with private_directory(app.settings.environment) as private:
        empty = private / "empty"
        (empty / ".ai").mkdir(parents=True)
        there = app.in_directory(empty)
        open_executor = partial(there.executor_in, with_items=True)
        executor = open_executor(empty)
        workspaces = Workspaces(private, open_executor, partial(shared_directories, app))
        try:
            with claimed() as (incoming, outgoing):
                worker = Worker(instance, executor, submitters, workspaces)
                await worker.serve(incoming.read, outgoing)
        finally:
            with anyio.CancelScope(shield=True):
                await workspaces.close()
                await executor.close()
