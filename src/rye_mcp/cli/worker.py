"""`rye worker`: runs calls that an accepted server sends, sealed, over standard input and output."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from rye_mcp.app import App, Settings

__all__ = ["worker"]


def worker() -> None:
    """Run sealed calls of accepted servers; an engine starts it.

    It goes on until its standard input ends, and says nothing that a person reads. Which servers may send
    calls, `rye node accept` says.
    """
    import anyio

    anyio.run(_serve)


async def _serve() -> None:
    import anyio

    from rye_mcp.executor.job.snapshot import private_directory
    from rye_mcp.mcp_server.stdio import claimed
    from rye_mcp.nodes.seal import Instance
    from rye_mcp.nodes.submitters import Submitters
    from rye_mcp.nodes.worker import Worker
    from rye_mcp.receipts.runner import RunnerKeys

    app = App.open(Settings.find(working_directory=Path("/")))
    state, revoked = app.settings.state, app.trust.store.revocations
    submitters = Submitters(state, revoked)
    instance = Instance.begin(RunnerKeys(state).ready(revoked()), submitters.key, package=version("rye-mcp"))
    with private_directory(app.settings.environment) as directory:
        (directory / ".ai").mkdir()
        executor = app.executor_in(directory, with_items=False)
        try:
            with claimed() as (incoming, outgoing):
                await Worker(instance, executor, submitters).serve(incoming.read, outgoing)
        finally:
            with anyio.CancelScope(shield=True):
                await executor.close()
