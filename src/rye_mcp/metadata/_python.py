"""Reads the metadata of a Python file: a block of comments before all code, or literals that it assigns.

Nothing is run. Python's own parser reads the text, after `_require_parsable` has refused what would keep it
busy for long.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import threading
import unicodedata
import warnings
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Any, Final

from rye_mcp.errors import RyeError
from rye_mcp.items import COMMENT_STYLES
from rye_mcp.metadata._raw import MAX_DEPTH, MAX_INT_BITS, MAX_NODES, Issues, Place, Raw, Unreadable, Way
from rye_mcp.metadata._yaml import read_comment_block

__all__ = ["PYTHON_NAMES", "comments_with_block", "parse_python", "read_python"]

MAX_SOURCE_BYTES: Final = 384 << 10
"""How large a source may be that is parsed whole."""

MAX_TOKENS: Final = 75_000
"""How many words and signs there may be in it."""

MAX_F_STRING_WORK: Final = 500_000_000
"""How many bytes times `{` there may be in a source with f-strings."""

MAX_IMPORT_DOTS: Final = 100
"""How many dots there may be in one import."""

MAX_MARKS: Final = 64
"""How many combining marks there may be in a row."""

# Words; lines; strings without a word in them; signs, without those that come in pairs or between words.
_TOKEN: Final = re.compile(r"""\w+|\n\s*|["'][^"'\w\n]*["']|[.:]{2,}|:\]|[^\w\s"').\]}:=]""")
_F_STRING: Final = re.compile(r"""(?<![A-Za-z0-9_])[rR]?[fFtT][rR]?["']""")
_SYMBOLS: Final = re.compile(rf"[^\x00-\x7f\w\s]{{{MAX_MARKS + 1},}}")
_IMPORT: Final = re.compile(
    r"(?:^|[;:])[ \t\f]*+(?:from|import)\b(?:[^\n;#(\\]|\\.)*+", re.MULTILINE | re.DOTALL
)


def _require_parsable(text: str) -> None:
    """Unreadable, with the limit and the line, for what the parser would be busy with for too long."""
    size = len(text) if text.isascii() else len(text.encode("utf-8"))
    if size > MAX_SOURCE_BYTES:
        what = f"expected at most {MAX_SOURCE_BYTES} bytes of Python that is read whole, found {size}"
        raise Unreadable(what, _line_at(text, MAX_SOURCE_BYTES))
    _require_few_fields(text, size)
    _require_few_marks(text)
    _require_few_dots(text)
    if len(text) > MAX_TOKENS and (beyond := next(islice(_TOKEN.finditer(text), MAX_TOKENS, None), None)):
        what = f"expected at most {MAX_TOKENS} words and signs of Python, found more"
        raise Unreadable(what, _line_at(text, beyond.start()))


def _require_few_fields(text: str, size: int) -> None:
    limit = MAX_F_STRING_WORK // max(size, 1)
    if text.count("{") <= limit or (f_string := _F_STRING.search(text)) is None:
        return
    what = f"expected at most {limit} {{ in {size} bytes of Python with f-strings, found {text.count('{')}"
    raise Unreadable(what, _line_at(text, f_string.start()))


def _require_few_dots(text: str) -> None:
    # To look for imports takes as long as a third of the parsing, and most files have fewer dots in all.
    for imported in _IMPORT.finditer(text) if text.count(".") > MAX_IMPORT_DOTS else ():
        if imported[0].count(".") > MAX_IMPORT_DOTS:
            what = f"expected at most {MAX_IMPORT_DOTS} dots in one import, found more"
            raise Unreadable(what, _line_at(text, imported.start()))


def _require_few_marks(text: str) -> None:
    for symbols in () if text.isascii() else _SYMBOLS.finditer(text):
        if sum(map(bool, map(unicodedata.combining, symbols[0]))) > MAX_MARKS:
            what = f"expected at most {MAX_MARKS} combining marks in a row, found more"
            raise Unreadable(what, _line_at(text, symbols.start()))


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


PYTHON_NAMES: Final = {
    "__version__": "version",
    "__tool_name__": "name",
    "__tool_type__": "tool_type",
    "__executor_id__": "executor_id",
    "__category__": "category",
    "__tool_description__": "description",
    "__tags__": "tags",
    "__runs_given_code__": "runs_given_code",
    "__author__": "author",
    "CONFIG": "config",
    "CONFIG_SCHEMA": "config_schema",
    "OUTPUT_SCHEMA": "output_schema",
    "ENV_CONFIG": "env_config",
    "ANCHOR": "anchor",
    "VERIFY_DEPS": "verify_deps",
    "CHILD_CONSTRAINTS": "child_constraints",
    "INPUTS": "inputs",
    "OUTPUTS": "outputs",
    "PERMISSIONS": "permissions",
    "__warm__": "warm",
    "LIMITS": "limits",
    "SKILL": "skill",
    "__workspace__": "workspace",
    "RESOURCES": "resources",
    "PLACEMENT": "placement",
    "__idempotent__": "idempotent",
    "NEEDS": "needs",
    "ANNOTATIONS": "annotations",
    "EXAMPLES": "examples",
}
"""The names that a Python file assigns metadata to, and the fields that they are."""

_BLOCK: Final = "# /// rye"
_DEFINITION: Final = re.compile(r"^(?:@|(?:def|class|async)\b)", re.MULTILINE)
_ENCODING: Final = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
_UTF_8: Final = frozenset({"utf-8", "utf8", "utf_8", "u8", "utf"})

# The parser's warnings (about an invalid escape such as "\d") are dropped when the code is only inspected.
_quiet: Final = threading.Lock()


def read_python(text: str, issues: Issues, *, whole: bool = False) -> Raw:
    """Read the metadata in the text of a Python module."""
    try:
        _require_utf_8(text)
        block = _block(text, issues, whole=whole)
        if block is not None:
            if whole:
                _parse(text)
            return block
        body = _parse(text) if whole else _beginning(text)
    except Unreadable as exc:
        issues.found.append(exc.issue)
        return Raw()
    raw = Raw(description=_first_paragraph(body), besides=dict(_besides(body)) if whole else {})
    reader = _Literals(raw.places if whole else None, text)
    for name, node, line in _assignments(body, issues):
        field = PYTHON_NAMES[name]
        if field in raw.lines:
            issues.add(f"expected {name} to be assigned once, found it again", line, field)
            continue
        raw.lines[field] = line
        try:
            raw.values[field] = reader.value(node, (field,))
        except Unreadable as exc:
            issues.add(f"{name}: {exc.issue.message}", exc.issue.line, field, exc.issue.column)
    return raw


def _block(text: str, issues: Issues, *, whole: bool) -> Raw | None:
    """The block of comments before all code; None without one.

    Nothing but comments and blank lines is looked at: no text in the code can be such a block.
    """
    comments = comments_with_block(text)
    if comments is None:
        return None
    return read_comment_block(comments, COMMENT_STYLES[".py"], issues, places=whole)


def comments_with_block(text: str) -> str | None:
    """The comments before all code, when a block is among them."""
    if _BLOCK not in text:
        return None
    comments = list(takewhile(_is_no_code, text.split("\n")))
    return "\n".join(comments) if any(line.rstrip() == _BLOCK for line in comments) else None


def _is_no_code(line: str) -> bool:
    bare = line.lstrip(" \t\f")
    return not bare or bare.startswith("#")


def _require_utf_8(text: str) -> None:
    for number, line in enumerate(text.split("\n", 2)[:2], start=1):
        declared = _ENCODING.match(line)
        if declared and declared[1].lower() not in _UTF_8:
            raise Unreadable(f"expected UTF-8, found the declaration of {declared[1][:40]}", number)


def _beginning(text: str) -> list[ast.stmt]:
    """The statements up to the first definition, when those behind it cannot matter; else all of them."""
    definition = _DEFINITION.search(text)
    if definition is None or definition.start() == 0:
        return _parse(text)
    before, behind = text[: definition.start()], text[definition.start() :]
    plain = _in_plain_letters(behind)
    if before.endswith("\\\n") or any(name in plain for name in PYTHON_NAMES):
        return _parse(text)
    try:
        # When these lines are complete, no string and no bracket is open where they end.
        return _parse(before)
    except Unreadable:
        return _parse(text)


def _in_plain_letters(text: str) -> str:
    """The text with what Python takes for plain letters (full-width ones) as such, character by character:
    who normalizes all of it at once sorts marks for minutes.
    """
    if text.isascii():
        return text
    return text.translate({ord(each): unicodedata.normalize("NFKC", each) for each in set(text)})


def parse_python(text: str, where: str) -> ast.Module:
    """The syntax tree of a source; RyeError `invalid_item` when Python would not read it, or not soon."""
    try:
        return _module(text)
    except Unreadable as exc:
        place = where if exc.issue.line is None else f"{where}:{exc.issue.line}"
        hint = "look at it: is it a script for Python 3?"
        raise RyeError("invalid_item", exc.issue.message, where=place, hint=hint) from exc


def _parse(text: str) -> list[ast.stmt]:
    """The statements of a module; Unreadable when Python would not read it either, or not soon."""
    return _module(text).body


def _module(text: str) -> ast.Module:
    _require_parsable(text)
    try:
        with _quiet, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as exc:
        raise Unreadable(f"expected Python, found: {exc.msg}", exc.lineno, exc.offset or None) from exc
    except ValueError as exc:
        raise Unreadable(f"expected Python, found: {exc}") from exc
    except (RecursionError, MemoryError) as exc:
        raise Unreadable("expected Python that can be read, found expressions nested too deeply") from exc


def _first_paragraph(body: list[ast.stmt]) -> str | None:
    match body[:1]:
        case [ast.Expr(value=ast.Constant(value=str(docstring)))]:
            paragraph = inspect.cleandoc(docstring).partition("\n\n")[0]
            return _whole_characters(" ".join(paragraph.split())) or None
    return None


def _assignments(body: list[ast.stmt], issues: Issues) -> Iterator[tuple[str, ast.expr, int]]:
    """Every assignment of a name of the table; those in a form that nobody could read are issues."""
    for statement in body:
        targets: list[ast.expr]
        match statement:
            case ast.Assign(targets=targets, value=value):
                pass
            case ast.AnnAssign(target=annotated, value=ast.expr() as value):
                targets = [annotated]
            case ast.AugAssign(target=ast.Name(id=name)) if name in PYTHON_NAMES:
                issues.add(f"expected {name} = and a literal, found it changed", statement.lineno)
                continue
            case _:
                continue
        plain = [target.id for target in targets if isinstance(target, ast.Name)]
        yield from ((name, value, statement.lineno) for name in plain if name in PYTHON_NAMES)
        for name in _names_inside(targets):
            issues.add(f"expected {name} = and a literal, found another form", statement.lineno)


def _names_inside(targets: list[ast.expr]) -> Iterator[str]:
    """The names of the table in targets that are more than a name: `a, CONFIG`, `CONFIG["a"]`."""
    for target in targets:
        if not isinstance(target, ast.Name):
            nodes = (node for node in ast.walk(target) if isinstance(node, ast.Name))
            yield from (node.id for node in nodes if node.id in PYTHON_NAMES)


def _besides(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    """The names that look like those of the table, and are not in it, where they are assigned plainly."""
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        of_module = name.startswith("__") and name.endswith("__")
        of_values = name.isupper() and isinstance(value, ast.Dict | ast.List | ast.Tuple)
        if (of_module or of_values) and name not in PYTHON_NAMES:
            yield name, statement.lineno


class _Literals:
    """Literals → values, within limits for all of a module together; with `places`, where each begins."""

    def __init__(self, places: dict[Way, Place] | None, text: str) -> None:
        self._nodes = 0
        self._places = places
        self._lines = [] if places is None else text.split("\n")

    def value(self, node: ast.expr, way: Way) -> Any:
        """The value of a literal; Unreadable for anything else."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise Unreadable(f"expected at most {MAX_NODES} values, found more", node.lineno)
        if len(way) > MAX_DEPTH + 1:
            raise Unreadable(f"expected at most {MAX_DEPTH} levels, found more", node.lineno)
        if self._places is not None:
            self._places[way] = self._place(node)
        if type(node) is ast.Constant:
            return _constant(node.value, node)
        match node:
            case ast.Dict(keys=keys, values=values):
                return self._mapping(keys, values, node, way)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return [self.value(element, (*way, number)) for number, element in enumerate(elements)]
            case ast.UnaryOp(
                op=ast.USub() | ast.UAdd() as sign, operand=ast.Constant(value=int() | float() as number)
            ):
                if not isinstance(number, bool):
                    number = _constant(number, node)
                    return -number if isinstance(sign, ast.USub) else number
        raise Unreadable(f"expected a literal, found {_described(node)}", node.lineno)

    def _place(self, node: ast.expr) -> Place:
        """Where a value begins: Python counts bytes, and people characters."""
        before = self._lines[node.lineno - 1].encode()[: node.col_offset]
        return node.lineno, len(before.decode("utf-8", "replace")) + 1

    def _mapping(
        self, keys: list[ast.expr | None], values: list[ast.expr], node: ast.expr, way: Way
    ) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in zip(keys, values, strict=True):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                found = "** of something else" if key is None else _described(key)
                raise Unreadable(f"expected text as a key, found {found}", (key or value).lineno)
            if key.value in mapping:
                raise Unreadable(f"expected each key once, found {key.value!r} again", key.lineno)
            mapping[_constant(key.value, key)] = self.value(value, (*way, key.value))
        return mapping


def _constant(constant: Any, node: ast.expr) -> Any:
    if type(constant) is str and constant.isascii():  # as nearly all of them are
        return constant
    match constant:
        case None | bool():
            return constant
        case str() if _is_text(constant):
            return constant
        case int() if constant.bit_length() <= MAX_INT_BITS:
            return constant
        case float() if math.isfinite(constant):
            return constant
    raise Unreadable(f"expected a value of JSON, found {_named(constant)}", node.lineno)


def _whole_characters(text: str) -> str:
    return text if _is_text(text) else text.encode("utf-8", "replace").decode("utf-8")


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _named(constant: Any) -> str:
    match constant:
        case str():
            return "text with half a character in it"
        case int():
            return "a whole number that is too long"
        case float():
            return "a number without end"
    return f"a value of type {type(constant).__name__}"


def _described(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return _named(node.value) if not isinstance(node.value, int | None) else repr(node.value)[:40]
    return _FORMS.get(type(node).__name__, "an expression")


_FORMS: Final = {
    "Call": "a call",
    "Name": "a name",
    "Attribute": "an attribute",
    "JoinedStr": "an f-string",
    "Set": "a set",
    "BinOp": "a calculation",
}
