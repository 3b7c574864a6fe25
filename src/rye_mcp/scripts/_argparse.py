"""argparse and optparse: the options of a parser, or of one of its subparsers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rye_mcp.scripts._python_source import Source, about, called, owner, schema_of
from rye_mcp.scripts.declared import Declared, Option, parameter_name, text_of

__all__ = ["read_argparse"]

_SWITCHES: Final = frozenset({"store_true", "store_false", "store_const", "append_const"})
_PARSERS: Final = frozenset({"ArgumentParser", "OptionParser"})
_GROUPS: Final = frozenset({"add_argument_group", "add_mutually_exclusive_group", "add_option_group"})
_ADDS: Final = frozenset({"add_argument", "add_option"})
_MODULES: Final = ("argparse", "optparse")
_MAIN: Final = ""
_REST: Final = Option("args", None, {"type": "array", "items": {"type": "string"}})


@dataclass(slots=True)
class _Parsers:
    """Which parser each name stands for, by its subcommand; what each parser says of itself."""

    by_name: dict[str, str] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)

    @property
    def subcommands(self) -> tuple[str, ...]:
        return tuple(name for name in self.about if name != _MAIN)

    def of(self, call: ast.Call) -> str:
        """The subcommand whose parser a call is about."""
        return self.by_name.get(owner(call.func), _MAIN)


def read_argparse(source: Source, subcommand: str | None) -> Declared | None:
    """What a module with a parser says; None for any other."""
    calls = [call for call in source.calls if called(call) in _ADDS]
    if not calls or not any(map(source.imports, _MODULES)):
        return None
    parsers, wanted = _parsers(source), subcommand or _MAIN
    read = [(parsers.of(call), _argument(source, call)) for call in calls]
    options = _of_parser(read, wanted)
    reader = _MODULES["add_option" in map(called, calls)]
    options += [_REST] if reader == "optparse" else []
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
    joined = "" if len(flag) == 2 else "="
    return f"{flag}{joined}VALUE", schema
