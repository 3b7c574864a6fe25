"""`rye verify`: whether items would be accepted, and who signed them; for people and for CI.

Without an argument it looks at everything in every space. It ends with 1 when anything would be
refused, itself or when it runs: LOCK says how a tool stands to its lockfile. `carried` is a file that passes
as a part of the tools beside it alone: SIGNER is who signed their listing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from rye_mcp.cli._common import (
    EXIT_FAILED,
    AnyTypeOption,
    JsonOption,
    ProjectOption,
    SpaceOption,
    open_app,
    pattern_argument,
    person,
    print_json,
    print_table,
    report,
    tracked,
)
from rye_mcp.cli._survey import lock_of, signers_in_words, space_of
from rye_mcp.errors import RyeError
from rye_mcp.items import SpaceName
from rye_mcp.trust.verify import Signer
from rye_mcp.verbs.survey import Survey, Surveyed, SurveyRequest, survey

__all__ = ["verify"]

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
        _print(result, signers_in_words(context), everything=pattern == "*" and space is None)
        if app.spaces.project is None:
            typer.echo("there is no project here: only the user's and the system's items were looked at")
    if result.refused or result.would_not_run:
        raise typer.Exit(EXIT_FAILED)


def _print(result: Survey, in_words: Callable[[Signer | None], str], *, everything: bool) -> None:
    shown = [item for item in result.items if not (everything and _is_good_system_item(item))]
    if shown:
        rows = [
            (
                item.item_id,
                item.item_type,
                space_of(item),
                item.integrity.state,
                in_words(item.integrity.signer),
                lock_of(item),
            )
            for item in shown
        ]
        red = (number for number, item in enumerate(shown) if _why_not(item) is not None)
        print_table(("ITEM", "TYPE", "SPACE", "STATE", "SIGNER", "LOCK"), rows, red=red)
    _explain((*result.refused, *result.would_not_run))
    folded = len(result.items) - len(shown)
    system = f", {folded} of them of the system" if folded else ""
    refused = len(result.refused)
    stopped = len(result.would_not_run)
    others = f", {stopped} of the verified would not run" if stopped else ""
    carried = len(result.carried)
    parts = f", {carried} carried by the listings of tools" if carried else ""
    verified = len(result.items) - refused - carried
    typer.echo(f"{verified} verified{system}{parts}, {refused} refused{others}")


def _explain(refused: Sequence[Surveyed]) -> None:
    for item in refused[:MAX_EXPLAINED]:
        if (why := _why_not(item)) is not None:
            report(why)
    if len(refused) > MAX_EXPLAINED:
        typer.echo(f"and {len(refused) - MAX_EXPLAINED} more; see --json", err=True)


def _why_not(item: Surveyed) -> RyeError | None:
    return item.integrity.refusal or item.obstacle


def _is_good_system_item(item: Surveyed) -> bool:
    return item.space is SpaceName.SYSTEM and _why_not(item) is None
