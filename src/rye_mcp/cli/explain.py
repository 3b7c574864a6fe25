"""`rye explain`: what would run a tool: its chain with spaces, signers and lock, as text, JSON or a picture.

Nothing runs. The exit code is 1 if a call would be refused. The same explanation gives the same picture.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rye_mcp.cli._command_groups import EXIT_FAILED
from rye_mcp.cli._options import ItemArgument, JsonOption, ProjectOption, close_ids, open_app, person
from rye_mcp.cli._parameters import parse_json_object
from rye_mcp.cli._printing import print_json, print_table, report, say
from rye_mcp.cli._signers import signers_in_words
from rye_mcp.cli._wall_picture import wall
from rye_mcp.permissions import sentence
from rye_mcp.secret_store import command_to_set
from rye_mcp.verbs.explain import Explained, Explanation
from rye_mcp.visible import visible

if TYPE_CHECKING:
    from rye_mcp.app import App
    from rye_mcp.executor.preparation import DryRun
    from rye_mcp.trust.verify import Signer
    from rye_mcp.verbs.context import Context
    from rye_mcp.verbs.explain import ExplainRequest

__all__ = ["as_mermaid", "as_svg", "explain"]


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


_WIDTH: Final = 720
_CARD: Final = 92
_GAP: Final = 44
_MARGIN: Final = 20
_MAX_CHARACTERS: Final = 74

_SPACES: Final = {"project": "#1f6feb", "user": "#8250df", "system": "#57606a"}
_GOOD: Final = "#1a7f37"
_BAD: Final = "#cf222e"
_INK: Final = "#1f2328"
_FAINT: Final = "#57606a"

_STYLE: Final = (
    "text{font-family:'DejaVu Sans','Segoe UI',Helvetica,Arial,sans-serif;font-size:14px}"
    ".id{font-size:18px;font-weight:600}.small{font-size:13px}"
)


def as_svg(explanation: Explanation) -> str:
    """The picture as one SVG document."""
    notes = list(_notes(explanation))
    cards = len(explanation.chain)
    above = 2 * _MARGIN + cards * _CARD + (cards - 1) * _GAP + 22 * len(notes) + (10 if notes else 0)
    walls, room = _wall(explanation, above)
    height = above + room
    title = f"The chain of {explanation.item_id}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" rx="12" fill="#ffffff"/>',
    ]
    y = _MARGIN
    for position, explained in enumerate(explanation.chain):
        if position:
            lines += _arrow(y)
            y += _GAP
        lines += _card(explained, y)
        y += _CARD
    for number, (text, colour) in enumerate(notes):
        lines.append(_text(_MARGIN + 6, y + 26 + 22 * number, text, colour, "small"))
    return "\n".join([*lines, *walls, "</svg>", ""])


def _wall(explanation: Explanation, top: int) -> tuple[list[str], int]:
    """Draw the doors of the tool, and say how much room they take."""
    if explanation.call is None:
        return [], 0
    lines, height = wall(explanation.call.permissions, explanation.item_id, top, _text)
    return lines, height + _MARGIN if lines else 0


def as_mermaid(explanation: Explanation) -> str:
    """The picture as a Mermaid flowchart."""
    lines = ["flowchart TD"]
    for number, explained in enumerate(explanation.chain):
        words = (_role(explained), explained.element.item_id, _facts(explained), _state(explained))
        label = "<br/>".join(_mermaid_text(text) for text in words)
        lines.append(f'    e{number}["{label}"]')
        if number:
            lines.append(f"    e{number - 1} -->|executor| e{number}")
    for number, explained in enumerate(explanation.chain):
        colour = _GOOD if explained.integrity.refusal is None else _BAD
        lines.append(f"    style e{number} stroke:{colour},stroke-width:2px")
    return "\n".join([*lines, ""])


def _card(explained: Explained, y: int) -> Iterator[str]:
    colour = _SPACES[explained.element.space.value]
    fine = explained.integrity.refusal is None
    yield (
        f'<rect x="{_MARGIN}" y="{y}" width="{_WIDTH - 2 * _MARGIN}" height="{_CARD}" rx="8" fill="#f6f8fa" '
        f'stroke="{_GOOD if fine else _BAD}" stroke-width="1.5"/>'
    )
    yield f'<rect x="{_MARGIN}" y="{y}" width="8" height="{_CARD}" rx="4" fill="{colour}"/>'
    left = _MARGIN + 26
    yield _text(left, y + 25, f"{_role(explained)} · {_facts(explained)}", colour, "small")
    yield _text(left, y + 51, explained.element.item_id, _INK, "id")
    yield _text(left, y + 76, _state(explained), _GOOD if fine else _BAD, "small")


def _arrow(y: int) -> Iterator[str]:
    x = _MARGIN + 60
    yield (
        f'<path d="M{x} {y + 4} V{y + _GAP - 10} m-6 0 l6 8 l6 -8" fill="none" stroke="{_FAINT}" '
        'stroke-width="1.5"/>'
    )
    yield _text(x + 16, y + _GAP // 2 + 5, "is run by", _FAINT, "small")


def _text(x: int, y: int, text: str, colour: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" class="{style}" fill="{colour}">{escape(_short(visible(text)))}</text>'


def _notes(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """Yield the notes below the cards, each with its colour."""
    if explanation.refusal is not None:
        yield f"✗ {explanation.refusal.code}: nothing would run", _BAD
    if explanation.needs:
        yield f"needs: {', '.join(explanation.needs)}", _FAINT
    if explanation.call is not None:
        yield f"lock: {explanation.call.lock.state}", _FAINT
        sealed = "sealed: what was verified is what runs" if explanation.call.sealed else "not sealed"
        yield sealed, _GOOD if explanation.call.sealed else _FAINT
        is_confined = not explanation.call.permissions.unconfined
        yield sentence(explanation.call.permissions), _GOOD if is_confined else _FAINT
        if explanation.call.enforceable is not None:
            yield f"confined by {explanation.call.enforceable.in_words}", _GOOD


def _role(explained: Explained) -> str:
    metadata = explained.element.metadata
    if metadata.is_primitive:
        return "primitive"
    return "runtime" if metadata.is_runtime else "tool"


def _facts(explained: Explained) -> str:
    element = explained.element
    shadows = (
        f", shadows {', '.join(place.space.name for place in element.shadowed)}" if element.shadowed else ""
    )
    return f"{element.space} space, version {element.version}{shadows}"


def _state(explained: Explained) -> str:
    integrity = explained.integrity
    if integrity.signer is None:
        return f"✗ {integrity.state}"
    return f"✓ verified, {integrity.signer.in_words}"


def _mermaid_text(text: str) -> str:
    """Text that Mermaid takes for nothing else."""
    return escape(_short(visible(text))).replace("#", "#35;").replace("`", "#96;")


def _short(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"
