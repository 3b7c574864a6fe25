"""click and typer: what decorators and annotations say of a command's function."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from lilux._dataclasses import dataclass
from rye_mcp.scripts._python_source import (
    Function,
    Source,
    about,
    called,
    first_paragraph,
    schema_of,
)
from rye_mcp.scripts.declared import Declared, Option, parameter_name, with_value

__all__ = ["read_click", "read_typer"]


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
