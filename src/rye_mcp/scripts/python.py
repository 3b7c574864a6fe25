"""argparse, optparse, click, typer, getopt and `sys.argv` in Python: read from the syntax tree.

Nothing is run. What cannot be read plainly is left out; a remark says how many arguments that were.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from itertools import chain
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.scripts._python_source import (
    TYPES,
    Source,
    about,
    called,
    first_paragraph,
    owner,
    read_click,
    read_typer,
    schema_of,
)
from rye_mcp.scripts.declared import (
    REST,
    Declared,
    Option,
    flag_option,
    letter_options,
    parameter_name,
    text_of,
    with_value,
)

__all__ = ["imported_modules", "read_argparse", "read_argv", "read_getopt", "read_python_script"]

_SWITCHES: Final = frozenset({"store_true", "store_false", "store_const", "append_const"})
_PARSERS: Final = frozenset({"ArgumentParser", "OptionParser"})
_GROUPS: Final = frozenset({"add_argument_group", "add_mutually_exclusive_group", "add_option_group"})
_ADDS: Final = frozenset({"add_argument", "add_option"})
_MODULES: Final = ("argparse", "optparse")
_MAIN: Final = ""


@dataclass(slots=True)
class _Parsers:
    """The parser of each name, by its subcommand, and the description of each parser."""

    by_name: dict[str, str] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)

    @property
    def subcommands(self) -> tuple[str, ...]:
        return tuple(name for name in self.about if name != _MAIN)

    def of(self, call: ast.Call) -> str:
        """The subcommand whose parser a call is about."""
        return self.by_name.get(owner(call.func), _MAIN)


def read_argparse(source: Source, subcommand: str | None) -> Declared | None:
    """Read a module with a parser; None for any other."""
    calls = [call for call in source.calls if called(call) in _ADDS]
    if not calls or not any(map(source.imports, _MODULES)):
        return None
    parsers, wanted = _parsers(source), subcommand or _MAIN
    read = [(parsers.of(call), _argument(source, call)) for call in calls]
    options = _of_parser(read, wanted)
    reader = _MODULES["add_option" in map(called, calls)]
    options += [REST] if reader == "optparse" else []
    return Declared(
        reader,
        tuple(options),
        separates=True,
        description=parsers.about.get(wanted, ""),
        subcommands=parsers.subcommands,
        remarks=(*_unread(read, wanted), *_left_out(read, wanted)),
    )


def _of_parser(read: list[tuple[str, Option | None]], wanted: str) -> list[Option]:
    return [option for parser, option in read if option is not None and parser == wanted]


def _unread(read: list[tuple[str, Option | None]], wanted: str) -> Iterator[str]:
    if unread := sum(option is None and parser in (wanted, _MAIN) for parser, option in read):
        yield f"{unread} arguments could not be read: look at config_schema"


def _left_out(read: list[tuple[str, Option | None]], wanted: str) -> Iterator[str]:
    before = [option.flag or option.name for option in _of_parser(read, _MAIN)]
    if wanted != _MAIN and before:
        named = ", ".join(flag.partition("=")[0] for flag in before)
        yield f"options that stand before the subcommand are left out: {named}"


def _parsers(source: Source) -> _Parsers:
    found = _Parsers()
    for call in source.calls:
        keywords = source.keywords(call)
        if called(call) in _PARSERS and not found.about.get(_MAIN):
            found.about[_MAIN] = text_of(source.value(keywords.get("description")))
        elif called(call) == "add_parser" and (names := source.texts(call.args[:1])):
            told = (source.value(keywords.get(each)) for each in ("description", "help"))
            found.about[names[0]] = next(filter(None, map(text_of, told)), "")
    assigned = [node for node in ast.walk(source.tree) if isinstance(node, ast.Assign)]
    for node in sorted(assigned, key=lambda each: each.lineno):
        _assign(found, source, called(node.targets[0]), node.value)
    return found


def _assign(parsers: _Parsers, source: Source, name: str, call: ast.expr) -> None:
    """Take note of the parser that a name stands for from here on."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return
    made = called(call)
    if made == "add_parser" and (texts := source.texts(call.args[:1])):
        parsers.by_name[name] = texts[0]
    elif made in _GROUPS:
        parsers.by_name[name] = parsers.of(call)
    elif made in _PARSERS:
        parsers.by_name[name] = _MAIN


def _argument(source: Source, call: ast.Call) -> Option | None:
    """The option of one `add_argument`; None when it cannot be read."""
    names, keywords = source.texts(call.args), source.keywords(call)
    if not names or len(names) != len(call.args) or len(keywords) != len(call.keywords):
        return None
    nargs, action = source.value(keywords.get("nargs")), _action(source, keywords)
    rest = called(keywords.get("nargs")) == "REMAINDER" or nargs == "..."
    many = _takes_many(nargs, action)
    schema = schema_of(source, keywords, many=many or rest)
    if not names[0].startswith("-"):
        return Option(parameter_name(names[0]), None, schema, nargs not in ("?", "*") and not rest)
    flag = _longest(names)
    if action in ("help", "version"):
        return Option("help", flag)
    required = source.value(keywords.get("required")) is True
    return Option(parameter_name(flag), *_flag_of(flag, action, schema, many=many), required)


def _longest(flags: list[str]) -> str:
    return next((each for each in flags if each.startswith("--")), flags[0])


def _action(source: Source, keywords: dict[str, ast.expr]) -> object:
    is_both = called(keywords.get("action")) == "BooleanOptionalAction"
    return "optional" if is_both else source.value(keywords.get("action"))


def _takes_many(nargs: object, action: object) -> bool:
    return nargs in ("*", "+") or (isinstance(nargs, int) and nargs > 1) or action in ("append", "extend")


def _flag_of(flag: str, action: object, schema: dict[str, Any], *, many: bool) -> tuple[str, dict[str, Any]]:
    """The text of a flag, and the schema that it has then."""
    if action in _SWITCHES:
        return flag, {"type": "boolean"} | about(schema)
    if action == "optional":
        return f"{flag}/--no-{flag.removeprefix('--')}", {"type": "boolean"} | about(schema)
    if action == "count":
        return f"{flag}...", {"type": "integer", "minimum": 0} | about(schema)
    if many and action != "append":
        return f"{flag} VALUE...", schema
    return with_value(flag), schema


_UNREAD_PARSERS: Final = frozenset({"Fire", "docopt"})


def read_getopt(source: Source, subcommand: str | None) -> Declared | None:
    """Read a call of `getopt.getopt`; None without one."""
    for call in source.calls:
        if called(call) in ("getopt", "gnu_getopt") and owner(call.func) == "getopt":
            letters = source.value(call.args[1]) if len(call.args) > 1 else ""
            names = source.value(call.args[2]) if len(call.args) > 2 else []
            short = letter_options(letters if isinstance(letters, str) else "")
            return Declared("getopt", (*_long(names), *short, REST), separates=True)
    return None


def _long(names: object) -> Iterator[Option]:
    for name in names if isinstance(names, list | tuple) else []:
        yield flag_option(f"--{str(name).rstrip('=')}", takes=str(name).endswith("="))


def read_argv(source: Source, subcommand: str | None) -> Declared | None:
    """`sys.argv[1]` and the like: places, by the names that they are assigned to."""
    nodes = list(ast.walk(source.tree))
    if any(isinstance(node, ast.Name) and node.id in _UNREAD_PARSERS for node in nodes):
        return Declared("fire or docopt", remarks=("arguments of fire and docopt are not read",))
    found: dict[int, Option] = {}
    for place, option in (*chain.from_iterable(map(_named_places, nodes)), *_without_names(source.tree)):
        found.setdefault(place, option)
    if not found and any(map(_takes_rest, nodes)):
        found[1] = REST
    return Declared("sys.argv", tuple(found[place] for place in sorted(found))) if found else None


def _named_places(node: ast.AST) -> Iterator[tuple[int, Option]]:
    """The places that one assignment gives names to."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            for place, kind, optional in _places_in(value):
                yield place, _positional(name, kind, optional=optional)
        case ast.Assign(targets=[ast.Tuple(elts=elements)], value=ast.Subscript(value=inner)):
            for place, element in enumerate(elements if _is_argv(inner) else (), start=1):
                yield place, _positional(called(element), "string")


def _without_names(tree: ast.Module) -> Iterator[tuple[int, Option]]:
    for place, kind, optional in _places_in(tree):
        yield place, _positional(f"arg{place}", kind, optional=optional)


def _positional(name: str, kind: str, *, optional: bool = False) -> Option:
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


_READERS: Final[tuple[Callable[[Source, str | None], Declared | None], ...]] = (
    read_argparse,
    read_click,
    read_typer,
    read_getopt,
    read_argv,
)


def read_python_script(tree: ast.Module, subcommand: str | None) -> Declared:
    """Read the module's arguments."""
    source = Source.of(tree)
    read = (reader(source, subcommand) for reader in _READERS)
    found = next((each for each in read if each is not None), Declared("nothing"))
    told = (found.description, first_paragraph(tree))
    return replace(found, description=next(filter(None, told if subcommand else told[::-1]), ""))


def imported_modules(tree: ast.Module) -> frozenset[str]:
    """The modules that a script imports and that Python does not bring along, by their first names."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return frozenset(names - sys.stdlib_module_names - {"__main__"})
