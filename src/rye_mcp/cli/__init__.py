"""The `rye` command: everything a person does with rye-mcp, at a terminal or in a script.

One module a command group; this one only puts them together. A command prints its result on standard output
(as JSON with `--json`) and what went wrong on standard error. Exit codes: 0 done, 1 refused or failed, 2
wrong use, 130 interrupted.
"""

import gc
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar

import typer

from rye_mcp.cli._command_groups import EXIT_FAILED, CommandPlace, LazyGroup
from rye_mcp.cli._printing import report
from rye_mcp.errors import RyeError

__all__ = ["COMMANDS", "app", "main"]

TRACEBACK_VARIABLE = "RYE_TRACEBACK"

GARBAGE_THRESHOLD = 100_000
"""How many objects are made before Python looks for those that nobody needs any more."""

START, TRUST, RUN, SERVERS = "Write tools", "Vouch for them", "Find and run them", "Clients and other servers"
"""The sections of `rye --help`."""

COMMANDS: Mapping[str, CommandPlace] = MappingProxyType(
    {
        "init": CommandPlace(
            "rye_mcp.cli.init", "init", "Make your keys, and a project of this directory.", START
        ),
        "new": CommandPlace("rye_mcp.cli.items", "new_item", "Write an item that works, as a start.", START),
        "adopt": CommandPlace(
            "rye_mcp.cli.adopt",
            "adopt",
            "Make a tool of a script that you have, without changing what it does.",
            START,
        ),
        "dev": CommandPlace(
            "rye_mcp.cli.dev",
            "dev",
            "Work on a tool: see at every change what is wrong, and run the draft.",
            START,
        ),
        "test": CommandPlace(
            "rye_mcp.cli.survey",
            "run_tests",
            "Run the examples that tools declare, and compare the results.",
            START,
        ),
        "copy": CommandPlace(
            "rye_mcp.cli.items", "copy", "Copy an item to another space; its signature goes with it.", START
        ),
        "schema": CommandPlace(
            "rye_mcp.cli.items",
            "schema",
            "Print the JSON Schema of what an item says about itself, or write all of them.",
            START,
        ),
        "demo": CommandPlace(
            "rye_mcp.cli.demo", "demo", "Let an agent run a signed tool, and check what is promised.", START
        ),
        "sign": CommandPlace(
            "rye_mcp.cli.sign",
            "sign_items",
            "Sign an item, or all that match a pattern, with your key.",
            TRUST,
        ),
        "verify": CommandPlace(
            "rye_mcp.cli.survey",
            "verify",
            "Check whether items would be accepted, and who signed them.",
            TRUST,
        ),
        "lock": CommandPlace(
            "rye_mcp.cli.lock",
            "lock",
            "Lock tools as they are now, and check that they still are.",
            TRUST,
        ),
        "trust": CommandPlace(
            "rye_mcp.cli.trust",
            "trust",
            "Who may sign what you run: everything undecided, and the decisions.",
            TRUST,
        ),
        "keys": CommandPlace(
            "rye_mcp.cli.keys", "keys", "The key pairs that you, and your agents, sign with.", TRUST
        ),
        "secret": CommandPlace(
            "rye_mcp.cli.secret", "secret", "The secrets that tools get which you signed for them.", TRUST
        ),
        "list": CommandPlace(
            "rye_mcp.cli.survey", "list_items", "List the items of every space, with who signed them.", RUN
        ),
        "search": CommandPlace(
            "rye_mcp.cli.search", "search_items", "Find items by what they are for, the best first.", RUN
        ),
        "show": CommandPlace(
            "rye_mcp.cli.items", "show", "Show an item, who signed it, and what it says.", RUN
        ),
        "explain": CommandPlace(
            "rye_mcp.cli.explain", "explain", "Show what would run a tool, and what prevents it.", RUN
        ),
        "run": CommandPlace(
            "rye_mcp.cli.run", "run", "Run a tool, with its parameters as --name value.", RUN
        ),
        "log": CommandPlace("rye_mcp.cli.log", "log", "What has run, and what it wrote.", RUN),
        "receipt": CommandPlace(
            "rye_mcp.cli.receipt",
            "receipt",
            "What is on record of each run, signed: show it, verify it, pass it on.",
            RUN,
        ),
        "install": CommandPlace(
            "rye_mcp.cli.install",
            "install",
            "Put the MCP server into the configuration of a client.",
            SERVERS,
        ),
        "doctor": CommandPlace(
            "rye_mcp.cli.doctor",
            "doctor",
            "Check that the server works, as a client would start it, and say what to do.",
            SERVERS,
        ),
        "mcp": CommandPlace(
            "rye_mcp.cli.mcp",
            "mcp",
            "Other MCP servers: bring in their tools, signed, and look at what changed.",
            SERVERS,
        ),
    }
)
"""Every command, section by section."""


class RyeGroup(LazyGroup):
    """The group of all commands."""

    places: ClassVar[Mapping[str, CommandPlace]] = COMMANDS


app = typer.Typer(
    name="rye",
    cls=RyeGroup,
    help="Run tools that people can trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"rye {version('rye-mcp')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Run tools that people can trust."""


def main() -> None:
    """Run the `rye` command with the arguments of this process."""
    # What is imported stays, and looking through it again and again takes a twentieth of a short command.
    gc.set_threshold(GARBAGE_THRESHOLD)
    _open_standard_streams()
    try:
        app()
    except Exception as exc:  # the last one to see it: nobody is shown a traceback unasked
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        report(_unexpected(exc))
        with suppress(OSError):
            sys.stdout.close()  # what it could not write now it could not write at the very end either
        sys.exit(EXIT_FAILED)
    finally:
        gc.freeze()  # or Python looks through everything once more before it ends


def _open_standard_streams() -> None:
    """Let there be all three: whoever started this may have closed some of them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - to the end


def _unexpected(exc: Exception) -> RyeError:
    if isinstance(exc, OSError):
        return RyeError(
            "write_failed", f"the system said: {exc}", hint="look at what it says, then try again"
        )
    found = f"expected none of this, found {type(exc).__name__}: {exc}"
    return RyeError("internal", found, hint=f"{TRACEBACK_VARIABLE}=1 rye …, and report what that shows")
