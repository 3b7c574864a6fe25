"""`rye doctor`: whether all that the server needs is there, also when a client with windows starts it.

It changes nothing. Exit codes: 0 nothing is broken, 1 something is, 2 wrong use.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import anyio
import typer

from rye_mcp.cli._checks import (
    Finding,
    check_clients,
    check_clock,
    check_interpreters,
    check_keys,
    check_places,
    check_server,
    check_spaces,
    check_supervisor,
)
from rye_mcp.cli._clients import Surroundings
from rye_mcp.cli._common import EXIT_FAILED, JsonOption, ProjectOption, open_app, print_json, visible

__all__ = ["doctor"]

_COLOURS = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "broken": typer.colors.RED}


def doctor(project: ProjectOption = None, as_json: JsonOption = False) -> None:
    """Check that the server works, as a client would start it, and say what to do."""
    findings = anyio.run(_findings, project)
    broken = [finding for finding in findings if finding.state == "broken"]
    if as_json:
        print_json({"healthy": not broken, "findings": [finding.as_dict() for finding in findings]})
    else:
        for finding in findings:
            _print(finding)
        warned = sum(finding.state == "warning" for finding in findings)
        typer.echo(f"{len(findings)} checks: {len(broken)} broken, {warned} to look at")
    if broken:
        raise typer.Exit(EXIT_FAILED)


async def _findings(project: Path | None) -> list[Finding]:
    app = open_app(project)
    command = Path(sysconfig.get_path("scripts")) / "rye-mcp"
    return [
        await check_supervisor(),
        *await check_server(command, app),
        *check_spaces(app),
        *check_keys(app),
        *check_places(app),
        *check_interpreters(os.environ),
        check_clock(app),
        *check_clients(Surroundings(Path.home(), os.environ)),
    ]


def _print(finding: Finding) -> None:
    state = typer.style(f"{finding.state:<8}", fg=_COLOURS[finding.state])
    typer.echo(f"{state} {finding.check}: {visible(finding.message)}")
    if finding.hint is not None:
        typer.echo(f"{'':<8}   hint: {visible(finding.hint)}")
