"""The `rye` command: everything a person does with rye-mcp, at a terminal or in a script.

One module a command group; this one only puts them together. A command prints its result on standard output
(as JSON with `--json`) and what went wrong on standard error, and ends with 0 only when all is well.
"""

from importlib.metadata import version
from typing import Annotated

import typer

from rye_mcp.cli.demo import demo

__all__ = ["app", "main"]

app = typer.Typer(
    name="rye",
    help="Run tools that people can trust.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)


def _print_version(wanted: bool) -> None:
    if wanted:
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
    app()
