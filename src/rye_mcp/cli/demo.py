"""`rye demo`: the main job of rye-mcp, done before your eyes.

Each step of `rye_mcp.cli.demo_steps` does something real and states what must be true afterwards. This module
runs them and prints what happened. The command ends with 0 only when every expectation was met.
"""

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import anyio
import typer

from rye_mcp.cli.demo_agent import an_agent_runs_what_was_signed
from rye_mcp.cli.demo_steps import STEPS, Expectation, Step, StepFunction

__all__ = ["ALL_STEPS", "demo", "present"]

LABEL_WIDTH = 13

ALL_STEPS: tuple[StepFunction, ...] = (an_agent_runs_what_was_signed, *STEPS)
"""What is shown, in this order."""

EXIT_UNMET = 1


def demo(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Let an agent run a signed tool, and check what is promised."""
    if not present(ALL_STEPS, as_json=as_json):
        raise typer.Exit(EXIT_UNMET)


def present(steps: Sequence[StepFunction], *, as_json: bool = False) -> bool:
    """Run the steps, print what happened, and say whether every expectation was met."""
    done = anyio.run(_print_json if as_json else _print_text, steps)
    return all(step.met for step in done)


async def _print_text(steps: Sequence[StepFunction]) -> list[Step]:
    typer.echo(f"rye-mcp {version('rye-mcp')}: what this version does, done now")
    done: list[Step] = []
    for number, run in enumerate(steps, start=1):
        step = await run()
        done.append(step)
        typer.echo(f"\n{number}. {step.title}\n")
        for line in _lines(step):
            typer.echo(f"   {line}")
    typer.echo(f"\n{_verdict(done)}")
    return done


async def _print_json(steps: Sequence[StepFunction]) -> list[Step]:
    done = [await run() for run in steps]
    answer = {
        "version": version("rye-mcp"),
        "met": all(step.met for step in done),
        "steps": [step.as_json() for step in done],
    }
    typer.echo(json.dumps(answer, indent=2))
    return done


def _lines(step: Step) -> list[str]:
    facts = [f"{label:<{LABEL_WIDTH}}{text}" for label, text in step.facts.items()]
    return facts + [_mark(expectation) + expectation.text for expectation in step.expectations]


def _mark(expectation: Expectation) -> str:
    text, colour = ("ok", typer.colors.GREEN) if expectation.met else ("NOT MET", typer.colors.RED)
    return typer.style(f"{text:<{LABEL_WIDTH}}", fg=colour)


def _verdict(done: list[Step]) -> str:
    expectations = [expectation for step in done for expectation in step.expectations]
    unmet = sum(not expectation.met for expectation in expectations)
    if unmet:
        return f"{unmet} of {len(expectations)} expectations were NOT met."
    return f"All {len(expectations)} expectations were met."
