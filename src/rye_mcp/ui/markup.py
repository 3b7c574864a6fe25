"""Makes HTML and SVG in which every text is text: whatever is no `Markup` is escaped, and shown as it is.

Nothing but this module makes `Markup`. Characters that hide are spelled out, as on a terminal. A link leads
to a path of the page itself, whatever it is made of.

    >>> tag("p", "5 < 6", class_="note")
    '<p class="note">5 &lt; 6</p>'
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any, Final, TypeAlias

from rye_mcp.visible import visible, visible_lines

__all__ = ["Content", "Markup", "inline", "page_of", "tag"]


class Markup(str):
    """Text that is markup already, made by `tag`."""

    __slots__ = ()


Content: TypeAlias = "str | int | float | Iterable[Content] | None"

_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})
_KEEP_LINES: Final = frozenset({"pre", "textarea"})
_ADDRESSES: Final = frozenset({"href", "action", "src"})


def tag(name: str, /, *content: Content, **attributes: str | int | float | None) -> Markup:
    """An element. `class_` is `class`, `data_run` is `data-run`; None and False leave an attribute out."""
    opening = "".join([name, *(_attribute(*each) for each in attributes.items())])
    if name in _VOID:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{_inner(content, keeps_lines=name in _KEEP_LINES)}</{name}>")


def inline(name: str, source: str) -> Markup:
    """A `style` or a `script` with a text of this package, which browsers take as it is."""
    if "</" in source or "<!--" in source:
        raise ValueError(f"expected a text that cannot end the element {name}, found one that may")
    return Markup(f"<{name}>{source}</{name}>")


def page_of(*content: Content) -> str:
    """A whole document."""
    return f"<!doctype html>\n{_inner(content, keeps_lines=False)}\n"


def _inner(content: Content, *, keeps_lines: bool) -> str:
    if content is None:
        return ""
    if isinstance(content, Markup):
        return str(content)
    if isinstance(content, str | int | float):
        text = str(content)
        return escape(visible_lines(text) if keeps_lines else visible(text))
    return "".join(_inner(each, keeps_lines=keeps_lines) for each in content)


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    if name in _ADDRESSES and not _is_ours(str(value)):
        raise ValueError(f"expected a path of the page for {name}, found {value!r:.80}")
    return f' {name}="{escape(visible(str(value)))}"'


def _is_ours(address: str) -> bool:
    return address.startswith(("/", "#", "?")) and not address.startswith(("//", "/\\"))
