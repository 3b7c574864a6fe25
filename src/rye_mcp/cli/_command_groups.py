"""Groups of commands that are loaded when they are called, not before.

A table says where each command is and what it does, so `rye --help` loads none of them. A RyeError ends a
command with exit code 1 and is reported here and nowhere else. `NO_COLOR` switches colours off.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, ClassVar

import typer
import typer.core
import typer.main

from lilux._dataclasses import dataclass
from rye_mcp.cli._printing import JSON_WANTED, report
from rye_mcp.errors import RyeError
from rye_mcp.visible import visible_lines

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "CommandPlace", "LazyGroup", "command_group"]

EXIT_FAILED = 1
"""The exit code of what was refused or failed."""

EXIT_INTERRUPTED = 130
"""The exit code of what a person ended, with Ctrl-C or instead of an answer."""


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """Where a command is, and what it does: the module, the name in it, one line, the section of the help."""

    module: str
    name: str
    help: str
    section: str


class LazyGroup(typer.core.TyperGroup):
    """A group whose commands are in the table `places` of its subclass."""

    places: ClassVar[Mapping[str, CommandPlace]] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands(self.places)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the table."""
        return list(self.places)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands for `--help`, without loading one."""
        width = max(map(len, self.places))
        for section in dict.fromkeys(place.section for place in self.places.values()):
            rows = [(name, place.help) for name, place in self.places.items() if place.section == section]
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a refusal is reported, as JSON when that was asked for."""
        from rye_mcp.cli._log_lines import handle_logs

        if os.environ.get("NO_COLOR"):
            ctx.color = False
        handle_logs()
        try:
            return super().invoke(ctx)
        except typer.BadParameter as exc:
            exc.message = visible_lines(exc.message)  # typer prints it as it is
            raise
        except RyeError as exc:
            report(exc, as_json=bool(ctx.meta.get(JSON_WANTED)))
            raise typer.Exit(EXIT_FAILED) from exc
        except typer.Abort as exc:
            raise typer.Exit(EXIT_INTERRUPTED) from exc


class _Commands(MutableMapping[str, Any]):
    """The commands of a table, each loaded when it is looked up first."""

    def __init__(self, places: Mapping[str, CommandPlace]) -> None:
        self._places = places
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, self._places[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _load(name: str, place: CommandPlace) -> Any:
    command = getattr(importlib.import_module(place.module), place.name)
    if not isinstance(command, typer.Typer):
        group = command_group(place.help)
        group.command(name)(command)
        command = group
    loaded = typer.main.get_command(command)
    loaded.name = name
    return loaded


class _WholeLines(typer.core.TyperGroup):
    """A group whose `--help` says what each command does without cutting it off.

    `for_id` is the command that is meant where an id stands in the place of a command.
    """

    for_id: ClassVar[str | None] = None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of some words; wrong usage that says what was meant, where that is known."""
        if self.for_id is not None and args and args[0] not in self.commands and "/" in args[0]:
            meant = f"{ctx.command_path} {self.for_id} {args[0]}"
            ctx.fail(f"expected {', '.join(self.commands)}, found the id of an item; perhaps: {meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands; a long line is folded."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(sys.maxsize)) for name, command in commands if command]
            )


def command_group(help_line: str, *, for_id: str | None = None) -> typer.Typer:
    """A new group of commands, such as `rye keys`; `for_id` is the one that is meant by `rye keys ID`."""
    return typer.Typer(
        cls=type("_Group", (_WholeLines,), {"for_id": for_id}),
        help=help_line,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
