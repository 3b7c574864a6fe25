"""Every text is text: nothing of an item becomes markup, and nothing of it hides."""

from __future__ import annotations

import pytest

from rye_mcp.ui.layout import path, size, state, took
from rye_mcp.ui.markup import Markup, inline, page_of, tag


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (tag("p", "a < b & c"), "<p>a &lt; b &amp; c</p>"),
        (tag("p", tag("b", "x"), None, 1, ["y", [tag("i", "z")]]), "<p><b>x</b>1y<i>z</i></p>"),
        (tag("p", "</p><script>"), "<p>&lt;/p&gt;&lt;script&gt;</p>"),
        (
            tag("p", class_="a", data_run='"x"', hidden=True, id=None),
            '<p class="a" data-run="&quot;x&quot;" hidden></p>',
        ),
        (tag("input", value="' onfocus='x"), '<input value="&#x27; onfocus=&#x27;x">'),
        (tag("p", "one\ntwo"), "<p>one\\ntwo</p>"),
        (tag("pre", "one\n\x1b[2Jtwo\u202e"), "<pre>one\n\\x1b[2Jtwo\\u202e</pre>"),
        (tag("td", "Ad\u200bmin"), "<td>Ad\\u200bmin</td>"),
    ],
)
def test_what_is_no_markup_is_shown_as_it_is(made: Markup, expected: str) -> None:
    assert made == expected


@pytest.mark.parametrize("source", ["let a = '</script>'", "a {} </STYLE", "let a = '<!--'"])
def test_a_text_that_could_end_its_element_stands_in_no_document(source: str) -> None:
    with pytest.raises(ValueError, match="expected a text that cannot end the element script"):
        inline("script", source)


def test_text_that_was_shown_once_is_text_again() -> None:
    assert tag("p", str(tag("b", "x"))) == "<p>&lt;b&gt;x&lt;/b&gt;</p>"
    assert page_of("<").startswith("<!doctype html>\n&lt;")


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "https://example.org/", "//example.org", "/\\example.org", "data:x"]
)
def test_a_link_leads_to_no_other_place(address: str) -> None:
    with pytest.raises(ValueError, match="expected a path of the page"):
        tag("a", "x", href=address)


def test_a_path_has_each_part_in_one_step() -> None:
    assert path("items", "../../x y", q="a&b", empty="") == "/items/..%2F..%2Fx%20y?q=a%26b"


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [(0.4, "0 ms"), (999.4, "999 ms"), (1500, "1.5 s"), (61_000, "1 min 1 s"), (7_260_000, "2 h 1 min")],
)
def test_a_time_is_told_in_one_unit(milliseconds: float, told: str) -> None:
    assert took(milliseconds) == told


@pytest.mark.parametrize(
    ("count", "told"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")]
)
def test_a_size_is_told_in_one_unit(count: int, told: str) -> None:
    assert size(count) == told


def test_a_state_is_a_word_and_not_a_colour_alone() -> None:
    assert "success" in state("success")
    assert 'class="state bad"' in state("timeout")
    assert "timeout" in state("timeout")
