"""`rye demo`: the main job of rye-mcp, done before your eyes.

Each step does something real, tells what it finds, and states what must be true afterwards. This module runs
them and prints all that as it comes. The command ends with 0 only when every expectation was met.
"""

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any

import anyio
import typer

from rye_mcp.cli.demo_agent import an_agent_runs_what_was_signed
from rye_mcp.cli.demo_steps import STEPS, Expectation, Step, Tell

__all__ = ["ALL_STEPS", "demo", "present"]

LABEL_WIDTH = 13

ALL_STEPS: tuple[Step, ...] = (
    *STEPS,
    Step("An agent runs what a person has signed, and nothing else", an_agent_runs_what_was_signed),
)
"""What is shown, in this order: it ends with what all the rest is for."""

EXIT_UNMET = 1


def demo(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Let an agent run a signed tool, and check what is promised."""
    if not present(ALL_STEPS, as_json=as_json):
        raise typer.Exit(EXIT_UNMET)


def present(steps: Sequence[Step], *, as_json: bool = False) -> bool:
    """Run the steps, print what happens, and say whether every expectation was met."""
    return anyio.run(_print_json if as_json else _print_text, steps)


async def _print_text(steps: Sequence[Step]) -> bool:
    typer.echo(f"rye-mcp {version('rye-mcp')}: what this version does, done now")
    expectations: list[Expectation] = []
    for number, step in enumerate(steps, start=1):
        typer.echo(f"\n{number}. {step.title}\n")
        found = await step.act(_teller())
        for expectation in found:
            typer.echo(f"   {_mark(expectation)}{expectation.text}")
        expectations += found
    typer.echo(f"\n{_verdict(expectations)}")
    return all(expectation.met for expectation in expectations)


async def _print_json(steps: Sequence[Step]) -> bool:
    done = [await _done(step) for step in steps]
    met = all(each["met"] for each in done)
    typer.echo(json.dumps({"version": version("rye-mcp"), "met": met, "steps": done}, indent=2))
    return met


async def _done(step: Step) -> dict[str, Any]:
    """A step as data. What is said of one thing again is a line more."""
    facts: dict[str, str] = {}

    def tell(label: str, text: str) -> None:
        facts[label] = f"{facts[label]}\n{text}" if label in facts else text

    expectations = await step.act(tell)
    return {
        "title": step.title,
        "met": all(each.met for each in expectations),
        "facts": facts,
        "expectations": [{"text": each.text, "met": each.met} for each in expectations],
    }


def _teller() -> Tell:
    """Prints each fact as it comes; what is said of one thing again stands below it."""
    said = ""

    def tell(label: str, text: str) -> None:
        nonlocal said
        typer.echo(f"   {'' if label == said else label:<{LABEL_WIDTH}}{text}")
        said = label

    return tell


def _mark(expectation: Expectation) -> str:
    text, colour = ("ok", typer.colors.GREEN) if expectation.met else ("NOT MET", typer.colors.RED)
    return typer.style(f"{text:<{LABEL_WIDTH}}", fg=colour)


def _verdict(expectations: Sequence[Expectation]) -> str:
    unmet = sum(not expectation.met for expectation in expectations)
    if unmet:
        return f"{unmet} of {len(expectations)} expectations were NOT met."
    return f"All {len(expectations)} expectations were met."
