"""`rye list`, `rye verify` and `rye test`: many items, whether they pass, and their examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rye_mcp.cli._command_groups import EXIT_FAILED, EXIT_INTERRUPTED
from rye_mcp.cli._options import (
    AnyTypeOption,
    JsonOption,
    ProjectOption,
    SpaceOption,
    open_app,
    pattern_argument,
    person,
)
from rye_mcp.cli._printing import print_json, print_table, report, tracked
from rye_mcp.cli._signers import signers_in_words
from rye_mcp.errors import RyeError
from rye_mcp.items import SpaceName
from rye_mcp.trust.scope import Signer
from rye_mcp.verbs.survey import Survey, Surveyed, SurveyRequest, survey
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.verbs.examples import ExampleOutcome, ExamplesRequest, ExamplesResult

__all__ = ["list_items", "run_tests", "verify"]

_DESCRIPTION_WIDTH = 60


def list_items(
    pattern: Annotated[str, pattern_argument("A pattern of ids; by default everything.")] = "*",
    space: SpaceOption = None,
    item_type: AnyTypeOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Libraries too, which other tools load.")] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the items of every space, with who signed them."""
    request = SurveyRequest(pattern, item_type, space, libraries=everything)
    context = person(open_app(project))
    result = survey(request, context, tracked=lambda places: tracked(places, "Looking"))
    if as_json:
        print_json(result.as_dict())
        return
    if result.items:
        in_words = signers_in_words(context)
        rows = [
            (item.item_id, item.item_type, _space_of(item), in_words(item.integrity.signer), _about(item))
            for item in result.items
        ]
        red = (number for number, item in enumerate(result.items) if item.integrity.refusal is not None)
        print_table(("ITEM", "TYPE", "SPACE", "SIGNER", "ABOUT"), rows, red=red)
    else:
        typer.echo("there are no items")
    if result.libraries_left_out:
        count = result.libraries_left_out
        typer.echo(f"\nnot shown: {count} that only other tools load (rye list --all)", err=True)


def _about(item: Surveyed) -> str:
    """The first line of the description; for what is refused, the reason."""
    if item.integrity.refusal is not None:
        return f"refused: {item.integrity.state}"
    if item.integrity.listing is not None:
        return f"carried with the tools beside it, by {item.integrity.listing.name}"
    line = item.description.strip().partition("\n")[0]
    return line if len(line) <= _DESCRIPTION_WIDTH else line[: _DESCRIPTION_WIDTH - 1] + "…"


MAX_EXPLAINED = 20
"""How many refusals are explained below the table."""


def verify(
    pattern: Annotated[str, pattern_argument("An id, or a pattern; by default everything.")] = "*",
    space: SpaceOption = None,
    item_type: AnyTypeOption = None,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check whether items would be accepted, and who signed them."""
    app = open_app(project)
    request = SurveyRequest(pattern, item_type, space, locks=True)
    context = person(app)
    result = survey(request, context, tracked=lambda places: tracked(places, "Verifying"))
    if as_json:
        print_json(result.as_dict())
    else:
        _print_verified(result, signers_in_words(context), everything=pattern == "*" and space is None)
        if app.spaces.project is None:
            typer.echo("there is no project here: only the user's and the system's items were looked at")
    if not result.is_good:
        raise typer.Exit(EXIT_FAILED)


def _print_verified(result: Survey, in_words: Callable[[Signer | None], str], *, everything: bool) -> None:
    shown = [item for item in result.items if not (everything and _is_good_system_item(item))]
    if shown:
        rows = [
            (
                item.item_id,
                item.item_type,
                _space_of(item),
                item.integrity.state,
                in_words(item.integrity.signer),
                _lock_of(item),
            )
            for item in shown
        ]
        red = (number for number, item in enumerate(shown) if _why_not(item) is not None)
        print_table(("ITEM", "TYPE", "SPACE", "STATE", "SIGNER", "LOCK"), rows, red=red)
    _explain_refusals((*result.refused, *result.would_not_run))
    for item in result.with_other_copies[:MAX_EXPLAINED]:
        for error in item.copies:
            report(error)
    typer.echo(_summary_of_verified(result, len(result.items) - len(shown)))


def _summary_of_verified(result: Survey, folded: int) -> str:
    """How many were verified; `folded` of them are of the system and not in the table."""
    system = f", {folded} of them of the system" if folded else ""
    refused = len(result.refused)
    stopped = len(result.would_not_run)
    others = f", {stopped} of the verified would not run" if stopped else ""
    if other := len(result.with_other_copies):
        others += f", {other} of the verified with another copy for a client"
    carried = len(result.carried)
    parts = f", {carried} carried by the listings of tools" if carried else ""
    verified = len(result.items) - refused - carried
    return f"{verified} verified{system}{parts}, {refused} refused{others}"


def _explain_refusals(refused: Sequence[Surveyed]) -> None:
    for item in refused[:MAX_EXPLAINED]:
        if (why := _why_not(item)) is not None:
            report(why)
    if len(refused) > MAX_EXPLAINED:
        typer.echo(f"and {len(refused) - MAX_EXPLAINED} more; see --json", err=True)


def _why_not(item: Surveyed) -> RyeError | None:
    return item.integrity.refusal or item.obstacle


def _is_good_system_item(item: Surveyed) -> bool:
    return item.space is SpaceName.SYSTEM and _why_not(item) is None


def _lock_of(item: Surveyed) -> str:
    """How a tool stands to its lockfile; nothing for what has no use for one, or does not get that far."""
    return "" if item.lock is None else item.lock.state or ""


def _space_of(item: Surveyed) -> str:
    """The space, and whether another item hides this one."""
    return f"{item.space} (shadowed)" if item.shadowed else item.space.value


def run_tests(
    pattern: Annotated[
        str | None,
        pattern_argument("An id, or a pattern of ids such as 'demo/*'; by default all of the project."),
    ] = None,
    space: SpaceOption = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="A shorter time limit than that of each tool.")
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
        result = anyio.run(_run_examples, app, ExamplesRequest(pattern, space, timeout))
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if as_json:
        print_json(result.as_dict())
    else:
        _print_outcomes(result)
    if result.failed or not result.outcomes:
        raise typer.Exit(EXIT_FAILED)


async def _run_examples(app: App, request: ExamplesRequest) -> ExamplesResult:
    from rye_mcp.verbs.examples import run_examples

    async with app.closing():
        return await run_examples(request, person(app), executor_in=app.executor_in)


def _print_outcomes(result: ExamplesResult) -> None:
    outcomes = result.outcomes
    if outcomes:
        rows = [
            (
                each.item_id,
                _example_name(each),
                "passed" if each.passed else "FAILED",
                f"{each.duration_ms:.0f} ms",
            )
            for each in outcomes
        ]
        red = (number for number, each in enumerate(outcomes) if not each.passed)
        print_table(("TOOL", "EXAMPLE", "RESULT", "TIME"), rows, red=red)
    for each in result.failed:
        _explain_outcome(each)
    typer.echo(_summary_of_examples(result))


def _example_name(outcome: ExampleOutcome) -> str:
    if outcome.number is None:
        return "-"
    return f"{outcome.number} {outcome.description}".rstrip()


def _explain_outcome(outcome: ExampleOutcome) -> None:
    if outcome.number is not None:
        typer.echo("\n" + visible(f"{outcome.item_id}, example {_example_name(outcome)}"))
    for line in outcome.differences:
        typer.echo(f"  {visible(line)}")
    for line in outcome.stderr:
        typer.echo(f"  | {visible(line)}")
    if outcome.error is not None:
        report(outcome.error)


def _summary_of_examples(result: ExamplesResult) -> str:
    failed = len(result.failed)
    text = f"{len(result.outcomes) - failed} passed, {failed} failed"
    if not result.without:
        return text
    return f"{text}; without an example: {_listed(result.without)}"


def _listed(ids: Sequence[str], shown: int = 5) -> str:
    more = f" and {len(ids) - shown} more" if len(ids) > shown else ""
    return ", ".join(ids[:shown]) + more
