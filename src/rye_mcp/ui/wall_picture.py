"""Draw what a tool may do as doors in a wall around it: one for each place, host and tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass  # noqa: TID251 - drawn once in a command
from typing import Final

from rye_mcp.permissions import USES, Access, Permissions

__all__ = ["wall"]

_MAX_DOORS: Final = 16
"""How many doors are drawn; a last line counts the rest."""

_ROW: Final = 26
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
