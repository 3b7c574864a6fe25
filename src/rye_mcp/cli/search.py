"""`rye search`: finds items by what they are for, as agents do, and shows what an agent would be shown.

The words need no quotes: `rye search turn this video into an mp3 file`. What else can be searched for is told
in `docs/search.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rye_mcp.cli._options import JsonOption, ProjectOption, SpaceOption, TypeOption, open_app, person
from rye_mcp.cli._printing import LONG_WORK, print_json, print_table, say, warn
from rye_mcp.cli._signers import signers_in_words
from rye_mcp.cli.items import show
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemType
from rye_mcp.trust.scope import Signer
from rye_mcp.verbs.search import DEFAULT_LIMIT, MAX_LIMIT, SearchRequest, SearchResult, Shown, Why, search
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.verbs.context import Context

__all__ = ["Order", "search_items"]

_DESCRIPTION_WIDTH = 60


class Order(StrEnum):
    """Orders of the results."""

    SCORE = "score"
    NAME = "name"
    DATE = "date"


QueryArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="QUERY", help="What to search for; by default everything.", show_default=False),
]
ScopeOption = Annotated[
    str | None,
    typer.Option("--scope", metavar="SCOPE", help="A type and a pattern of ids, such as 'tool.demo.*'."),
]
LimitOption = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, max=MAX_LIMIT, help="How many results to show.")
]
OffsetOption = Annotated[int, typer.Option("--offset", metavar="N", min=0, help="How many results to skip.")]
OrderOption = Annotated[Order, typer.Option("--sort", metavar="ORDER", help="By score, name or date.")]
FieldsOption = Annotated[
    list[str] | None,
    typer.Option("--field", metavar="FIELD", help="Search this field; can be given several times."),
]
FiltersOption = Annotated[
    list[str] | None,
    typer.Option("--filter", metavar="NAME=VALUE", help="Only items with this value."),
]
FuzzyOption = Annotated[
    int, typer.Option("--fuzzy", metavar="N", min=0, max=2, help="How many letters of a word may differ.")
]
DetailOption = Annotated[bool, typer.Option("--detail", help="With --json: schemas and previews too.")]
ExplainOption = Annotated[bool, typer.Option("--explain", help="Also say why each result was found.")]
OpenOption = Annotated[bool, typer.Option("--open", help="Show the first result, as rye show does.")]


def search_items(
    words: QueryArgument = None,
    scope: ScopeOption = None,
    limit: LimitOption = DEFAULT_LIMIT,
    offset: OffsetOption = 0,
    sort_by: OrderOption = Order.SCORE,
    fields: FieldsOption = None,
    filters: FiltersOption = None,
    fuzzy: FuzzyOption = 0,
    detail: DetailOption = False,
    explain: ExplainOption = False,
    open_first: OpenOption = False,
    space: SpaceOption = None,
    item_type: TypeOption = ItemType.TOOL,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find items by what they are for, the best first."""
    request = SearchRequest(
        " ".join(words or ()),
        scope=item_type.value if scope is None else scope,
        space=space,
        limit=limit,
        offset=offset,
        sort_by=sort_by.value,
        fields=fields or None,
        filters=_filters(filters or []),
        fuzzy={"max_distance": fuzzy} if fuzzy else False,
        detail=detail or explain,
    )
    context, result = _search(request, project, as_json=as_json)
    if open_first:
        first = _first(result)
        show(first.item_id, space=first.space, item_type=first.item_type, project=project, as_json=as_json)
    elif as_json:
        print_json(result.as_dict())
    else:
        _print(result, signers_in_words(context))
    if explain and not (as_json or open_first):
        _print_reasons(result)


def _search(request: SearchRequest, project: Path | None, *, as_json: bool) -> tuple[Context, SearchResult]:
    """Search in an index that is as new as the items; people are told what is wrong with it."""
    app = open_app(project)
    with app.catalog() as catalog:
        with _indexing() as progress:
            catalog.refresh(progress)
        context = person(app, as_json=as_json)
        result = search(request, context, catalog)
        notices = catalog.notices
    for notice in () if as_json else (*notices, *result.notices):
        warn(notice)
    return context, result


@contextmanager
def _indexing() -> Iterator[Callable[[int, int], None]]:
    """Yield a callback for an index's progress: on a terminal it shows a bar, if it takes a while."""
    with ExitStack() as ending:
        advance: Callable[[int, int], None] | None = None

        def report(done: int, total: int) -> None:
            nonlocal advance
            if total < LONG_WORK or not sys.stderr.isatty():
                return
            if advance is None:
                advance = _bar(ending)
            advance(done, total)

        yield report


def _bar(ending: ExitStack) -> Callable[[int, int], None]:
    from rich.console import Console
    from rich.progress import Progress

    bar = ending.enter_context(Progress(console=Console(stderr=True), transient=True))
    task = bar.add_task("Indexing")
    return lambda done, total: bar.update(task, completed=done, total=total)


def _filters(given: list[str]) -> dict[str, Any]:
    """The values of each filter; one that is given twice may have either value."""
    found: dict[str, list[str]] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise typer.BadParameter(f"expected NAME=VALUE, found {each!r}", param_hint="--filter")
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _first(result: SearchResult) -> Shown:
    if result.results:
        return result.results[0]
    what = f"expected something that matches {result.request.query!r}, found nothing"
    raise RyeError("item_not_found", what, hint=_hint(result))


def _print(result: SearchResult, in_words: Callable[[Signer | None], str]) -> None:
    shown = result.results
    if not shown and result.total:
        typer.echo(f"there are {result.total}, and none behind --offset {result.request.offset}")
        return
    if not shown:
        typer.echo("nothing was found")
        say(_hint(result))
        return
    rows = [
        (each.item_id, f"{each.score:.2f}", each.space, in_words(each.signer), _runs(each), _about(each))
        for each in shown
    ]
    red = (number for number, each in enumerate(shown) if each.signer is None)
    print_table(("ITEM", "SCORE", "SPACE", "SIGNER", "RUNS", "ABOUT"), rows, red=red)
    last = result.request.offset + result.request.limit
    if last < result.total:
        typer.echo(f"{result.request.offset + 1} to {last} of {result.total}; next page: --offset {last}")


def _print_reasons(result: SearchResult) -> None:
    for shown in result.results:
        if shown.why is not None:
            typer.echo(f"{shown.item_id}: {'; '.join(_reasons(shown.why))}")


def _reasons(why: Why) -> Iterator[str]:
    yield f"has {', '.join(why.words)}" if why.words else "has no word of the query"
    if why.near:
        yield f"near in meaning: {', '.join(f'{asked} and {word}' for asked, word in why.near)}"
    if why.sentence is not None:
        yield f'answers "{visible(why.sentence)}"'


def _hint(result: SearchResult) -> str:
    if result.did_you_mean:
        return f"did you mean: {', '.join(result.did_you_mean)}"
    return "search for other words, or with --fuzzy 1; rye list shows everything"


def _runs(shown: Shown) -> str:
    return "yes" if shown.reason is None else f"no: {shown.reason}"


def _about(shown: Shown) -> str:
    """Return the item's own description, and the items it hides; empty for one that did not pass."""
    about = shown.description
    if len(about) > _DESCRIPTION_WIDTH:
        about = about[: _DESCRIPTION_WIDTH - 1] + "…"
    hidden = f" (hides that of the {' and '.join(shown.shadows)} space)" if shown.shadows else ""
    return about + hidden
