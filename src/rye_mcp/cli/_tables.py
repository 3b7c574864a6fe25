"""Tables as text: columns beside each other, and below each other where the terminal is too narrow.

Rules:

- No cell is cut and none is folded: ids, hashes and the names of runs are there to be copied.
- What does not fit the width goes on in the next line, a little to the right, and does so in every row.
- Without a width, as in a pipe, a row is one line. No line ends with blanks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

__all__ = ["table_lines"]

_GAP = 2
_CONTINUED = "  "


def table_lines(
    rows: Sequence[Sequence[str]], *, width: int | None = None, measure: Callable[[str], int] = len
) -> list[list[str]]:
    """The lines of each row, of which the headers are one. `measure` says how wide a text is shown."""
    widths = [max(map(measure, column)) for column in zip(*rows, strict=True)]
    groups = list(_beside_each_other(widths, width))
    return [list(_lines_of(row, widths, groups, measure)) for row in rows]


def _beside_each_other(widths: Sequence[int], limit: int | None) -> Iterator[range]:
    """Which columns share a line: as many as fit, one at least."""
    begin, used = 0, widths[0]
    for column, width in enumerate(widths[1:], 1):
        used += _GAP + width
        if limit is not None and used > limit:
            yield range(begin, column)
            begin, used = column, len(_CONTINUED) + width
    yield range(begin, len(widths))


def _lines_of(
    row: Sequence[str], widths: Sequence[int], groups: Sequence[range], measure: Callable[[str], int]
) -> Iterator[str]:
    for number, columns in enumerate(groups):
        cells = (row[column] + " " * (widths[column] - measure(row[column])) for column in columns)
        line = (" " * _GAP).join(cells).rstrip()
        if number == 0:
            yield line
        elif line:
            yield _CONTINUED + line
