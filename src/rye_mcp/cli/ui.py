"""`rye ui`: a page in the browser with what runs, what has run, items, keys, questions and health.

Nobody but this user, on this machine, can open it: see docs/ui.md.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rye_mcp.cli._options import ProjectOption

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rye_mcp.cli.doctor import Finding

__all__ = ["ui"]

_DESKTOPS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def ui(
    project: ProjectOption = None,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Listen here; 0 is any free port.")
    ] = 0,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser, where there is one.")
    ] = True,
) -> None:
    """Show runs, items, keys, questions and health on a page in the browser, until Ctrl-C."""
    from rye_mcp.app import Settings
    from rye_mcp.ui.start import serve_ui

    check_up, open_page = partial(_check_up, project), _open if open_browser else None
    serve_ui(Settings.find(project=project), port=port, check_up=check_up, open_page=open_page)


async def _check_up(project: Path | None) -> Sequence[Finding]:
    from rye_mcp.cli.doctor import find

    return await find(project)


def _open(address: str) -> None:
    """Show the address in a browser, if a person sits there. The browser stays when the command ends."""
    if sys.stdout.isatty() and any(map(os.environ.get, _DESKTOPS)):
        import threading
        import webbrowser

        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
