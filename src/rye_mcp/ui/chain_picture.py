"""The chain of a tool, and what it may call, as a picture that depends on nothing else: SVG or Mermaid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass  # noqa: TID251 - drawn once in a command
from html import escape
from typing import Final

from rye_mcp.permissions import USES, Access, Permissions, sentence
from rye_mcp.verbs.explain import Callee, Explained, Explanation
from rye_mcp.visible import visible

__all__ = [
    "as_mermaid",
    "as_svg",
    "wall",
]

_MAX_DOORS: Final = 16
"""How many doors are drawn; a last line counts the rest."""

_WALL: Final = 250
_THICK: Final = 14
_OPEN: Final = 16
_LENGTH: Final = 56
_STONE: Final = "#57606a"
_IN: Final = "#1f6feb"
_OUT: Final = "#bc4c00"

Text = Callable[[int, int, str, str, str], str]
"""Draws a text: x, y, words, colour and style."""


@dataclass(frozen=True, slots=True)
class _Door:
    """One way through the wall: what goes in, what goes out, and what is behind it."""

    label: str
    goes_in: bool = True
    goes_out: bool = False


def _doors(permissions: Permissions) -> Iterator[_Door]:
    """Yield a door for each thing that a confined tool may reach."""
    if permissions.project:
        writes = permissions.project is Access.WRITE
        yield _Door(f"this project: {'read and write' if writes else 'read'}", goes_out=writes)
    yield from (_Door(f"{path}: read") for path in sorted(permissions.read))
    yield from (_Door(f"{path}: read and write", goes_out=True) for path in sorted(permissions.write))
    if permissions.any_host:
        yield _Door("any host", goes_out=True)
    else:
        yield from (_Door(str(host), goes_out=True) for host in sorted(permissions.net))
    yield from (_Door(f"may {USES[each]}", goes_out=True) for each in sorted(permissions.uses))
    yield from (_Door(f"the variable {name}") for name in sorted(permissions.env))
    yield from (_Door(f"the secret {name}") for name in sorted(permissions.secrets))
    yield from (_Door(f"the tool {each}", goes_out=True) for each in sorted(permissions.calls))


def wall(permissions: Permissions, name: str, top: int, text: Text) -> tuple[list[str], int]:
    """Draw the wall of a tool below `top`; the lines of the drawing, and how high it is.

    A tool that is not confined has none.
    """
    if permissions.unconfined:
        return [], 0
    found = list(_doors(permissions))
    labels = found[:_MAX_DOORS]
    height = _ROW * max(len(labels) + (len(found) > _MAX_DOORS), 2)
    lines = [
        f'<rect x="{_WALL}" y="{top}" width="{_THICK}" height="{height}" fill="{_STONE}"/>',
        text(40, top + height // 2 + 5, name, _STONE, "small"),
    ]
    for number, door in enumerate(labels):
        lines += _drawn(door, top + number * _ROW + _ROW // 2, text)
    x = _WALL + _THICK + _LENGTH
    if not found:
        lines.append(text(x, top + height // 2 + 5, "no door", _STONE, "small"))
    elif len(found) > _MAX_DOORS:
        more = f"and {len(found) - _MAX_DOORS} more"
        lines.append(text(x, top + height - _ROW // 2 + 5, more, _STONE, "small"))
    return lines, height


def _drawn(door: _Door, y: int, text: Text) -> Iterator[str]:
    """Draw a gap in the wall, an arrow through it, and what is on the other side."""
    left, right = _WALL - _LENGTH // 2, _WALL + _THICK + _LENGTH // 2
    colour = _OUT if door.goes_out else _IN
    heads = f"m6 -5 l-6 5 l6 5 M{right} {y}" if door.goes_in else f"M{right} {y}"
    heads += " m-6 -5 l6 5 l-6 5" if door.goes_out else ""
    yield f'<rect x="{_WALL}" y="{y - _OPEN // 2}" width="{_THICK}" height="{_OPEN}" fill="#ffffff"/>'
    yield f'<path d="M{right} {y} H{left} {heads}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    yield text(_WALL + _THICK + _LENGTH, y + 5, door.label, colour, "small")


_WIDTH: Final = 720
_CARD: Final = 92
_GAP: Final = 44
_MARGIN: Final = 20
_ROW: Final = 26
_INDENT: Final = 26
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
    rows = list(_call_rows(explanation.calls))
    tree = _call_tree(rows, above + room)
    height = above + room + (_ROW * (len(rows) + 1) + _MARGIN if rows else 0)
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
    return "\n".join([*lines, *walls, *tree, "</svg>", ""])


def _call_rows(calls: Sequence[Callee], depth: int = 0) -> Iterator[tuple[Callee, int]]:
    for each in calls:
        yield each, depth
        yield from _call_rows(each.calls, depth + 1)


def _call_tree(rows: Sequence[tuple[Callee, int]], top: int) -> Iterator[str]:
    """Draw what a program may call: a line for each tool, with an elbow from the one that calls it."""
    if not rows:
        return
    yield _text(_MARGIN + 6, top + 18, "may call", _FAINT, "small")
    heights = {-1: top + 24}
    for number, (callee, depth) in enumerate(rows, start=1):
        x, y = _MARGIN + 14 + _INDENT * depth, top + 18 + _ROW * number
        yield f'<path d="M{x} {heights[depth - 1]} V{y - 5} h12" fill="none" stroke="{_FAINT}"/>'
        yield _text(x + 18, y, callee.in_words, _BAD if callee.is_refused else _INK, "small")
        heights[depth] = y + 4


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
    for number, (callee, above) in enumerate(_with_callers(explanation.calls)):
        caller = "e0" if above is None else f"c{above}"
        lines.append(f'    c{number}["{_mermaid_text(callee.in_words)}"]')
        lines.append(f"    {caller} -.->|may call| c{number}")
    return "\n".join([*lines, ""])


def _with_callers(calls: Sequence[Callee]) -> list[tuple[Callee, int | None]]:
    """Every tool that may be called, with the number of its caller; None for the program itself."""
    found: list[tuple[Callee, int | None]] = []
    pending: list[tuple[Callee, int | None]] = [(each, None) for each in reversed(calls)]
    while pending:
        callee, above = pending.pop()
        found.append((callee, above))
        pending += [(each, len(found) - 1) for each in reversed(callee.calls)]
    return found


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
