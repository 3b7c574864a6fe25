"""HTML → Markdown: what is kept of a page, however it was written."""

from __future__ import annotations

import pytest

from rye_mcp.primitives._markdown import MAX_DEPTH, to_markdown

BASE = "https://example.org/a/b?c"


def markdown(html: str) -> str:
    return to_markdown(html, BASE)["markdown"]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("", "\n"),
        ("<h2>A</h2><p>b <em>c</em> <code>d*e</code></p>", "## A\n\nb *c* `d*e`\n"),
        ("<p>a</p><br><br><br><br><p>b</p>", "a\n\nb\n"),
        ("<ol><li>a<li>b<li>c</ol>", "1. a\n2. b\n3. c\n"),
        ("<ul><li>a<ul><li>b<li>c</ul><li>d</ul>", "- a\n  - b\n  - c\n- d\n"),
        ("<p>a<p>b", "a\n\nb\n"),
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "| a | b |\n| --- | --- |\n| 1 | 2 |\n"),
        ('<a href="#part">a</a>', "[a](https://example.org/a/b?c#part)\n"),
        ('<a href=" /x y ">a</a>', "[a](https://example.org/x y)\n"),
        ('<a href="mailto:ada@example.org">a</a>', "[a](mailto:ada@example.org)\n"),
        ('<a href="JavaScript:x()">a</a> <a href="file:///etc">b</a> <a>c</a>', "a b c\n"),
        ('<img src="data:,x" alt="a"><img src="//other.example/i" alt="b">', "![b](https://other.example/i)\n"),
    ],
)  # fmt: skip
def test_it_becomes(html: str, expected: str) -> None:
    assert markdown(html) == expected


def test_the_title_is_that_of_the_page() -> None:
    assert to_markdown("<title>\n a &lt;c </title><p>x", BASE)["title"] == "a <c"
    assert to_markdown("<p>x", BASE)["title"] == ""


@pytest.mark.parametrize("tags", [("div",), ("b", "i"), ("ul", "li"), ("blockquote",), ("table", "tr", "td")])
def test_what_is_as_deep_as_can_be_followed_is_followed_and_what_is_deeper_is_text(
    tags: tuple[str, ...],
) -> None:
    opened = "".join(f"<{tag}>" for tag in tags)
    levels = (MAX_DEPTH - 2) // len(tags)
    assert "x" in markdown(opened * levels + '<a href="y">x</a>')
    assert markdown(opened * MAX_DEPTH + '<a href="y">x</a>') == "x\n"
