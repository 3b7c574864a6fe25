"""`rye test`: run the example calls that tools declare, and compare what comes of them with what they expect.

Without an argument, it tests all tools of the project. It ends with 1 when an example fails, when a tool is
refused, and when there was nothing to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rye_mcp.cli._common import (
    EXIT_FAILED,
    JsonOption,
    ProjectOption,
    SpaceOption,
    open_app,
    pattern_argument,
    person,
    print_json,
    print_table,
    report,
    visible,
)
from rye_mcp.cli._group import EXIT_INTERRUPTED
from rye_mcp.items import SpaceName

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.verbs.examples import ExampleOutcome, ExamplesRequest, ExamplesResult

__all__ = ["run_tests"]


def run_tests(
    pattern: Annotated[
        str | None,
        pattern_argument("An id, or a pattern of ids such as 'demo/*'; by default all of the project."),
    ] = None,
    space: SpaceOption = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Less time than each tool itself takes.")
    ] = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the examples that tools declare, and compare the results."""
    import anyio

    from rye_mcp.verbs.examples import ExamplesRequest

    app = open_app(project)
    if pattern is None:
        pattern, space = "*", space or SpaceName.PROJECT
    try:
        result = anyio.run(_run, app, ExamplesRequest(pattern, space, timeout))
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if as_json:
        print_json(result.as_dict())
    else:
        _print(result)
    if result.failed or not result.outcomes:
        raise typer.Exit(EXIT_FAILED)


async def _run(app: App, request: ExamplesRequest) -> ExamplesResult:
    from rye_mcp.verbs.examples import run_examples

    async with app.closing():
        return await run_examples(request, person(app), executor_in=app.executor_in)


def _print(result: ExamplesResult) -> None:
    outcomes = result.outcomes
    if outcomes:
        rows = [
            (each.item_id, _name(each), "passed" if each.passed else "FAILED", f"{each.duration_ms:.0f} ms")
            for each in outcomes
        ]
        red = (number for number, each in enumerate(outcomes) if not each.passed)
        print_table(("TOOL", "EXAMPLE", "RESULT", "TIME"), rows, red=red)
    for each in result.failed:
        _explain(each)
    typer.echo(_summary(result))


def _name(outcome: ExampleOutcome) -> str:
    if outcome.number is None:
        return "-"
    return f"{outcome.number} {outcome.description}".rstrip()


def _explain(outcome: ExampleOutcome) -> None:
    if outcome.number is not None:
        typer.echo("\n" + visible(f"{outcome.item_id}, example {_name(outcome)}"))
    for line in outcome.differences:
        typer.echo(f"  {visible(line)}")
    for line in outcome.stderr:
        typer.echo(f"  | {visible(line)}")
    if outcome.error is not None:
        report(outcome.error)


def _summary(result: ExamplesResult) -> str:
    failed = len(result.failed)
    text = f"{len(result.outcomes) - failed} passed, {failed} failed"
    if not result.without:
        return text
    return f"{text}; without an example: {_listed(result.without)}"


def _listed(ids: Sequence[str], shown: int = 5) -> str:
    more = f" and {len(ids) - shown} more" if len(ids) > shown else ""
    return ", ".join(ids[:shown]) + more
