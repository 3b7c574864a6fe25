"""`rye kill`: ends a run that is going on, in whatever server or command of this user."""

from __future__ import annotations

from typing import Annotated

import typer

from rye_mcp.app import Settings
from rye_mcp.cli._options import JsonOption
from rye_mcp.cli._printing import print_json
from rye_mcp.runs.live import LiveView
from rye_mcp.runs.log import RunLog
from rye_mcp.verbs.runs import kill_run

__all__ = ["kill"]


def kill(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The id of a run: rye log --status running.")],
    as_json: JsonOption = False,
) -> None:
    """End a run that is going on, wherever it runs.

    The processes that it started get SIGTERM, and 2 s later SIGKILL.
    """
    state = Settings.find().state
    with RunLog(state) as log:
        signal = kill_run(run, log, LiveView(state))
    if as_json:
        print_json({"status": "success", "run_id": run, "signal": signal})
    else:
        typer.echo(f"ended {run} with {signal}")
