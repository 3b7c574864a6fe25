"""The commands of `rye` with their options, as `--help` has them, and those of `rye-mcp`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from rye_mcp.cli import HELP_COLUMNS
from rye_mcp.cli.commands import COMMANDS, RyeGroup
from rye_mcp.mcp_server.options import _parser
from scripts.reference.tables import cell, code, table

__all__ = ["PARTS", "every_command", "help_module"]

_EXPLAINED_ONCE: Final = frozenset({"--json", "--project", "--help"})


def every_command() -> Iterator[tuple[str, Any]]:
    """`rye`'s commands by their whole names (`trust add`), a group before its own."""
    group = RyeGroup(name="rye")
    for name in COMMANDS:
        yield from _with_children(name, group.commands[name])


def _with_children(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for child, each in getattr(command, "commands", {}).items():
        yield from _with_children(f"{name} {child}", each)


def help_module() -> str:
    """The module with the page of `rye --help`, which is printed without making it."""
    script = "from rye_mcp.cli.commands import app; app(['--help'], prog_name='rye')"
    wide = {**os.environ, "COLUMNS": str(HELP_COLUMNS)}
    page = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", script], env=wide, capture_output=True, text=True, check=True
    ).stdout
    return f'"""`rye --help`, written by `make docs`."""\n\nHELP = """\\\n{page}"""\n'


def _overview() -> str:
    rows = [(f"[`rye {name}`](#rye-{name})", cell(place.help)) for name, place in COMMANDS.items()]
    return table(("command", "does"), rows)


def _commands() -> str:
    return "\n\n".join(_command(name, command) for name, command in every_command())


def _command(name: str, command: Any) -> str:
    level = "##" if " " not in name else "###"
    parts = [f"{level} rye {name}", f"`{_usage(name, command)}`", (command.help or "").strip()]
    rows = [_row(each) for each in command.params if not _EXPLAINED_ONCE.intersection(each.opts)]
    if rows:
        parts.append(table(("argument or option", "default", "meaning"), rows))
    return "\n\n".join(part for part in parts if part)


def _usage(name: str, command: Any) -> str:
    arguments = [_metavar(each) for each in command.params if each.param_type_name == "argument"]
    shown = [
        argument if each.required or argument.startswith("[") else f"[{argument}]"
        for argument, each in _paired(arguments, command)
    ]
    options = " [options]" if any(each.param_type_name == "option" for each in command.params) else ""
    inner = " COMMAND" if getattr(command, "commands", {}) else ""
    return " ".join([f"rye {name}{options}{inner}", *shown])


def _paired(arguments: list[str], command: Any) -> Iterator[tuple[str, Any]]:
    return zip(
        arguments, (each for each in command.params if each.param_type_name == "argument"), strict=True
    )


def _metavar(parameter: Any) -> str:
    return parameter.metavar or (parameter.name or "").upper()


def _row(parameter: Any) -> tuple[str, str, str]:
    if parameter.param_type_name == "argument":
        return code(_metavar(parameter)), _default(parameter), cell(parameter.help or "")
    value = "" if parameter.is_flag else f" {_metavar(parameter) or 'TEXT'}"
    names = ", ".join(code(f"{each}{value}") for each in (*parameter.opts, *parameter.secondary_opts))
    return names, _default(parameter), cell(parameter.help or "")


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if default is True and parameter.is_flag:
        return code(parameter.opts[0])
    shown = getattr(default, "value", default)
    return "" if callable(shown) or shown in (None, False, (), [], "") else code(str(shown))


def _server() -> str:
    rows = [
        (
            ", ".join(code(f"{name} {each.metavar or ''}".strip()) for name in each.option_strings),
            cell(each.help or ""),
        )
        for each in _parser()._actions
        if each.dest != "help"
    ]
    return table(("option", "meaning"), rows)


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "commands-overview": _overview,
    "commands": _commands,
    "server-options": _server,
}
