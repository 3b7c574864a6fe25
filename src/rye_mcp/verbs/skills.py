"""`skills`: bring in skills of others, look at them before signing, and place copies for other clients.

What is brought in is written as it is, unsigned, and nothing of it runs. A copy for a client is made of a
skill that passed the gate; whether it is still that skill, `rye verify` tells.

    add(AddRequest(Path("/work/other")), context).added[0].review.counts
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import SKILL_TEXT, ItemFile, ItemType, SpaceName, is_item_id, printable
from rye_mcp.metadata import front_matter, parse_metadata
from rye_mcp.spaces import each_file, scan_files, skill_of, skill_place
from rye_mcp.spaces.source_tree import SourceFile
from rye_mcp.trust.listing import render_skill_listing
from rye_mcp.verbs._skill_copies import CLIENTS, difference
from rye_mcp.verbs._skill_writing import files_of, write_directory, write_skill
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.skill_review import Review, review

__all__ = ["CLIENTS", "AddRequest", "AddResult", "Added", "LinkRequest", "NotAdded", "add", "link", "look_at"]

_PLACES: Final = ("", "skills", ".ai/skills", *CLIENTS.values())
"""Where to look for skills in a directory that is not itself a skill."""

LEFT_OUT: Final = (".git", "__pycache__")
"""What is not brought in: a repository, and bytecode that Python makes again."""

_MAX_SKILLS: Final = 500


@dataclass(frozen=True, slots=True)
class AddRequest:
    """Where skills are: a directory that is one, or that holds some. `names` are those that are meant.

    `origin` is what the directory is called, where it is a copy made for this; `renamed` says that its name
    means nothing.
    """

    directory: Path
    space: SpaceName = SpaceName.PROJECT
    names: frozenset[str] = frozenset()
    overwrite: bool = False
    origin: str | None = None
    renamed: bool = False


@dataclass(frozen=True, slots=True)
class Added:
    """A skill that was brought in, unsigned, and what to look at before signing it."""

    file: ItemFile
    origin: str
    review: Review

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "name": self.file.item_id,
            "from": self.origin,
            "path": printable(self.file.text_path.parent),
            "review": self.review.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class NotAdded:
    """A directory that was not brought in, and why."""

    origin: str
    error: RyeError

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        known = {name: value for name, value in self.error.as_dict().items() if name != "status"}
        return {"from": self.origin, **known}


@dataclass(frozen=True, slots=True)
class AddResult:
    """What became of each skill that was found."""

    added: tuple[Added, ...] = ()
    failed: tuple[NotAdded, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "status": "completed",
            "added": [each.as_dict() for each in self.added],
            "failed": [each.as_dict() for each in self.failed],
        }


def add(request: AddRequest, context: Context) -> AddResult:
    """Bring in the skills of a directory.

    1. the directory is a skill, or holds some, in the places where clients look
    2. each is read once, through no link, and within the limits of a skill
    3. it is a skill by the specification, with names that every machine can have
    4. it is written, unsigned, and looked at
    """
    if request.space is SpaceName.SYSTEM:
        what = "expected the project or the user space, found the system space, which is sealed"
        raise RyeError("out_of_scope", what, hint="rye skill add DIR --space user")
    context.spaces.space(request.space)
    added: list[Added] = []
    failed: list[NotAdded] = []
    for below in _found(request):
        origin = _origin(request, below)
        try:
            added.append(_added(request, below, origin, context))
        except RyeError as exc:
            if exc.code == "invalid_item":
                exc.where, exc.hint = f"{origin}/{SKILL_TEXT}", "fix it there, then add it again"
            failed.append(NotAdded(origin, exc))
    return AddResult(tuple(added), tuple(failed))


def _origin(request: AddRequest, below: str) -> str:
    origin = request.origin or printable(request.directory)
    return f"{origin}/{below}" if below else origin


def _found(request: AddRequest) -> list[str]:
    """The skills in a directory, as paths below it; RyeError `item_not_found` if there are none."""
    root = request.directory
    if _is_file(root / SKILL_TEXT):
        return [""]
    found = [each for place in _PLACES for each in _in_place(root, place)]
    found = [each for each in found if not request.names or each.rpartition("/")[2] in request.names]
    if not found:
        shown = request.origin or printable(root)
        names = f" called {', '.join(sorted(request.names))}" if request.names else ""
        what = f"expected a directory with {SKILL_TEXT}, or with such directories{names}, found none: {shown}"
        raise RyeError("item_not_found", what, where=shown, hint="name the directory that holds them")
    if len(found) > _MAX_SKILLS:
        what = f"expected at most {_MAX_SKILLS} skills, found {len(found)}"
        raise RyeError("too_large", what, hint="name those that you want: --name NAME")
    return found


def _in_place(root: Path, place: str) -> Iterator[str]:
    try:
        with os.scandir(root / place) as entries:
            names = sorted(entry.name for entry in entries if _may_be_one(entry))
    except OSError:
        return
    yield from (f"{place}/{name}" if place else name for name in names)


def _may_be_one(entry: os.DirEntry[str]) -> bool:
    """Whether this is a directory with the text of a skill, or a link to one, which reading it refuses."""
    return entry.is_dir() and _is_file(Path(entry.path) / SKILL_TEXT)


def _is_file(path: Path) -> bool:
    return os.path.lexists(path)


def _added(request: AddRequest, below: str, origin: str, context: Context) -> Added:
    root = request.directory
    stamps = scan_files(root, below, without=LEFT_OUT)
    if stamps is None:
        raise RyeError(
            "item_not_found", f"expected the directory of a skill, found none: {origin}", where=origin
        )
    contents = dict(each_file(root, below, (name for name in stamps if not name.endswith(".pyc"))))
    file = _as_item(request, (root / below).name, contents, context)
    render_skill_listing(skill_of(contents.items()))
    parse_metadata(file)
    found = review(file, {path: each.content for path, each in contents.items()})
    write_skill(file, contents, overwrite=request.overwrite)
    return Added(file, origin, found)


def _as_item(
    request: AddRequest, name: str, contents: Mapping[str, SourceFile], context: Context
) -> ItemFile:
    """The skill as it will be found in its space."""
    space, skill = context.spaces.space(request.space), skill_of(contents.items())
    if request.renamed and request.directory.name == name:
        unnamed = ItemFile(space, ItemType.SKILL, "skill", "", space.root, b"", skill)
        said = front_matter(unnamed).get("name")
        name = said if isinstance(said, str) and is_item_id(said) else name
    place = skill_place(space, name)
    return ItemFile(space, ItemType.SKILL, name, place.extension, place.path, b"", skill)


def look_at(name: str, context: Context, space: SpaceName | None = None) -> Added:
    """Review a skill of a space, signed or not."""
    file = context.spaces.find(name, ItemType.SKILL, only=space).item
    contents = {path: each.content for path, each in files_of(file).items()}
    return Added(file, printable(file.text_path.parent), review(file, contents))


# --- copies for clients that read directories ---


@dataclass(frozen=True, slots=True)
class LinkRequest:
    """Which skill, for which clients; `overwrite` replaces what is there."""

    name: str
    clients: tuple[str, ...]
    space: SpaceName | None = None
    overwrite: bool = False


def link(request: LinkRequest, context: Context) -> tuple[Path, ...]:
    """Place a copy of a verified skill where clients look for skills; what is the same already stays."""
    file = context.verify(context.spaces.find(request.name, ItemType.SKILL, only=request.space).item).file
    unknown = [client for client in request.clients if client not in CLIENTS]
    if unknown:
        what = f"expected one of {', '.join(CLIENTS)}, found {unknown[0]!a}"
        raise RyeError("unknown_argument", what, hint=f"rye skill link {request.name} --to claude")
    base = file.space.root.parent
    if file.space.name is SpaceName.SYSTEM:
        base = context.spaces.require_project().root.parent
    files = files_of(file)
    made: list[Path] = []
    for client in request.clients:
        place = base / CLIENTS[client] / file.item_id
        if difference(file, base, CLIENTS[client]) is not None:
            write_directory(base, CLIENTS[client], file.item_id, files, overwrite=request.overwrite)
        made.append(place)
    return tuple(made)
