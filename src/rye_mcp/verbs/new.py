"""`new`: a working item to start with: a tool in a language, a directive, knowledge, or a skill.

It is a template of this package with the item's name put in, unsigned. Nothing that exists is replaced, and
nothing is written that would make two items ambiguous.

    new(NewRequest("demo/hello", language="python"), context).as_dict()
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lilux._dataclasses import dataclass
from lilux.runtime.interpreters import NodeModules, Surroundings
from rye_mcp.errors import RyeError
from rye_mcp.executor.job.starting import how_to_install
from rye_mcp.items import (
    SKILL_TEXT,
    ItemFile,
    ItemType,
    ListedFile,
    SkillFiles,
    SpaceName,
    check_item_id,
    printable,
    relative_path,
)
from rye_mcp.notices import Notice
from rye_mcp.spaces.source_tree import SourceFile
from rye_mcp.verbs._skill_writing import write_skill
from rye_mcp.verbs.context import Context, options_of
from rye_mcp.verbs.load import require_no_clash, write_new

__all__ = ["LANGUAGES", "NewRequest", "NewResult", "new"]

_TEMPLATES: Final = Path(__file__).parents[1] / "templates"
_NAME: Final = "@NAME@"
_FILE_MODE: Final = 0o644


@dataclass(frozen=True, slots=True)
class _Template:
    """A file that an item begins as, its extension, parameters that it can be run with, and what runs it."""

    file: str
    extension: str
    arguments: str = "--name Ada"
    program: str | None = None


LANGUAGES: Final[Mapping[str, _Template]] = MappingProxyType(
    {
        "python": _Template("python.py.txt", ".py"),
        "python-uv": _Template(
            "python-uv.py.txt",
            ".py",
            program="uv",
        ),
        "python-flags": _Template("python-flags.py.txt", ".py"),
        "bash": _Template("bash.sh.txt", ".sh", program="bash"),
        "node": _Template("node.mjs.txt", ".mjs", program="node"),
        "http": _Template("http.yaml.txt", ".yaml", "--owner python --repo cpython"),
        "ruby": _Template("ruby.rb.txt", ".rb", program="ruby"),
        "perl": _Template("perl.pl.txt", ".pl", program="perl"),
    }
)
"""The languages of tools; the first one is the default."""

_TEXTS: Final[Mapping[ItemType, _Template]] = MappingProxyType(
    {
        ItemType.DIRECTIVE: _Template("directive.md.txt", ".md", "--who Ada"),
        ItemType.KNOWLEDGE: _Template("knowledge.md.txt", ".md", ""),
        ItemType.SKILL: _Template("skill.md.txt", ".rye.sig.yaml", ""),
    }
)


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A file to make, and its place; `language` is for tools alone, by default the first of `LANGUAGES`.

    `environment` is the one that it is going to run in: what is not found there is warned of.
    """

    item_id: str
    item_type: ItemType = ItemType.TOOL
    language: str | None = None
    space: SpaceName = SpaceName.PROJECT
    environment: Mapping[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class NewResult:
    """An item that was made. `arguments` are parameters that it runs with, as one types them."""

    file: ItemFile
    arguments: str
    warnings: tuple[Notice, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """The next commands: sign it, and run it."""
        file = self.file
        options = "" if file.item_type is ItemType.TOOL else f"--type {file.item_type} "
        signs = f"rye sign {file.item_id}{options_of(file.item_type, file.space.name)}"
        return signs, f"rye run {options}{file.item_id} {self.arguments}".rstrip()

    def as_dict(self) -> dict[str, Any]:
        """Return the result as data."""
        return {
            "status": "created",
            "item_id": self.file.item_id,
            "type": self.file.item_type.value,
            "path": printable(self.file.text_path),
            "next": list(self.commands),
            "warnings": [warning.as_dict() for warning in self.warnings],
        }


def new(request: NewRequest, context: Context) -> NewResult:
    """Make an item; RyeError when it would not be one, or something is in the way."""
    template = _template(request)
    check_item_id(request.item_id)
    relative = relative_path(request.item_type, request.item_id, template.extension)
    space = context.spaces.space(request.space)
    if request.space is SpaceName.PROJECT and not space.root.is_dir():
        what = f"expected a project, found no {printable(space.root)}"
        raise RyeError("no_project", what, where=printable(space.root))
    text = (_TEMPLATES / template.file).read_text(encoding="utf-8")
    content = text.replace(_NAME, request.item_id.rpartition("/")[2]).encode()
    file = ItemFile(
        space, request.item_type, request.item_id, template.extension, space.root / relative, content
    )
    require_no_clash(file, context)
    hidden = _hidden(file, context)
    try:
        if request.item_type is ItemType.SKILL:
            file = _write_skill(file)
        else:
            write_new(file, mode=_FILE_MODE)
    except RyeError as exc:
        if exc.code == "item_exists":
            exc.hint = f"take another id, or look at it: rye show {file.item_id}{options_of(file.item_type)}"
        raise
    return NewResult(file, template.arguments, (*hidden, *_missing(template, request, context)))


def _write_skill(file: ItemFile) -> ItemFile:
    """Write a skill of one text, and return it as it is read from then on."""
    listed = ListedFile(hashlib.sha256(file.content).hexdigest(), len(file.content))
    skill = SkillFiles(file.content, MappingProxyType({SKILL_TEXT: listed}))
    made = replace(file, content=b"", skill=skill)
    write_skill(made, {SKILL_TEXT: SourceFile(made.text_path, file.content, executable=False)})
    return made


def _template(request: NewRequest) -> _Template:
    """Return the template; RyeError for an unknown space, language or combination."""
    if request.space is SpaceName.SYSTEM:
        what = "expected the project or the user space, found the system space, which is sealed"
        raise RyeError("out_of_scope", what, item_id=request.item_id, hint=f"rye new {request.item_id}")
    if request.item_type is not ItemType.TOOL:
        if request.language is not None:
            what = f"expected no language for a {request.item_type}, found {request.language}"
            raise RyeError("unknown_argument", what, hint="leave out the language")
        return _TEXTS[request.item_type]
    language = request.language or next(iter(LANGUAGES))
    if language not in LANGUAGES:
        what = f"expected one of {', '.join(LANGUAGES)}, found {language!a}"
        raise RyeError("unknown_argument", what, hint=f"rye new {request.item_id} --lang python")
    return LANGUAGES[language]


def _missing(template: _Template, request: NewRequest, context: Context) -> tuple[Notice, ...]:
    """Said when nothing here runs what was written."""
    program = template.program
    if program is None or request.environment is None:
        return ()
    around = Surroundings(request.environment, context.project)
    # A project can bring a Node along; everything else is looked for on the PATH alone.
    if around.on_path(program) or (program == "node" and NodeModules().find(around)):
        return ()
    what = f"expected {program} on the PATH to run it, found none: install {how_to_install(program)}"
    return (Notice("program_missing", what),)


def _hidden(file: ItemFile, context: Context) -> tuple[Notice, ...]:
    """Said when an item of the same id will not be found any more."""
    try:
        other = context.spaces.find(file.item_id, file.item_type).item
    except RyeError:
        return ()
    if other.space.name.precedence > file.space.name.precedence:
        what = f"that of the {other.space.name} space is in front of it, and is what will be found"
    else:
        what = f"from now on it is found instead of that of the {other.space.name} space"
    return (Notice("hides", f"{file.item_id}: {what}"),)
