"""What the views share: the frame of a page, states in words, times, tables, facts and forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote, urlencode

from starlette.responses import HTMLResponse

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.ui.documents import document_of
from rye_mcp.ui.markup import Content, Markup, tag

__all__ = [
    "Frame",
    "button",
    "code_form",
    "facts",
    "field",
    "moment",
    "path",
    "section",
    "select",
    "short",
    "size",
    "state",
    "table",
    "took",
]

SECTIONS: Final = (
    ("/runs", "Runs"),
    ("/items", "Items"),
    ("/trust", "Trust"),
    ("/questions", "Questions"),
    ("/health", "Health"),
)
"""The views, and what they are called."""

_MARKS: Final[Mapping[str, tuple[str, str]]] = {
    "running": ("live", "●"),
    "success": ("good", "✓"),
    "verified": ("good", "✓"),
    "good": ("good", "✓"),
    "ok": ("good", "✓"),
    "trusted": ("good", "✓"),
    "accepted": ("good", "✓"),
    "undecided": ("open", "?"),
    "waiting": ("open", "?"),
    "warning": ("open", "!"),
    "agreed": ("good", "✓"),
}
"""A word for a state → its colour and its sign. Every other word says that something is wrong."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What is around every view: `place` is the project of the page, `waiting` how many questions wait."""

    place: str
    form_token: str
    waiting: int = 0

    def page(
        self, title: str, *content: Content, here: str = "", live: str | None = None, status: int = 200
    ) -> HTMLResponse:
        """A view. `live` is where events say that something of it has changed."""
        document = document_of(
            f"{title} · rye",
            tag("a", "Skip to content", href="#content", class_="skip"),
            self._header(here),
            tag("main", *content, id="content", tabindex="-1", data_live=live),
            tag("p", "", id="told", role="status", class_="told"),
        )
        return HTMLResponse(document, status_code=status)

    def refusal(self, error: RyeError, *, status: int | None = None) -> HTMLResponse:
        """The page for something that was refused."""
        status = status or (404 if error.code.endswith("_not_found") else 400)
        hint = (
            tag("p", tag("span", "What helps: ", class_="label"), tag("code", error.hint))
            if error.hint
            else None
        )
        return self.page(
            "Refused",
            tag("h1", "That was refused"),
            tag("p", state(error.code), " ", error.message),
            hint,
            status=status,
        )

    def form(self, action: str, *content: Content, class_: str | None = None) -> Markup:
        """A form that changes something."""
        token = tag("input", type="hidden", name="token", value=self.form_token)
        return tag("form", token, *content, method="post", action=action, class_=class_)

    def _header(self, here: str) -> Markup:
        links = (self._link(address, name, here) for address, name in SECTIONS)
        return tag(
            "header",
            tag("a", "rye", href="/runs", class_="brand"),
            tag("nav", tag("ul", (tag("li", link) for link in links)), aria_label="Views"),
            tag("span", self.place, class_="place", title="The project that this page is about"),
        )

    def _link(self, address: str, name: str, here: str) -> Markup:
        current = "page" if address == here else None
        count = (
            tag("span", self.waiting, class_="count") if address == "/questions" and self.waiting else None
        )
        return tag("a", name, count, href=address, aria_current=current)


def path(*parts: str, **query: str | int | None) -> str:
    """The address of a view: each part is one step of it, whatever is in it."""
    told = urlencode({name: value for name, value in query.items() if value not in (None, "")})
    return "/" + "/".join(quote(part, safe="") for part in parts) + (f"?{told}" if told else "")


def state(word: str) -> Markup:
    """A state: a sign and a word, so that its colour is not needed."""
    kind, sign = _MARKS.get(word, ("bad", "✗"))
    return tag("span", tag("span", sign, aria_hidden="true", class_="sign"), word, class_=f"state {kind}")


def moment(when: datetime) -> Markup:
    """A time, in the zone of this machine."""
    local = when.astimezone()
    return tag("time", f"{local:%Y-%m-%d %H:%M:%S}", datetime=local.isoformat(timespec="milliseconds"))


def took(milliseconds: float) -> str:
    """How long something took, in the unit that is easiest to read."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {seconds} s"


def size(count: float) -> str:
    """How many bytes, in the unit that is easiest to read."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "bytes" or count >= 100 else f"{count:.1f} {unit}"


def short(text: str, characters: int = 12) -> Markup:
    """The beginning of a digest or of a key; the whole of it shows when it is pointed at."""
    return tag("code", text[:characters], title=text)


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[Content]],
    *,
    numbers: Iterable[int] = (),
    caption: str,
    id: str | None = None,
) -> Markup:
    """A table, whose columns `numbers` are aligned as numbers. Its caption is for those who do not see it."""
    right = frozenset(numbers)

    def cells(name: str, row: Sequence[Content]) -> Iterable[Markup]:
        for number, cell in enumerate(row):
            scope = "col" if name == "th" else None
            yield tag(name, cell, class_="number" if number in right else None, scope=scope)

    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption, class_="unseen"),
            tag("thead", tag("tr", cells("th", headers))),
            tag("tbody", (tag("tr", cells("td", row)) for row in rows)),
        ),
        class_="wide",
        id=id,
        role="region",
        aria_label=caption,
        tabindex="0",
    )


def facts(pairs: Iterable[tuple[str, Content]], *, id: str | None = None) -> Markup:
    """Names and what they stand for, each on a line; what says nothing is left out."""
    shown = ((tag("dt", name), tag("dd", value)) for name, value in pairs if value not in (None, ""))
    return tag("dl", shown, class_="facts", id=id)


def section(title: str, *content: Content, id: str | None = None) -> Markup:
    """A part of a view, under its heading."""
    return tag("section", tag("h2", title), *content, id=id)


def field(label: str, name: str, value: str = "", **attributes: str | int | None) -> Markup:
    """A text field with its label."""
    return tag("label", tag("span", label), tag("input", name=name, value=value, **attributes))


def select(label: str, name: str, options: Iterable[tuple[str, str]], chosen: str) -> Markup:
    """A choice with its label."""
    made = (tag("option", text, value=value, selected=value == chosen) for value, text in options)
    return tag("label", tag("span", label), tag("select", *made, name=name))


def button(text: str, *, kind: str | None = None, **attributes: str | None) -> Markup:
    """What a person presses to send a form."""
    return tag("button", text, type="submit", class_=kind, **attributes)


def code_form(frame: Frame, action: str, hidden: Iterable[Content], number: str, word: str) -> Markup:
    """A form for the code that the terminal shows; `number` is that of the code."""
    return frame.form(
        action,
        *hidden,
        tag("input", type="hidden", name="number", value=number),
        field(
            f"To {word}: the code in the terminal of rye ui",
            "code",
            autocomplete="off",
            autofocus=True,
            required=True,
        ),
        button("Confirm"),
        class_="filters code",
    )
