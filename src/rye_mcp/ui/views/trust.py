"""Keys and what they may sign; what is undecided, with its documents side by side, and the decision about it.

Nothing is decided here without the code that the terminal shows. A decision is about the very bytes that were
shown: a document that has changed since is another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import printable
from rye_mcp.trust.approvals import Decision
from rye_mcp.trust.decisions import KeyState, KnownKey, decide_on, find_undecided, list_keys
from rye_mcp.trust.key_words import scope_text, whose
from rye_mcp.ui.layout import button, code_form, facts, section, short, state, table
from rye_mcp.ui.markup import Content, Markup, tag
from rye_mcp.ui.parts import Parts

__all__ = ["Wanted", "ask_code", "carry_out", "trust_view"]

_WORDS: Final[Mapping[str, str]] = {"accept": "trust", "deny": "deny", "approve": "use the unsigned files of"}
_DECISIONS: Final = {"accept": Decision.ACCEPTED, "deny": Decision.DENIED}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A decision that somebody wants: to `accept` or `deny` a document, or to `approve` the project."""

    action: str
    digest: str = ""

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Wanted:
        """The one of a form; RyeError for none that there is."""
        wanted = cls(fields.get("action", ""), fields.get("digest", ""))
        if wanted.action not in _WORDS:
            raise RyeError("code_refused", f"expected one of {', '.join(_WORDS)}, found another decision")
        return wanted

    def stands_for(self, parts: Parts) -> str:
        """Return what a code for this decision counts for."""
        whole = f"{self.action}\n{self.digest}\n{parts.settings.project}"
        return hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()


def trust_view(parts: Parts, asked: Wanted | None = None, number: str = "") -> Iterator[Content]:
    """The page; with a field for the code, beside what it is `asked` for."""
    known = list_keys(parts.app.trust, parts.app.keys)
    project = parts.settings.project if parts.spaces.project is not None else None
    undecided = find_undecided(parts.app.trust, parts.app.keys, project=project)
    yield tag("h1", "Trust")
    if not parts.codes.can_ask:
        yield tag(
            "p",
            "Nothing can be decided here, since rye ui was not started in a terminal. What decides: ",
            tag("code", "rye trust"),
        )
    for problem in known.problems:
        yield tag("p", state(problem.code), " ", problem.message)
    if undecided:
        yield section(
            "Undecided", *(_undecided(row, known.rows, parts, asked, number) for row in undecided.keys)
        )
        if undecided.project is not None:
            yield _unapproved(printable(undecided.project), parts, asked, number)
    else:
        yield tag("p", "Nothing is undecided.", class_="empty")
    yield section("Keys", _keys(known.rows))


def _keys(rows: Sequence[KnownKey]) -> Markup:
    shown = (
        (
            state(row.state.value.partition("_")[0]),
            whose(row),
            tag("span", scope_text(row.scope, row.origin, row.kind), class_="about")
            if row.key is not None
            else "",
            short(row.key_id, 16),
            row.reason,
        )
        for row in rows
    )
    return table(
        ("State", "Whose", "May sign", "Key", "Revoked because"), shown, caption="Every key that is known"
    )


def _undecided(
    row: KnownKey, rows: Sequence[KnownKey], parts: Parts, asked: Wanted | None, number: str
) -> Markup:
    document = row.document
    assert document is not None  # noqa: S101 - a proposal is one
    others = [
        each for each in rows if each.document is not None and each is not row and _is_related(each, row)
    ]
    columns = [
        ("This project proposes", document.data),
        *((_about(each), each.document.data) for each in others if each.document),
    ]
    shown = (
        tag(
            "div",
            tag("h4", title),
            tag("pre", data.decode("utf-8", "replace"), class_="output", tabindex="0"),
        )
        for title, data in columns
    )
    told = facts(
        (
            ("Key", tag("code", row.key_id)),
            ("May sign", scope_text(row.scope, row.origin, row.kind)),
            ("Document", tag("code", document.digest)),
        )
    )
    actions = [_action(each, document.digest, parts, asked, number) for each in ("accept", "deny")]
    return tag(
        "article",
        tag("h3", state("undecided"), " ", whose(row)),
        told,
        tag("div", *shown, class_="beside"),
        tag("div", *actions, class_="row"),
        class_="card",
    )


def _is_related(other: KnownKey, row: KnownKey) -> bool:
    """Whether another document is about the same key, or the same person: they are read together."""
    if other.document is None or row.document is None or other.document.digest == row.document.digest:
        return False
    return other.key_id == row.key_id or (row.owner is not None and other.owner == row.owner)


def _about(row: KnownKey) -> str:
    return (
        f"You have {row.state.value.partition('_')[0]}"
        if row.state is not KeyState.UNDECIDED
        else "Also proposed"
    )


def _unapproved(project: str, parts: Parts, asked: Wanted | None, number: str) -> Markup:
    return tag(
        "article",
        tag("h3", state("undecided"), " the unsigned files of this project"),
        tag("p", f"The .env, .venv and node_modules of {project} are signed by nobody, and not used yet."),
        tag("div", _action("approve", "", parts, asked, number), class_="row"),
        class_="card",
    )


_BUTTONS: Final = {
    "accept": ("Trust this key …", None),
    "deny": ("Deny it …", "plain"),
    "approve": ("Use them …", None),
}


def _action(action: str, digest: str, parts: Parts, asked: Wanted | None, number: str) -> Content:
    hidden = (
        tag("input", type="hidden", name=name, value=value)
        for name, value in (("action", action), ("digest", digest))
    )
    if asked is not None:
        return (
            code_form(parts.frame, "/trust/decide", hidden, number, _WORDS[action])
            if asked == Wanted(action, digest)
            else None
        )
    text, kind = _BUTTONS[action]
    return parts.frame.form("/trust/ask", *hidden, button(text, kind=kind)) if parts.codes.can_ask else None


def ask_code(wanted: Wanted, parts: Parts) -> str:
    """Show a code for a decision in the terminal; its number. RyeError for what is not undecided."""
    return parts.codes.ask(_in_words(wanted, parts), wanted.stands_for(parts))


def _in_words(wanted: Wanted, parts: Parts) -> str:
    if wanted.action == "approve":
        return f"to use the unsigned files of {printable(parts.settings.project or '')}"
    row = _proposal(wanted, parts)
    may = scope_text(row.scope, row.origin, row.kind)
    return f"to {_WORDS[wanted.action]} the key {row.key_id}, {whose(row)}; it may sign {may}"


def _proposal(wanted: Wanted, parts: Parts) -> KnownKey:
    """The proposal with exactly this document; RyeError `document_changed` if there is none now."""
    for row in list_keys(parts.app.trust, parts.app.keys).undecided:
        if row.document is not None and row.document.digest == wanted.digest:
            return row
    what = "expected a proposal as it was shown, found that it has changed, or was decided"
    raise RyeError("document_changed", what)


def carry_out(wanted: Wanted, number: str, code: str, parts: Parts) -> None:
    """Decide, once the code is the one of the terminal; RyeError `code_refused` for any other."""
    row = None if wanted.action == "approve" else _proposal(wanted, parts)
    parts.codes.use(number, wanted.stands_for(parts), code)
    if row is not None and row.document is not None:
        decide_on(parts.app.trust, [row.document], _DECISIONS[wanted.action])
        return
    approvals = parts.app.trust.approvals
    if approvals is None:
        raise RyeError("no_project", "expected a project, found none")
    approvals.approve_project(approved=True)
