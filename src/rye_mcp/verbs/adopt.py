"""`adopt`: a script that somebody has becomes a tool, by a block of comments and nothing else.

Rules:

- A script from elsewhere is copied, and its original stays as it is. One that is below `.ai/tools` already
  gets the block where it is.
- Only the block is written. Every line of the script stays, in its order, to the byte.
- `propose` writes nothing: it reads the script, runs none of it, and says what it found. `write` writes
  exactly what was proposed, unless the file has changed since then. Nothing is signed.
- Nothing that is there is replaced. A script that names an executor already is one that was adopted.

    proposal = propose(AdoptRequest(Path("bin/report.py")), context)
    write(proposal, context)
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

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
    calling_of,
    kind_of,
    metadata_block,
    read_help,
    read_script,
    with_block,
)
from rye_mcp.verbs._copying import require_no_clash, write_new
from rye_mcp.verbs.context import Context

__all__ = ["AdoptRequest", "Proposal", "propose", "write"]

_DIRECTORY: Final = "scripts"
_NO_SEGMENT: Final = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)
_FILE_MODE: Final = 0o644
_BLOCK: Final = re.compile(r"^(?:#|//|--) /// rye[ \t]*$", re.MULTILINE)
_NOTHING_READ: Final = "no arguments were found in it: if it takes some, say them in config and config_schema"
_MARKERS: Final = ("package.json",)


@dataclass(frozen=True, slots=True)
class AdoptRequest:
    """Which script, and what becomes of it. `help_text` is what it printed with `--help`, if it was asked."""

    path: Path
    item_id: str | None = None
    subcommand: str | None = None
    description: str | None = None
    help_text: str | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """What would be written, and out of what. `packages` are imports that Python or Node.js lacks."""

    source: Path
    original: bytes
    file: ItemFile
    declared: Declared
    executor_id: str
    packages: tuple[str, ...] = ()
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

    def _required(self) -> str:
        needed = [each.name for each in self.declared.options if each.required]
        return "".join(f" --{name.replace('_', '-')} …" for name in needed)

    def diff(self) -> str:
        """What is added to the script, as a unified diff."""
        before = self.original.decode().splitlines(keepends=True)
        after = self.file.content.decode().splitlines(keepends=True)
        names = (printable(self.source), printable(self.file.path))
        return "".join(
            f"{each.rstrip(chr(10))}\n" for each in difflib.unified_diff(before, after, *names, n=2)
        )

    def as_dict(self, *, written: bool) -> dict[str, Any]:
        """Return it as data."""
        item_id = self.file.item_id
        return {
            "status": "adopted" if written else "proposed",
            "item_id": item_id,
            "source": printable(self.source),
            "path": printable(self.file.path),
            "original": "the same file" if self.in_place else "kept",
            "reader": self.declared.reader,
            "executor_id": self.executor_id,
            "parameters": list(self.parameters),
            "packages": list(self.packages),
            "remarks": list(self.remarks),
            "diff": self.diff(),
            "next": [f"rye sign {item_id}", f"rye run {item_id}{self._required()}"],
        }


def propose(request: AdoptRequest, context: Context) -> Proposal:
    """What would make a tool of a script; RyeError for what cannot be one."""
    source = Path(request.path).resolve()
    original = _read(source)
    text = _text(source, original)
    kind = kind_of(source, text, is_module=_is_module(source))
    declared, imports = read_script(kind, text, source, request.subcommand)
    if not declared.options and request.help_text is not None:
        declared = replace(read_help(request.help_text), description=declared.description)
    _require_subcommand(declared, request, source)
    space = context.spaces.space(SpaceName.PROJECT)
    if not space.root.is_dir():
        what = f"expected a project, found no {printable(space.root)}"
        raise RyeError("no_project", what, where=printable(space.root))
    item_id, extension, path = _place(source, kind.extension, request, space.root)
    if _BLOCK.search(text) or (kind.extension == ".py" and "__executor_id__" in text):
        what = "expected a script that says nothing about what runs it, found one that does"
        raise RyeError("item_exists", what, where=printable(source), hint=f"rye sign {item_id}")
    config, schema = calling_of(declared, request.subcommand)
    fields = {
        "version": "0.1.0",
        "description": request.description or declared.description or f"Runs {source.name}.",
        "executor_id": kind.executor_id,
        "config": config,
        "config_schema": schema,
    }
    content = with_block(text, metadata_block(fields, extension), extension).encode()
    file = ItemFile(space, ItemType.TOOL, item_id, extension, path, content)
    examine(file)
    packages, beside = _apart(imports, source)
    if not declared.options:
        kind = replace(kind, remarks=(*kind.remarks, _NOTHING_READ))
    remarks = (*kind.remarks, *declared.remarks, *_remarks(packages, beside, kind.executor_id))
    return Proposal(source, original, file, declared, kind.executor_id, packages, remarks)


def write(proposal: Proposal, context: Context) -> None:
    """Write what was proposed; RyeError when something is in the way, or the script has changed."""
    if _read(proposal.source) != proposal.original:
        what = "expected the script that was looked at, found that it has changed since"
        raise RyeError("confirmation_outdated", what, where=printable(proposal.source), hint="adopt it again")
    if proposal.in_place:
        write_new(proposal.file, mode=proposal.source.stat().st_mode & 0o777, overwrite=True)
        return
    require_no_clash(proposal.file, context)
    try:
        write_new(proposal.file, mode=_FILE_MODE)
    except RyeError as exc:
        if exc.code == "item_exists":
            exc.hint = "take another id: rye adopt PATH --as ID"
        raise


def _read(source: Path) -> bytes:
    shown = printable(source)
    try:
        if not source.is_file():
            raise RyeError("read_failed", "expected a script, found no regular file", where=shown)
        size = source.stat().st_size
        if size > MAX_ITEM_BYTES:
            what = f"expected at most {MAX_ITEM_BYTES} bytes, found {size}"
            raise RyeError("too_large", what, where=shown)
        return source.read_bytes()
    except OSError as exc:
        raise RyeError("read_failed", f"expected a script, found: {exc.strerror}", where=shown) from exc


def _text(source: Path, content: bytes) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text or "\r" in text or text.startswith("\ufeff"):
        what = "expected plain UTF-8 with LF, and no byte order mark, found other bytes"
        raise RyeError("not_text", what, where=printable(source))
    return text


def _is_module(source: Path) -> bool:
    """Whether the nearest package.json makes a JavaScript file a module."""
    for directory in source.parents:
        marker = directory / _MARKERS[0]
        if marker.is_file():
            try:
                return bool(json.loads(marker.read_bytes()).get("type") == "module")
            except (OSError, ValueError, AttributeError):
                return False
    return False


def _require_subcommand(declared: Declared, request: AdoptRequest, source: Path) -> None:
    """A program of several commands is as many tools."""
    if request.subcommand is None and not declared.subcommands:
        return
    if request.subcommand not in declared.subcommands:
        known = ", ".join(declared.subcommands) or "none"
        what = f"expected one of its commands ({known}), each of which is a tool, found {request.subcommand}"
        first = declared.subcommands[0] if declared.subcommands else None
        hint = f"rye adopt PATH --command {first}" if first else "leave out --command"
        raise RyeError("unknown_argument", what, where=printable(source), hint=hint)


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


def _apart(imports: frozenset[str], source: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The packages among the imports, and the files beside the script."""
    beside = {name: each for name in imports for each in _files_of(name, source.parent) if each.is_file()}
    packages = {name for name in imports - beside.keys() if not name.startswith(".")}
    return tuple(sorted(packages)), tuple(sorted(map(printable, beside.values())))


def _files_of(name: str, directory: Path) -> Iterator[Path]:
    """Where a script beside another one would be found by this name."""
    if name.startswith("."):
        endings = ("", ".js", ".ts", ".cjs", ".mjs", "/index.js")
        yield from (directory / f"{name}{ending}" for ending in endings)
    else:
        yield from (directory / f"{name}.py", directory / name / "__init__.py")


def _remarks(packages: tuple[str, ...], beside: tuple[str, ...], executor_id: str) -> Iterator[str]:
    if packages and executor_id.endswith("/python_script_runtime"):
        listed = ", ".join(f'"{each}"' for each in packages)
        yield (
            f"it imports {', '.join(packages)}: either write a block '# /// script', "
            f"'# dependencies = [{listed}]', '# ///' and rye/core/runtimes/uv_script_runtime as executor_id, "
            "or install them into .venv of the project, and approve it: rye trust project"
        )
    elif packages and executor_id.endswith("/node_runtime"):
        named = " ".join(packages)
        yield f"it imports {', '.join(packages)}: npm install {named} in the project, then: rye trust project"
    if beside:
        yield (
            f"it loads files beside it: copy {', '.join(beside)} beside the tool, and sign them with it "
            "(rye sign ID --with FILE)"
        )
