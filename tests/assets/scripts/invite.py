#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["click==8.1.8"]
# ///
import click


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, required=True)
@click.option("--greeting", "-g", default="Hello", show_default=True, help="What to begin with.")
@click.option("--times", type=click.IntRange(1, 5), default=1, help="How often.")
@click.option("--shout/--no-shout", default=False, help="In capitals.")
@click.option("--sep", type=click.Choice(["comma", "line"]), default="line")
def cli(names, greeting, times, shout, sep):
    """Write an invitation for everybody.

    NAMES are the guests.
    """
    lines = [f"{greeting}, {name}!" for name in names for _ in range(times)]
    text = ("\n" if sep == "line" else ", ").join(lines)
    click.echo(text.upper() if shout else text)


if __name__ == "__main__":
    cli()
