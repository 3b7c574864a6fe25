"""HTML → Markdown, as a program: `python -m rye_mcp.primitives._markdown BASE`, with HTML on standard input.

It prints a JSON object with `title` and `markdown`. It runs in a process of its own, with limits of time and
memory: a page that was made to take long ends this process alone. What nobody sees is left out.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from typing import Final
from urllib.parse import urljoin, urlsplit

from bs4 import BeautifulSoup
from bs4.element import PreformattedString, Tag
from markdownify import MarkdownConverter

__all__ = ["to_markdown"]

MAX_DEPTH: Final = 200
"""How deeply elements may be nested; the converter calls itself for each level."""

MAX_MEMORY_BYTES: Final = 1 << 30
MAX_SECONDS: Final = 20

_UNSEEN: Final = (
    "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas", "audio", "video",
    "head", "select", "input", "button", "datalist", "noframes", "noembed",
)  # fmt: skip
_HIDING_STYLE: Final = re.compile(
    r"(?<![\w-])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)"
    r"|(?:opacity|font-size)\s*:\s*[0.]+(?![\d.]))",
    re.IGNORECASE,
)
_CSS_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_BLANK_LINES: Final = re.compile(r"\n(?:[ \t]*\n){2,}")
_CELLS: Final = frozenset({"td", "th"})
_CLOSES: Final = {
    "p": frozenset({"p"}),
    "li": frozenset({"li"}),
    "dt": frozenset({"dt", "dd"}),
    "dd": frozenset({"dt", "dd"}),
    "td": _CELLS,
    "th": _CELLS,
    "tr": _CELLS | {"tr"},
}
"""Tags that end when another one begins right inside: their end tags are optional."""
_OF_THE_WEB: Final = frozenset({"http", "https", "mailto"})


def to_markdown(html: str, base: str) -> dict[str, str]:
    """The title of a page, and the page as Markdown."""
    page = BeautifulSoup(html, "html.parser")
    title = page.title.get_text(" ", strip=True) if page.title is not None else ""
    base = _base_of(page, base)
    _drop_unseen(page)
    _end_what_was_left_open(page)
    if _is_too_deep(page):
        text = page.get_text("\n", strip=True)
    else:
        _make_absolute(page, base)
        text = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(page)
    return {"title": title, "markdown": _BLANK_LINES.sub("\n\n", text).strip() + "\n"}


def _base_of(page: BeautifulSoup, base: str) -> str:
    """Return the base of the page's relative links."""
    named = page.find("base", href=True)
    return _joined(base, str(named["href"])) or base if isinstance(named, Tag) else base


def _drop_unseen(page: BeautifulSoup) -> None:
    for text in page.find_all(string=lambda each: isinstance(each, PreformattedString)):
        text.extract()
    for tag in page.find_all(_is_unseen):
        tag.extract()


def _is_unseen(tag: Tag) -> bool:
    if tag.name in _UNSEEN or tag.has_attr("hidden") or (tag.name == "dialog" and not tag.has_attr("open")):
        return True
    return _HIDING_STYLE.search(_CSS_COMMENT.sub("", str(tag.get("style", "")))) is not None


def _end_what_was_left_open(page: BeautifulSoup) -> None:
    """The parser of the standard library puts into each other what stands beside each other."""
    for tag in page.find_all(list(_CLOSES)):
        around = tag.parent
        if around is not None and around.name in _CLOSES[tag.name]:
            row = tag.find_parent("tr") if tag.name == "tr" else None
            (row or around).insert_after(tag)


def _is_too_deep(page: BeautifulSoup) -> bool:
    level: list[Tag] = [page]
    for _ in range(MAX_DEPTH):
        level = [child for tag in level for child in tag.children if isinstance(child, Tag)]
        if not level:
            return False
    return True


def _make_absolute(page: BeautifulSoup, base: str) -> None:
    for tag in page.find_all(["a", "img"]):
        name = "href" if tag.name == "a" else "src"
        if tag.has_attr(name):
            url = _joined(base, str(tag[name]))
            if url is None:
                tag.unwrap() if tag.name == "a" else tag.extract()
            else:
                tag[name] = url


def _joined(base: str, url: str) -> str | None:
    """A URL as an absolute one of the web; None for anything else."""
    try:
        whole = urljoin(base, url.strip())
        parts = urlsplit(whole)
        _ = parts.port  # raises for what is no port
        return whole if parts.scheme in _OF_THE_WEB else None
    except ValueError:
        return None


def _main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    answer = to_markdown(html, sys.argv[1])
    sys.stdout.buffer.write(json.dumps(answer).encode())


if __name__ == "__main__":
    _main()
