"""Draws figures as bars: a group for each thing that was measured, a bar for each way to do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

__all__ = ["bars"]

LEFT: Final = 220
WIDTH: Final = 360
HEIGHT: Final = 18
GAP: Final = 22
COLOURS: Final = ("#8a94a6", "#4a7ebb", "#d9822b")


def bars(title: str, ways: Sequence[str], groups: Mapping[str, Sequence[float | None]], unit: str) -> str:
    """An SVG. In each group the longest bar has the whole width; None is a way that was not measured."""
    parts, y = [_legend(ways)], 46
    for name, values in groups.items():
        longest = max(value for value in values if value is not None)
        middle = y + HEIGHT * len(values) / 2
        parts.append(_text(LEFT - 12, middle + 4, name, anchor="end", weight="600"))
        for value, colour in zip(values, COLOURS, strict=False):
            if value is not None:
                parts.append(_bar(y, value / longest, colour, f"{value:.1f} {unit}"))
            y += HEIGHT
        y += GAP
    size = f'width="{LEFT + WIDTH + 90}" height="{y}" viewBox="0 0 {LEFT + WIDTH + 90} {y}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">'
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", ground, *parts, "</svg>\n"])


def _legend(ways: Sequence[str]) -> str:
    entries = []
    for number, (way, colour) in enumerate(zip(ways, COLOURS, strict=False)):
        x = LEFT + number * 110
        entries.append(f'<rect x="{x}" y="14" width="12" height="12" fill="{colour}"/>')
        entries.append(_text(x + 18, 25, way))
    return "\n".join(entries)


def _bar(y: float, share: float, colour: str, label: str) -> str:
    width = max(1.0, share * WIDTH)
    bar = f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{HEIGHT - 3}" fill="{colour}"/>'
    return f"{bar}\n{_text(LEFT + width + 6, y + HEIGHT - 6, label)}"


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "400") -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text {where} fill="#1f2733">{escape(text)}</text>'
