"""Makes an item of a program that an agent has run: `scripts/NAME`, which is signed afterwards.

The file has the source as it was, what it may call, and its schema, so that a person who promotes it reads
all of it. An item of a person is never replaced, one of an agent only where the caller asks for that.
"""

from __future__ import annotations

import ast
import inspect
import pprint
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.errors import RyeError
from rye_mcp.items import ItemFile, ItemType, SpaceName, printable, relative_path
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.load import require_no_clash, write_new

__all__ = ["DIRECTORY", "ProgramRequest", "source_of", "take_back", "write_program"]

DIRECTORY: Final = "scripts"
"""The directory of such items."""

_EXTENSION: Final = ".py"
_FILE_MODE: Final = 0o644
_WIDTH: Final = 100
_INDENT: Final = "    "
_FILE: Final = """\
{description}
{client}
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_runtime"
__category__ = "{directory}"

PERMISSIONS = {permissions}
LIMITS = {{"calls": 500}}
CONFIG_SCHEMA = {schema}
{tools}

{kind} execute(input, project_path):
    result = None
{source}
    return result
"""
_CLIENT: Final = """
import functools
import types

from rye import CallError, call, describe, search
"""


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """A program that becomes an item; `parameters` is the schema of its `input`."""

    name: str
    description: str
    source: str = field(repr=False)
    calls: Sequence[str] = ()
    parameters: Mapping[str, Any] | None = None
    overwrite: bool = False


def write_program(request: ProgramRequest, context: Context) -> tuple[ItemFile, ItemFile | None]:
    """Write the item, without a signature, and return it with the one that it replaces, if it does.

    RyeError when something else is in its place.
    """
    space = context.spaces.space(SpaceName.PROJECT)
    if not space.root.is_dir():
        what = f"expected a project, found no {printable(space.root)}"
        raise RyeError("no_project", what, where=printable(space.root))
    item_id = f"{DIRECTORY}/{request.name}"
    relative = relative_path(ItemType.TOOL, item_id, _EXTENSION)
    content = source_of(request).encode()
    file = ItemFile(space, ItemType.TOOL, item_id, _EXTENSION, space.root / relative, content)
    require_no_clash(file, context)
    before = _of_agent(file, context) if request.overwrite else None
    write_new(file, mode=_FILE_MODE, overwrite=request.overwrite)
    return file, before


def take_back(file: ItemFile, before: ItemFile | None) -> None:
    """Undo `write_program`: what was there before is there again, whole, and else nothing."""
    if before is None:
        file.path.unlink(missing_ok=True)
    else:
        write_new(before, mode=_FILE_MODE, overwrite=True)


def source_of(request: ProgramRequest) -> str:
    """The text of the item; RyeError `invalid_parameters` for a program that no item can be."""
    permissions: dict[str, Any] = {"require": "walls"}
    if request.calls:
        permissions["calls"] = sorted(set(request.calls))
    schema = request.parameters if request.parameters is not None else {"type": "object"}
    kind, source = _body(request.source)
    return _FILE.format(
        description=repr(request.description),
        client=_CLIENT if request.calls else "",
        directory=DIRECTORY,
        permissions=pprint.pformat(permissions, width=_WIDTH, sort_dicts=False),
        schema=pprint.pformat(dict(schema), width=_WIDTH, sort_dicts=False),
        tools=_tools(request.calls),
        kind=kind,
        source=source,
    )


def _tools(calls: Sequence[str]) -> str:
    ids = sorted({each for each in calls if not each.endswith("/*")})
    named = "".join(f"    {_python_name(each)}=functools.partial(call, {each!r}),\n" for each in ids)
    return f"tools = types.SimpleNamespace(\n{named})\n" if ids else ""


def _python_name(item_id: str) -> str:
    name = re.sub(r"\W", "_", item_id)
    return f"_{name}" if name[0].isdigit() else name


def _body(source: str) -> tuple[str, str]:
    """How the function begins, and what is in it: the source, with its last expression put into `result`."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree = ast.parse(source)
        is_async = bool(compile(tree, "<program>", "exec", flags).co_flags & inspect.CO_COROUTINE)
        kind = "async def" if is_async else "def"
        body = _indented(source, tree)
        compile(f"{kind} execute(input):\n{_INDENT}result = None\n{body}\n", "<program>", "exec")
    except (SyntaxError, ValueError, RecursionError) as exc:
        what = f"expected a program in Python that can be the body of a function, found: {exc}"
        raise RyeError("invalid_parameters", what, hint="correct the source") from exc
    return kind, body


def _indented(source: str, tree: ast.Module) -> str:
    """The source as a body; lines that a text goes on in stay as they are."""
    lines = source.encode().split(b"\n")
    inside = {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None
        for number in range(node.lineno + 1, node.end_lineno + 1)
    }
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr) and last.end_lineno is not None and last.end_col_offset is not None:
        lines[last.end_lineno - 1] = _inserted(lines[last.end_lineno - 1], last.end_col_offset, b")")
        lines[last.lineno - 1] = _inserted(lines[last.lineno - 1], last.col_offset, b"result = (")
    texts = [line.decode() for line in lines]
    return "\n".join(
        text if number in inside or not text.strip() else f"{_INDENT}{text}"
        for number, text in enumerate(texts, start=1)
    )


def _inserted(line: bytes, at: int, text: bytes) -> bytes:
    return line[:at] + text + line[at:]


def _of_agent(file: ItemFile, context: Context) -> ItemFile | None:
    """What is in the place of a file; RyeError when that is not the work of an agent."""
    try:
        found = context.spaces.find(file.item_id, ItemType.TOOL, only=SpaceName.PROJECT).item
    except RyeError as exc:
        if exc.code == "item_not_found":
            return None
        raise
    if context.verify(found).signer.kind is not SignerKind.AGENT:
        what = f"expected {file.item_id} to be signed by an agent, found the signature of a person"
        raise RyeError("out_of_scope", what, item_id=file.item_id, hint="take another name")
    return found
