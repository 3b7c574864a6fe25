"""Tables as text: whole cells, in as many lines as the width needs."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from rye_mcp.cli._printing import table_lines

ROWS = [
    ("ITEM", "SIGNER", "ABOUT"),
    ("demo/hello", "ada (person)", "Greet somebody."),
    ("x", "-", ""),
]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (
            None,
            [
                "ITEM        SIGNER        ABOUT",
                "demo/hello  ada (person)  Greet somebody.",
                "x           -",
            ],
        ),
        (
            40,
            [
                "ITEM        SIGNER",
                "  ABOUT",
                "demo/hello  ada (person)",
                "  Greet somebody.",
                "x           -",
            ],
        ),
        (
            5,
            [
                "ITEM",
                "  SIGNER",
                "  ABOUT",
                "demo/hello",
                "  ada (person)",
                "  Greet somebody.",
                "x",
                "  -",
            ],
        ),
    ],
)
def test_what_does_not_fit_goes_on_in_the_next_line(width: int | None, lines: list[str]) -> None:
    assert [line for row in table_lines(ROWS, width=width) for line in row] == lines


def test_a_table_that_just_fits_has_a_line_a_row() -> None:
    longest = max(len(line) for row in table_lines(ROWS) for line in row)
    assert all(len(row) == 1 for row in table_lines(ROWS, width=longest))
    assert len(table_lines(ROWS, width=longest - 1)[1]) == 2


def test_wide_characters_take_two_places() -> None:
    rows = [("NAME", "STATE"), ("道具", "a"), ("tool", "b")]
    assert [row[0] for row in table_lines(rows, measure=cell_len)] == [
        "NAME  STATE",
        "道具  a",
        "tool  b",
    ]


def test_the_next_line_has_less_room_by_what_it_begins_with() -> None:
    first, second, third = "a" * 20, "b" * 7, "c" * 10
    assert table_lines([(first, second, third)], width=20) == [[first, f"  {second}", f"  {third}"]]
    assert table_lines([(first, second[1:], third)], width=20) == [[first, f"  {second[1:]}  {third}"]]
