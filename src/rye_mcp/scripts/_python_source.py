"""A Python module as its readers see it: calls, functions, and what a literal is worth; nothing is run.

A value counts only as a literal, or as a name that the module assigns one, once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from lilux._dataclasses import dataclass
from rye_mcp.scripts.declared import Declared, Option, parameter_name, text_of, with_value

__all__ = [
    "TYPES",
    "UNREAD",
    "Function",
    "Source",
    "about",
    "called",
    "first_paragraph",
    "owner",
    "read_click",
    "read_typer",
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


# --- click ---


def read_click(source: Source, subcommand: str | None) -> Declared | None:
    """Read a module with commands of click; None for any other."""
    commands = _commands(source)
    if not commands or not source.imports("click"):
        return None
    is_group = len(commands) > 1 or any(_is_command(each, "group") for each in source.functions)
    chosen = commands.get(subcommand or "") if is_group else next(iter(commands.values()))
    options = () if chosen is None else tuple(_click_options(source, chosen))
    names = tuple(commands) if is_group else ()
    return Declared("click", options, True, first_paragraph(chosen), names)


def _commands(source: Source) -> dict[str, Function]:
    return {_command_name(source, each): each for each in source.functions if _is_command(each, "command")}


def _is_command(function: Function, kind: str) -> bool:
    return any(called(each) == kind for each in function.decorator_list)


def _command_name(source: Source, function: Function) -> str:
    for each in function.decorator_list:
        if isinstance(each, ast.Call) and called(each) == "command":
            named = source.texts([*each.args[:1], *filter(None, [source.keywords(each).get("name")])])
            if named:
                return named[0]
    return function.name.replace("_", "-")


def _click_options(source: Source, function: Function) -> Iterator[Option]:
    for each in function.decorator_list:
        if not isinstance(each, ast.Call) or not (names := source.texts(each.args)):
            continue
        if called(each) == "argument":
            yield _click_argument(source, names[0], source.keywords(each))
        elif called(each) == "option":
            yield _click_option(source, names, source.keywords(each))


def _click_argument(source: Source, name: str, keywords: Mapping[str, ast.expr]) -> Option:
    nargs = source.value(keywords.get("nargs"))
    many = isinstance(nargs, int) and nargs != 1
    required = "default" not in keywords and nargs != -1
    required = source.value(keywords["required"]) is True if "required" in keywords else required
    return Option(parameter_name(name), None, schema_of(source, keywords, many=many), required)


def _click_option(source: Source, names: list[str], keywords: Mapping[str, ast.expr]) -> Option:
    flag = _click_flag(names)
    schema = schema_of(source, keywords, many=_is_true(source, keywords, "multiple"))
    name, required = parameter_name(flag.partition("/")[0]), _is_required(source, keywords)
    if _is_true(source, keywords, "count"):
        return Option(name, f"{flag}...", {"type": "integer", "minimum": 0} | about(schema))
    if _is_switch(source, flag, keywords):
        return Option(name, flag.replace(" ", ""), {"type": "boolean"} | about(schema))
    nargs = source.value(keywords.get("nargs"))
    if isinstance(nargs, int) and nargs > 1:
        several = {"type": "array", "items": schema} | about(schema)
        return Option(name, f"{flag} VALUE...", several, required)
    return Option(name, with_value(flag), schema, required)


def _click_flag(names: list[str]) -> str:
    flags = [name for name in names if name.startswith("-")] or [f"--{names[0]}"]
    return next((each for each in flags if each.startswith("--")), flags[0])


def _is_true(source: Source, keywords: Mapping[str, ast.expr], name: str) -> bool:
    return source.value(keywords.get(name)) is True


def _is_switch(source: Source, flag: str, keywords: Mapping[str, ast.expr]) -> bool:
    by_default = isinstance(source.value(keywords.get("default")), bool) and "type" not in keywords
    return "/" in flag or _is_true(source, keywords, "is_flag") or by_default


def _is_required(source: Source, keywords: Mapping[str, ast.expr]) -> bool:
    prompts = "prompt" in keywords and source.value(keywords["prompt"]) is not False
    return _is_true(source, keywords, "required") or (prompts and "default" not in keywords)


# --- typer ---


def read_typer(source: Source, subcommand: str | None) -> Declared | None:
    """Read a module with commands of typer; None for any other."""
    if not source.imports("typer"):
        return None
    run, commands = _run_by_typer(source), _commands(source)
    if run is None and not commands:
        return None
    names = tuple(commands) if len(commands) > 1 and run is None else ()
    chosen = run or (commands.get(subcommand or "") if names else next(iter(commands.values())))
    options = () if chosen is None else tuple(_typer_options(source, chosen))
    return Declared("typer", options, True, first_paragraph(chosen), names)


def _run_by_typer(source: Source) -> Function | None:
    """The function of `typer.run(function)`."""
    named = {each.name: each for each in source.functions}
    given = [each for call in source.calls if called(call) == "run" for each in call.args]
    names = (each.id for each in given if isinstance(each, ast.Name))
    return next((named[name] for name in names if name in named), None)


def _typer_options(source: Source, function: Function) -> Iterator[Option]:
    arguments = [*function.args.posonlyargs, *function.args.args]
    defaults: list[ast.expr | None] = [*([None] * (len(arguments) - len(function.args.defaults)))]
    defaults += function.args.defaults
    pairs = [*zip(arguments, defaults, strict=True)]
    pairs += [*zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)]
    for argument, default in pairs:
        if called(argument.annotation) != "Context":
            yield _typer_option(source, argument.arg, _Parameter.of(argument, default))


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter of a function: the type that it names, whether it is a list, its default.

    `declared` is the `Option` or `Argument` that it has, in its annotation or as its default.
    """

    kind: str
    many: bool
    declared: ast.Call | None
    default: ast.expr | None
    has_default: bool

    @classmethod
    def of(cls, argument: ast.arg, default: ast.expr | None) -> _Parameter:
        """Read an annotation and a default."""
        kind, many, declared = _annotation(argument.annotation)
        if not isinstance(default, ast.Call) or called(default) not in ("Option", "Argument"):
            return cls(kind, many, declared, default, default is not None)
        named = (each.value for each in default.keywords if each.arg == "default")
        given = next(iter((*default.args, *named)), None)
        is_default = given is not None and not (isinstance(given, ast.Constant) and given.value is ...)
        return cls(kind, many, default, given if is_default else None, is_default)


def _typer_option(source: Source, name: str, parameter: _Parameter) -> Option:
    declared, required = parameter.declared, not parameter.has_default
    keywords = {} if declared is None else source.keywords(declared)
    keywords |= {"type": ast.Name(parameter.kind or "str")}
    keywords |= {} if parameter.default is None else {"default": parameter.default}
    schema = schema_of(source, keywords, many=parameter.many)
    is_option = parameter.has_default if declared is None else called(declared) == "Option"
    if not is_option:
        return Option(name, None, schema, required)
    long = f"--{name.replace('_', '-')}"
    given = _flag_given(source, declared)
    if parameter.kind == "bool":
        text = given or f"{long}/--no-{long.removeprefix('--')}"
        return Option(name, text, {"type": "boolean"} | about(schema))
    return Option(name, with_value(given or long), schema, required)


def _flag_given(source: Source, declared: ast.Call | None) -> str | None:
    texts = [] if declared is None else source.texts(declared.args)
    flags = [each for each in texts if each.startswith("-")]
    return next((each for each in flags if each.startswith("--")), flags[0] if flags else None)


def _annotation(node: ast.expr | None) -> tuple[str, bool, ast.Call | None]:
    """The type that an annotation names, whether it is a list, and what `Annotated` adds."""
    declared: ast.Call | None = None
    if isinstance(node, ast.Subscript) and called(node.value) == "Annotated":
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        declared = next((each for each in parts[1:] if isinstance(each, ast.Call)), None)
        node = parts[0]
    node = node.left if isinstance(node, ast.BinOp) else node
    node = _inside(node, "Optional") or node
    items = _inside(node, "list", "List")
    return called(items or node), items is not None, declared


def _inside(node: ast.expr | None, *names: str) -> ast.expr | None:
    """Return the content of the brackets behind one of these names."""
    is_one = isinstance(node, ast.Subscript) and called(node.value) in names
    return node.slice if is_one and isinstance(node, ast.Subscript) else None
