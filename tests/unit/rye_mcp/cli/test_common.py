"""What all commands share: plain tables, and bars of progress that stay out of pipes."""

from __future__ import annotations

import pytest

from rye_mcp.cli._common import LONG_WORK, print_table, tracked


def test_a_plain_table_has_columns_and_no_blanks_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("ITEM", "STATE"), [("demo/hello", "verified"), ("x", "unsigned")], red=[1])
    assert capsys.readouterr().out.splitlines() == [
        "ITEM        STATE",
        "demo/hello  verified",
        "x           unsigned",
    ]


def test_a_cell_stays_in_its_line_and_in_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("ITEM", "SIGNER"), [("a", "leo\nverified"), ("b", "\x1b[1Amallory")])
    assert capsys.readouterr().out.splitlines() == [
        "ITEM  SIGNER",
        "a     leo\\nverified",
        "b     \\x1b[1Amallory",
    ]


def test_no_bar_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    items = list(range(LONG_WORK))
    assert tracked(items, "Working") is items
    assert capsys.readouterr().err == ""
