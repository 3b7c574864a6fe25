"""Metadata of an item before it is checked, and the issues that are found in it.

`Raw` is what every reader of this package produces. `Issues` collects what is wrong, and raises all of it as
one RyeError `invalid_item`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import field
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError, kind
from rye_mcp.items import ItemFile, printable

__all__ = [
    "MAX_DEPTH",
    "MAX_INT_BITS",
    "MAX_NODES",
    "Issue",
    "Issues",
    "Place",
    "Raw",
    "Unreadable",
    "Way",
    "kind",
    "without_values",
]

MAX_DEPTH: Final = 64
"""How many lists and mappings may stand inside each other."""

MAX_NODES: Final = 20_000
"""How many values there may be in one item, those behind aliases counted each time."""

MAX_INT_BITS: Final = 1024
"""How long a whole number may be."""


Way = tuple[str | int, ...]
"""The keys and positions that lead to a value, the name of its field first."""

Place = tuple[int, int]
"""A line and a column, both counted from 1."""


@dataclass(slots=True)
class Raw:
    """The metadata of an item, before anything of it was checked.

    `values` are by the names of metadata fields, `lines` says in which line of the file each begins. `places`
    has the line and column of every value, by the way to it, for callers that ask for them;
    `description` is what the code says for want of a description, such as a docstring. `besides` are names of
    Python that look like those of metadata and are not, with their lines, for the same callers.
    """

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    description: str | None = None
    places: dict[Way, Place] = field(default_factory=dict)
    besides: dict[str, int] = field(default_factory=dict)

    def column(self, name: str) -> int | None:
        """Where in the line of a field its value begins, when it does so there and that is known."""
        line, column = self.places.get((name,), (None, None))
        return column if line == self.lines.get(name) else None

    def place(self, way: Way) -> Place | tuple[int | None, None]:
        """Where a value begins, or the nearest around it of which that is known."""
        for length in range(len(way), 0, -1):
            if way[:length] in self.places:
                return self.places[way[:length]]
        return self.lines.get(str(way[0])), None


MAX_ISSUES: Final = 50
"""How many issues are reported; one more says that there are others."""

_NAMED = 3
_SHOWN_CHARACTERS = 300

_FIELD_NAME: Final = re.compile(r"[A-Za-z0-9_./\[\]-]{1,80}")
"""A name that cannot be a sentence."""

_QUOTED: Final = re.compile(r"""\*\S+|(?=.*[A-Za-z]{4})(?:'.*'|".*")""", re.DOTALL)
"""Words of the file that an expectation may quote: an anchor, or words, but not `'# ///'`."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One finding: what was expected and found, where in the file (both count from 1), in which field."""

    message: str
    line: int | None = None
    field: str | None = None
    column: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The finding as data; what is not known is left out."""
        known = {"message": self.message, "line": self.line, "column": self.column, "field": self.field}
        return {name: value for name, value in known.items() if value is not None}

    def __str__(self) -> str:
        if self.line is None:
            return self.message
        column = "" if self.column is None else f", column {self.column}"
        return f"line {self.line}{column}: {self.message}"


class Unreadable(Exception):  # noqa: N818 - says what it is
    """The rest of the file cannot be read. This error stays inside the package."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.issue = Issue(_short(message), line, column=column)


@dataclass(slots=True)
class Issues:
    """Everything that was found so far, in the order in which it was."""

    found: list[Issue] = field(default_factory=list)

    def add(
        self, message: str, line: int | None = None, field: str | None = None, column: int | None = None
    ) -> None:
        """Take note of a finding; more than anybody reads are dropped."""
        if len(self.found) < MAX_ISSUES:
            self.found.append(Issue(_short(message), line, field, column))
        elif len(self.found) == MAX_ISSUES:
            self.found.append(Issue(f"expected no more than {MAX_ISSUES} issues, found others besides"))

    def raise_any(self, file: ItemFile) -> None:
        """RyeError `invalid_item` with all issues, by line, when there are any."""
        if self.found:
            raise _refusal(self.found, file)


def without_values(error: RyeError, file: ItemFile) -> RyeError:
    """The same refusal of a file without what stands in it: what was expected, and where.

    Text of somebody else's file must not come to an agent before a person has vouched for it.
    """
    found = error.details.get("issues", ())
    return _refusal([_without_value(Issue(**each)) for each in found], file) if found else error


def _without_value(issue: Issue) -> Issue:
    place, separator, expected = issue.message.partition("expected ")
    expected = _QUOTED.sub("…", expected.partition(", found")[0]) if separator else "something else"
    place = place if _FIELD_NAME.fullmatch(place.removesuffix(": ")) else ""
    name = issue.field if issue.field is None or _FIELD_NAME.fullmatch(issue.field) else None
    return Issue(f"{place}expected {expected}", issue.line, name, issue.column)


def _refusal(found: list[Issue], file: ItemFile) -> RyeError:
    issues = sorted(found, key=lambda issue: (issue.line or 0, issue.column or 0))
    first = "; ".join(map(str, issues[:_NAMED]))
    others = f"; and {len(issues) - _NAMED} more" if len(issues) > _NAMED else ""
    where = printable(file.text_path)
    return RyeError(
        "invalid_item",
        f"{where}: {first}{others}",
        where=":".join(str(each) for each in (where, issues[0].line, issues[0].column) if each is not None),
        hint=f"fix {shlex.quote(where)}, then: rye sign {file.item_id}",
        item_id=file.item_id,
        issues=[issue.as_dict() for issue in issues],
    )


def _short(message: str) -> str:
    shown = message.encode("utf-8", "backslashreplace").decode("utf-8")
    return shown if len(shown) <= _SHOWN_CHARACTERS else shown[:_SHOWN_CHARACTERS] + "…"
