"""`adopt`: make a tool of a script by adding a block of comments, and nothing else.

`propose` reads the script and runs nothing; `write` writes exactly what was proposed, unless a file has
changed since. Nothing is signed. A tool that was adopted before is replaced only with `again`.

    proposal = propose(AdoptRequest(Path("bin/report.py")), context)
    write(proposal, context)
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lilux import _files as whole_files
from lilux import _json
from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError, printable
from rye_mcp.items import (
    EXTENSIONS,
    MAX_ITEM_BYTES,
    ItemFile,
    ItemType,
    SpaceName,
    check_item_id,
    parse_relative_path,
    relative_path,
)
from rye_mcp.metadata import examine
from rye_mcp.scripts import (
    Declared,
    Kind,
    block_of,
    calling_of,
    kind_of,
    metadata_block,
    read_help,
    read_script,
    with_block,
)
from rye_mcp.trust import signature
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.load import require_no_clash, write_new
from rye_mcp.visible import visible

__all__ = [
    "AdoptRequest",
    "Imports",
    "Proposal",
    "module_kind",
    "propose",
    "read_script_file",
    "shell_word",
    "text_of_script",
    "write",
]

_PACKAGE: Final = "package.json"
_MAX_PACKAGE_BYTES: Final = 1 << 20
_ENDINGS: Final = ("", ".js", ".ts", ".cjs", ".mjs", "/index.js")


@dataclass(frozen=True, slots=True)
class Imports:
    """The imports of a script: packages, and the files beside it, by their paths from its directory."""

    packages: tuple[str, ...]
    beside: tuple[str, ...]

    @classmethod
    def of(cls, names: frozenset[str], source: Path) -> Imports:
        """The names that a script imports, told apart by what stands beside it."""
        found = {name: each for name in names for each in _files_of(name, source.parent) if each.is_file()}
        packages = {name for name in names - found.keys() if not name.startswith(".")}
        beside = {os.path.relpath(each, source.parent) for each in found.values()}
        return cls(tuple(sorted(packages)), tuple(sorted(beside)))

    @property
    def below(self) -> tuple[str, ...]:
        """The files that can be copied along with the script: none of a directory above."""
        return tuple(each for each in self.beside if not each.startswith(".."))


def read_script_file(source: Path) -> bytes:
    """The bytes of a script; RyeError for what is no regular file, or too large for an item."""
    shown = printable(source)
    try:
        return whole_files.read_capped(source, MAX_ITEM_BYTES)
    except OSError as exc:
        if exc.errno == errno.EFBIG:
            what = f"expected at most {MAX_ITEM_BYTES} bytes, found more"
            raise RyeError("too_large", what, where=shown) from exc
        raise RyeError("read_failed", f"expected a script, found: {exc.strerror}", where=shown) from exc


def text_of_script(source: Path, content: bytes) -> str:
    """The script as text, when it is one that every runtime reads alike."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text or "\r" in text or text.startswith("\ufeff"):
        what = "expected plain UTF-8 with LF, and no byte order mark, found other bytes"
        raise RyeError("not_text", what, where=printable(source))
    return text


def module_kind(source: Path) -> tuple[bool, tuple[str, ...]]:
    """Whether the nearest package.json makes a JavaScript file a module; a remark where it cannot be read."""
    marker = next((each / _PACKAGE for each in source.parents if (each / _PACKAGE).is_file()), None)
    if marker is None:
        return False, ()
    try:
        found = _json.decode(whole_files.read_capped(marker, _MAX_PACKAGE_BYTES))
    except (OSError, _json.NotJsonError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else str(exc.issues[0])
        return False, (f"{visible(printable(marker))} was not read, so this counts as no module: {why}",)
    return isinstance(found, dict) and found.get("type") == "module", ()


def shell_word(value: Path | str) -> str:
    """A path or a text as one word of a shell: what cannot be seen stands there as an escape."""
    text = str(value)
    shown = visible(printable(text))
    if shown == text:
        return shlex.quote(text)
    return f"$'{''.join(map(_escaped, text))}'"


def _escaped(character: str) -> str:
    """A character between `$'` and `'`: itself, or its bytes where it cannot be seen."""
    if character in "\\'":
        return f"\\{character}"
    if visible(printable(character)) == character:
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


def _files_of(name: str, directory: Path) -> Iterator[Path]:
    """Where a script beside another one would be found by this name."""
    if name.startswith("."):
        yield from (directory / f"{name}{ending}" for ending in _ENDINGS)
    else:
        yield from (directory / f"{name}.py", directory / name / "__init__.py")


_DIRECTORY: Final = "scripts"
_NO_SEGMENT: Final = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)
_FILE_MODE: Final = 0o644
_NOTHING_READ: Final = "no arguments were found in it: if it takes some, say them in config and config_schema"
_OTHER_ARGUMENTS: Final = (
    "its arguments are others than before, so the header is a new one: what you wrote into the old one "
    "stands in the lines that begin with -"
)


@dataclass(frozen=True, slots=True)
class AdoptRequest:
    """The script, and the tool to make of it. `help_text` is its output for `--help`, if it was asked.

    `again` is for a script that was adopted before, and has changed since.
    """

    path: Path
    item_id: str | None = None
    subcommand: str | None = None
    description: str | None = None
    help_text: str | None = None
    again: bool = False

    @property
    def command(self) -> str:
        """The command that asks for this."""
        options = (
            ("--as", self.item_id),
            ("--command", self.subcommand),
            ("--description", self.description),
        )
        given = "".join(f" {name} {shell_word(value)}" for name, value in options if value is not None)
        return f"rye adopt {shell_word(self.path)}{given}{' --again' if self.again else ''}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """The files to write, and their sources. `before` is the tool that it replaces."""

    request: AdoptRequest
    source: Path
    original: bytes
    file: ItemFile
    declared: Declared
    kind: Kind
    imports: Imports
    before: bytes | None = None
    remarks: tuple[str, ...] = ()

    @property
    def in_place(self) -> bool:
        """Whether the script is where tools are already."""
        return self.source == self.file.path

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that were found."""
        found = calling_of(self.declared, None)[1]
        return tuple(found["properties"])

    @property
    def next_commands(self) -> list[str]:
        """The commands to run after it was written."""
        needed = [each.name for each in self.declared.options if each.required]
        required = "".join(f" --{name.replace('_', '-')} …" for name in needed)
        item_id, words = self.file.item_id, [*map(shell_word, self.imports.below)]
        commands = []
        if words and not self.in_place:
            start, target = shell_word(self.source.parent), shell_word(self.file.path.parent)
            commands.append(f"(cd {start} && cp --parents -- {' '.join(words)} {target})")
        commands.append(f"rye sign {item_id}{''.join(f' --with {each}' for each in words)}")
        return [*commands, f"rye run {item_id}{required}"]

    def diff(self) -> str:
        """The changes to the script or the tool, as a unified diff."""
        before = self.original if self.before is None else self.before
        source = self.source if self.before is None else self.file.path
        names = (visible(printable(source)), visible(printable(self.file.path)))
        changes = difflib.unified_diff(_lines(before), _lines(self.file.content), *names, n=2, lineterm="")
        return "".join(f"{each}\n" for each in changes)

    def as_dict(self, *, written: bool) -> dict[str, Any]:
        """Return it as data."""
        return {
            "status": "adopted" if written else "proposed",
            "item_id": self.file.item_id,
            "source": printable(self.source),
            "path": printable(self.file.path),
            "original": "the same file" if self.in_place else "kept",
            "reader": self.declared.reader,
            "executor_id": self.kind.executor_id,
            "parameters": list(self.parameters),
            "packages": list(self.imports.packages),
            "remarks": list(self.remarks),
            "diff": self.diff(),
            "next": self.next_commands,
        }


def _lines(content: bytes) -> list[str]:
    return content.decode().removesuffix("\n").split("\n")


def propose(request: AdoptRequest, context: Context) -> Proposal:
    """Propose a tool for a script; RyeError for a script that cannot be one."""
    source = Path(request.path).resolve()
    original = read_script_file(source)
    text = text_of_script(source, original)
    is_module, remarks = module_kind(source)
    kind = kind_of(source, text, is_module=is_module)
    declared, names = read_script(kind, text, source, request.subcommand)
    if not declared.options and request.help_text is not None:
        declared = replace(read_help(request.help_text), description=declared.description)
    _require_subcommand(declared, request, source)
    space = context.spaces.space(SpaceName.PROJECT)
    if not space.root.is_dir():
        what = f"expected a project, found no {printable(space.root)}"
        raise RyeError("no_project", what, where=printable(space.root))
    item_id, extension, path = _place(source, kind.extension, request, space.root)
    place = ItemFile(space, ItemType.TOOL, item_id, extension, path, b"")
    _require_no_header(text, kind, source, place)
    fields = _fields_of(declared, kind, request, source)
    before = None if source == path else _adopted_before(place, request, context)
    block = metadata_block(fields, extension)
    if before is not None:
        block, more = _block_again(before, fields, place, request)
        remarks += more
    file = replace(place, content=with_block(text, block, extension).encode())
    examine(file)
    imports = Imports.of(names, source)
    if not declared.options:
        remarks += (_NOTHING_READ,)
    remarks = (*kind.remarks, *remarks, *declared.remarks, *_remarks(imports, kind))
    return Proposal(request, source, original, file, declared, kind, imports, before, remarks)


def write(proposal: Proposal, context: Context) -> None:
    """Write what was proposed; RyeError when something is in the way, or a file has changed."""
    _require_unchanged(proposal.source, proposal.original)
    if proposal.before is not None:
        _require_unchanged(proposal.file.path, proposal.before)
    if proposal.in_place or proposal.before is not None:
        mode = proposal.file.path.stat().st_mode & 0o777
        write_new(proposal.file, mode=mode, overwrite=True)
        return
    require_no_clash(proposal.file, context)
    write_new(proposal.file, mode=_FILE_MODE)


def _require_unchanged(path: Path, content: bytes) -> None:
    if read_script_file(path) != content:
        what = "expected the file that was looked at, found that it has changed since"
        raise RyeError("confirmation_outdated", what, where=printable(path), hint="adopt it again")


def _require_subcommand(declared: Declared, request: AdoptRequest, source: Path) -> None:
    """A program of several commands is as many tools."""
    if request.subcommand is None and not declared.subcommands:
        return
    if request.subcommand not in declared.subcommands:
        known = ", ".join(declared.subcommands) or "it has none"
        found = "none named" if request.subcommand is None else visible(repr(request.subcommand))
        what = f"expected one of its commands ({known}), each of which is a tool, found {found}"
        first = declared.subcommands[0] if declared.subcommands else None
        hint = replace(request, subcommand=first).command
        raise RyeError("unknown_argument", what, where=printable(source), hint=hint)


def _require_no_header(text: str, kind: Kind, source: Path, place: ItemFile) -> None:
    """A script that says what runs it is a tool: it has to be signed, and not adopted."""
    if block_of(text, place.extension) is None and not (
        kind.extension == ".py" and "__executor_id__" in text
    ):
        return
    what = "expected a script that says nothing about what runs it, found one that does"
    hint = f"rye sign {place.item_id}"
    if source != place.path:
        hint = f"cp -- {shell_word(source)} {shell_word(place.path)} && {hint}"
    raise RyeError("item_exists", what, where=printable(source), hint=hint)


def _fields_of(declared: Declared, kind: Kind, request: AdoptRequest, source: Path) -> dict[str, Any]:
    config, schema = calling_of(declared, request.subcommand)
    name = visible(printable(source.name))
    return {
        "version": "0.1.0",
        "description": request.description or declared.description or f"Runs {name}.",
        "executor_id": kind.executor_id,
        "config": config,
        "config_schema": schema,
    }


def _place(source: Path, extension: str, request: AdoptRequest, root: Path) -> tuple[str, str, Path]:
    """The id, the extension and the path of the tool."""
    if request.item_id is None and source.is_relative_to(root.resolve() / "tools"):
        _, item_id, known = parse_relative_path(source.relative_to(root.resolve()).as_posix())
        return item_id, known, source
    given = request.path.name if request.path.name not in ("", "..") else source.name
    bare = (
        given.removesuffix(Path(given).suffix) if Path(given).suffix in EXTENSIONS[ItemType.TOOL] else given
    )
    stem = _NO_SEGMENT.sub("-", bare).strip("-_") or "script"
    name = f"{stem}-{request.subcommand}" if request.subcommand else stem
    item_id = request.item_id or f"{_DIRECTORY}/{name}"
    check_item_id(item_id)
    return item_id, extension, root / relative_path(ItemType.TOOL, item_id, extension)


# --- a script that was adopted before ---


def _adopted_before(place: ItemFile, request: AdoptRequest, context: Context) -> bytes | None:
    """The tool that is there, where it may be replaced; None where none is."""
    elsewhere = replace(request, item_id=f"{place.item_id}-2").command
    try:
        require_no_clash(place, context)
    except RyeError as exc:
        exc.hint = elsewhere
        raise
    if not place.path.exists():
        return None
    before = read_script_file(place.path)
    is_adopted = block_of(before.decode("utf-8", "replace"), place.extension) is not None
    if is_adopted and request.again:
        return before
    shown = printable(place.path)
    what = f"expected no item {place.item_id} in the {place.space.name} space, found one: {shown}"
    hint = elsewhere
    if is_adopted:
        hint = f"{replace(request, again=True).command}, to take over how the script is now; or {elsewhere}"
    raise RyeError("item_exists", what, where=shown, item_id=place.item_id, hint=hint)


def _block_again(
    before: bytes, fields: Mapping[str, Any], place: ItemFile, request: AdoptRequest
) -> tuple[str, tuple[str, ...]]:
    """The block of a tool that was adopted before: its own, or a new one when the arguments are others."""
    block = metadata_block(fields, place.extension)
    text = signature.detach(replace(place, content=before)).decode()
    found = block_of(text, place.extension)
    if found is None or request.description is not None:
        return block, ()
    old = text.replace(found, "", 1)
    declared, _ = read_script(kind_of(place.path, old), old, place.path, request.subcommand)
    config, schema = calling_of(declared, request.subcommand)
    if (config, schema) == (fields["config"], fields["config_schema"]):
        return found, ()
    return block, (_OTHER_ARGUMENTS,)


# --- what is said ---


def _remarks(imports: Imports, kind: Kind) -> Iterator[str]:
    packages = ", ".join(imports.packages)
    if packages and kind.executor_id.endswith("/python_script_runtime"):
        listed = ", ".join(f'"{each}"' for each in imports.packages)
        yield (
            f"it imports {packages}: either write a block '# /// script', "
            f"'# dependencies = [{listed}]', '# ///' and rye/core/runtimes/uv_script_runtime as executor_id, "
            "or install them into .venv of the project, and approve it: rye trust project"
        )
    elif packages and kind.executor_id.endswith("/node_runtime"):
        named = shlex.join(imports.packages)
        yield (
            f"it imports {packages}: unless it is there already, npm install {named} in the project, "
            "then: rye trust project"
        )
    if kind.extension == ".ts":
        yield "it is TypeScript: it needs Node.js 22.18 or newer, or tsx: npm install tsx in the project"
    yield from _remarks_on_files(imports)


def _remarks_on_files(imports: Imports) -> Iterator[str]:
    above = [each for each in imports.beside if each not in imports.below]
    for files, what in (
        (imports.beside, "it loads files beside it, which have to be signed with it"),
        (above, "it loads files of a directory above it, which no tool takes along"),
    ):
        if files:
            yield f"{what}: {', '.join(visible(printable(each)) for each in files)}"
