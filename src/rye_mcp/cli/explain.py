"""`rye explain`: what would run a tool: its chain with spaces, signers and lock, as text, JSON or a picture.

Nothing runs. The exit code is 1 if a call would be refused. The same explanation gives the same picture.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from rye_mcp.cli._call_tree import drawn
from rye_mcp.cli._command_groups import EXIT_FAILED
from rye_mcp.cli._options import ItemArgument, JsonOption, ProjectOption, close_ids, open_app, person
from rye_mcp.cli._parameters import parse_json_object
from rye_mcp.cli._printing import print_json, print_table, report, say
from rye_mcp.cli._signers import signers_in_words
from rye_mcp.secret_store import command_to_set
from rye_mcp.ui.chain_picture import as_mermaid, as_svg
from rye_mcp.verbs.explain import Explained, Explanation
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.executor.preparation import DryRun
    from rye_mcp.trust.verify import Signer
    from rye_mcp.verbs.context import Context
    from rye_mcp.verbs.explain import ExplainRequest

__all__ = ["explain"]


def explain(
    item: ItemArgument,
    params: Annotated[
        str | None, typer.Option("--params", metavar="JSON", help="Parameters to explain a call with.")
    ] = None,
    svg: Annotated[bool, typer.Option("--svg", help="Print the chain as an SVG picture.")] = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print the chain as a Mermaid chart.")] = False,
    locked: Annotated[bool, typer.Option("--locked", help="As if only what is locked may run.")] = False,
    project: ProjectOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what would run a tool, and what prevents it."""
    import anyio

    from rye_mcp.verbs.explain import ExplainRequest

    if svg + mermaid + as_json > 1:
        raise typer.BadParameter("expected one of --json, --svg and --mermaid, found several")
    app = open_app(project, locked=locked)
    given = None if params is None else parse_json_object(params, "--params")
    context = person(app, as_json=as_json)
    explanation = anyio.run(_explain, ExplainRequest(item, given), app, context)
    if as_json:
        print_json(explanation.as_dict())
    elif svg or mermaid:
        typer.echo(as_svg(explanation) if svg else as_mermaid(explanation), nl=False)
    else:
        _print(explanation, signers_in_words(context))
    if explanation.refusal is not None:
        raise typer.Exit(EXIT_FAILED)


async def _explain(request: ExplainRequest, app: App, context: Context) -> Explanation:
    from rye_mcp.verbs.explain import explain as explain_item

    async with app.closing():
        with close_ids(context.spaces):
            return await explain_item(request, context)


def _print(explanation: Explanation, in_words: Callable[[Signer | None], str]) -> None:
    rows = [_row(number, explained, in_words) for number, explained in enumerate(explanation.chain)]
    red = (number for number, each in enumerate(explanation.chain) if each.integrity.refusal is not None)
    print_table(("ELEMENT", "SPACE", "VERSION", "STATE", "SIGNER"), rows, red=red)
    for each in explanation.chain:
        for place in each.element.shadowed:
            hidden = f"{each.element.item_id} hides one of the {place.space.name} space: {place.path}"
            typer.echo(visible(hidden))
    if explanation.declares is not None:
        say(f"{'declares':<13}{explanation.declares}")
    lines = drawn(explanation.calls, lambda each: each.calls, lambda each: each.in_words)
    for number, line in enumerate(lines):
        say(f"{'' if number else 'may call':<13}{line}")
    if explanation.secrets:
        say(f"{'secrets':<13}{', '.join(_states(explanation.secrets))}")
    if explanation.call is not None:
        _print_call(explanation.call)
    if explanation.needs:
        say(f"{'needs':<13}{', '.join(explanation.needs)}")
        say(f"{'':<13}with values: rye explain {explanation.item_id} --params JSON")
    sys.stdout.flush()
    if explanation.refusal is not None:
        report(explanation.refusal)


def _states(secrets: Mapping[str, bool]) -> Iterator[str]:
    """Each secret, and how to set it if it is not."""
    for name, is_set in secrets.items():
        yield f"{name} ({'set' if is_set else f'not set: {command_to_set([name])}'})"


def _row(number: int, explained: Explained, in_words: Callable[[Signer | None], str]) -> tuple[str, ...]:
    element, integrity = explained.element, explained.integrity
    indent = "" if number == 0 else "  " * (number - 1) + "└ "
    signer = in_words(integrity.signer)
    return indent + element.item_id, element.space.value, element.version, integrity.state, signer


def _print_call(call: DryRun) -> None:
    for label, text in call.facts().items():
        say(f"{label:<13}{text}")
    for notice in call.notices:
        say(f"{'notice':<13}{notice.code}: {notice.message}")
