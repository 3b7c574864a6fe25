"""getopt and the bare `sys.argv` in Python: letters, long names, and places by what they are assigned to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from rye_mcp.scripts._python_source import TYPES, Source, called, owner
from rye_mcp.scripts.declared import Declared, Option, parameter_name, short_options

__all__ = ["read_argv", "read_getopt"]

_REST: Final = Option("args", None, {"type": "array", "items": {"type": "string"}})
_UNREAD_PARSERS: Final = frozenset({"Fire", "docopt"})


def read_getopt(source: Source, subcommand: str | None) -> Declared | None:
    """What a call of `getopt.getopt` says; None where there is none."""
    for call in source.calls:
        if called(call) in ("getopt", "gnu_getopt") and owner(call.func) == "getopt":
            letters = source.value(call.args[1]) if len(call.args) > 1 else ""
            names = source.value(call.args[2]) if len(call.args) > 2 else []
            return Declared("getopt", (*_long(names), *_short(letters), _REST), separates=True)
    return None


def _long(names: object) -> Iterator[Option]:
    for name in names if isinstance(names, list | tuple) else []:
        text, takes = str(name).rstrip("="), str(name).endswith("=")
        schema = {"type": "string" if takes else "boolean"}
        yield Option(parameter_name(text), f"--{text}=VALUE" if takes else f"--{text}", schema)


def _short(letters: object) -> Iterator[Option]:
    for letter, takes in short_options(letters if isinstance(letters, str) else ""):
        schema = {"type": "string" if takes else "boolean"}
        yield Option(letter, f"-{letter}VALUE" if takes else f"-{letter}", schema)


def read_argv(source: Source, subcommand: str | None) -> Declared | None:
    """`sys.argv[1]` and the like: places, by the names that they are assigned to."""
    nodes = list(ast.walk(source.tree))
    if any(isinstance(node, ast.Name) and node.id in _UNREAD_PARSERS for node in nodes):
        return Declared("fire or docopt", remarks=("arguments of fire and docopt are not read",))
    found: dict[int, Option] = {}
    for place, option in (*chain.from_iterable(map(_assigned, nodes)), *_without_names(source.tree)):
        found.setdefault(place, option)
    if not found and any(map(_takes_rest, nodes)):
        found[1] = _REST
    return Declared("sys.argv", tuple(found[place] for place in sorted(found))) if found else None


def _assigned(node: ast.AST) -> Iterator[tuple[int, Option]]:
    """The places that one assignment gives names to."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            for place, kind, optional in _places_in(value):
                yield place, _place(name, kind, optional=optional)
        case ast.Assign(targets=[ast.Tuple(elts=elements)], value=ast.Subscript(value=inner)):
            for place, element in enumerate(elements if _is_argv(inner) else (), start=1):
                yield place, _place(called(element), "string")


def _without_names(tree: ast.Module) -> Iterator[tuple[int, Option]]:
    for place, kind, optional in _places_in(tree):
        yield place, _place(f"arg{place}", kind, optional=optional)


def _place(name: str, kind: str, *, optional: bool = False) -> Option:
    schema: dict[str, Any] = {"type": kind}
    return Option(name, None, schema, not optional, takes_any=True)


def _takes_rest(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and _is_argv(node.value)


def _is_argv(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "argv") or (
        isinstance(node, ast.Name) and node.id == "argv"
    )


def _places_in(
    node: ast.AST, *, kind: str = "string", optional: bool = False
) -> Iterator[tuple[int, str, bool]]:
    """Each `sys.argv[1]` in a node, with what it is converted to, and whether it may be left out."""
    match node:
        case ast.Subscript(value=inner, slice=ast.Constant(value=int(place))) if (
            _is_argv(inner) and place > 0
        ):
            yield place, kind, optional
            return
        case ast.Call(func=ast.Name(id=name), args=[each]) if name in TYPES:
            yield from _places_in(each, kind=TYPES[name], optional=optional)
            return
    inside = optional or (isinstance(node, ast.IfExp | ast.If) and any(map(_is_argv, ast.walk(node.test))))
    for child in ast.iter_child_nodes(node):
        yield from _places_in(child, optional=inside)
