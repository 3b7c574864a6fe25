"""A Python module as its readers see it: calls, functions, and what a literal is worth; nothing is run.

A value counts only as a literal, or as a name that the module assigns one, once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.scripts.declared import text_of

__all__ = [
    "TYPES",
    "UNREAD",
    "Function",
    "Source",
    "about",
    "called",
    "first_paragraph",
    "owner",
    "schema_of",
]

TYPES: Final = {
    "int": "integer",
    "INT": "integer",
    "IntRange": "integer",
    "float": "number",
    "FLOAT": "number",
    "FloatRange": "number",
    "bool": "boolean",
    "BOOL": "boolean",
}
"""Converters of values → their type in a schema."""

UNREAD: Final = object()
"""The value of what is no literal."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Source:
    """A module: its calls in order, its functions, and the literals that its names stand for."""

    tree: ast.Module
    calls: tuple[ast.Call, ...]
    constants: dict[str, Any]

    @classmethod
    def of(cls, tree: ast.Module) -> Source:
        """Return the parts of a module that the readers need."""
        nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        calls = tuple(sorted(nodes, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0)))
        source = cls(tree, calls, {})
        twice: set[str] = set()
        for node in tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if name in source.constants:
                        twice.add(name)
                    source.constants[name] = source.value(value)
        return replace(source, constants={n: v for n, v in source.constants.items() if n not in twice})

    def value(self, node: ast.expr | None) -> Any:
        """The value of a literal, also by its name; `UNREAD` for anything else."""
        match node:
            case None:
                return None
            case ast.Name(id=name):
                return self.constants.get(name, UNREAD)
            case ast.JoinedStr(values=values):
                return "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in values)
            case ast.BinOp(op=ast.Add()):
                return self._sum(node)
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            return UNREAD

    def _sum(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        return left + right if isinstance(left, str) and isinstance(right, str) else UNREAD

    def keywords(self, call: ast.Call) -> dict[str, ast.expr]:
        """The arguments of a call that have names."""
        return {each.arg: each.value for each in call.keywords if each.arg}

    def texts(self, nodes: list[ast.expr]) -> list[str]:
        """The texts among some arguments."""
        return [value for node in nodes if isinstance(value := self.value(node), str)]

    @property
    def functions(self) -> list[Function]:
        """All functions, in order."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, Function)]
        return sorted(found, key=lambda node: node.lineno)

    def imports(self, module: str) -> bool:
        """Whether it imports this module."""
        names = (name for node in ast.walk(self.tree) for name in _imported(node))
        return module in {name.partition(".")[0] for name in names}


def _imported(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module)):
            yield module


def called(node: ast.expr | None) -> str:
    """The last name of what is called: `add_argument` for `parser.add_argument`."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def owner(node: ast.expr) -> str:
    """The name before the last dot: `parser` for `parser.add_argument`, also of an attribute."""
    return called(node.value) if isinstance(node, ast.Attribute) else ""


def first_paragraph(node: ast.Module | Function | None) -> str:
    """Return the first paragraph of a docstring."""
    return "" if node is None else text_of((ast.get_docstring(node) or "").partition("\n\n")[0])


def about(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a schema that is for people."""
    return {"description": schema["description"]} if "description" in schema else {}


def schema_of(source: Source, keywords: Mapping[str, ast.expr], *, many: bool = False) -> dict[str, Any]:
    """Type, choices and help of an argument."""
    default = source.value(keywords.get("default"))
    one = _one_of(_choices(source, keywords), {"type": _type(keywords, default)})
    text = _help(source, keywords, default)
    whole = {"type": "array", "items": one} if many else one
    return whole | ({"description": text} if text else {})


def _type(keywords: Mapping[str, ast.expr], default: object) -> str:
    if "type" not in keywords and type(default) in (int, float):
        # click takes the type of a default; argparse does not convert, and a number does no harm there.
        return "integer" if isinstance(default, int) else "number"
    return TYPES.get(called(keywords.get("type")), "string")


def _choices(source: Source, keywords: Mapping[str, ast.expr]) -> Any:
    match keywords.get("type"):
        case ast.Call(args=[given, *_]) as call if called(call) == "Choice":
            return source.value(given)
    return source.value(keywords.get("choices"))


def _one_of(choices: Any, one: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(choices, list | tuple) or not choices:
        return one
    if not all(isinstance(each, str | int) for each in choices):
        return one
    return {"type": "string", "enum": list(choices)} if one["type"] == "string" else {"enum": list(choices)}


def _help(source: Source, keywords: Mapping[str, ast.expr], default: object) -> str:
    given = text_of(source.value(keywords.get("help")))
    text = given.replace("%(default)s", "…" if default is UNREAD else str(default)).replace("%%", "%")
    is_told = isinstance(default, bool) or default == "" or "default" in text
    if isinstance(default, str | int | float) and not is_told:
        return f"{text} (default: {default})".strip()
    return text
