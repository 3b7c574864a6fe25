"""The table of all commands, and the application made of it. Each command group has one module."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar

import typer

from rye_mcp.cli._command_groups import CommandPlace, LazyGroup

__all__ = ["COMMANDS", "RyeGroup", "app"]

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
        "push": CommandPlace(
            "rye_mcp.cli.share",
            "push_items",
            "Put signed items into a registry, with all that vouches for them.",
            TRUST,
        ),
        "pull": CommandPlace(
            "rye_mcp.cli.share",
            "pull_items",
            "Bring in signed items, verified before they are written, and pin them.",
            TRUST,
        ),
        "sync": CommandPlace(
            "rye_mcp.cli.share", "sync_items", "Bring back exactly what sources.toml pins.", TRUST
        ),
        "trust": CommandPlace(
            "rye_mcp.cli.trust",
            "trust",
            "Who may sign what you run: everything undecided, and the decisions.",
            TRUST,
        ),
        "questions": CommandPlace(
            "rye_mcp.cli.questions",
            "questions",
            "What servers ask you, for clients that cannot ask, and your answers.",
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
            "rye_mcp.cli.items", "explain", "Show what would run a tool, and what prevents it.", RUN
        ),
        "run": CommandPlace(
            "rye_mcp.cli.run", "run", "Run a tool, with its parameters as --name value.", RUN
        ),
        "log": CommandPlace("rye_mcp.cli.log", "log", "What has run, and what it wrote.", RUN),
        "kill": CommandPlace("rye_mcp.cli.run", "kill", "End a run that is going on, wherever it runs.", RUN),
        "ui": CommandPlace(
            "rye_mcp.cli.ui",
            "ui",
            "Show runs, items, keys, questions and health on a page in the browser, until Ctrl-C.",
            RUN,
        ),
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
        "engine": CommandPlace(
            "rye_mcp.cli.engine",
            "engine",
            "The machines that your calls may run on: engines, their nodes and tools.",
            SERVERS,
        ),
        "node": CommandPlace(
            "rye_mcp.cli.node",
            "node",
            "This machine as one that runs calls of other servers: its key, and whom it accepts.",
            SERVERS,
        ),
        "worker": CommandPlace(
            "rye_mcp.cli.node",
            "worker",
            "Run sealed calls of accepted servers; an engine starts it.",
            SERVERS,
        ),
        "skill": CommandPlace(
            "rye_mcp.cli.skill",
            "skill",
            "Skills of others: bring them in, look at them, place copies for other clients.",
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
