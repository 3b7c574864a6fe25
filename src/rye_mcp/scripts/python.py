"""argparse, optparse, click, typer, getopt and `sys.argv` in Python source: read from the syntax tree.

Rules:

- Nothing is run. A value counts only as a literal, or as a name that the module assigns one, once.
- What cannot be read plainly is left out; a remark says how many arguments that were.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from rye_mcp.scripts.declared import Declared, Option, parameter_name, short_options, text_of

__all__ = ["imported_modules", "read_python_script"]

_TYPES: Final = {
    "int": "integer",
    "INT": "integer",
    "IntRange": "integer",
    "float": "number",
    "FLOAT": "number",
    "FloatRange": "number",
    "bool": "boolean",
    "BOOL": "boolean",
}
_SWITCHES: Final = frozenset({"store_true", "store_false", "store_const", "append_const"})
_PARSERS: Final = frozenset({"ArgumentParser", "OptionParser"})
_GROUPS: Final = frozenset({"add_argument_group", "add_mutually_exclusive_group", "add_option_group"})
_UNREAD: Final = object()
_MAIN: Final = ""


def read_python_script(tree: ast.Module, subcommand: str | None) -> Declared:
    """What the module says about its arguments."""
    source = _Source.of(tree)
    description = text_of((ast.get_docstring(tree) or "").partition("\n\n")[0])
    readers: tuple[Callable[[_Source, str | None], Declared | None], ...] = (
        _argparse,
        _click,
        _typer,
        _getopt,
        _argv,
    )
    found = next((each for reader in readers if (each := reader(source, subcommand)) is not None), None)
    found = found or Declared("nothing")
    return replace(found, description=description or found.description)


def imported_modules(tree: ast.Module) -> frozenset[str]:
    """The modules that a script imports and that Python does not bring along, by their first names."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return frozenset(names - sys.stdlib_module_names - {"__main__"})


@dataclass(frozen=True, slots=True)
class _Source:
    """A module: its calls in order, its functions, and the literals that its names stand for."""

    tree: ast.Module
    calls: tuple[ast.Call, ...]
    constants: dict[str, Any]

    @classmethod
    def of(cls, tree: ast.Module) -> _Source:
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
        """The value of a literal, also by its name; `_UNREAD` for what is none."""
        if node is None:
            return None
        if isinstance(node, ast.Name):
            return self.constants.get(node.id, _UNREAD)
        if isinstance(node, ast.JoinedStr):
            return "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.value(node.left), self.value(node.right)
            return left + right if isinstance(left, str) and isinstance(right, str) else _UNREAD
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            return _UNREAD

    def keywords(self, call: ast.Call) -> dict[str, ast.expr]:
        """The arguments of a call that have names."""
        return {each.arg: each.value for each in call.keywords if each.arg}

    def texts(self, nodes: list[ast.expr]) -> list[str]:
        """The texts among some arguments."""
        return [value for node in nodes if isinstance(value := self.value(node), str)]

    @property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All functions, in order."""
        kinds = ast.FunctionDef | ast.AsyncFunctionDef
        found = [node for node in ast.walk(self.tree) if isinstance(node, kinds)]
        return sorted(found, key=lambda node: node.lineno)

    def imports(self, module: str) -> bool:
        """Whether it imports this module."""
        return module in {
            name.partition(".")[0]
            for node in ast.walk(self.tree)
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }


def _called(node: ast.expr) -> str:
    """The last name of what is called: `add_argument` for `parser.add_argument`."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _owner(node: ast.expr) -> str:
    """The name before the last dot: `parser` for `parser.add_argument`, also of an attribute."""
    return _called(node.value) if isinstance(node, ast.Attribute) else ""


def _schema_of(source: _Source, keywords: dict[str, ast.expr], *, many: bool = False) -> dict[str, Any]:
    """Type, choices and help of an argument."""
    kind = _called(keywords["type"]) if "type" in keywords else ""
    default = source.value(keywords.get("default"))
    one: dict[str, Any] = {"type": _TYPES.get(kind, "string")}
    if "type" not in keywords and type(default) in (int, float):
        # click takes the type of a default; argparse does not convert, and a number does no harm there.
        one["type"] = "integer" if isinstance(default, int) else "number"
    choices = source.value(keywords.get("choices"))
    if isinstance(keywords.get("type"), ast.Call) and kind == "Choice":
        call = keywords["type"]
        choices = source.value(call.args[0]) if isinstance(call, ast.Call) and call.args else None
    if isinstance(choices, list | tuple) and choices and all(isinstance(e, str | int) for e in choices):
        one = (
            {"enum": list(choices)} if one["type"] != "string" else {"type": "string", "enum": list(choices)}
        )
    about = (
        text_of(source.value(keywords.get("help"))).replace("%(default)s", str(default)).replace("%%", "%")
    )
    if isinstance(default, str | int | float) and not isinstance(default, bool) and "default" not in about:
        about = f"{about} (default: {default})".strip() if default != "" else about
    whole = {"type": "array", "items": one} if many else one
    return whole | ({"description": about} if about else {})


# --- argparse and optparse ---


def _argparse(source: _Source, subcommand: str | None) -> Declared | None:
    parsers, subparsers, description = _parsers(source)
    calls = [call for call in source.calls if _called(call) in ("add_argument", "add_option")]
    is_optparse = any(_called(call) == "add_option" for call in calls)
    if not calls or not (source.imports("argparse") or source.imports("optparse")):
        return None
    wanted = subcommand or _MAIN
    options, unread = [], 0
    for call in calls:
        owner = parsers.get(_owner(call.func), _MAIN)
        option = _argument(source, call)
        if option is None:
            unread += owner in (wanted, _MAIN)
        elif owner == wanted:
            options.append(option)
    if is_optparse:
        options.append(Option("args", None, {"type": "array", "items": {"type": "string"}}))
    remarks = [f"{unread} arguments could not be read: look at config_schema"] if unread else []
    if subcommand and any(parsers.get(_owner(call.func), _MAIN) == _MAIN for call in calls):
        remarks.append("options that stand before the subcommand are left out")
    return Declared(
        "optparse" if is_optparse else "argparse",
        tuple(options),
        separates=True,
        description=description,
        subcommands=tuple(subparsers),
        remarks=tuple(remarks),
    )


def _parsers(source: _Source) -> tuple[dict[str, str], list[str], str]:
    """The parser that each name stands for, by its subcommand; all subcommands; the description."""
    parsers: dict[str, str] = {}
    subcommands: list[str] = []
    description = ""
    for call in source.calls:
        if _called(call) in _PARSERS and not description:
            description = text_of(source.value(source.keywords(call).get("description")))
        if _called(call) == "add_parser" and (names := source.texts(call.args[:1])):
            subcommands += names
    assigned = [node for node in ast.walk(source.tree) if isinstance(node, ast.Assign)]
    for node in sorted(assigned, key=lambda each: each.lineno):
        if not isinstance(node.value, ast.Call) or not isinstance(node.value.func, ast.Attribute):
            continue
        name, made = _called(node.targets[0]), _called(node.value)
        if made == "add_parser" and (texts := source.texts(node.value.args[:1])):
            parsers[name] = texts[0]
        elif made in _GROUPS:
            parsers[name] = parsers.get(_owner(node.value.func), _MAIN)
        elif made in _PARSERS:
            parsers[name] = _MAIN
    return parsers, subcommands, description


def _argument(source: _Source, call: ast.Call) -> Option | None:
    """The option of one `add_argument`; None when it cannot be read."""
    names, keywords = source.texts(call.args), source.keywords(call)
    if not names or len(names) != len(call.args) or any(each.arg is None for each in call.keywords):
        return None
    flags = [name for name in names if name.startswith("-")]
    nargs, action = source.value(keywords.get("nargs")), source.value(keywords.get("action"))
    action = (
        "optional" if _called(keywords.get("action", ast.Constant(""))) == "BooleanOptionalAction" else action
    )
    many = nargs in ("*", "+") or (isinstance(nargs, int) and nargs > 1) or action in ("append", "extend")
    rest = _called(keywords.get("nargs", ast.Constant(""))) == "REMAINDER" or nargs == "..."
    schema = _schema_of(source, keywords, many=many or rest)
    if not flags:
        required = nargs not in ("?", "*") and not rest
        return Option(parameter_name(names[0]), None, schema, required)
    flag = next((each for each in flags if each.startswith("--")), flags[0])
    name = parameter_name(flag)
    if action in ("help", "version"):
        return Option("help", flag)
    required = source.value(keywords.get("required")) is True
    return Option(name, *_flag_of(flag, action, nargs, schema, many=many), required)


def _flag_of(
    flag: str, action: object, nargs: object, schema: dict[str, Any], *, many: bool
) -> tuple[str, dict[str, Any]]:
    """The text of a flag, and the schema that it has then."""
    about = {"description": schema["description"]} if "description" in schema else {}
    if action in _SWITCHES:
        return flag, {"type": "boolean"} | about
    if action == "optional":
        return f"{flag}/--no-{flag.removeprefix('--')}", {"type": "boolean"} | about
    if action == "count":
        return f"{flag}...", {"type": "integer", "minimum": 0} | about
    if many and action != "append":
        return f"{flag} VALUE...", schema
    joined = "" if len(flag) == 2 else "="
    return f"{flag}{joined}VALUE", schema


# --- click and typer ---


def _click(source: _Source, subcommand: str | None) -> Declared | None:
    if not source.imports("click"):
        return None
    commands = {
        _command_name(source, each): each for each in source.functions if _is_command(each, "command")
    }
    groups = [each for each in source.functions if _is_command(each, "group")]
    is_group = bool(groups) or len(commands) > 1
    chosen = commands.get(subcommand or "") if is_group else next(iter(commands.values()), None)
    if not commands:
        return None
    options = [] if chosen is None else list(_click_options(source, chosen))
    about = text_of((ast.get_docstring(chosen) or "").partition("\n\n")[0]) if chosen else ""
    subcommands = tuple(commands) if is_group else ()
    return Declared("click", tuple(options), separates=True, description=about, subcommands=subcommands)


def _is_command(function: ast.FunctionDef | ast.AsyncFunctionDef, kind: str) -> bool:
    return any(_called(each) == kind for each in function.decorator_list)


def _command_name(source: _Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    for each in function.decorator_list:
        if isinstance(each, ast.Call) and _called(each) == "command":
            named = source.texts([*each.args[:1], *([n] if (n := source.keywords(each).get("name")) else [])])
            if named:
                return named[0]
    return function.name.replace("_", "-")


def _click_options(source: _Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Option]:
    for each in function.decorator_list:
        if not isinstance(each, ast.Call) or not (names := source.texts(each.args)):
            continue
        keywords = source.keywords(each)
        if _called(each) == "argument":
            nargs = source.value(keywords.get("nargs"))
            many = isinstance(nargs, int) and nargs != 1
            required = "default" not in keywords and nargs != -1
            required = source.value(keywords["required"]) is True if "required" in keywords else required
            yield Option(parameter_name(names[0]), None, _schema_of(source, keywords, many=many), required)
        elif _called(each) == "option":
            yield _click_option(source, names, keywords)


def _click_option(source: _Source, names: list[str], keywords: dict[str, ast.expr]) -> Option:
    flags = [name for name in names if name.startswith("-")] or [f"--{names[0]}"]
    flag = next((each for each in flags if each.startswith("--")), flags[0])
    many = source.value(keywords.get("multiple")) is True
    schema = _schema_of(source, keywords, many=many)
    about = {"description": schema["description"]} if "description" in schema else {}
    default = source.value(keywords.get("default"))
    name = parameter_name(flag.partition("/")[0])
    prompts = "prompt" in keywords and source.value(keywords["prompt"]) is not False
    required = source.value(keywords.get("required")) is True or (prompts and "default" not in keywords)
    if source.value(keywords.get("count")) is True:
        return Option(name, f"{flag}...", {"type": "integer", "minimum": 0} | about)
    is_switch = "/" in flag or source.value(keywords.get("is_flag")) is True
    if is_switch or (isinstance(default, bool) and "type" not in keywords):
        return Option(name, flag.replace(" ", ""), {"type": "boolean"} | about)
    nargs = source.value(keywords.get("nargs"))
    if isinstance(nargs, int) and nargs > 1:
        return Option(name, f"{flag} VALUE...", {"type": "array", "items": schema} | about, required)
    return Option(name, f"{flag}{'' if len(flag) == 2 else '='}VALUE", schema, required)


def _typer(source: _Source, subcommand: str | None) -> Declared | None:
    if not source.imports("typer"):
        return None
    named = {each.name: each for each in source.functions}
    run = [
        named[name]
        for call in source.calls
        if _called(call) == "run"
        for name in _names(call.args)
        if name in named
    ]
    commands = {
        _command_name(source, each): each for each in source.functions if _is_command(each, "command")
    }
    chosen = run[0] if run else commands.get(subcommand or "") if len(commands) > 1 else None
    chosen = chosen or (next(iter(commands.values())) if len(commands) == 1 else None)
    if chosen is None and not commands:
        return None
    subcommands = tuple(commands) if len(commands) > 1 and not run else ()
    options = [] if chosen is None else list(_typer_options(source, chosen))
    about = text_of((ast.get_docstring(chosen) or "").partition("\n\n")[0]) if chosen else ""
    return Declared("typer", tuple(options), separates=True, description=about, subcommands=subcommands)


def _names(nodes: list[ast.expr]) -> list[str]:
    return [node.id for node in nodes if isinstance(node, ast.Name)]


def _typer_options(source: _Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Option]:
    arguments = [*function.args.posonlyargs, *function.args.args]
    defaults: list[ast.expr | None] = [*([None] * (len(arguments) - len(function.args.defaults)))]
    defaults += function.args.defaults
    pairs = [*zip(arguments, defaults, strict=True)]
    pairs += [*zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)]
    for argument, default in pairs:
        if _called(argument.annotation or ast.Constant("")) != "Context":
            yield _typer_option(source, argument, default)


def _typer_option(source: _Source, argument: ast.arg, default: ast.expr | None) -> Option:
    kind, many, declared = _annotation(argument.annotation)
    has_default = default is not None
    if isinstance(default, ast.Call) and _called(default) in ("Option", "Argument"):
        declared, given = (
            default,
            default.args[0] if default.args else source.keywords(default).get("default"),
        )
        has_default = given is not None and source.value(given) is not ...
        default = given if has_default else None
    keywords = source.keywords(declared) if declared is not None else {}
    keywords = {**keywords, **({"default": default} if default is not None else {})}
    keywords.pop("type", None)
    schema = _schema_of(source, {**keywords, "type": ast.Name(kind or "str")}, many=many)
    is_option = _called(declared) == "Option" if declared is not None else has_default
    if not is_option:
        return Option(argument.arg, None, schema, not has_default)
    flags = (
        [each for each in source.texts(declared.args) if each.startswith("-")] if declared is not None else []
    )
    long = f"--{argument.arg.replace('_', '-')}"
    flag = next((each for each in flags if each.startswith("--")), flags[0] if flags else long)
    about = {"description": schema["description"]} if "description" in schema else {}
    if kind == "bool":
        text = flag if flags else f"{flag}/--no-{flag.removeprefix('--')}"
        return Option(argument.arg, text, {"type": "boolean"} | about)
    joined = "" if len(flag) == 2 else "="
    return Option(argument.arg, f"{flag}{joined}VALUE", schema, not has_default)


def _annotation(node: ast.expr | None) -> tuple[str, bool, ast.Call | None]:
    """The type that an annotation names, whether it is a list, and what `Annotated` adds."""
    declared: ast.Call | None = None
    if isinstance(node, ast.Subscript) and _called(node.value) == "Annotated":
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        declared = next((each for each in parts[1:] if isinstance(each, ast.Call)), None)
        node = parts[0]
    if isinstance(node, ast.BinOp):
        node = node.left
    if isinstance(node, ast.Subscript) and _called(node.value) == "Optional":
        node = node.slice
    many = isinstance(node, ast.Subscript) and _called(node.value) in ("list", "List")
    node = node.slice if many and isinstance(node, ast.Subscript) else node
    return ("" if node is None else _called(node)), many, declared


# --- getopt, and the bare list ---


def _getopt(source: _Source, subcommand: str | None) -> Declared | None:
    for call in source.calls:
        if _called(call) in ("getopt", "gnu_getopt") and _owner(call.func) == "getopt":
            texts = source.value(call.args[1]) if len(call.args) > 1 else ""
            longs = source.value(call.args[2]) if len(call.args) > 2 else []
            return Declared("getopt", (*_getopt_options(texts, longs),), separates=True)
    return None


def _getopt_options(letters: object, longs: object) -> Iterator[Option]:
    for name in longs if isinstance(longs, list | tuple) else []:
        text, takes = str(name).rstrip("="), str(name).endswith("=")
        schema = {"type": "string" if takes else "boolean"}
        yield Option(parameter_name(text), f"--{text}=VALUE" if takes else f"--{text}", schema)
    for letter, takes in short_options(letters if isinstance(letters, str) else ""):
        schema = {"type": "string" if takes else "boolean"}
        yield Option(letter, f"-{letter}VALUE" if takes else f"-{letter}", schema)
    yield Option("args", None, {"type": "array", "items": {"type": "string"}})


def _argv(source: _Source, subcommand: str | None) -> Declared | None:
    """`sys.argv[1]` and the like: places, by the names that they are assigned to."""
    found: dict[int, Option] = {}
    if any(isinstance(node, ast.Name) and node.id in ("Fire", "docopt") for node in ast.walk(source.tree)):
        return Declared("fire or docopt", remarks=("arguments of fire and docopt are not read",))
    rest = False
    for node in ast.walk(source.tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                for place, kind, optional in _places_in(value):
                    found.setdefault(place, Option(name, None, {"type": kind}, not optional, takes_any=True))
            case ast.Assign(targets=[ast.Tuple(elts=elements)], value=ast.Subscript(value=inner)) if _is_argv(
                inner
            ):
                for place, element in enumerate(elements, start=1):
                    found.setdefault(place, Option(_called(element), None, required=True, takes_any=True))
            case ast.Subscript(value=inner, slice=ast.Slice()) if _is_argv(inner):
                rest = True
    for place, kind, optional in _places_in(source.tree):
        found.setdefault(place, Option(f"arg{place}", None, {"type": kind}, not optional, takes_any=True))
    options = [found[place] for place in sorted(found)]
    if rest and not options:
        options = [Option("args", None, {"type": "array", "items": {"type": "string"}})]
    return Declared("sys.argv", tuple(options)) if options else None


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
        case ast.Call(func=ast.Name(id=name), args=[each]) if name in _TYPES:
            yield from _places_in(each, kind=_TYPES[name], optional=optional)
            return
    inside = optional or (isinstance(node, ast.IfExp | ast.If) and any(map(_is_argv, ast.walk(node.test))))
    for child in ast.iter_child_nodes(node):
        yield from _places_in(child, optional=inside)
